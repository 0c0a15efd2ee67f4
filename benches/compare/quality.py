"""Words alone on judged questions: a faster index that finds less is no gain. The data are not kept here."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from otolith import Memory

Judged = dict[str, set[str]]
Measure = Callable[[list[str], set[str], int], float]


def share_at(found: list[str], wanted: set[str], k: int) -> float:
    """Which share of what is wanted is among the first `k`."""
    return len(wanted.intersection(found[:k])) / len(wanted)


def ndcg_at(found: list[str], wanted: set[str], k: int) -> float:
    """nDCG with gains of 0 and 1."""
    gained = sum(1 / math.log2(rank + 2) for rank, id in enumerate(found[:k]) if id in wanted)
    return gained / sum(1 / math.log2(rank + 2) for rank in range(min(k, len(wanted))))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def ranked(records: list[dict[str, Any]], questions: dict[str, str]) -> dict[str, list[str]]:
    """The keys of the ten best records of each question, by words alone."""
    with tempfile.TemporaryDirectory() as place, Memory.open(Path(place) / "home", embedder=None) as memory:
        report = memory.remember_many(records)
        if report.failed:
            raise RuntimeError(f"{len(report.failed)} records were refused: {report.failed[0]}")
        return {
            name: [str(hit.episode.key) for hit in memory.recall(text, k=10, legs=("lexical",))]
            for name, text in questions.items()
        }


def beir(folder: Path) -> tuple[dict[str, list[str]], Judged]:
    """A corpus in BEIR's layout: what was found and what is wanted."""
    records = [
        {"summary": row["text"], "title": row.get("title") or None, "key": row["_id"]}
        for row in _lines(folder / "corpus.jsonl")
    ]
    wanted: Judged = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        question, document, grade = line.split("\t")
        if int(grade) > 0:
            wanted.setdefault(question, set()).add(document)
    questions = {row["_id"]: row["text"] for row in _lines(folder / "queries.jsonl") if row["_id"] in wanted}
    return ranked(records, questions), wanted


def memorybank(folder: Path) -> tuple[dict[str, list[str]], Judged]:
    """A memory a user; a record is one exchange with its day, `day.exchange` counted from 0."""
    users = json.loads((folder / "memory_bank_cn.json").read_text(encoding="utf-8"))
    judged = list(_lines(folder / "evidence_cn.jsonl"))
    found: dict[str, list[str]] = {}
    for user, told in users.items():
        records = [
            {
                "summary": f"{exchange['query']}\n{exchange['response']}",
                "occurred_at": f"{date}T12:00:00+00:00",
                "key": f"{day}.{place}",
            }
            for day, (date, exchanges) in enumerate(told["history"].items())
            for place, exchange in enumerate(exchanges)
        ]
        found |= ranked(records, {row["qid"]: row["question"] for row in judged if row["user"] == user})
    return found, {row["qid"]: set(row["evidence"]) for row in judged}


def _mean(found: dict[str, list[str]], wanted: Judged, measure: Measure, k: int) -> float:
    return sum(measure(found[name], wanted[name], k) for name in wanted) / len(wanted)


def gates(folder: Path) -> Iterator[dict[str, Any]]:
    """The three measures; a set that is not there is named."""
    for name, place, read, measure, k in (
        ("SciFact nDCG@10", "scifact", beir, ndcg_at, 10),
        ("XQuAD-zh R@1", "xquad/zh", beir, share_at, 1),
        ("MemoryBank-zh R@5", "memorybank-zh", memorybank, share_at, 5),
    ):
        if (folder / place).is_dir():
            found, wanted = read(folder / place)
            yield {
                "metric": "quality",
                "what": name,
                "value": _mean(found, wanted, measure, k),
                "asked": len(wanted),
            }
        else:
            yield {"metric": "missing", "what": f"{name}: no folder {place}"}
