"""What the system this one mirrors promises of vectors, where no other test shows that it holds here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from field_reports import Model, bits, keys
from otolith import Filter, HybridIndex, IndexHit, IndexParams, Memory, NotFound


def told(hits: list[IndexHit]) -> list[tuple[str, str]]:
    return [(hit.id, hit.score.hex()) for hit in hits]


# -- coverage ---------------------------------------------------------------------------------------------


def test_coverage_counts_what_is_there_now() -> None:
    index = HybridIndex(2)
    assert index.vector_coverage().ratio() == 1.0
    rows = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 2.0, 3.0], [1.0]]
    index.insert_many(list("abcde"), [f"note {n}" for n in range(5)], rows)
    coverage = index.vector_coverage()
    assert (coverage.total, coverage.vectorized, coverage.dimension_mismatches) == (5, 3, 2)
    assert (coverage.bm25_only(), coverage.ratio(), coverage.has_dimension_mismatch()) == (2, 0.6, True)
    # A vector that is absent is no mismatch.
    index.insert("f", "no vector")
    coverage = index.vector_coverage()
    assert (coverage.bm25_only(), coverage.pending, coverage.dimension_mismatches) == (3, 1, 2)
    # A repair and a removal take the mismatch away.
    assert index.add_embedding("d", [1.0, 3.0])
    assert index.remove("e")
    assert index.remove("f")
    coverage = index.vector_coverage()
    assert (coverage.total, coverage.vectorized, coverage.ratio()) == (4, 4, 1.0)
    assert not coverage.has_dimension_mismatch()


def test_an_embedding_replaces_the_one_before() -> None:
    index = HybridIndex(2)
    index.insert_many(["a", "b"], ["one", "two"], [[1.0, 0.0], [0.0, 1.0]])
    assert index.add_embedding("a", [0.0, -1.0])
    assert index.add_embedding("a", [0.0, -1.0])
    assert [hit.id for hit in index.search(None, [0.0, -1.0], 1)] == ["a"]
    assert index.search(None, [1.0, 0.0])[0].parts["cosine"] == pytest.approx(0.0)
    assert index.vector_coverage().vectorized == 2
    with pytest.raises(NotFound, match="no document c; insert it first"):
        index.add_embedding("c", [1.0, 0.0])


# -- both legs --------------------------------------------------------------------------------------------


def test_nothing_to_search_finds_nothing() -> None:
    for index in (HybridIndex(), HybridIndex(2)):
        assert (
            index.search("word") == index.search(None, [1.0, 0.0]) == index.search("word", [1.0, 0.0]) == []
        )
        assert index.search_many(["word", "other"], [[1.0, 0.0], [0.0, 1.0]]) == [[], []]
        index.insert("a", "word")
        assert index.search(None, [1.0, 0.0]) == []


def test_documents_with_and_without_vectors_are_found_together() -> None:
    index = HybridIndex(2)
    index.insert("both", "the pool was small", [1.0, 0.0])
    index.insert("words", "the pool was full")
    index.insert("vector", vector=[0.9, 0.1])
    index.insert("apart", "noodles", [0.0, 1.0])
    hits = {hit.id: hit for hit in index.search("pool", [1.0, 0.0])}
    assert set(hits) == {"both", "words", "vector", "apart"}
    assert set(hits["both"].parts) == {"bm25", "cosine", "lexical", "vector"}
    assert set(hits["words"].parts) == {"bm25", "lexical"}
    assert set(hits["vector"].parts) == {"cosine", "vector"}
    # A document is not punished for the leg that cannot see it.
    assert hits["words"].score == pytest.approx(hits["words"].parts["lexical"])
    assert hits["vector"].score == pytest.approx(hits["vector"].parts["vector"])
    scores = [hit.score for hit in index.search("pool", [1.0, 0.0])]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)
    for k in range(5):
        assert told(index.search("pool", [1.0, 0.0], k)) == told(index.search("pool", [1.0, 0.0]))[:k]


@pytest.mark.parametrize("graph", [False, True])
def test_many_questions_at_once_get_the_answers_of_each_alone(graph: bool) -> None:
    draw = np.random.default_rng(3)
    rows = draw.standard_normal((2_500, 16))
    texts = [f"note {n} about {'redis' if n % 7 == 0 else 'pools'}" for n in range(len(rows))]
    index = HybridIndex(params=IndexParams(exact_below=0 if graph else None))
    index.insert_many([str(n) for n in range(len(rows))], texts, rows)
    index.compact()
    questions, vectors = ["redis", None, "note 77", "pools"], draw.standard_normal((4, 16))
    alone = [index.search(query, row) for query, row in zip(questions, vectors, strict=True)]
    assert list(map(told, index.search_many(questions, vectors))) == list(map(told, alone))


def test_a_document_that_a_walk_did_not_meet_keeps_its_cosine() -> None:
    """Among those that words found, one without a cosine would be ranked by its words alone, and rise."""
    draw = np.random.default_rng(4)
    near = np.eye(16)[0] + 0.1 * draw.standard_normal((3_000, 16))
    index = HybridIndex(params=IndexParams(exact_below=0, ef_search=10))
    index.insert_many([str(n) for n in range(len(near))], ["about pools"] * len(near), near)
    index.insert("far", "quetzal", -np.eye(16)[0])
    index.compact()
    question = np.eye(16)[0]
    for how in ({}, {"exact": True}):
        (first,) = index.search("quetzal", question, 1, weights={"lexical": 3.0, "vector": 1.0}, **how)
        assert (first.id, first.parts["cosine"]) == ("far", pytest.approx(-1.0))
        assert first.score == pytest.approx(0.75)


# -- a floor and a place ----------------------------------------------------------------------------------


def test_a_floor_of_nothing_is_no_floor(home: Path) -> None:
    with Memory.open(home, embedder="hash:64") as memory:
        memory.remember_many([f"redis note {n}" for n in range(30)])
        every = memory.recall("redis note 7", 50)
        assert bits(memory.recall("redis note 7", 50, min_relevance=0.0)) == bits(every)
        assert len(every) == 30
        floor = every[0].relevance
        above = memory.recall("redis note 7", 50, min_relevance=floor)
        assert bits(above) == [one for one in bits(every) if float.fromhex(one[2]) >= floor]
        assert 0 < len(above) < len(every)


@pytest.mark.parametrize("embedder", [None, "hash:64"])
def test_a_floor_and_a_directory_hold_together(home: Path, embedder: str | None) -> None:
    """What lay elsewhere took all places, or what was below the floor came in by another door."""
    here = Filter(working_dir="/here")
    with Memory.open(home, embedder=embedder) as memory:
        memory.remember_many(
            [{"summary": "fixed the flaky upload test", "working_dir": "/elsewhere"} for _ in range(20)]
        )
        memory.remember("the test of a parser of numbers and dates", working_dir="/here", key="weak")
        question = "flaky upload test"
        weak = memory.recall(question, 1, filter=here)
        assert keys(weak) == ["weak"]
        assert weak[0].relevance < 0.55
        assert not memory.recall(question, 1, filter=here, min_relevance=0.55)
        assert "relevance" in memory.recall(question, 1, filter=here, min_relevance=0.55).why_empty()
        memory.remember("fixed the flaky upload test", working_dir="/here", key="local")
        assert keys(memory.recall(question, 1, filter=here, min_relevance=0.55)) == ["local"]


# -- what is gone, what comes anew ------------------------------------------------------------------------


def test_what_was_remembered_is_found_by_meaning_at_once_and_after_opening_again(home: Path) -> None:
    """Vectors came into the index when it was built, not when they were written."""
    rows = np.eye(5)
    with Memory.open(home, embedder=None) as memory, Memory.open(home, embedder=None) as other:
        for n, row in enumerate(rows):
            memory.remember(f"note {n}", vector=row)
            for handle in (memory, other):
                hit = handle.recall(vector=row, k=1)[0]
                assert (hit.text, hit.parts["cosine"]) == (f"note {n}", pytest.approx(1.0))
        memory.forget(memory.recall(vector=rows[3], k=1)[0])
    with Memory.open(home, embedder=None) as again:
        left = {"note 0", "note 1", "note 2", "note 4"}
        assert {hit.text for hit in again.recall(vector=rows[3])} == left
        assert (again.coverage().total, again.coverage().vectorized) == (4, 4)


class Counting(Model):
    def __init__(self, dim: int, fingerprint: str) -> None:
        super().__init__(dim, fingerprint)
        self.batches: list[int] = []

    def embed_documents(self, texts: list[str]) -> np.ndarray:
        self.batches.append(len(texts))
        return super().embed_documents(texts)


def test_opening_and_asking_embed_no_record(home: Path) -> None:
    """A start waited for hours until every record was embedded, one call each."""
    with Memory.open(home, embedder=None) as memory:
        memory.remember_many([f"note {n}" for n in range(3_000)])
    model = Counting(8, "m")
    with Memory.open(home, embedder=model) as memory:
        assert len(memory.recall("note 77")) == 10
        assert memory.coverage().pending == 3_000
        assert model.batches == []
        assert memory.embed_pending(batch=500).embedded == 3_000
        assert (sum(model.batches), len(model.batches)) == (3_000, 6)


# -- a memory with a graph --------------------------------------------------------------------------------

WIDE, ROWS = 8_192, 1_300  # so wide that few of them have a graph


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(5).standard_normal((ROWS, WIDE)).astype(np.float32)


def graph_files(home: Path) -> list[Path]:
    return sorted(home.glob("index/*/graph-*"))


def test_forgotten_vectors_are_in_no_answer_of_a_graph(home: Path, rows: np.ndarray) -> None:
    """Pages came back short of what was deleted, or with it; an id that came back had its old vector."""
    with Memory.open(home, embedder=None) as memory:
        made = memory.remember_many({"summary": f"note {n}", "vector": row} for n, row in enumerate(rows))
        ids = [str(id) for id in made.ids]
        # The index that compaction makes is none of the files that may hold what was forgotten.
        assert memory.compact().keepers == ()
        assert memory.recall(vector=rows[7]).legs["vector"].method == "graph"
        gone = set(ids[:500])
        assert memory.forget(*gone) == 500
        moved = ids[0]
        memory.remember("note that came back", id=moved, vector=-rows[0])
        kept = (set(ids) - gone) | {moved}

        def check(handle: Memory) -> None:
            assert (handle.coverage().total, handle.coverage().vectorized) == (801, 801)
            for row in (rows[0], rows[499], rows[900]):
                report = handle.recall(vector=row)
                assert len(report) == 10
                assert {hit.id for hit in report} <= kept
            assert handle.recall(vector=rows[900])[0].id == ids[900]
            back = handle.recall(vector=-rows[0])[0]
            assert (back.id, back.text) == (moved, "note that came back")
            assert back.parts["cosine"] == pytest.approx(1.0, abs=1e-3)
            assert {hit.id for hit in handle.recall(vector=rows[3], k=5_000)} == kept

        check(memory)
        with Memory.open(home, embedder=None) as again:
            check(again)
        assert memory.compact().keepers == ()
        check(memory)
        report = memory.verify()
        assert (report.ok, report.vectors) == (True, 801)


def test_a_graph_that_is_missing_or_cut_off_costs_no_answer(home: Path, rows: np.ndarray) -> None:
    """A missing or shortened index file was a crash."""
    with Memory.open(home, embedder=None) as memory:
        memory.remember_many({"summary": f"note {n}", "vector": row} for n, row in enumerate(rows))
        memory.compact()
    (file,) = graph_files(home)
    whole = file.read_bytes()
    for left in (None, len(whole) // 2):
        file.unlink()
        if left is not None:
            file.write_bytes(whole[:left])
        with Memory.open(home, embedder=None) as memory:
            report = memory.recall(vector=rows[7])
            assert report[0].text == "note 7"
            assert report.legs["vector"].method == "exact"
            assert len(report) == 10
            memory.compact()
            assert memory.recall(vector=rows[7]).legs["vector"].method == "graph"
            assert memory.verify().ok
        (file,) = graph_files(home)
