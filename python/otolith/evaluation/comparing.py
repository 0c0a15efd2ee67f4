"""Two runs of one dataset side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from otolith.exceptions import InvalidInput

from .measures import MEASURES, paired
from .run import Answer, Row, Run

__all__ = ["Change", "Comparison", "compare"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A question whose answer became better or worse.

    Attributes:
        collection: Which memory was asked.
        question: Id of the question.
        text: The question.
        before: What its answer was worth.
        after: What it is worth now.
    """

    collection: str
    question: str
    text: str
    before: float
    after: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What became of one row.

    Attributes:
        row: The way of searching.
        measures: By name: `before`, `after`, `change` and `interval`, between what the change lies in 95 of
            100 resamples.
        by: The measure that wins and losses are told by.
        wins: Questions whose answer is better now, the greatest change first.
        losses: Those whose answer is worse, likewise.
    """

    row: str
    measures: dict[str, dict[str, Any]]
    by: str
    wins: list[Change]
    losses: list[Change]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        changes = {
            name: [{field: getattr(one, field) for field in Change.__dataclass_fields__} for one in group]
            for name, group in (("wins", self.wins), ("losses", self.losses))
        }
        return {"row": self.row, "measures": self.measures, "by": self.by, **changes}


def compare(before: Run, after: Run, *, by: str = "share@10") -> list[Comparison]:
    """Compares the rows that both runs have.

    Args:
        before: The one run.
        after: The other.
        by: The measure that questions are compared by.

    Raises:
        InvalidInput: They are of different datasets, asked for different numbers of hits, or share no row.
    """
    if by not in MEASURES:
        raise InvalidInput(f"by: {by!r} is not one of {', '.join(MEASURES)}", field="by")
    for name, one, other in (
        ("dataset", before.dataset["sha256"], after.dataset["sha256"]),
        ("number of hits", before.settings["k"], after.settings["k"]),
    ):
        if one != other:
            raise InvalidInput(
                f"run: the runs cannot be compared: another {name} ({one} and {other}); run both anew "
                "with the same",
                field="run",
            )
    pairs = [(row, other) for row in before.rows if (other := after.row(row.name)) is not None]
    if not pairs:
        names = [", ".join(row.name for row in run.rows) for run in (before, after)]
        raise InvalidInput(
            f"run: the runs share no row: {names[0]} and {names[1]}; run both with the same --row",
            field="run",
        )
    return [_compared(one, other, by) for one, other in pairs]


def _compared(before: Row, after: Row, by: str) -> Comparison:
    measures = {}
    then, now = before.measures(), after.measures()
    for name in then:
        change, between = paired(before.groups(name), after.groups(name))
        measures[name] = {
            "before": then[name],
            "after": now[name],
            "change": change,
            "interval": list(between),
        }
    changes = [_change(one, other, by) for one, other in zip(before.answers, after.answers, strict=True)]
    told = [one for one in changes if one is not None and one.before != one.after]
    told.sort(key=lambda one: -abs(one.after - one.before))
    return Comparison(
        row=before.name,
        measures=measures,
        by=by,
        wins=[one for one in told if one.after > one.before],
        losses=[one for one in told if one.after < one.before],
    )


def _change(before: Answer, after: Answer, by: str) -> Change | None:
    if by not in before.values:
        return None
    return Change(
        collection=before.collection,
        question=before.question,
        text=before.text,
        before=before.values[by],
        after=after.values[by],
    )
