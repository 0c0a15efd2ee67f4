"""The comparison with rivals: a small run, and that the harness sees what it is there to see."""

from __future__ import annotations

import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compare import __main__ as harness
from compare.corpus import KINDS, Files, chunks, questions, vocabulary
from compare.exact import Answer, ExactBm25, doc_freq
from compare.figures import Figures
from compare.page import page
from compare.plan import exact_for
from compare.suite import Suite, wrong
from compare.targets import lines
from comparison import ran
from otolith import HybridIndex, IndexParams

BENCHES = Path(__file__).parent.parent / "benches"
SIZE = 2_000
# Nine processes: seconds on an idle machine, minutes on a busy one.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The figures and the page of a whole run, of our index and one rival."""
    place = tmp_path_factory.mktemp("compare")
    options = {
        "sizes": [str(SIZE)],
        "engines": ["otolith", "fts5"],
        "questions": ["30"],
        "rounds": ["1"],
        "passes": ["2"],
        "budget": ["0.3"],
    }
    figures = ran("compare", place, options)
    left = {path.name for path in place.iterdir() if not path.name.startswith("corpus-")}
    assert left == {"figures.json", "page.md"}, "the indexes of a run do not stay"
    return figures


def test_our_index_is_exact_and_a_rival_with_another_idf_is_not(run: dict[str, Any]) -> None:
    figures = Figures(run["rows"])
    for kind in KINDS:
        for metric in ("query", "pieces", "whole"):
            assert figures.least(metric, "recall", engine="otolith", kind=kind) == 1.0
        assert figures.value("query", "p50", engine="otolith", kind=kind)
    assert figures.least("query", "recall", engine="fts5", kind="selective") > 0.9
    assert 0.1 < figures.least("query", "recall", engine="fts5", kind="common") < 0.9


def test_a_run_has_every_figure_or_says_what_is_not_there(run: dict[str, Any]) -> None:
    figures = Figures(run["rows"])
    for metric in ("build", "query", "memory", "insert", "question after insert", "remove"):
        for engine in ("otolith", "fts5"):
            assert figures.all(metric, engine=engine), (metric, engine)
    assert figures.value("build", "docs_per_s", engine="otolith") > 0
    assert figures.value("build", "docs_per_cpu_s", engine="otolith") > 0
    assert figures.value("build", "disk_mb", engine="fts5") > 0.5
    assert figures.value("open warm", "hits", engine="fts5") == 10
    missing = {row["what"] for row in run["rows"] if row["metric"] == "missing"}
    for name in ("save", "load", "compact"):
        assert (f"HybridIndex.{name}" in missing) == (not hasattr(HybridIndex, name))
        assert (f"HybridIndex.{name}" in run["page"]) == (not hasattr(HybridIndex, name))
    assert (figures.value("build", "disk_mb", engine="otolith") is None) == (not hasattr(HybridIndex, "save"))


def test_the_page_shows_recall_beside_every_time(run: dict[str, Any]) -> None:
    shown = run["page"]
    assert "## 2,000 documents" in shown
    (ours,) = [line for line in shown.splitlines() if line.startswith("| HybridIndex, plain") and "(" in line]
    assert ours.count("(1.000)") == len(KINDS)
    assert "| recall@10 against exact BM25, least of all |  | 1 | >= 1 | yes |" in shown
    assert "## Wrong" not in shown


def test_exact_scores_are_those_of_the_engine_after_removals_too() -> None:
    asked = questions(SIZE, doc_freq(SIZE), 20)
    dead = list(range(0, SIZE, 20))
    index = HybridIndex(params=IndexParams(analyzer="plain"))
    words = vocabulary()
    (chunk,) = chunks(SIZE)
    texts = [" ".join(words[term] for term in chunk.document(i)) for i in range(SIZE)]
    index.insert_many([str(i) for i in range(SIZE)], texts)
    compared = 0
    for gone in ([], dead):
        for i in gone:
            assert index.remove(str(i))
        exact = exact_for(SIZE, asked, gone)
        for question in (one for kind in KINDS for one in asked[kind]):
            scores = exact.scores(question.terms)
            for hit in index.search(question.text, k=10):
                assert hit.parts["bm25"] == pytest.approx(scores[int(hit.id)], rel=1e-6)
                compared += 1
    assert compared > 1_000


def test_exact_scores_follow_the_formula_across_chunks() -> None:
    n, dead = 10_040, {3, 10_007}
    documents = [chunk.document(i).tolist() for chunk in chunks(n) for i in range(len(chunk))]
    live = [document for i, document in enumerate(documents) if i not in dead]
    average = sum(map(len, live)) / len(live)
    terms = [0, 1, documents[10_007][0], documents[3][1]]
    frequency = {term: sum(term in document for document in live) for term in terms}
    scores = ExactBm25(n, terms, dead).scores([*terms, terms[0]])
    for i in [*range(20), *range(9_990, n)]:
        counts = Counter([] if i in dead else documents[i])
        wanted = 0.0
        for term in dict.fromkeys(terms):
            idf = math.log(1 + (len(live) - frequency[term] + 0.5) / (frequency[term] + 0.5))
            norm = 1.2 * (0.25 + 0.75 * len(documents[i]) / average)
            wanted += idf * counts[term] * 2.2 / (counts[term] + norm)
        assert scores[i] == pytest.approx(wanted, rel=1e-12)


def test_documents_do_not_depend_on_the_size(tmp_path: Path) -> None:
    (short,) = chunks(50)
    first, second = chunks(10_050)
    assert (len(first), len(second)) == (10_000, 50)
    assert np.array_equal(short.terms, first.first(50).terms)
    files = Files(tmp_path)
    files.make(10_050)
    words = vocabulary()
    assert files.texts(9_999, 10_001) == [
        " ".join(words[term] for term in document) for document in (first.document(9_999), second.document(0))
    ]
    assert [len(batch) for batch in files.batches(10_050, 4_000)] == [4_000, 4_000, 2_050]


def test_recall_counts_ties_and_sees_what_is_missed() -> None:
    tied = Answer(frozenset({1, 2, 3}), wanted=2)
    assert (tied.recall([3, 1]), tied.recall([1, 9]), tied.recall([9, 8, 1, 2])) == (1.0, 0.5, 0.0)
    assert tied.recall([1, 1]) == 0.5
    assert Answer(frozenset(), wanted=0).recall([]) == 1.0
    (chunk,) = chunks(100)
    exact = ExactBm25(100, [0])
    answer = exact.answer([0])
    best = np.argsort(-exact.scores([0]), kind="stable")
    assert answer.recall(best[:10].tolist()) == 1.0
    assert answer.recall(best[-10:].tolist()) == 0.0
    assert all(0 in chunk.document(i) for i in answer.accepted)


def test_what_is_wrong_is_said_and_a_target_can_be_missed() -> None:
    at = {"n": 10_000, "kind": "selective", "p95": 1.0, "recall": 1.0}
    rows: list[dict[str, Any]] = [
        {"metric": "query", "engine": "otolith", "round": turn, "p50": ours, **at}
        for turn, ours in enumerate((4.0, 30.0, 9.0))
    ]
    rows += [
        {"metric": "query", "engine": "tantivy", "round": turn, "p50": theirs, **at}
        for turn, theirs in enumerate((20.0, 50.0, 30.0))
    ]
    assert wrong(rows) == []
    speed, exact = lines(Figures(rows))
    assert (speed.value, speed.reached, exact.reached) == (0.3, True, True)
    rows[1]["recall"] = 0.99
    rows[2]["p50"] = 24.0
    rows.append({"metric": "failed", "engine": "tantivy", "step": "build", "n": 10_000, "error": "no space"})
    speed, exact = lines(Figures(rows))
    assert (speed.value, speed.reached, exact.reached) == (0.6, False, False)
    found = wrong(rows)
    assert len(found) == 2
    shown = page(
        {
            "rows": rows,
            "machine": {"cpu": "c", "cores": 2, "system": "s", "python": "3", "versions": {}},
            "load": [0.0, 0.0],
            "date": "2026-11-30",
            "questions": 1,
            "rounds": 3,
            "passes": 1,
        }
    )
    assert "| selective, p50, 10,000 documents | 24 µs, tantivy 30 µs | 0.6 | <= 0.35 | **no** |" in shown
    assert all(f"- {line}" in shown for line in found)


class Levels(Suite):
    """A suite whose module knows two levels and uses the lesser one when it is asked for a third."""

    def _step(
        self, step: str, engine: str, n: int, folder: Path, *_: Any, **given: Any
    ) -> list[dict[str, Any]]:
        seen = "portable" if given["simd"] == "avx512" else given["simd"]
        p50 = {"avx2": 10.0, "portable": 30.0}[seen]
        before = len(self.rows)
        for row in (
            {"metric": "query", "kind": "common", "p50": p50, "recall": 1.0},
            {"metric": "memory", "rss_mb": 1.0, "simd_seen": seen},
        ):
            self.rows.append({"engine": engine, "n": n, "round": given["turn"], "simd": given["simd"], **row})
        return self.rows[before:]

    def _write(self) -> None:
        pass


def test_levels_of_instructions_are_measured_only_where_they_ran(tmp_path: Path) -> None:
    suite = Levels(tmp_path / "f.json", tmp_path, ["otolith"], 1, 2, 1, 1.0, None)
    suite._levels(100_000, {"otolith": tmp_path}, 0)
    assert [row["metric"] for row in suite.rows] == ["missing"], "the module says nothing of levels"
    suite.rows = [{"metric": "memory", "engine": "otolith", "n": 100_000, "simd_seen": "avx2"}]
    suite._levels(100_000, {"otolith": tmp_path}, 0)
    suite._levels(100_000, {"otolith": tmp_path}, 1)
    figures = Figures(suite.rows)
    assert figures.value("query", "p50", simd="avx2") == 10.0
    assert figures.value("query", "p50", simd="portable") == 30.0
    assert not figures.all("query", simd="avx512")
    assert not figures.all("query"), "they are not figures of the level that runs by itself"
    assert [row["what"] for row in figures.all("missing")] == ["level avx512: portable ran instead"]


def test_a_rival_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(harness.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(
        sys, "argv", ["compare", "run", "--engines", "tantivy", "--json", str(tmp_path / "never.json")]
    )
    assert harness.main() == 2
    assert "tantivy. Run: pip install --group compare" in capsys.readouterr().err
    assert not (tmp_path / "never.json").exists()
