"""What is asked of what: records, questions, and what the answers should hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otolith.exceptions import InvalidInput
from otolith.records import Filter

__all__ = ["Collection", "Dataset", "Question", "checked"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question, and what its answer should hold.

    Args:
        id: Its name, one of its collection's.
        text: The question itself.
        relevant: Keys of the records that answer it, with their gain, above 0. Empty: nothing should
            be found.
        forbidden: Keys of records that must not be found.
        category: What kind of question it is.
        filter: Which records are looked at.
    """

    id: str
    text: str
    relevant: Mapping[str, float] = field(default_factory=dict)
    forbidden: frozenset[str] = frozenset()
    category: str | None = None
    filter: Filter | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Collection:
    """Records that are one memory, and the questions to it.

    Args:
        name: Its name, one of its dataset's.
        records: Fields of the records, each with a `key`. None: the records are in a home already, and are
            named by key or id.
        questions: The questions.
    """

    name: str
    records: Sequence[Mapping[str, Any]] | None
    questions: Sequence[Question]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """Collections that are measured together.

    Args:
        name: What it is called.
        format: Where it was read from: `beir`, `cases`, `coding-agent-life`, `locomo` or `memorybank`.
        collections: Its parts; each is a memory of its own.
        sessions: Whether answers are judged by session as well.
        left_out: What could not be used, by reason, with how often.
    """

    name: str
    format: str
    collections: Sequence[Collection]
    sessions: bool = False
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def questions(self) -> int:
        """How many questions there are."""
        return sum(len(one.questions) for one in self.collections)

    @property
    def records(self) -> int | None:
        """How many records there are; None where they are those of a home."""
        if any(one.records is None for one in self.collections):
            return None
        return sum(len(one.records or ()) for one in self.collections)

    @property
    def sha256(self) -> str:
        """Hash of all records, questions and what is relevant: equal ones can be compared."""
        digest = hashlib.sha256()
        for one in self.collections:
            digest.update(_line([one.name, one.records is None]))
            for record in one.records or ():
                digest.update(_line(record))
            for asked in one.questions:
                where = None if asked.filter is None else asked.filter.to_dict()
                digest.update(
                    _line(
                        [asked.id, asked.text, asked.relevant, sorted(asked.forbidden), asked.category, where]
                    )
                )
        return digest.hexdigest()


def _line(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, default=str).encode() + b"\n"


def checked(dataset: Dataset) -> Dataset:
    """The dataset, if everything that its questions name is there.

    Raises:
        InvalidInput: It has no questions, a collection no records, a name comes twice, or a question names a
            record that is not there.
    """
    if not dataset.questions:
        raise InvalidInput(f"dataset: {dataset.name} has no questions; give some", field="dataset")
    for one in dataset.collections:
        where = (
            f"dataset: {dataset.name}" if one.name == dataset.name else f"dataset: {dataset.name}, {one.name}"
        )
        if one.records is not None and not one.records:
            raise InvalidInput(f"{where} has no records: nothing could be found; give some", field="dataset")
        names: set[str] = set()
        for asked in one.questions:
            if asked.id in names:
                raise InvalidInput(
                    f"{where}: two questions are named {asked.id}; rename one", field="dataset"
                )
            names.add(asked.id)
        if one.records is None:
            continue
        known: set[str] = set()
        for record in one.records:
            if record["key"] in known:
                raise InvalidInput(
                    f"{where}: two records have the key {record['key']}; rename one", field="dataset"
                )
            known.add(record["key"])
        for asked in one.questions:
            unknown = sorted({*asked.relevant, *asked.forbidden} - known)
            if unknown:
                raise InvalidInput(
                    f"{where}: question {asked.id} names {unknown[0]!r}, which no record has as its key; "
                    "mend the question, or add the record",
                    field="dataset",
                )
    return dataset
