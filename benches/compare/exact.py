"""BM25 in float64 over every document, and its answers: what every engine is measured against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .corpus import VOCABULARY, Chunk, Ints, chunks

# Engines add in float32 or in another order: a difference this small is a tie.
TIE = 1e-6


def _pairs(chunk: Chunk) -> tuple[Ints, Ints, Ints]:
    """(term, document, how often) of a chunk, sorted by term and document."""
    documents = np.repeat(np.arange(len(chunk)), np.diff(chunk.starts))
    pairs, often = np.unique(chunk.terms * len(chunk) + documents, return_counts=True)
    return pairs // len(chunk), pairs % len(chunk), often


def doc_freq(n: int) -> Ints:
    """In how many of the first `n` documents each word is."""
    total = np.zeros(VOCABULARY, dtype=np.int64)
    for chunk in chunks(n):
        total += np.bincount(_pairs(chunk)[0], minlength=VOCABULARY)
    return total


@dataclass(frozen=True)
class Answer:
    """What may be among the best `wanted`: those, and whatever scores as well as the last of them."""

    accepted: frozenset[int]
    wanted: int

    def recall(self, found: Sequence[int]) -> float:
        """Share of the best that was found."""
        return len(self.accepted.intersection(found[: self.wanted])) / self.wanted if self.wanted else 1.0


class ExactBm25:
    """Lucene's idf over live documents, k1 1.2, b .75; each distinct word of a question counts once.

    Args:
        n: How many documents of the corpus.
        terms: The words that will be asked for; no others are kept.
        dead: Documents that were removed: they are in no statistic and no answer.
    """

    def __init__(self, n: int, terms: Iterable[int], dead: Iterable[int] = ()) -> None:
        asked = np.unique(np.fromiter(terms, dtype=np.int64))
        self._live = np.ones(n, dtype=bool)
        self._live[np.fromiter(dead, dtype=np.int64)] = False
        parts: dict[int, list[tuple[Ints, Ints]]] = {int(term): [] for term in asked}
        lengths = []
        begin = 0
        for chunk in chunks(n):
            lengths.append(np.diff(chunk.starts))
            term, document, often = _pairs(chunk)
            kept = self._live[begin + document]
            term, document, often = term[kept], document[kept] + begin, often[kept]
            edges = np.stack((np.searchsorted(term, asked), np.searchsorted(term, asked, side="right")))
            for name, (start, end) in zip(asked.tolist(), edges.T.tolist(), strict=True):
                parts[name].append((document[start:end].astype(np.int32), often[start:end].astype(np.int32)))
            begin += len(chunk)
        self._postings = {
            name: (np.concatenate([d for d, _ in held]), np.concatenate([o for _, o in held]))
            for name, held in parts.items()
        }
        length = np.concatenate(lengths).astype(np.float64)
        self._norm = 1.2 * (0.25 + 0.75 * length / length[self._live].mean())

    def scores(self, terms: Iterable[int]) -> NDArray[np.float64]:
        """A score a document; 0 where no word is."""
        out = np.zeros(len(self._live))
        for term in dict.fromkeys(terms):
            documents, often = self._postings[term]
            out[documents] += self._idf(documents) * often * 2.2 / (often + self._norm[documents])
        return out

    def matched(self, terms: Iterable[int]) -> NDArray[np.float64]:
        """Which share of the question's idf each document holds."""
        out = np.zeros(len(self._live))
        whole = 0.0
        for term in dict.fromkeys(terms):
            documents, _ = self._postings[term]
            idf = self._idf(documents)
            out[documents] += idf
            whole += idf
        return out / whole

    def _idf(self, documents: Ints) -> float:
        live = int(self._live.sum())
        return float(np.log1p((live - len(documents) + 0.5) / (len(documents) + 0.5)))

    def answer(self, terms: Iterable[int], k: int = 10) -> Answer:
        """The best `k`, with ties."""
        scores = self.scores(terms)
        wanted = min(k, int(np.count_nonzero(scores)))
        if wanted == 0:
            return Answer(frozenset(), 0)
        last = np.partition(scores, -wanted)[-wanted]
        return Answer(frozenset(np.flatnonzero(scores >= last * (1 - TIE)).tolist()), wanted)
