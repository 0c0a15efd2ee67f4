"""Models that run in this process, from caches and directories: real libraries on tiny models."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from otolith import EmbedderError, EmbedderUnavailable, Memory
from otolith.embedders import resolve
from otolith.embedders.base import document_rows, query_vector
from tiny_models import DIM, REVISION, cached, onnx_model, static_model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:fastembed")
adapters = pytest.mark.adapters

STATIC = "minishlab/potion-base-8M"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(place))
    return place


@pytest.fixture
def fastembed_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "fastembed"
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(place))
    return place


def made(spec: str, **options: Any) -> Any:
    embedder = resolve(spec, **options)
    assert embedder is not None
    return embedder


def near(embedder: Any) -> None:
    """Like words are near, and bad texts spoil no good ones."""
    texts = ["a dog barked", "the tax", "xyzzy", "the invoice \ud800"]
    dog, tax, unknown, invoice = document_rows(embedder, texts)
    asked = query_vector(embedder, "puppy")
    assert float(np.dot(asked, dog)) > 0.4 > float(np.dot(asked, tax))
    assert float(np.dot(tax, invoice)) > 0.4
    assert isinstance(unknown, str)
    assert embedder.dim == DIM


@adapters
def test_a_static_model_from_the_cache_of_the_hub(hub: Path) -> None:
    static_model(cached(hub, STATIC))
    embedder = made(f"model2vec:{STATIC}")
    assert embedder.fingerprint.startswith(f"model2vec:{STATIC}|prompt=none|text=v")
    assert embedder.fingerprint.endswith(f"|revision={REVISION[:12]}")
    near(embedder)


@adapters
def test_a_static_model_from_a_directory(tmp_path: Path) -> None:
    place = static_model(tmp_path / "mine")
    embedder = made(f"model2vec:{place}")
    near(embedder)
    same = made(f"model2vec:{place}")
    assert same.fingerprint == embedder.fingerprint
    static_model(place, dim=8)
    assert made(f"model2vec:{place}").fingerprint != embedder.fingerprint  # other weights, other vectors
    (place / "tokenizer.json").unlink()
    with pytest.raises(EmbedderUnavailable, match=r"holds no tokenizer\.json; name the directory"):
        made(f"model2vec:{place}")


@adapters
def test_fastembed_from_its_cache(fastembed_cache: Path) -> None:
    onnx_model(cached(fastembed_cache, "Qdrant/all-MiniLM-L6-v2-onnx"))
    embedder = made(f"fastembed:{MINILM}")
    assert embedder.fingerprint.startswith(f"fastembed:{MINILM}|prompt=none|text=v")
    near(embedder)
    many = [f"dog {n}" for n in range(70)]
    assert len(document_rows(embedder, many)) == 70


@adapters
def test_fastembed_from_the_cache_of_the_hub(hub: Path) -> None:
    """Other tools put the same models there, where fastembed itself does not look."""
    onnx_model(cached(hub, "Qdrant/all-MiniLM-L6-v2-onnx"))
    assert len(made(f"fastembed:{MINILM}").embed_query("dog")) == DIM


@adapters
def test_a_model_that_is_not_known_here_is_asked_of_fastembed(fastembed_cache: Path) -> None:
    onnx_model(cached(fastembed_cache, "thenlper/gte-base"), "onnx/model.onnx")
    embedder = made("fastembed:thenlper/gte-base")
    rows = document_rows(embedder, ["dog"])
    assert len(rows[0]) == DIM
    with pytest.raises(EmbedderUnavailable, match="no such model; see TextEmbedding"):
        made("fastembed:no/such-model")


@adapters
def test_the_table_of_known_models_is_that_of_fastembed() -> None:
    """A source that changes with a version of fastembed would have its models never found again."""
    from fastembed import TextEmbedding
    from otolith.embedders.fastembed import KNOWN

    theirs = {one["model"]: one for one in TextEmbedding.list_supported_models()}
    for model, source in KNOWN.items():
        assert (theirs[model]["sources"]["hf"], theirs[model]["model_file"]) == source


@adapters
@pytest.mark.parametrize("spec", [f"fastembed:{MINILM}", f"model2vec:{STATIC}"])
def test_what_is_not_there_is_not_downloaded(spec: str, hub: Path, fastembed_cache: Path) -> None:
    """A library that is given a name asks the hub for it, forty seconds long without a network."""
    code = (
        "import os, socket, sys\n"
        "def refused(*a, **k):\n    print('asked the network', flush=True)\n    os._exit(3)\n"
        "socket.getaddrinfo = socket.create_connection = socket.socket.connect = refused\n"
        "before = dict(os.environ)\n"
        "from otolith import EmbedderUnavailable\nfrom otolith.embedders import resolve\n"
        f"try:\n    resolve({spec!r}).embed_query('x')\n"
        "except EmbedderUnavailable as error:\n    print(error)\n"
        "assert dict(os.environ) == before\n"
        "assert 'huggingface_hub' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing is ever downloaded here; get it once with `" in done.stdout


@adapters
@pytest.mark.parametrize("spec", [f"fastembed:{MINILM}", f"model2vec:{STATIC}"])
def test_a_cached_model_asks_no_network_and_changes_no_environment(
    spec: str, hub: Path, fastembed_cache: Path
) -> None:
    static_model(cached(hub, STATIC))
    onnx_model(cached(fastembed_cache, "Qdrant/all-MiniLM-L6-v2-onnx"))
    code = (
        "import os, socket\n"
        "def refused(*a, **k):\n    print('asked the network', flush=True)\n    os._exit(3)\n"
        "socket.getaddrinfo = socket.create_connection = socket.socket.connect = refused\n"
        "before = dict(os.environ)\n"
        "from otolith.embedders import resolve\n"
        f"assert len(resolve({spec!r}).embed_query('dog')) == {DIM}\n"
        "assert {n: v for n, v in os.environ.items() if n.startswith('HF')} == "
        "{n: v for n, v in before.items() if n.startswith('HF')}\n"
        "from huggingface_hub import constants\nassert not constants.HF_HUB_OFFLINE\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@adapters
def test_an_interrupted_download_is_no_model(hub: Path) -> None:
    directory = static_model(cached(hub, STATIC))
    weights = directory / "model.safetensors"
    whole = weights.read_bytes()
    weights.unlink()
    weights.symlink_to(hub / "blobs-that-never-came")
    with pytest.raises(EmbedderUnavailable, match="hf download"):
        made(f"model2vec:{STATIC}")
    weights.unlink()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(EmbedderError, match="model2vec"):
        document_rows(made(f"model2vec:{STATIC}"), ["dog"])


@adapters
def test_a_home_stays_with_the_version_of_its_model(hub: Path, home: Path) -> None:
    static_model(cached(hub, STATIC))
    with Memory.open(home, embedder=f"model2vec:{STATIC}") as memory:
        memory.remember("a dog barked")
    static_model(cached(hub, STATIC, "f" * 40), dim=8)  # main moves on
    assert made(f"model2vec:{STATIC}").fingerprint.endswith("|revision=ffffffffffff")
    for embedder in ("auto", f"model2vec:{STATIC}"):
        with Memory.open(home, embedder=embedder) as memory:
            report = memory.recall("puppy")
            assert report.legs["vector"].ran, report.legs["vector"].reason
            assert report[0].text == "a dog barked"
    with Memory.open(home.parent / "new", embedder=f"model2vec:{STATIC}") as memory:
        memory.remember("a dog barked")
        assert memory.coverage().dim == 8


@adapters
def test_a_model_by_path_is_not_loaded_because_a_home_says_so(tmp_path: Path, home: Path) -> None:
    place = static_model(tmp_path / "planted")
    with Memory.open(home, embedder=f"model2vec:{place}") as memory:
        memory.remember("a dog barked")
    with Memory.open(home) as memory:
        assert memory.status().embedder is None
        assert "ask for it with `otolith config set embedder model2vec:/" in memory.status().embedder_source


@adapters
def test_many_threads_ask_one_model(hub: Path) -> None:
    static_model(cached(hub, STATIC))
    embedder = made(f"model2vec:{STATIC}")
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda n: query_vector(embedder, "dog" if n % 2 else "tax"), range(80)))
    alone = [query_vector(embedder, word) for word in ("tax", "dog")]
    assert all(np.array_equal(row, alone[place % 2]) for place, row in enumerate(rows))


@adapters
def test_vectors_cut_to_their_first_numbers(hub: Path, home: Path) -> None:
    static_model(cached(hub, STATIC))
    whole, cut = made(f"model2vec:{STATIC}"), made(f"model2vec:{STATIC}?dim=6")
    assert (cut.dim, made(f"model2vec:{STATIC}", dim=6).fingerprint) == (6, cut.fingerprint)
    assert cut.fingerprint.startswith(f"model2vec:{STATIC}?dim=6|")
    long, short = document_rows(whole, ["dog"])[0], document_rows(cut, ["dog"])[0]
    assert [float(np.linalg.norm(row)) for row in cut.embed_rows(["dog"])] == pytest.approx([1.0])
    assert short == pytest.approx(long[:6] / np.linalg.norm(long[:6]), abs=1e-6)
    with pytest.raises(EmbedderError, match="gives 16 numbers, fewer than dim=99; ask for fewer"):
        document_rows(made(f"model2vec:{STATIC}?dim=99"), ["dog"])
    with Memory.open(home, embedder=f"model2vec:{STATIC}", config={"embedder_dim": 6}) as memory:
        memory.remember("a dog barked")
        assert memory.coverage().dim == 6
    with Memory.open(home) as memory:  # without the setting: the home knows
        assert memory.recall("puppy").legs["vector"].ran
        assert memory.status().embedder == f"model2vec:{STATIC}?dim=6"


@pytest.mark.parametrize(
    ("spec", "module"),
    [
        ("fastembed:x/y", "fastembed"),
        ("model2vec:x/y", "model2vec"),
        ("sentence-transformers:x/y", "sentence_transformers"),
        ("st:x/y", "sentence_transformers"),
        ("ollama:x", "httpx"),
    ],
)
def test_a_library_that_is_missing_is_named_with_its_extra(
    spec: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    extra = "sentence-transformers" if spec.startswith("st:") else spec.partition(":")[0]
    with pytest.raises(EmbedderUnavailable, match=rf"not installed; run `pip install otolith\[{extra}\]`"):
        resolve(spec)


class SentenceTransformer:
    """The calls of sentence-transformers 6.2 that are used, with its signatures: torch is too large here."""

    made: ClassVar[list[tuple[str, dict[str, Any]]]] = []
    asked: ClassVar[list[tuple[str, list[str], str | None]]] = []

    def __init__(
        self,
        model_name_or_path: str | None = None,
        *,
        local_files_only: bool = False,
        trust_remote_code: bool = False,
    ) -> None:
        options = {"local_files_only": local_files_only, "trust_remote_code": trust_remote_code}
        self.made.append((str(model_name_or_path), options))
        self.prompts = {"query": "twice ", "document": "twice "}

    def encode_query(
        self,
        inputs: list[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
    ) -> np.ndarray:
        return self._rows("query", inputs, prompt)

    def encode_document(
        self,
        inputs: list[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
    ) -> np.ndarray:
        return self._rows("document", inputs, prompt)

    def _rows(self, kind: str, inputs: list[str], prompt: str | None) -> np.ndarray:
        prompt = self.prompts[kind] if prompt is None else prompt
        self.asked.append((kind, [prompt + text for text in inputs], prompt))
        return np.array([[len(text), 1.0, 2.0] for text in inputs], dtype=np.float32)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> type[SentenceTransformer]:
    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
    module.__spec__ = types.SimpleNamespace(name="sentence_transformers")  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    SentenceTransformer.made.clear()
    SentenceTransformer.asked.clear()
    return SentenceTransformer


def saved(directory: Path, prompts: dict[str, str] | None = None) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "modules.json").write_text("[]")
    if prompts is not None:
        (directory / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    return directory


def test_sentence_transformers(hub: Path, torch: type[SentenceTransformer]) -> None:
    directory = saved(cached(hub, "intfloat/e5-small"), {"query": "query: ", "document": "passage: "})
    embedder = made("st:intfloat/e5-small")
    assert torch.made == []  # importing torch takes seconds: not before it is needed
    assert embedder.fingerprint.startswith("sentence-transformers:intfloat/e5-small|prompt=e5|")
    assert document_rows(embedder, ["ab"])[0].shape == (3,)
    query_vector(embedder, "ab")
    assert torch.made == [(str(directory), {"local_files_only": True, "trust_remote_code": False})]
    assert [texts for _, texts, _ in torch.asked] == [["passage: ab"], ["query: ab"]]
    with pytest.raises(EmbedderUnavailable, match=r"nothing is ever downloaded.*`hf download a/b`"):
        made("st:a/b")


def test_the_cache_and_the_short_names_of_sentence_transformers(
    hub: Path, tmp_path: Path, torch: type[SentenceTransformer], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"`hf download sentence-transformers/all-MiniLM-L6-v2`"):
        made("st:all-MiniLM-L6-v2")
    saved(cached(hub, MINILM))
    assert made("st:all-MiniLM-L6-v2").fingerprint.endswith(f"|revision={REVISION[:12]}")
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(tmp_path / "own"))
    saved(cached(tmp_path / "own", MINILM, "e" * 40))
    assert made("st:all-MiniLM-L6-v2").fingerprint.endswith("|revision=eeeeeeeeeeee")


def test_prompts_that_a_model_has_in_its_own_configuration(
    tmp_path: Path, torch: type[SentenceTransformer]
) -> None:
    mine = made(f"st:{saved(tmp_path / 'mine', {'query': 'ask: ', 'passage': 'know: '})}")
    document_rows(mine, ["x"])
    query_vector(mine, "x")
    assert [texts for _, texts, _ in torch.asked] == [["know: x"], ["ask: x"]]
    assert "|prompt=know%3A%20,ask%3A%20|" in mine.fingerprint
    assert "|prompt=none|" in made(f"st:{tmp_path / 'mine'}", prompt="none").fingerprint
    bare = made(f"st:{saved(tmp_path / 'bare', {'query': '', 'document': ''})}")
    assert "|prompt=none|" in bare.fingerprint
    (tmp_path / "bare" / "config_sentence_transformers.json").write_text('{"prompts": [5]}')
    assert "|prompt=none|" in made(f"st:{tmp_path / 'bare'}").fingerprint


def test_the_time_limit_of_local_models_is_kept_between_batches(
    hub: Path, torch: type[SentenceTransformer]
) -> None:
    saved(cached(hub, "a/b"))
    embedder = made("st:a/b")
    with pytest.raises(EmbedderUnavailable, match="made 32 of 80 vectors within the time limit") as caught:
        document_rows(embedder, ["x"] * 80, timeout=0.0)
    assert caught.value.retry_after is not None
    assert len(document_rows(embedder, ["x"] * 80)) == 80
