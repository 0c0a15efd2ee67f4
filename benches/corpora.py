"""Seeded data for the benchmarks: the same whatever the machine, document i the same whatever the size."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SEED = 20_260_401
VOCABULARY = 20_000
TOPICS = 200
DIM = 384
CHUNK = 2_000

_ONSETS = [
    "b",
    "c",
    "d",
    "f",
    "g",
    "h",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "z",
    "br",
    "dr",
    "gr",
    "kr",
    "pl",
    "st",
    "tr",
]
_VOWELS = ["a", "e", "i", "o", "u", "ai", "ou"]


@dataclass(frozen=True)
class Corpus:
    """Texts, their term numbers (for exact scores), and unit vectors (n, 384) float32."""

    texts: list[str]
    terms: list[NDArray[np.int64]]
    vectors: NDArray[np.float32]


def vocabulary() -> list[str]:
    """Distinct words of two to four syllables, frequent ones first."""
    rng = np.random.default_rng(SEED)
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        syllables = rng.integers(2, 5)
        word = "".join(str(rng.choice(_ONSETS)) + str(rng.choice(_VOWELS)) for _ in range(syllables))
        words.setdefault(f"{word}q")  # ends in a letter no stemmer touches
    return list(words)


def _topic_vectors() -> NDArray[np.float64]:
    return np.random.default_rng([SEED, 1]).normal(size=(TOPICS, DIM))


def _draw(rng: np.random.Generator, size: int, spread: float) -> NDArray[np.int64]:
    """Word ranks by a Zipf law, folded into the vocabulary."""
    return ((rng.zipf(spread, size) - 1) % VOCABULARY).astype(np.int64)


def corpus(n: int) -> Corpus:
    """`n` documents of 40 to 120 words, a quarter of them from the document's topic."""
    words, topics = vocabulary(), _topic_vectors()
    texts, terms, vectors = [], [], []
    for chunk in range((n + CHUNK - 1) // CHUNK):
        rng = np.random.default_rng([SEED, 2, chunk])
        for _ in range(CHUNK):
            topic = int(rng.integers(TOPICS))
            length = int(rng.integers(40, 121))
            ids = _draw(rng, length, 1.15)
            own = rng.random(length) < 0.25
            ids[own] = (1_000 + topic * 90 + rng.integers(0, 90, int(own.sum()))) % VOCABULARY
            vector = topics[topic] + rng.normal(scale=1.4, size=DIM)
            terms.append(ids)
            texts.append(" ".join(words[i] for i in ids))
            vectors.append(vector / np.linalg.norm(vector))
    return Corpus(texts[:n], terms[:n], np.asarray(vectors[:n], dtype=np.float32))


@dataclass(frozen=True)
class Queries:
    """Query texts, their term numbers, and unit vectors (n, 384) float32."""

    texts: list[str]
    terms: list[NDArray[np.int64]]
    vectors: NDArray[np.float32]


def queries(data: Corpus, n: int = 200) -> Queries:
    """Four words from a document and a vector near its own."""
    rng = np.random.default_rng([SEED, 3])
    words = vocabulary()
    picks = rng.integers(len(data.texts), size=n)
    terms = [rng.choice(np.unique(data.terms[i]), 4, replace=False) for i in picks]
    vectors = data.vectors[picks] + rng.normal(scale=0.03, size=(n, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Queries([" ".join(words[i] for i in t) for t in terms], terms, vectors.astype(np.float32))


class NaiveBm25:
    """BM25 in float64 over every document, the slow way: what the index is measured against."""

    def __init__(self, terms: list[NDArray[np.int64]], k1: float = 1.2, b: float = 0.75) -> None:
        lengths = np.array([len(t) for t in terms], dtype=np.float64)
        self.norm = k1 * (1 - b + b * lengths / lengths.mean())
        self.k1 = k1
        self.counts: dict[int, dict[int, int]] = {}
        for doc, ids in enumerate(terms):
            for term in ids.tolist():
                postings = self.counts.setdefault(term, {})
                postings[doc] = postings.get(doc, 0) + 1
        self.n = len(terms)

    def scores(self, query: NDArray[np.int64]) -> NDArray[np.float64]:
        """One score a document, shape (n,)."""
        out = np.zeros(self.n)
        for term in dict.fromkeys(query.tolist()):
            postings = self.counts.get(term, {})
            idf = np.log1p((self.n - len(postings) + 0.5) / (len(postings) + 0.5))
            docs = np.fromiter(postings, dtype=np.int64, count=len(postings))
            tf = np.fromiter(postings.values(), dtype=np.float64, count=len(postings))
            out[docs] += idf * tf * (self.k1 + 1) / (tf + self.norm[docs])
        return out


def recall_at_10(found: list[str], gold: NDArray[np.float64]) -> float:
    """Share of the ten best by `gold` that were found; documents as good as the tenth count as well."""
    k = min(10, int((gold > 0).sum()))
    if k == 0:
        return 1.0
    cut = np.sort(gold)[-k] - 1e-5
    return sum(gold[int(name)] >= cut for name in found[:k]) / k
