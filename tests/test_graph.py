"""Graphs over many vectors: what is found with them, and what becomes of them."""

from __future__ import annotations

import _thread
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from otolith import HybridIndex, IndexParams, InvalidInput, Memory

Rows = NDArray[np.float32]
ROWS, WIDTH, CLUSTERS = 4_000, 48, 60


def clustered(count: int, width: int = WIDTH, seed: int = 1) -> Rows:
    """Unit rows around some centres, as sentences about a few things have them."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(CLUSTERS, width))
    rows = centres[rng.integers(0, CLUSTERS, count)] + rng.normal(size=(count, width))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32)


def graphed(rows: Rows, **params: Any) -> HybridIndex:
    """An index with a graph over these rows."""
    index = HybridIndex(params=IndexParams(exact_below=0, **params))
    index.insert_many([str(i) for i in range(len(rows))], vectors=rows)
    index.compact()
    return index


def asked(index: HybridIndex, questions: Rows, **how: Any) -> list[list[str]]:
    return [[hit.id for hit in index.search(vector=row, **how)] for row in questions]


def share(found: list[list[str]], wanted: list[list[str]]) -> float:
    pairs = zip(found, wanted, strict=True)
    return sum(len(set(own) & set(all_)) for own, all_ in pairs) / sum(map(len, wanted))


@pytest.fixture(scope="module")
def rows() -> Rows:
    return clustered(ROWS)


@pytest.fixture(scope="module")
def questions() -> Rows:
    return clustered(100, seed=2)


@pytest.fixture
def index(rows: Rows) -> HybridIndex:
    return graphed(rows)


def test_a_graph_finds_what_comparing_all_finds(index: HybridIndex, rows: Rows, questions: Rows) -> None:
    exact = asked(index, questions, exact=True)
    best = np.argsort(-(questions @ rows.T), axis=1, kind="stable")[:, :10]
    assert share(exact, [[str(n) for n in row] for row in best]) >= 0.998  # rounded to half precision
    assert share(asked(index, questions), exact) >= 0.99
    narrow, wide = (share(asked(index, questions, ef_search=ef), exact) for ef in (10, 400))
    assert narrow < wide
    assert wide >= 0.999
    assert asked(graphed(rows, ef_search=10), questions) == asked(index, questions, ef_search=10)
    # Every row finds itself.
    assert sum(hits[0] == str(n) for n, hits in enumerate(asked(index, rows, k=1))) >= ROWS - 4


def test_filters_and_removed_documents_are_kept_out_within_the_walk(
    index: HybridIndex, questions: Rows
) -> None:
    three = ["5", "77", "3999"]
    assert all(sorted(hits) == sorted(three) for hits in asked(index, questions[:20], ids=three))
    some = [str(n) for n in range(0, ROWS, 2)]
    half = asked(index, questions, ids=some)
    assert share(half, asked(index, questions, ids=some, exact=True)) >= 0.97
    gone = {str(n) for n in range(0, ROWS, 3)}
    for name in gone:
        index.remove(name)
    found, exact = asked(index, questions), asked(index, questions, exact=True)
    assert not any(gone & set(hits) for hits in found)
    assert share(found, exact) >= 0.985
    index.compact()
    assert share(asked(index, questions), exact) >= 0.99


def test_what_came_after_the_graph_is_found_at_once(index: HybridIndex, questions: Rows) -> None:
    index.insert_many([f"new {n}" for n in range(len(questions))], vectors=questions)
    assert [hits[0] for hits in asked(index, questions, k=1)] == [f"new {n}" for n in range(len(questions))]
    index.compact()
    assert [hits[0] for hits in asked(index, questions, k=1)] == [f"new {n}" for n in range(len(questions))]


def test_the_same_vectors_give_the_same_file(rows: Rows, questions: Rows, tmp_path: Path) -> None:
    first, second = graphed(rows, ef_search=64), graphed(rows, ef_search=64)
    first.save(tmp_path / "first")
    second.save(tmp_path / "second")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    loaded = HybridIndex.load(tmp_path / "first")
    assert asked(loaded, questions) == asked(first, questions)
    # A document that lies in the file is given another vector, one more is added.
    assert loaded.add_embedding("7", questions[0])
    loaded.insert("more", vector=questions[1])
    assert [hits[0] for hits in asked(loaded, questions[:2], k=1)] == ["7", "more"]
    loaded.save(tmp_path / "first")
    again = HybridIndex.load(tmp_path / "first")
    assert asked(again, questions, exact=True) == asked(loaded, questions, exact=True)


@pytest.mark.parametrize("distinct", [1, 2, 40])
def test_equal_vectors_are_all_found(distinct: int) -> None:
    rows = np.repeat(clustered(distinct), 2_400 // distinct, axis=0)
    index = graphed(rows)
    for n in range(distinct):
        own = {str(at) for at in range(len(rows)) if np.array_equal(rows[at], rows[n * (2_400 // distinct)])}
        hits = index.search(vector=rows[n * (2_400 // distinct)], k=len(own))
        assert {hit.id for hit in hits} == own
    assert len(index.search(vector=rows[0], k=5_000)) == len(rows)


def test_an_interruption_keeps_what_is_done(questions: Rows) -> None:
    rows = clustered(24_000)
    index = HybridIndex(params=IndexParams(exact_below=0))
    index.insert_many([str(i) for i in range(len(rows))], vectors=rows)
    timer = threading.Timer(0.4, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        index.compact()
    timer.join()
    exact = asked(index, questions, exact=True)
    assert share(asked(index, questions), exact) >= 0.98
    index.compact()
    assert asked(index, questions) == asked(graphed(rows), questions)


@pytest.mark.parametrize(
    "wrong", [{"ef_search": 0}, {"ef_search": -1}, {"exact_below": -1}, {"ef_search": 2.5}]
)
def test_wrong_settings_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises((InvalidInput, TypeError), match=next(iter(wrong))):
        IndexParams(**wrong)


def test_settings_survive_a_pickle_and_a_file(tmp_path: Path) -> None:
    params = IndexParams(ef_search=77, exact_below=5)
    assert pickle.loads(pickle.dumps(params)) == params != IndexParams()
    assert (params.ef_search, params.exact_below) == (77, 5)
    assert "ef_search=77, exact_below=5" in repr(params)


WIDE, WIDE_ROWS = 8_192, 1_500  # so wide that few of them have a graph


def wide_memory(home: Path, rows: Rows) -> None:
    with Memory.open(home, embedder=None) as memory:
        report = memory.remember_many(
            {"summary": f"note {n}", "key": str(n), "vector": row} for n, row in enumerate(rows)
        )
        assert not report.failed
        assert memory.coverage().vectorized == len(rows)


def test_a_memory_builds_its_graph_when_it_is_compacted(tmp_path: Path) -> None:
    rows, home = clustered(WIDE_ROWS, WIDE), tmp_path / "home"
    wide_memory(home, rows)
    question = clustered(1, WIDE, seed=9)[0]
    with Memory.open(home, embedder=None) as memory:
        before = memory.recall(vector=question, legs=("vector",))
        assert before.legs["vector"].method == "exact"
    done = subprocess.run(
        [sys.executable, "-m", "otolith", "--home", str(home), "compact", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("\n") == 1, "data alone"
    with Memory.open(home, embedder=None) as memory:
        after = memory.recall(vector=question, legs=("vector",))
        assert after.legs["vector"].method == "graph"
        assert len({hit.id for hit in after} & {hit.id for hit in before}) >= 9
        memory.remember("one more", vector=question)
        newest = memory.recall(vector=question)
        assert newest[0].text == "one more"
        assert newest.legs["vector"].method == "graph and exact"
        assert newest.legs["lexical"].method is None
        report = memory.verify()
        assert report.ok
        assert report.graph_recall is not None
        assert report.graph_recall >= 0.95
        status = memory.status()
        assert (status.graph_vectors, status.indexed_vectors) == (WIDE_ROWS, WIDE_ROWS + 1)
    for command in ("status", "doctor"):
        told = otolith(home, command)
        assert f"a graph over {WIDE_ROWS}, 1 compared one by one (`otolith verify` measures" in told, told


def otolith(home: Path, *arguments: str) -> str:
    """What a command says on stdout."""
    words = [sys.executable, "-m", "otolith", "--home", str(home), *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_vectors_that_wait_for_their_graph_are_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    wide_memory(home, clustered(WIDE_ROWS, WIDE))
    assert "graph" not in otolith(home, "status")
    assert f"{WIDE_ROWS} vectors have no graph yet" in otolith(home, "doctor")
    otolith(home, "compact")
    assert "have no graph" not in otolith(home, "doctor")


def test_a_graph_file_that_is_gone_costs_the_graph_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    wide_memory(home, clustered(WIDE_ROWS, WIDE))
    otolith(home, "compact")
    (graph,) = home.glob("index/*/graph-*")
    graph.unlink()
    segments = {path.name for path in home.glob("index/*/seg-*")}
    assert graph.name in otolith(home, "doctor")
    with Memory.open(home, embedder=None) as memory:
        problems = memory.verify().problems
        assert len(problems) == 1
        assert graph.name in problems[0].detail
        assert "otolith compact" in problems[0].detail
        assert memory.verify().ok
    otolith(home, "compact")
    assert len(list(home.glob("index/*/graph-*"))) == 1
    assert {path.name for path in home.glob("index/*/seg-*")} == segments
