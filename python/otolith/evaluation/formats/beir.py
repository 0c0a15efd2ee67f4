"""A folder in BEIR's layout: `corpus.jsonl`, `queries.jsonl`, and `qrels/test.tsv` or `qrels.tsv`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from otolith.evaluation.dataset import Collection, Dataset, Question

from ._files import broken, lines_of, name_in, text_of

__all__ = ["load_beir"]


def load_beir(folder: Path) -> Dataset:
    """Reads it. Questions that nothing is relevant to are left out, as its measures do.

    Args:
        folder: The folder.

    Raises:
        InvalidInput: A file is missing or broken.
    """
    left_out: Counter[str] = Counter()
    records: list[dict[str, Any]] = []
    for number, row in lines_of(folder / "corpus.jsonl"):
        key = name_in(row, "_id", folder / "corpus.jsonl", number)
        title, text = (str(row.get(name) or "").strip() for name in ("title", "text"))
        if not title and not text:
            left_out["documents without text"] += 1
            continue
        record: dict[str, Any] = {"key": key, "summary": text or title, "source": "document"}
        if title and text:
            record["title"] = title
        records.append(record)
    known = {record["key"] for record in records}
    wanted: dict[str, dict[str, float]] = {}
    for query, document, grade in _judgements(folder):
        if grade <= 0:
            continue
        if document in known:
            wanted.setdefault(query, {})[document] = grade
        else:
            left_out["judgements of documents that are not there"] += 1
    questions = []
    path = folder / "queries.jsonl"
    for number, row in lines_of(path):
        id = name_in(row, "_id", path, number)
        if id not in wanted:
            left_out["questions without judgement"] += 1
            continue
        questions.append(Question(id=id, text=name_in(row, "text", path, number), relevant=wanted[id]))
    collection = Collection(name=folder.name, records=records, questions=questions)
    return Dataset(name=folder.name, format="beir", collections=[collection], left_out=dict(left_out))


def _judgements(folder: Path) -> list[tuple[str, str, float]]:
    path = next((one for one in (folder / "qrels" / "test.tsv", folder / "qrels.tsv") if one.exists()), None)
    if path is None:
        raise broken(folder, "has neither qrels/test.tsv nor qrels.tsv")
    rows = []
    for number, line in enumerate(text_of(path).splitlines(), 1):
        if not line.strip() or (number == 1 and "score" in line):
            continue
        parts = line.split("\t")
        if len(parts) == 4:
            del parts[1]  # as TREC writes it: query, iteration, document, grade
        try:
            query, document, grade = parts
            rows.append((query, document, float(grade)))
        except ValueError:
            raise broken(path, "is not `query<TAB>document<TAB>grade`", number) from None
    return rows
