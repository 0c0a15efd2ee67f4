"""What a run found out, as a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import Any

from otolith._files import replace_file
from otolith.exceptions import InvalidInput

from .measures import MEASURES, interval

__all__ = ["SCHEMA", "Answer", "Row", "Run"]

SCHEMA = "otolith.eval.run/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One question in one row.

    Attributes:
        collection: Which memory was asked.
        question: Id of the question.
        text: The question.
        category: Its kind.
        values: What the answer is worth, by measure; empty where nothing is relevant.
        session_values: The same by session, where the dataset has them.
        found: Keys of the hits.
        precision: Share of the hits that are relevant; None without hits.
        leaked: Hits that are forbidden.
        relevance: Highest relevance of a hit; None for `grep`.
        ran: Legs that ran.
        elapsed_us: Time of the answer in microseconds.
    """

    collection: str
    question: str
    text: str
    category: str | None
    values: Mapping[str, float]
    session_values: Mapping[str, float]
    found: tuple[str, ...]
    precision: float | None
    leaked: tuple[str, ...]
    relevance: float | None
    ran: tuple[str, ...]
    elapsed_us: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """All answers of one way of searching."""

    name: str
    answers: list[Answer] = field(default_factory=list)

    def groups(self, measure: str, *, sessions: bool = False) -> list[list[float]]:
        """Values of a measure by collection, in the order of the questions that something is relevant to."""
        groups: dict[str, list[float]] = {}
        for one in self.answers:
            values = one.session_values if sessions else one.values
            group = groups.setdefault(one.collection, [])
            if measure in values:
                group.append(values[measure])
        return list(groups.values())

    def measures(self, *, sessions: bool = False, category: str | None = None) -> dict[str, float]:
        """The mean of each measure over the questions that something is relevant to."""
        rows = [
            one.session_values if sessions else one.values for one in self.answers if _is_of(one, category)
        ]
        rows = [one for one in rows if one]
        return {name: fmean(one[name] for one in rows) for name in MEASURES} if rows else {}

    def categories(self) -> list[str]:
        """Kinds of questions."""
        return sorted({one.category for one in self.answers if one.category is not None})

    def legs(self) -> dict[str, int]:
        """How many questions each leg ran for."""
        counts: dict[str, int] = {}
        for one in self.answers:
            for leg in one.ran:
                counts[leg] = counts.get(leg, 0) + 1
        return counts

    def summary(self) -> dict[str, Any]:
        """Everything about the row but the questions one by one."""
        times = sorted(one.elapsed_us for one in self.answers)
        wanted = [one for one in self.answers if one.values]
        unwanted = [one for one in self.answers if not one.values]
        precision = [one.precision for one in wanted if one.precision is not None]
        out: dict[str, Any] = {
            "questions": len(self.answers),
            "legs": self.legs(),
            "measures": self.measures(),
            "intervals": {name: list(interval(self.groups(name))) for name in MEASURES} if wanted else {},
            "precision": fmean(precision) if precision else None,
            "no_answer": fmean(not one.found for one in wanted) if wanted else None,
            "refused": fmean(not one.found for one in unwanted) if unwanted else None,
            "leaked": sum(len(one.leaked) for one in self.answers),
            "p50_us": median(times) if times else None,
            "p95_us": times[min(len(times) - 1, len(times) * 95 // 100)] if times else None,
        }
        if any(one.session_values for one in self.answers):
            out["sessions"] = self.measures(sessions=True)
        if self.categories():
            out["categories"] = {
                name: {
                    "questions": sum(_is_of(one, name) for one in self.answers),
                    **self.measures(category=name),
                }
                for name in self.categories()
            }
        return out


def _is_of(answer: Answer, category: str | None) -> bool:
    return category is None or answer.category == category


@dataclass(frozen=True, kw_only=True)
class Run:
    """A dataset, asked in one or more ways.

    Attributes:
        version: Version of Otolith.
        dataset: `name`, `format`, `sha256`, `records`, `questions`, `collections`, `left_out`.
        settings: What may change an answer: `k`, `analyzer`, `embedder` (its fingerprint).
        rows: Ways of searching, with their answers.
    """

    version: str
    dataset: Mapping[str, Any]
    settings: Mapping[str, Any]
    rows: Sequence[Row]

    def row(self, name: str) -> Row | None:
        """The row of this name."""
        return next((one for one in self.rows if one.name == name), None)

    @cached_property
    def summaries(self) -> dict[str, dict[str, Any]]:
        """Everything about each row but the questions one by one, by its name."""
        return {row.name: row.summary() for row in self.rows}

    def to_dict(self, *, answers: bool = True) -> dict[str, Any]:
        """All of it as plain data.

        Args:
            answers: Whether with the questions one by one.
        """
        rows = []
        for row in self.rows:
            content = {"name": row.name, **self.summaries[row.name]}
            if answers:
                content["answers"] = [
                    {name: _plain(getattr(one, name)) for name in Answer.__dataclass_fields__}
                    for one in row.answers
                ]
            rows.append(content)
        return {
            "version": self.version,
            "dataset": dict(self.dataset),
            "settings": dict(self.settings),
            "rows": rows,
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes it as JSON, in place of what is there.

        Raises:
            OSError: It cannot be written.
        """
        content = {"schema": SCHEMA, **self.to_dict()}
        text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        replace_file(Path(path).absolute(), text.encode(), mode=0o644)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Run:
        """Reads what `write` wrote.

        Raises:
            InvalidInput: It is no run, or one of another version's form.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content["schema"] != SCHEMA:
                raise InvalidInput(
                    f"run: {path} has the schema {content['schema']}, not {SCHEMA}; make it anew with "
                    "`otolith eval run`",
                    field="run",
                )
            rows = [
                Row(name=row["name"], answers=[_answer(one) for one in row["answers"]])
                for row in content["rows"]
            ]
            return cls(
                version=content["version"],
                dataset=content["dataset"],
                settings=content["settings"],
                rows=rows,
            )
        except OSError as error:
            raise InvalidInput(f"run: {path} cannot be read: {error.strerror}", field="run") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(
                f"run: {path} is no run; give a file that `otolith eval run -o` wrote", field="run"
            ) from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _answer(given: Mapping[str, Any]) -> Answer:
    lists = {name: tuple(given[name]) for name in ("found", "leaked", "ran")}
    return Answer(**{**{name: given[name] for name in Answer.__dataclass_fields__}, **lists})
