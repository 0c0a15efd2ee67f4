"""Cases that people write: YAML, TOML or JSON.

::

    records:                      # left out: those of the home
      - key: pool
        summary: The pool was exhausted by a leaked cursor
        tags: [db]
    questions:
      - query: why was the pool exhausted?
        relevant: [pool]          # keys or ids; or {pool: 2} with gains; []: nothing should be found
        forbidden: []             # must not be found
        scope: team/app           # optional, as are filter, id and category
        filter: {tags: [db]}
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from otolith._fields import filter_fields, shown
from otolith.evaluation.dataset import Collection, Dataset, Question
from otolith.exceptions import OtolithError
from otolith.records import Filter

from ._files import broken

__all__ = ["load_cases"]

_FIELDS = frozenset({"id", "query", "relevant", "forbidden", "scope", "filter", "category"})


def load_cases(path: Path, document: Any) -> Dataset:
    """Makes a dataset of them.

    Args:
        path: Their file.
        document: What it holds.

    Raises:
        InvalidInput: Something in it is of no use.
    """
    if not isinstance(document, Mapping):
        raise broken(path, "holds no `questions`")
    unknown = sorted(set(document) - {"records", "questions"})
    if unknown:
        raise broken(path, f"holds {unknown[0]!r}; it may hold `records` and `questions`")
    records = document.get("records")
    if records is not None:
        if not isinstance(records, list) or not all(isinstance(one, Mapping) for one in records):
            raise broken(path, "`records` is no list of records")
        for place, record in enumerate(records, 1):
            if not str(record.get("key") or "").strip():
                raise broken(path, f"record {place} has no key, which questions name it by")
        records = [{**record, "key": str(record["key"])} for record in records]
    asked = document.get("questions") or []
    if not isinstance(asked, list):
        raise broken(path, "`questions` is no list")
    questions = [_question(path, place, one) for place, one in enumerate(asked, 1)]
    collection = Collection(name=path.stem, records=records, questions=questions)
    return Dataset(name=path.stem, format="cases", collections=[collection])


def _question(path: Path, place: int, given: Any) -> Question:
    where = f"question {place}"
    if not isinstance(given, Mapping):
        raise broken(path, f"{where} is no mapping")
    unknown = sorted(set(map(str, given)) - _FIELDS)
    if unknown:
        raise broken(path, f"{where} has {unknown[0]!r}; known are {', '.join(sorted(_FIELDS))}")
    query = given.get("query")
    if not isinstance(query, str) or not query.strip():
        raise broken(path, f"{where} has no query")
    filter = given.get("filter") or {}
    if not isinstance(filter, Mapping):
        raise broken(path, f"{where}: filter is {shown(filter)} and not a mapping")
    if given.get("scope") is not None:
        filter = {**filter, "scope": given["scope"]}
    try:
        where_to_look = (
            Filter(**{str(name): _frozen(value) for name, value in filter.items()}) if filter else None
        )
        filter_fields(where_to_look)
    except (OtolithError, TypeError) as error:
        raise broken(path, f"{where}: {error}") from None
    return Question(
        id=str(given.get("id") or place),
        text=query,
        relevant=_gains(path, where, given.get("relevant")),
        forbidden=frozenset(_gains(path, where, given.get("forbidden"))),
        category=None if given.get("category") is None else str(given["category"]),
        filter=where_to_look,
    )


def _gains(path: Path, where: str, given: Any) -> dict[str, float]:
    if given is None:
        return {}
    if isinstance(given, str):
        given = [given]
    if isinstance(given, list):
        given = dict.fromkeys(given, 1.0)
    try:
        gains = {str(key): float(gain) for key, gain in given.items()}
    except (AttributeError, TypeError, ValueError):
        raise broken(path, f"{where}: {shown(given)} is no list of keys, nor keys with gains") from None
    if not all(0 < gain < float("inf") for gain in gains.values()):
        raise broken(path, f"{where}: a gain is above 0")
    return gains


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
