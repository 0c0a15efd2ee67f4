"""The rows of a run, looked up and put in relation."""

from __future__ import annotations

import statistics
from typing import Any

Row = dict[str, Any]


class Figures:
    """Medians over the rounds of a run.

    Args:
        rows: As the steps wrote them.
    """

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def sizes(self) -> list[int]:
        """The sizes that were measured, rising."""
        return sorted({row["n"] for row in self.rows if row["n"]})

    def all(self, metric: str, **where: Any) -> list[Row]:
        """The rows of a metric; a key that a row lacks counts as None."""
        where = {"simd": None, **where}
        return [
            row
            for row in self.rows
            if row["metric"] == metric and all(row.get(key) == value for key, value in where.items())
        ]

    def value(self, metric: str, field: str, **where: Any) -> float | None:
        """The median of a figure over rounds; None when it was not measured."""
        found = [row[field] for row in self.all(metric, **where) if field in row]
        return statistics.median(found) if found else None

    def least(self, metric: str, field: str, **where: Any) -> float | None:
        """The least over rounds and whatever else is open: for recall, where one miss must show."""
        found = [row[field] for row in self.all(metric, **where) if field in row]
        return min(found) if found else None

    def ratio(self, ours: Row, theirs: Row, field: str = "p50") -> float | None:
        """The median of ours over theirs, round by round: a round's steps lie side by side in time."""

        def by_round(where: Row) -> dict[Any, float]:
            rows = self.all(
                where["metric"], **{key: value for key, value in where.items() if key != "metric"}
            )
            return {(row.get("round"), row.get("turn")): row[field] for row in rows}

        left, right = by_round(ours), by_round(theirs)
        pairs = [left[key] / right[key] for key in left if key in right]
        return statistics.median(pairs) if pairs else None
