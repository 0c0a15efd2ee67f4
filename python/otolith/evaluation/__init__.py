"""Measuring recall: datasets, runs and their comparison. docs/evaluation.md tells more.

>>> from otolith import evaluation
>>> run = evaluation.evaluate(evaluation.load("coding-agent-life"), embedder=None)
>>> run.row("lexical").measures()["share@5"]
1.0
"""

from __future__ import annotations

from .comparing import Change, Comparison, compare
from .dataset import Collection, Dataset, Question
from .loading import SHIPPED, Shipped, load
from .measures import MEASURES
from .run import Answer, Row, Run
from .runner import ROWS, evaluate

__all__ = [
    "MEASURES",
    "ROWS",
    "SHIPPED",
    "Answer",
    "Change",
    "Collection",
    "Comparison",
    "Dataset",
    "Question",
    "Row",
    "Run",
    "Shipped",
    "compare",
    "evaluate",
    "load",
]
