"""MemoryBank (Zhong et al. 2023), its Chinese part: ten days of chat with each of fifteen people.

A memory a person; a record is an exchange, a day is a session. What answers a question was labelled for this
project: `day.exchange`, both counted from 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from otolith.evaluation.dataset import Collection, Dataset, Question

from ._files import broken, json_of, lines_of, name_in

__all__ = ["load_memorybank"]


def load_memorybank(folder: Path) -> Dataset:
    """Reads it.

    Args:
        folder: With `memory_bank_cn.json` and `evidence_cn.jsonl`.

    Raises:
        InvalidInput: A file is missing or broken.
    """
    path = folder / "memory_bank_cn.json"
    people = json_of(path)
    asked: dict[str, list[Question]] = {}
    labels = folder / "evidence_cn.jsonl"
    for number, row in lines_of(labels):
        question = Question(
            id=name_in(row, "qid", labels, number),
            text=name_in(row, "question", labels, number),
            relevant={str(one): 1.0 for one in row.get("evidence") or ()},
        )
        asked.setdefault(name_in(row, "user", labels, number), []).append(question)
    try:
        collections = [
            Collection(name=person, records=_records(person, told), questions=asked.get(person, []))
            for person, told in people.items()
        ]
    except (AttributeError, KeyError, TypeError):
        raise broken(path, "is not laid out as MemoryBank is") from None
    return Dataset(name="memorybank-zh", format="memorybank", collections=collections)


def _records(person: str, told: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "key": f"{day}.{place}",
            "summary": f"{exchange['query']}\n{exchange['response']}",
            "occurred_at": f"{date}T12:00:00+00:00",
            "session_id": f"{person}/{day}",
            "source": "conversation",
        }
        for day, (date, exchanges) in enumerate(told["history"].items())
        for place, exchange in enumerate(exchanges)
    ]
