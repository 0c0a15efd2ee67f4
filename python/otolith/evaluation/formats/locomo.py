"""LoCoMo (Maharana et al. 2024): conversations, and questions with the turns that answer them.

A memory a conversation; a record is a turn. The evidence of some questions is misspelt: every
`D<number>:<number>` in it counts, also with a colon behind the D or zeros in front, if there is such a turn.
A question that is left without is left out. Judged by turns, and by sessions: there a turn counts through
its session.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from otolith.evaluation.dataset import Collection, Dataset, Question
from otolith.exceptions import OtolithError
from otolith.transfer.locomo import records_of, samples_of

from ._files import broken

__all__ = ["load_locomo"]

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}

_EVIDENCE = re.compile(r"D:?([0-9]+):([0-9]+)")


def load_locomo(path: Path, document: Any) -> Dataset:
    """Makes a dataset of it.

    Args:
        path: Its file.
        document: What it holds.

    Raises:
        InvalidInput: A turn cannot be read.
    """
    left_out: Counter[str] = Counter()
    collections = []
    for sample in samples_of(document):
        try:
            records = records_of(sample, zone=None)
        except OtolithError as error:
            raise broken(path, str(error)) from None
        name = str(sample["sample_id"])
        turns = {record["metadata"]["dia_id"]: record["key"] for record in records}
        questions = []
        for place, asked in enumerate(sample.get("qa") or ()):
            relevant = _evidence(asked.get("evidence") or (), turns)
            if not relevant:
                left_out["questions without evidence"] += 1
                continue
            questions.append(
                Question(
                    id=f"{name}/{place}",
                    text=str(asked["question"]),
                    relevant=relevant,
                    category=CATEGORIES.get(asked.get("category"), str(asked.get("category"))),
                )
            )
        collections.append(Collection(name=name, records=records, questions=questions))
    return Dataset(
        name=path.stem, format="locomo", collections=collections, sessions=True, left_out=dict(left_out)
    )


def _evidence(given: Any, turns: dict[str, str]) -> dict[str, float]:
    """The keys of the turns that are named."""
    named = [f"D{int(session)}:{int(turn)}" for one in given for session, turn in _EVIDENCE.findall(str(one))]
    return {turns[one]: 1.0 for one in named if one in turns}
