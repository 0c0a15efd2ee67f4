"""Search by vectors beside rivals: a small run, and that the harness sees what it is there to see."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compare.corpus import CHUNK, chunks, questions, vocabulary
from compare.exact import ExactBm25, doc_freq
from compare.figures import Figures
from comparison import ran
from otolith import HybridIndex, IndexParams
from vectors import __main__ as harness
from vectors import curves, gold, rows
from vectors.page import page
from vectors.pairs import join
from vectors.suite import wrong
from vectors.targets import lines

BENCHES = Path(__file__).parent.parent / "benches"
SIZE, WIDTH = 1_500, 384
# A dozen processes: seconds on an idle machine, minutes on a busy one.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The figures and the page of a whole run, of our index and the rival that needs no package."""
    place = tmp_path_factory.mktemp("vectors")
    options = {
        "sizes": [str(SIZE)],
        "wide": ["500x64"],
        "engines": ["otolith", "otolith-graph", "numpy", "otolith-both"],
        "questions": ["20"],
        "rounds": ["1"],
        "passes": ["2"],
        "budget": ["0.2"],
    }
    figures = ran("vectors", place, options)
    left = {path.name.split("-")[0] for path in place.iterdir()}
    assert left == {"corpus", "numpy", "figures.json", "page.md"}, "our indexes of a run do not stay"
    return figures


def test_a_run_has_every_figure(run: dict[str, Any]) -> None:
    figures = Figures(run["rows"])
    at = {"n": SIZE, "width": WIDTH, "engine": "otolith"}
    for metric in ("build", "query", "insert", "filtered", "listed", "whole", "dead"):
        assert figures.all(metric, **at), metric
    for metric in ("open", "memory", "query", "build"):
        assert figures.all(metric, **{**at, "engine": "otolith-both"}), metric
    assert figures.value("build", "rows_per_cpu_s", **at)
    assert figures.all("query", n=500, width=64, engine="numpy")
    assert [row["share"] for row in figures.all("filtered", **at)] == [0.001, 0.01, 0.1, 0.5]


def test_what_compares_every_row_finds_all(run: dict[str, Any]) -> None:
    figures = Figures(run["rows"])
    assert figures.least("query", "recall", engine="numpy") == 1.0
    assert figures.least("query", "recall", engine="otolith") >= 0.98  # rows of half precision
    assert figures.least("query", "recall", engine="otolith-both") >= 0.95
    for metric in ("filtered", "listed", "whole", "dead"):
        assert figures.least(metric, "recall", engine="otolith") >= 0.98


def test_the_page_shows_recall_beside_every_time(run: dict[str, Any]) -> None:
    shown = run["page"]
    assert f"## {SIZE:,} documents, {WIDTH} wide" in shown
    assert "## 500 documents, 64 wide" in shown
    assert shown.count("| numpy, every row | default |") == 2
    assert all(
        line.endswith("| 1.0000 |")
        for line in shown.splitlines()
        if line.startswith("| numpy, every row | def")
    )
    assert "sentences with a real model's vectors: EVAL names no folder" in shown
    assert "## Wrong" not in shown


def test_rows_are_of_length_one_and_do_not_depend_on_the_size() -> None:
    (short,) = rows.rows(30, 48)
    first, second = rows.rows(CHUNK + 5, 48)
    assert np.array_equal(short, first[:30])
    assert (len(first), len(second)) == (CHUNK, 5)
    assert np.allclose(np.linalg.norm(first, axis=1), 1, atol=1e-6)
    documents = list(range(0, 1_000, 10))
    asked = rows.near(documents, 48)
    own = np.einsum("ij,ij->i", asked, first[documents])
    assert (own > np.mean(asked @ first.T, axis=1) + 0.1).all(), "a question is near its document"
    (chunk,) = chunks(2_000)
    same = chunk.topics[:, None] == chunk.topics[None, :]
    cosines = first[:2_000] @ first[:2_000].T
    assert cosines[same].mean() > cosines[~same].mean() + 0.1, "a topic has a place"


def test_nearest_rows_are_those_of_a_plain_sort() -> None:
    (given,) = rows.rows(2_000, 32)
    given[7] = given[1_500]  # a tie
    asked = np.vstack([given[7], rows.near(range(9), 32)])
    allowed = np.ones(len(given), dtype=bool)
    allowed[3:900:2] = False
    for mask in (None, allowed):
        for vector, answer in zip(asked, gold.nearest(given, asked, mask), strict=True):
            cosines = given.astype(np.float64) @ vector.astype(np.float64)
            if mask is not None:
                cosines[~mask] = -1
            assert answer.recall(np.argsort(-cosines, kind="stable")[:10].tolist()) == 1.0
            assert answer.recall(np.argsort(cosines)[:10].tolist()) == 0.0
            assert mask is None or all(mask[number] for number in answer.accepted)
    assert {7, 1_500} <= gold.nearest(given, asked)[0].accepted
    few = np.zeros(len(given), dtype=bool)
    few[:3] = True
    assert gold.nearest(given, asked, few)[0].wanted == 3


def test_fused_scores_are_those_of_the_engine() -> None:
    n = 1_200
    asked = questions(n, doc_freq(n), 15)["natural"]
    (chunk,) = chunks(n)
    (given,) = rows.rows(n, 64)
    vectors = rows.near([question.about for question in asked], 64)
    exact = ExactBm25(n, {term for question in asked for term in question.terms})
    index = HybridIndex(64, params=IndexParams(analyzer="plain"))
    words = vocabulary()
    texts = [" ".join(words[term] for term in chunk.document(i)) for i in range(n)]
    index.insert_many([str(i) for i in range(n)], texts, given)
    for question, vector in zip(asked, vectors, strict=True):
        cosine = given.astype(np.float64) @ vector.astype(np.float64)
        scores = gold.fused(exact.scores(question.terms), exact.matched(question.terms), cosine)
        for hit in index.search(question.text, vector, k=10):
            assert hit.score == pytest.approx(scores[int(hit.id)], abs=2e-4)


def test_a_question_hardly_known_leaves_its_weight_to_the_vector() -> None:
    bm25, cosine = np.array([2.0, 1.0, 0.0]), np.array([0.0, 0.4, 0.8])
    whole = gold.fused(bm25, np.array([1.0, 0.5, 0.0]), cosine)
    assert whole == pytest.approx([0.5, 0.5, 0.5])
    little = gold.fused(bm25, np.array([0.03, 0.01, 0.0]), cosine)
    assert little == pytest.approx([0.1, 0.05 + 0.9 * 0.5, 0.9])
    assert gold.fused(np.zeros(3), np.zeros(3), cosine) == pytest.approx([0, 0.5, 1])


def test_time_at_a_recall_lies_between_two_walks() -> None:
    line = [(0.9, 10.0), (0.96, 20.0), (0.98, 40.0), (0.98, 80.0)]
    assert curves.at(line, 0.97) == pytest.approx(math.sqrt(20 * 40))
    assert curves.at(line, 0.96) == pytest.approx(20)
    assert curves.at(line, 0.98) == pytest.approx(40)
    assert curves.at(line, 0.5) == 10.0
    assert curves.at(line, 0.99) is None
    assert curves.at([], 0.5) is None
    assert curves.ratio({0: 1.0, 1: 3.0, 2: 9.0}, {0: 2.0, 1: 3.0}) == 0.75
    assert curves.ratio({0: 1.0}, {1: 1.0}) is None


def test_scores_of_two_engines_are_joined_by_their_best() -> None:
    assert join(([1, 2], [4.0, 3.0]), ([2, 3], [0.8, 0.6])) == [2, 1, 3]
    assert join(([], []), ([5], [0.1])) == [5]


def figures_of_a_run(**changed: float) -> list[dict[str, Any]]:
    """Two rounds at 100,000: ours takes 30 and 90 µs, faiss 100 and 300, for a recall of .96 and .995."""
    found = []
    for turn in range(2):
        for engine, scale in (("otolith", changed.get("scale", 0.3)), ("faiss", 1.0)):
            at = {"engine": engine, "n": 100_000, "width": 384, "round": turn, "metric": "query"}
            found += [
                {**at, "ef": ef, "recall": recall, "p50": scale * p50, "p95": p50}
                for ef, recall, p50 in ((32, 0.96, 100.0), (64, 0.995, 300.0))
            ]
        recall = changed.get("recall", 0.99)
        ours = {"engine": "otolith", "n": 100_000, "width": 384, "round": turn}
        found.append({**ours, "metric": "query", "ef": None, "recall": recall, "p50": 80.0, "p95": 90.0})
        found.append({**ours, "metric": "filtered", "share": 0.1, "recall": recall, "p50": 50.0, "p95": 60.0})
        for metric, time in (("whole", 80.0), ("dead", 120.0)):
            found.append({**ours, "metric": metric, "turn": turn, "recall": recall, "p50": time})
        found.append({**ours, "metric": "build", "rows_per_cpu_s": changed.get("rows", 9_000.0)})
        found.append({**ours, "engine": "usearch-bf16", "metric": "build", "rows_per_cpu_s": 3_000.0})
    return found


def test_a_target_can_be_reached_and_missed() -> None:
    reached = {line.what: line for line in lines(Figures(figures_of_a_run()))}
    assert len(reached) == 9
    assert all(line.reached for line in reached.values()), reached
    (speed,) = [line for what, line in reached.items() if "recall 0.98" in what]
    assert speed.value == pytest.approx(0.3)
    assert reached["100,000 x 384, 30 % removed, p50 over before"].value == pytest.approx(1.5)
    missed = lines(Figures(figures_of_a_run(scale=0.5, recall=0.96, rows=4_000.0)))
    told = {line.what for line in missed if not line.reached}
    assert {what for what in reached if "over faiss" in what and "filter" not in what} <= told
    assert {what for what in reached if what.endswith(", recall")} <= told
    assert any("build" in what for what in told)


def test_a_recall_that_is_never_reached_is_no_ratio() -> None:
    found = figures_of_a_run()
    for row in found:
        if row["engine"] == "otolith" and row["metric"] == "query":
            row["recall"] = 0.5
    (line,) = [line for line in lines(Figures(found)) if "recall 0.99" in line.what]
    assert (line.value, line.reached) == (math.inf, False)
    assert line.measured.startswith("never, ")


def test_what_failed_is_on_the_page() -> None:
    found = figures_of_a_run()
    found.append({"metric": "failed", "engine": "faiss", "step": "build", "n": 100_000, "error": "no space"})
    assert wrong(found) == ["faiss, build, 100,000 rows: no space"]
    shown = page(
        {
            "rows": found,
            "machine": {"cpu": "c", "cores": 2, "system": "s", "python": "3", "versions": {}},
            "load": [0.0, 0.0],
            "date": "2026-11-30",
            "questions": 1,
            "rounds": 2,
            "passes": 1,
        }
    )
    assert "- faiss, build, 100,000 rows: no space" in shown
    assert "| 100,000 x 384, p50 at recall 0.97, over faiss |" in shown
    assert "| HybridIndex | default | 80 µs | 90 µs | 0.9900 |" in shown


def test_a_rival_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def absent(name: str) -> str:
        raise harness.PackageNotFoundError(name)

    monkeypatch.setattr(harness, "version", absent)
    never = tmp_path / "never.json"
    monkeypatch.setattr(sys, "argv", ["vectors", "run", "--engines", "faiss", "--json", str(never)])
    assert harness.main() == 2
    assert "not installed: faiss-cpu. Run: pip install --group compare" in capsys.readouterr().err
    assert not never.exists()
