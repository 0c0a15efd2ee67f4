"""The layout of coding-agent-life: `sessions.jsonl` or `sessions.json`, and `queries.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from otolith.evaluation.dataset import Collection, Dataset, Question

from ._files import broken, json_of, lines_of, name_in

__all__ = ["load_diary"]


def load_diary(folder: Path) -> Dataset:
    """Reads it; a record is a session.

    Args:
        folder: The folder.

    Raises:
        InvalidInput: A file is missing or broken.
    """
    lines = folder / "sessions.jsonl"
    path = lines if lines.exists() else folder / "sessions.json"
    rows = list(lines_of(path)) if path == lines else list(enumerate(_objects(path), 1))
    records = [
        {
            "key": name_in(row, "id", path, number),
            "summary": name_in(row, "content", path, number),
            "occurred_at": name_in(row, "timestamp", path, number),
        }
        for number, row in rows
    ]
    asked = folder / "queries.json"
    questions = [
        Question(
            id=name_in(row, "id", asked),
            text=name_in(row, "question", asked),
            relevant={str(one): 1.0 for one in row.get("goldSessionIds") or ()},
            category=row.get("type"),
        )
        for row in _objects(asked)
    ]
    collection = Collection(name="coding-agent-life", records=records, questions=questions)
    return Dataset(name="coding-agent-life", format="coding-agent-life", collections=[collection])


def _objects(path: Path) -> list[dict[str, Any]]:
    rows = json_of(path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise broken(path, "is no list of objects")
    return rows
