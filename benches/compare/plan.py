"""Questions of one size with their exact answers, made once and kept in a file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from .corpus import KINDS, Files, Question, questions
from .exact import Answer, ExactBm25, doc_freq


@dataclass(frozen=True)
class Kind:
    """The questions of one kind and what may be answered."""

    questions: list[Question]
    answers: list[Answer]

    def texts(self) -> list[str]:
        return [question.text for question in self.questions]

    def recall(self, found: list[list[int]]) -> float:
        """Of the questions that were asked, the first of the list."""
        shares = [answer.recall(one) for answer, one in zip(self.answers, found, strict=False)]
        return sum(shares) / len(shares)


class Plan:
    """What is asked of `n` documents.

    Args:
        work: A folder for what is made once.
        n: How many documents.
        count: How many questions of each kind.
    """

    def __init__(self, work: Path, n: int, count: int) -> None:
        self.n, self.count = n, count
        self.files = Files(work)
        here = Path(__file__).parent
        code = b"".join((here / name).read_bytes() for name in ("exact.py", "plan.py"))
        digest = hashlib.sha256(code).hexdigest()[:12]
        self._file = self.files.folder / f"questions-{n}-{count}-{digest}.json"

    def make(self, extra: int) -> None:
        """Writes the texts, `extra` documents beyond the size among them, and the questions."""
        self.files.make(self.n + extra)
        if self._file.exists():
            return
        asked = questions(self.n, doc_freq(self.n), self.count)
        exact = exact_for(self.n, asked)
        written = {
            kind: [
                {
                    "text": q.text,
                    "terms": q.terms,
                    "about": q.about,
                    "accepted": sorted(a.accepted),
                    "wanted": a.wanted,
                }
                for q in asked[kind]
                for a in [exact.answer(q.terms)]
            ]
            for kind in KINDS
        }
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps(written), encoding="utf-8")
        draft.replace(self._file)

    def kinds(self) -> dict[str, Kind]:
        """The questions and answers by kind."""
        read = json.loads(self._file.read_text(encoding="utf-8"))
        return {
            kind: Kind(
                [Question(row["text"], tuple(row["terms"]), row["about"]) for row in rows],
                [Answer(frozenset(row["accepted"]), row["wanted"]) for row in rows],
            )
            for kind, rows in read.items()
        }


def exact_for(n: int, asked: dict[str, list[Question]], dead: list[int] | None = None) -> ExactBm25:
    """Exact BM25 over `n` documents without the dead ones, for these questions."""
    return ExactBm25(n, {term for of_kind in asked.values() for q in of_kind for term in q.terms}, dead or ())
