"""Both legs by hand: an engine of words and one of vectors side by side, fifty of each, scores joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Protocol

from compare.rivals import Bm25s, Tantivy

from .engine import Engine, Supply
from .rivals import Usearch, UsearchBf16
from .sets import Asked

K, DEPTH, EF = 10, 50, 64
Scored = tuple[list[int], list[float]]


class Words(Protocol):
    """An engine of words that tells its scores."""

    def load_code(self) -> None: ...
    def build(self, batches: Any) -> None: ...
    def save(self) -> None: ...
    def open(self) -> None: ...
    def best(self, text: str) -> Scored: ...


class ScoredBm25s(Bm25s):
    """With the scores of the best."""

    def best(self, text: str) -> Scored:
        found, scores = self._index.retrieve([text.split()], k=DEPTH, show_progress=False, n_threads=0)
        return found[0].tolist(), scores[0].tolist()


class ScoredTantivy(Tantivy):
    """With the scores of the best."""

    def best(self, text: str) -> Scored:
        query = self._index.parse_query(text, ["text"])
        found = self._searcher.search(query, DEPTH, count=False).hits
        numbers = self._searcher.fast_field_values("number", [address for _, address in found])
        return numbers, [score for score, _ in found]


def join(words: Scored, vectors: Scored) -> list[int]:
    """The ten best by the sum of both scores, each over its leg's best; what a leg lacks counts nothing."""
    joined: dict[int, float] = {}
    for numbers, scores in (words, vectors):
        best = max(scores, default=0.0)
        if best > 0:
            for number, score in zip(numbers, scores, strict=True):
                joined[number] = joined.get(number, 0.0) + score / best
    return sorted(joined, key=joined.__getitem__, reverse=True)[:K]


class Pair(Engine):
    """Both in one folder."""

    both = True
    efs = (None,)
    words_kind: ClassVar[type[Any]]
    vectors_kind: ClassVar[type[Usearch]]

    def __init__(self, folder: Path, width: int) -> None:
        super().__init__(folder, width)
        self._words: Words = self.words_kind(folder / "words")
        self._vectors = self.vectors_kind(folder / "vectors", width)

    def changes(self) -> bool:
        return False

    def load_code(self) -> None:
        for part in ("words", "vectors"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self._words.load_code()
        self._vectors.load_code()

    def build(self, supply: Supply) -> None:
        parts = list(supply)
        self._words.build(texts for texts, _ in parts)
        self._vectors.build(parts)
        self.effort(None)

    def save(self) -> None:
        self._words.save()
        self._vectors.save()

    def open(self) -> None:
        self._words.open()
        self._vectors.open()
        self.effort(None)

    def effort(self, ef: int | None) -> None:
        self._vectors.effort(EF if ef is None else ef)

    def ask(self, asked: Asked) -> list[int]:
        near = self._vectors.best(asked, DEPTH)
        return join(self._words.best(asked.text), near)


class Bm25sUsearch(Pair):
    """The fastest pair that can be put together in Python."""

    name = "bm25s+usearch"
    title = "bm25s (numba) + usearch bf16"
    packages = ("bm25s", "numba", "usearch")
    words_kind = ScoredBm25s
    vectors_kind = UsearchBf16


class TantivyUsearch(Pair):
    """The pair that is quickly opened."""

    name = "tantivy+usearch"
    title = "tantivy + usearch f32"
    packages = ("tantivy", "usearch")
    words_kind = ScoredTantivy
    vectors_kind = Usearch
