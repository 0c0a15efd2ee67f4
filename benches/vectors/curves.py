"""Time at a recall, between the lengths of the walk that were measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from compare.figures import Figures, Row


def at(points: Sequence[tuple[float, float]], recall: float) -> float | None:
    """The time at this recall.

    Between two points recall and the logarithm of time are both straight in the logarithm of `ef`, so either
    is straight in the other. What finds more at its least is given that time; None when none finds so much.

    Args:
        points: (recall, time), by rising `ef`.
        recall: What is wanted.
    """
    before: tuple[float, float] | None = None
    for found, time in points:
        if found >= recall:
            if before is None:
                return time
            share = (recall - before[0]) / (found - before[0])
            return math.exp(math.log(before[1]) * (1 - share) + math.log(time) * share)
        before = (found, time)
    return None


def points(figures: Figures, **where: Any) -> dict[int, list[tuple[float, float]]]:
    """(recall, p50) by rising `ef`, round by round; the one point of an engine that knows no `ef`."""
    rounds: dict[int, list[Row]] = {}
    for row in figures.all("query", **where):
        rounds.setdefault(row["round"], []).append(row)
    out = {}
    for turn, rows in rounds.items():
        walked = sorted((row for row in rows if row["ef"] is not None), key=lambda row: row["ef"])
        out[turn] = [(row["recall"], row["p50"]) for row in walked or rows]
    return out


def times(figures: Figures, recall: float, **where: Any) -> dict[int, float]:
    """The time at this recall in each round that reached it."""
    found = {turn: at(line, recall) for turn, line in points(figures, **where).items()}
    return {turn: time for turn, time in found.items() if time is not None}


def ratio(ours: dict[int, float], theirs: dict[int, float]) -> float | None:
    """The median of ours over theirs, round by round."""
    pairs = [ours[turn] / theirs[turn] for turn in ours if turn in theirs]
    return statistics.median(pairs) if pairs else None


def middle(found: dict[int, float]) -> float | None:
    """The median of the rounds."""
    return statistics.median(found.values()) if found else None
