"""`HybridIndex`: an index in memory for people who bring their own store."""

from __future__ import annotations

import array
import contextlib
import itertools
import math
import pathlib

import numpy as np
import pytest
from effort import effort
from hypothesis import given, settings
from hypothesis import strategies as st
from otolith import (
    DimensionMismatch,
    FormatTooNew,
    HybridIndex,
    IndexParams,
    InvalidInput,
    StoreCorrupt,
    StoreError,
)

PLAIN = IndexParams(analyzer="plain")


def test_words_and_vectors() -> None:
    index = HybridIndex(2)
    assert index.insert("a", "the token expired", [1.0, 0.0]).vectorized
    index.insert("b", {"title": "noodles", "body": "for lunch"}, [0.0, 1.0])
    index.insert("c", "only text about tokens")
    assert [hit.id for hit in index.search("token")][:2] in (["a", "c"], ["c", "a"])
    assert index.search(vector=[0.1, 0.9])[0].id == "b"
    both = index.search("token", [1.0, 0.0], explain=True)
    assert both[0].id == "a"
    assert {"bm25", "cosine"} <= set(both[0].parts)
    assert both[0].explanation is not None
    assert both[0].explanation.value == pytest.approx(both[0].score)
    assert (len(index), index.num_docs, index.dim) == (3, 3, 2)
    assert "a" in index
    assert "z" not in index


def test_insert_replaces_and_remove_removes() -> None:
    index = HybridIndex()
    assert not index.insert("a", "old words").replaced
    assert index.insert("a", "new text").replaced
    assert index.search("old") == []
    assert index.remove("a")
    assert not index.remove("a")
    assert index.search("new") == []
    assert (index.num_docs, len(index)) == (0, 0)


def test_the_first_vector_gives_the_width() -> None:
    index = HybridIndex()
    assert index.dim is None
    index.insert("a", "x", [1.0, 2.0, 3.0])
    assert index.dim == 3
    refused = index.insert("b", "text kept", [1.0])
    assert not refused.vectorized
    assert refused.refused
    assert index.search("kept")[0].id == "b"
    with pytest.raises(DimensionMismatch) as caught:
        index.search(vector=[1.0, 2.0])
    assert (caught.value.expected, caught.value.found) == (3, 2)


@pytest.mark.parametrize("bad", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0], [1.0], []])
def test_vectors_that_cannot_be_used_are_refused_and_the_text_kept(bad: list[float]) -> None:
    index = HybridIndex(2)
    inserted = index.insert("a", "text", bad)
    assert not inserted.vectorized
    assert inserted.refused
    assert index.search("text")[0].id == "a"
    coverage = index.vector_coverage()
    assert (coverage.total, coverage.vectorized) == (1, 0)
    assert not index.add_embedding("a", bad) if bad else True
    assert index.add_embedding("a", [1.0, 1.0])
    assert index.vector_coverage().vectorized == 1


def test_every_shape_of_vector_is_the_same() -> None:
    row = [0.25, -0.5, 1.0, 0.125]
    wide = np.zeros((3, 8))
    wide[1, ::2] = row
    shapes = [
        row,
        tuple(row),
        array.array("d", row),
        array.array("f", row),
        np.array(row),
        np.array(row, dtype=np.float32),
        np.array(row, dtype=np.float16),
        wide[1, ::2],
        np.array(row)[::-1][::-1],
    ]
    index = HybridIndex(4)
    for number, shape in enumerate(shapes):
        assert index.insert(str(number), vector=shape).vectorized  # type: ignore[arg-type]
    for shape in shapes:
        hits = index.search(vector=shape, k=20)  # type: ignore[arg-type]
        assert len(hits) == len(shapes)
        assert all(hit.parts["cosine"] == pytest.approx(1.0, abs=1e-6) for hit in hits)


def test_insert_many_and_search_many() -> None:
    index = HybridIndex(3)
    texts = ["apples", "pears", None, "plums"]
    vectors = np.eye(4, 3, dtype=np.float32)
    vectors[3] = [0.5, 0.5, 0.5]
    done = index.insert_many(["a", "b", "c", "d"], texts, vectors)
    assert [one.vectorized for one in done] == [True] * 4
    answers = index.search_many(["pears", "plums"], k=1)
    assert [[hit.id for hit in hits] for hits in answers] == [["b"], ["d"]]
    answers = index.search_many(None, np.eye(3), k=1)
    assert [hits[0].id for hits in answers] == ["a", "b", "c"]
    sparse = index.insert_many(["e", "f"], ["x", "y"], [[1.0, 0.0, 0.0], None])
    assert [one.vectorized for one in sparse] == [True, False]


def test_ids_limit_the_search() -> None:
    index = HybridIndex(2)
    for number in range(10):
        index.insert(str(number), "same words", [1.0, float(number)])
    assert {hit.id for hit in index.search("words", k=10, ids=["3", "7", "nobody"])} == {"3", "7"}
    assert {hit.id for hit in index.search(vector=[1.0, 0.0], k=10, ids=["4"])} == {"4"}
    assert index.search("words", ids=[]) == []


def test_ties_keep_the_order_of_insertion() -> None:
    index = HybridIndex()
    names = [f"n{number}" for number in (5, 3, 9, 1, 7)]
    for name in names:
        index.insert(name, "the very same words")
    assert [hit.id for hit in index.search("same words", k=10)] == names
    assert [hit.id for hit in index.search("same words", k=3)] == names[:3]


def test_k() -> None:
    index = HybridIndex()
    index.insert("a", "x y")
    assert index.search("x", k=0) == []
    assert len(index.search("x", k=100)) == 1
    with pytest.raises(InvalidInput):
        index.search("x", k=-1)


@pytest.mark.parametrize(
    "params", [{"k1": -1}, {"k1": math.nan}, {"b": 2}, {"b": -0.1}, {"analyzer": "fancy"}, {"k1": math.inf}]
)
def test_params_are_checked(params: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        IndexParams(**params)  # type: ignore[arg-type]
    assert (IndexParams().k1, IndexParams().b, IndexParams().analyzer) == (1.2, 0.75, "default")


def test_bad_arguments() -> None:
    index = HybridIndex(2)
    with pytest.raises(InvalidInput):
        HybridIndex(0)
    assert index.search() == []
    with pytest.raises(InvalidInput):
        index.insert_many(["a", "b"], ["only one"])
    with pytest.raises(InvalidInput):
        index.insert_many(["a"], None, np.zeros((2, 2)))
    with pytest.raises(InvalidInput):
        index.search("x", fusion="magic")
    with pytest.raises(InvalidInput):
        index.insert("a", "lone \ud800")
    assert index.num_docs == 0


def naive_bm25(
    docs: dict[str, list[str]], query: list[str], k1: float = 1.2, b: float = 0.75
) -> dict[str, float]:
    count = len(docs)
    average = sum(map(len, docs.values())) / count
    scores = {}
    for name, words in docs.items():
        score = 0.0
        for term in set(query):
            tf = words.count(term)
            if tf:
                df = sum(term in other for other in docs.values())
                idf = math.log(1 + (count - df + 0.5) / (df + 0.5))
                score += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(words) / average))
        if score:
            scores[name] = score
    return scores


WORDS = st.lists(
    st.sampled_from(["red", "blue", "green", "tall", "short", "old", "new"]), min_size=1, max_size=12
)


@settings(max_examples=50, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=12), WORDS, st.data())
def test_the_lexical_leg_is_bm25(corpus: list[list[str]], query: list[str], data: st.DataObject) -> None:
    index = HybridIndex(params=PLAIN)
    docs = {str(number): words for number, words in enumerate(corpus)}
    for name, words in docs.items():
        index.insert(name, " ".join(words))
    for name in data.draw(st.sets(st.sampled_from(sorted(docs)), max_size=len(docs) - 1)):
        index.remove(name)
        del docs[name]
    wanted = naive_bm25(docs, query)
    hits = index.search(" ".join(query), k=100)
    assert {hit.id for hit in hits} == set(wanted)
    for hit in hits:
        assert hit.parts["bm25"] == pytest.approx(wanted[hit.id], rel=1e-5)
    scores = [wanted[hit.id] for hit in hits]
    assert all(a >= b - 1e-5 * abs(a) for a, b in itertools.pairwise(scores))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 30), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_the_vector_leg_is_exact_cosine(count: int, dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, dim)).astype(np.float32)
    query = rng.standard_normal(dim)
    index = HybridIndex(dim)
    index.insert_many([str(number) for number in range(count)], None, rows)
    exact = rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
    hits = index.search(vector=query, k=count)
    assert len(hits) == count
    for hit in hits:
        assert hit.parts["cosine"] == pytest.approx(float(exact[int(hit.id)]), abs=2e-3)
    found = [exact[int(hit.id)] for hit in hits]
    assert all(a >= b - 4e-3 for a, b in itertools.pairwise(found))


def answers(index: HybridIndex) -> list[object]:
    """What an index says to some questions, to the last bit."""
    asked = [
        {"query": "red fox", "k": 50},
        {"query": "old", "k": 3},
        {"vector": [0.3, 0.4, -0.5], "k": 50},
        {"query": "blue tall", "vector": [0.1, -0.9, 0.2], "k": 7, "explain": True},
        {"query": "new", "ids": ["d1", "d5", "d8"]},
    ]
    found = [
        [(hit.id, hit.score, hit.parts, hit.explanation) for hit in index.search(**question)]  # type: ignore[arg-type]
        for question in asked
    ]
    coverage = index.vector_coverage()
    return [*found, coverage, index.num_docs, index.dim]


def filled(count: int, seed: int = 1) -> HybridIndex:
    rng = np.random.default_rng(seed)
    words = np.array(["red", "blue", "green", "tall", "short", "old", "new", "fox", "größe", "東京"])
    texts = [" ".join(rng.choice(words, 9)) for _ in range(count)]
    index = HybridIndex(3, params=IndexParams(k1=0.9, b=0.3))
    index.insert_many([f"d{number}" for number in range(count)], texts, rng.standard_normal((count, 3)))
    return index


@pytest.mark.parametrize("count", [0, 1, 40, 3000])
def test_a_saved_index_is_the_index(count: int, tmp_path: pathlib.Path) -> None:
    index = filled(count)
    if count > 1:
        index.insert("wide", "red but refused", [1.0])
        index.insert("zero", "blue and refused", [0.0, 0.0, 0.0])
        index.insert("textless", vector=[0.5, 0.5, 0.0])
        for number in range(0, count, 3):
            index.remove(f"d{number}")
    folder = tmp_path / "only this"
    folder.mkdir()
    path = folder / "index"
    index.save(path)
    assert list(folder.iterdir()) == [path]
    loaded = HybridIndex.load(path)
    assert answers(loaded) == answers(index)
    assert loaded.max_doc == loaded.num_docs
    for one in (index, loaded):
        one.insert("d1", "red fox instead", [0.1, 0.2, 0.3])
        one.insert("d90000", "old fox")
        one.add_embedding("d1", [0.0, 1.0, 0.0])
        one.remove("d2")
        one.remove("d90000")
    assert answers(loaded) == answers(index)
    # A file that is mapped is not changed: it is put in its place.
    loaded.save(str(path))
    assert answers(HybridIndex.load(str(path))) == answers(index) == answers(loaded)


def test_compact_gives_places_back_and_changes_no_answer() -> None:
    index = filled(600)
    for number in range(0, 600, 2):
        index.remove(f"d{number}")
    before = answers(index)
    assert (index.num_docs, index.max_doc) == (300, 600)
    index.compact()
    assert (index.num_docs, index.max_doc) == (300, 300)
    assert answers(index) == before
    index.insert("d0", "red again")
    assert index.search("again")[0].id == "d0"


def test_replacing_for_ever_takes_no_room_for_ever() -> None:
    index = filled(50)
    turns = ["".join(pair) for pair in itertools.product("abcdefghijklmnop", repeat=2)]
    for turn in turns:
        index.insert_many([f"d{number}" for number in range(50)], [f"red {turn}"] * 50)
    assert index.num_docs == 50
    assert index.max_doc < 3000
    assert len(index.search(turns[-1], k=100)) == 50
    assert index.search(turns[-2]) == []


def test_a_file_that_is_no_saved_index_is_told_apart(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "index"
    with pytest.raises(StoreError, match=r"HybridIndex\.save"):
        HybridIndex.load(path)
    filled(100).save(path)
    whole = path.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(StoreCorrupt, match="Build the index again"):
            HybridIndex.load(path)
    path.write_text("something else entirely\n" * 20)
    with pytest.raises(StoreCorrupt):
        HybridIndex.load(path)
    with pytest.raises(StoreError):
        filled(3).save(tmp_path / "nowhere" / "index")
    with pytest.raises(StoreError):
        HybridIndex.load(tmp_path)
    for bad in (None, 3, b"\xff"):
        with pytest.raises(InvalidInput):
            HybridIndex.load(bad)  # type: ignore[arg-type]


def test_damage_gives_an_error_or_an_answer(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "index"
    index = filled(400)
    index.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(5)
    for _ in range(effort(150, 3000)):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)):
            damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            loaded = HybridIndex.load(path)
        except (StoreCorrupt, StoreError, FormatTooNew):
            continue
        answers(loaded)
        loaded.insert("more", "red fox")
        loaded.remove("d7")
        with contextlib.suppress(StoreCorrupt):
            loaded.compact()
        answers(loaded)


def test_damage_of_a_file_is_not_written_on(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "index"
    built = HybridIndex()
    built.insert_many([str(n) for n in range(50)], [f"word{n} of the {n % 7} kinds" for n in range(50)])
    built.save(path)
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 41):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            index = HybridIndex.load(path)
        except (StoreCorrupt, StoreError, FormatTooNew):
            continue
        try:
            index.compact()
        except StoreCorrupt:
            refused += 1
            with pytest.raises(StoreCorrupt, match=str(path)):
                index.save(tmp_path / "other")
            assert not (tmp_path / "other").exists()
            continue
        assert {hit.id for hit in index.search("kinds", k=60)} == {str(n) for n in range(50)}
    assert refused > 20


def corpus(count: int, width: int) -> tuple[HybridIndex, np.ndarray]:
    """Documents of words that a few or many have, in clusters."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(50, width))[rng.integers(0, 50, count)] + rng.normal(size=(count, width))
    share = 1 / np.arange(1, 301)
    words = rng.choice(300, p=share / share.sum(), size=(count, 8))
    texts = [" ".join(f"w{word}" for word in line) for line in words]
    index = HybridIndex(width, params=IndexParams(analyzer="plain"))
    index.insert_many([str(n) for n in range(count)], texts, rows.astype(np.float32))
    return index, rows


@pytest.mark.parametrize("k", [10, 100])
@pytest.mark.parametrize("query", ["w0", "w0 w1 w3", "w2 w40 w250"])
def test_the_best_of_both_legs_are_those_among_all(query: str, k: int) -> None:
    """More documents than are decided on one by one, words that most have, answers longer than usual."""
    index, rows = corpus(17_000, 16)
    missing = 0
    for place in (5, 7_001):
        asked = {"vector": rows[place], "exact": True}
        best = [hit.id for hit in index.search(query, k=17_000, **asked)][:k]
        missing += len(set(best) - {hit.id for hit in index.search(query, k=k, **asked)})
    assert missing <= 0.01 * k


@pytest.mark.parametrize("jitter", [0.0, 1e-4, 1e-3])
@pytest.mark.parametrize("exact", [False, True])
def test_thousands_of_vectors_that_are_nearly_the_same_do_not_hide_the_words(
    jitter: float, exact: bool
) -> None:
    rng = np.random.default_rng(1)
    asked = rng.normal(size=64)
    asked /= np.linalg.norm(asked)
    far = rng.normal(size=(250, 64))
    near = asked + jitter * rng.normal(size=(6_000, 64))
    texts = ["alpha beta"] * 250 + ["zero"] * 5_990 + ["alpha beta zero zero"] * 10
    index = HybridIndex(64, params=IndexParams(analyzer="plain", exact_below=0))
    rows = np.vstack([0.3 * asked + 0.12 * far, near]).astype(np.float32)
    index.insert_many([str(n) for n in range(6_250)], texts, rows)
    index.compact()
    found = {hit.id for hit in index.search("alpha beta", asked, k=10, exact=exact)}
    assert found == {str(n) for n in range(6_240, 6_250)}
