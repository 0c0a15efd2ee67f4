"""Words alone on judged questions: a faster index that finds less is no gain. The data are not kept here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from otolith import evaluation

GATES = (
    ("SciFact nDCG@10", "scifact", "ndcg@10"),
    ("XQuAD-zh R@1", "xquad/zh", "share@1"),
    ("MemoryBank-zh R@5", "memorybank-zh", "share@5"),
)


def gates(folder: Path) -> Iterator[dict[str, Any]]:
    """The three measures; a set that is not there is named."""
    for name, place, measure in GATES:
        if (folder / place).is_dir():
            dataset = evaluation.load(folder / place)
            (row,) = evaluation.evaluate(dataset, rows=["lexical"], embedder=None).rows
            value = row.measures()[measure]
            yield {"metric": "quality", "what": name, "value": value, "asked": dataset.questions}
        else:
            yield {"metric": "missing", "what": f"{name}: no folder {place}"}
