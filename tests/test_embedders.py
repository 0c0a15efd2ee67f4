"""Specs, prompts, and the checks every vector passes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from otolith import EmbedderError, EmbedderUnavailable, InvalidInput
from otolith.embedders import resolve, wrap
from otolith.embedders.base import checked_row, document_rows, query_vector
from otolith.embedders.languages import cjk_share, english_only
from otolith.embedders.naming import LARGEST_DIM, Name, named
from otolith.embedders.prompts import PROMPTS, check_form, custom, prompt_for, prompt_of


def test_none_is_none() -> None:
    assert resolve("none") is None
    assert resolve(None) is None
    assert resolve("auto") is None


@pytest.mark.parametrize(
    "bad", ["", "magic", "hash", "hash:", "hash:x", "hash:0", "hash:-5", "hash:99999", "openai:", 5]
)
def test_what_is_no_spec(bad: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        resolve(bad)
    assert caught.value.field == "embedder"


@pytest.mark.parametrize("bad", ["python:", "python:module", "python::name"])
def test_what_is_no_python_spec(bad: str) -> None:
    with pytest.raises(InvalidInput, match="python:module:object"):
        resolve(bad)


def test_the_setting_counts_for_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTOLITH_EMBEDDER", "hash:32")
    found = resolve("auto")
    assert found is not None
    assert found.dim == 32


def test_hash_is_the_same_in_every_process() -> None:
    embedder = resolve("hash:64")
    assert embedder is not None
    code = (
        "from otolith.embedders import resolve\n"
        "print(resolve('hash:64').embed_query('some words 词').tolist())"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert embedder.embed_query("some words 词").tolist() == eval(out)
    assert embedder.fingerprint.startswith("hash:64|prompt=none|text=v")


def test_hash_puts_like_texts_together() -> None:
    embedder = resolve("hash:256")
    assert embedder is not None
    one, like, other = document_rows(
        embedder, ["the token expired", "the tokens expired", "lunch was noodles"]
    )
    assert float(np.dot(one, like)) > 0.5 > float(np.dot(one, other))
    zh, zh_like, zh_other = document_rows(embedder, ["令牌已经过期", "令牌过期了", "午饭吃面条"])
    assert float(np.dot(zh, zh_like)) > float(np.dot(zh, zh_other))
    assert isinstance(document_rows(embedder, ["!!!"])[0], str)


@pytest.mark.parametrize(
    ("model", "form"),
    [
        ("intfloat/multilingual-e5-small", "e5"),
        ("e5-small", "e5"),
        ("multilingual-e5-large-instruct", "e5-instruct"),
        ("nomic-embed-text", "nomic"),
        ("nomic-embed-text:v1.5", "nomic"),
        ("BAAI/bge-small-en-v1.5", "bge-en"),
        ("BAAI/bge-small-zh-v1.5", "none"),
        ("BAAI/bge-large-zh", "bge-zh"),
        ("intfloat/e5-mistral-7b-instruct", "e5-instruct"),
        ("Alibaba-NLP/gte-Qwen2-1.5B-instruct", "e5-instruct"),
        ("Alibaba-NLP/gte-multilingual-base", "none"),
        ("nomic-ai/nomic-embed-text-v2-moe", "nomic"),
        ("snowflake-arctic-embed:33m", "bge-en"),
        ("Snowflake/snowflake-arctic-embed-m-v1.5", "bge-en"),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query"),
        ("snowflake-arctic-embed2", "query"),
        ("google/embeddinggemma-300m", "gemma"),
        ("minishlab/potion-base-8M", "none"),
        ("bge-m3", "none"),
        ("Qwen/Qwen3-Embedding-0.6B", "qwen3"),
        ("mxbai-embed-large", "bge-en"),
        ("embeddinggemma", "gemma"),
        ("all-MiniLM-L6-v2", "none"),
        ("text-embedding-3-small", "none"),
        ("made5-up", "none"),
    ],
)
def test_prompts_follow_the_model(model: str, form: str) -> None:
    assert prompt_for(model) == form
    assert form in PROMPTS


@pytest.mark.parametrize(
    ("spec", "mark"),
    [
        ("hash:64", "hash:64|prompt=none|text=v1"),
        ("openai:bge-m3", "openai:bge-m3|prompt=none|text=v1"),
        ("openai:e5-small", "openai:e5-small|prompt=e5|text=v1"),
        ("openai:e5-small?prompt=none", "openai:e5-small?prompt=none|prompt=none|text=v1"),
        ("openai:e5-small?prompt=e5", "openai:e5-small?prompt=e5|prompt=e5|text=v1"),
        ("openai:a?b", "openai:a?b|prompt=none|text=v1"),
        ("openai:bge-m3?dim=64", "openai:bge-m3?dim=64|prompt=none|text=v1"),
        ("openai:e5?dim=64&prompt=none", "openai:e5?prompt=none&dim=64|prompt=none|text=v1"),
        ("ollama:nomic-embed-text", "ollama:nomic-embed-text|prompt=nomic|text=v1"),
        ("ollama:x?keep_alive=1h", "ollama:x|prompt=none|text=v1"),
        ("openai:x?prompt=a%20b,", "openai:x?prompt=a%20b,|prompt=a%20b,|text=v1"),
    ],
)
def test_fingerprints_stay_what_they_are(spec: str, mark: str) -> None:
    """Vectors are stored under them: a changed one makes those of every home foreign."""
    embedder = resolve(spec, url="http://127.0.0.1:9/v1")
    assert embedder is not None
    assert embedder.fingerprint == mark


@given(
    st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(str.strip),
    st.sampled_from([None, *PROMPTS, "a%20,b"]),
    st.none() | st.integers(1, LARGEST_DIM),
)
def test_names_of_models_are_read_as_they_are_written(
    model: str, prompt: str | None, dim: int | None
) -> None:
    assume(not any(f"?{option}=" in model for option in ("prompt", "dim", "keep_alive")))
    name = Name(model, prompt, dim)
    assert named(str(name)) == name


def test_prompts_by_argument() -> None:
    def mark(spec: str, **options: Any) -> str:
        embedder = resolve(spec, url="http://127.0.0.1:9/v1", **options)
        assert embedder is not None
        return embedder.fingerprint.partition("|text")[0]

    assert mark("openai:x", prompt="e5") == "openai:x?prompt=e5|prompt=e5"
    assert mark("openai:x", prompt=("passage: ", "query: ")) == "openai:x?prompt=e5|prompt=e5"
    assert mark("openai:x", prompt=("", "q|&?,")) == "openai:x?prompt=,q%7C%26%3F%2C|prompt=,q%7C%26%3F%2C"
    assert mark("openai:e5", prompt="e5") == "openai:e5|prompt=e5"  # as it is anyway
    assert mark("openai:e5?prompt=nomic", prompt="none") == "openai:e5?prompt=nomic|prompt=nomic"
    assert mark("openai:x", dim=9) == "openai:x?dim=9|prompt=none"
    for wrong in ({"prompt": "poem"}, {"prompt": ("a",)}, {"dim": 0}, {"dim": True}, {"dim": "9x"}):
        with pytest.raises(InvalidInput) as caught:
            mark("openai:x", **wrong)
        assert caught.value.field == "embedder"


@given(st.text(), st.text())
def test_any_words_make_a_form_that_gives_them_back(document: str, query: str) -> None:
    try:
        form = custom(document, query)
    except UnicodeEncodeError:
        return  # lone surrogates
    assert prompt_of(form) == (document, query)
    if len(form) <= 1000:
        assert check_form(form) == form
    assert not set("|&?=#") & set(form)


@pytest.mark.parametrize(
    ("model", "english"),
    [
        ("all-minilm", True),
        ("sentence-transformers/all-MiniLM-L6-v2", True),
        ("BAAI/bge-small-en-v1.5", True),
        ("BAAI/bge-small-zh-v1.5", False),
        ("bge-m3", False),
        ("nomic-embed-text", True),
        ("nomic-embed-text:v1.5", True),
        ("nomic-ai/nomic-embed-text-v2-moe", False),
        ("mxbai-embed-large", True),
        ("intfloat/e5-small-v2", True),
        ("intfloat/multilingual-e5-small", False),
        ("thenlper/gte-base", True),
        ("thenlper/gte-base-zh", False),
        ("Alibaba-NLP/gte-multilingual-base", False),
        ("snowflake-arctic-embed:33m", True),
        ("Snowflake/snowflake-arctic-embed-m-v1.5", True),
        ("Snowflake/snowflake-arctic-embed-m-v2.0", False),
        ("snowflake-arctic-embed2", False),
        ("minishlab/potion-base-8M", True),
        ("minishlab/potion-multilingual-128M", False),
        ("paraphrase-multilingual-MiniLM-L12-v2", False),
        ("Qwen3-Embedding-0.6B", False),
        ("text-embedding-3-small", False),
        ("my-own", False),
    ],
)
def test_models_that_know_english_only(model: str, english: bool) -> None:
    assert english_only(model) is english


def test_the_share_of_chinese_japanese_and_korean() -> None:
    assert cjk_share([]) == cjk_share(["123 !?"]) == 0.0
    assert cjk_share(["abcd", "数据"]) == pytest.approx(1 / 3)
    assert cjk_share(["ひらカタ한글漢字"]) == 1.0
    assert cjk_share(["Ünïcödé Ελληνικά Русский"]) == 0.0


class Chain:
    """The shape of LangChain's embeddings."""

    model = "toy"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [2.0, float(len(text))]


class Whole:
    dim = 2
    fingerprint = "mine@3"

    def embed_documents(self, texts: Sequence[str]) -> Any:
        return np.ones((len(texts), 2), dtype=np.float32)

    def embed_query(self, text: str) -> Any:
        return np.ones(2, dtype=np.float32)


def test_the_protocol_itself_is_taken_as_it_is() -> None:
    whole = Whole()
    assert wrap(whole) is whole
    assert resolve(whole) is whole


def test_langchain_objects_are_wrapped() -> None:
    embedder = wrap(Chain())
    assert embedder.dim is None
    rows = embedder.embed_documents(["ab", "abc"])
    assert rows.shape == (2, 2)
    assert rows.dtype == np.float32
    assert embedder.dim == 2
    assert "Chain@toy" in embedder.fingerprint
    assert query_vector(embedder, "ab") == pytest.approx([2**0.5 / 2] * 2)


def test_functions_and_generators_are_wrapped() -> None:
    embedder = wrap(lambda texts: ([len(text), 1] for text in texts))
    rows = document_rows(embedder, ["abc", "d"])
    assert [len(row) for row in rows] == [2, 2]
    assert query_vector(embedder, "abc") == pytest.approx(rows[0])


def test_a_class_must_be_made_first() -> None:
    with pytest.raises(InvalidInput, match="instance"):
        wrap(Chain)
    with pytest.raises(InvalidInput, match="cannot embed"):
        wrap(42)


PYTHON = """
import numpy as np
class Model:
    def __init__(self): self.scale = 2.0
    def embed_documents(self, texts): return [[self.scale, len(t)] for t in texts]
    def embed_query(self, text): return [self.scale, len(text)]
instance = Model()
class Inner: deep = instance
def factory(): return Model()
def function(texts): return [[1.0, len(t)] for t in texts]
def with_default(texts, scale=1.0): return [[scale, len(t)] for t in texts]
def function_factory(): return function
def broken(): raise OSError("no weights")
number = 5
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "mine_of_this_test.py").write_text(PYTHON)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mine_of_this_test", raising=False)
    return "mine_of_this_test"


@pytest.mark.parametrize(
    "name", ["Model", "instance", "Inner.deep", "factory", "function", "with_default", "function_factory"]
)
def test_python_specs(module: str, name: str) -> None:
    embedder = resolve(f"python:{module}:{name}")
    assert embedder is not None
    assert embedder.fingerprint.startswith(f"python:{module}:{name}|prompt=own|text=v")
    rows = document_rows(embedder, ["a", "bc"])
    assert all(not isinstance(row, str) for row in rows)


def test_python_specs_that_cannot_be_had(module: str) -> None:
    for name, told in (("broken", "no weights"), ("missing", "missing")):
        with pytest.raises(EmbedderUnavailable, match=told):
            resolve(f"python:{module}:{name}")
    with pytest.raises(InvalidInput):
        resolve(f"python:{module}:number")
    with pytest.raises(EmbedderUnavailable, match="no_such_module_at_all"):
        resolve("python:no_such_module_at_all:x")


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ([0.0, 0.0], "zeros"),
        ([float("nan"), 1.0], "NaN"),
        ([float("inf"), 1.0], "infinity"),
        ([1.0], "has 1 dimension, expected 2"),
        ([1.0, 2.0, 3.0], "3 dimensions, expected 2"),
        ([[1.0, 2.0]], "shape"),
        ([], "shape"),
        (None, "missing"),
        ("refused because", "refused because"),
        (["a", "b"], "numbers"),
        ([1.0, [2.0]], "numbers"),
        ({"a": 1}, "numbers"),
        (3.0, "shape"),
    ],
)
def test_rows_that_cannot_be_used_say_why(raw: object, told: str) -> None:
    row = checked_row(raw, 2)
    assert isinstance(row, str)
    assert told in row


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=1, max_size=20))
def test_good_rows_have_length_one(raw: list[float]) -> None:
    row = checked_row(raw, None)
    if any(raw):
        assert not isinstance(row, str)
        assert row.dtype == np.float32
        assert float(np.linalg.norm(row.astype(np.float64))) == pytest.approx(1.0, abs=1e-6)
    else:
        assert isinstance(row, str)


def test_one_bad_row_spoils_no_other() -> None:
    embedder = wrap(lambda texts: [[1.0, 1.0] if text != "bad" else [float("nan"), 1.0] for text in texts])
    rows = document_rows(embedder, ["a", "bad", "c"])
    assert [isinstance(row, str) for row in rows] == [False, True, False]


def test_a_wrong_count_is_asked_again_one_by_one() -> None:
    embedder = wrap(lambda texts: [[1.0, float(len(text))] for text in texts if text != "lost"])
    rows = document_rows(embedder, ["a", "lost", "abc"])
    assert isinstance(rows[1], str)
    assert rows[2] == pytest.approx(np.array([1, 3]) / 10**0.5)


def test_any_embedder_may_be_cut() -> None:
    cut = resolve(lambda texts: [[3.0, 4.0, float(len(text))] for text in texts], dim=2)
    assert cut is not None
    assert cut.dim == 2
    assert cut.fingerprint.endswith("|dim=2")
    assert document_rows(cut, ["a"])[0] == pytest.approx([0.6, 0.8])
    assert query_vector(cut, "abc") == pytest.approx([0.6, 0.8])
    assert cut.embed_documents(["a", "b"]).shape == (2, 2)
    wide = resolve(lambda texts: [[1.0] for _ in texts], dim=2)
    assert wide is not None
    with pytest.raises(EmbedderError, match="gives 1 numbers, fewer than dim=2"):
        document_rows(wide, ["a"])
    zeros = resolve(lambda texts: [[0.0, 0.0, 1.0] for _ in texts], dim=2)
    assert zeros is not None
    assert "zeros" in str(document_rows(zeros, ["a"])[0])


def test_an_exception_is_an_embedder_error_with_its_cause() -> None:
    class Broken(Whole):
        def embed_documents(self, texts: Sequence[str]) -> Any:
            raise RuntimeError("out of memory")

    for embedder in (wrap(Broken()), wrap(lambda texts: 1 / 0)):
        with pytest.raises(EmbedderError) as caught:
            document_rows(embedder, ["a"])
        assert caught.value.__cause__ is not None


def test_auto_is_quick_and_imports_nothing_heavy() -> None:
    code = (
        "import time, sys\nimport otolith.embedders, otolith.config\n"
        "start = time.perf_counter()\notolith.embedders.resolve('auto')\n"
        "print(time.perf_counter() - start, [n for n in ('numpy', 'httpx') if n in sys.modules])"
    )
    best = 9.0
    for _ in range(3):
        seconds, loaded = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.split(maxsplit=1)
        assert loaded.strip() == "[]"
        best = min(best, float(seconds))
    assert best < 0.05
