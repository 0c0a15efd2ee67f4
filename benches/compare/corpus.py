"""Seeded documents and questions; document i is the same whatever the size.

Documents have 40 to 120 words. Three quarters of them follow one law of frequency for all, a quarter that of
the document's topic: rare words then meet in the same documents, as they do in notes about one thing. A word
is a run of ASCII letters, so that every engine reads the same terms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

SEED = 20_270_114
CHUNK = 10_000
VOCABULARY = 50_000
TOPICS = 400
WORDS_OF_A_TOPIC = 500
KINDS = ("selective", "common", "natural")

# The most frequent words, in this order; "the fix" opens every question of the kind `common`.
_FREQUENT = """
the fix of to and a in for is test was that on error with it as by file not after run this build from at when
agent failed then but user now be task had log are import server retry module call has set path new which
config
"""


@cache
def vocabulary() -> list[str]:
    """Distinct words, the most frequent first."""
    rng = np.random.default_rng([SEED, 0])
    starts = [*"bcdfghjklmnprstvwz", "ch", "sh", "st", "tr", "pl"]
    syllables = [start + vowel for start in starts for vowel in "aeiou"]
    words = dict.fromkeys(_FREQUENT.split())
    while len(words) < VOCABULARY:
        lengths = rng.integers(2, 5, size=VOCABULARY).tolist()
        for length, picks in zip(
            lengths, rng.integers(0, len(syllables), size=(VOCABULARY, 4)).tolist(), strict=True
        ):
            words.setdefault("".join(syllables[i] for i in picks[:length]))
    return list(words)[:VOCABULARY]


def _frequencies(words: int) -> NDArray[np.float64]:
    """Zipf's law with Mandelbrot's shift, summed up."""
    weights = (np.arange(words) + 2.7) ** -1.05
    return np.cumsum(weights / weights.sum())


@cache
def _topics() -> Ints:
    """The words of each topic, none of them among the most frequent hundred."""
    rng = np.random.default_rng([SEED, 1])
    rows = [rng.permutation(VOCABULARY - 100)[:WORDS_OF_A_TOPIC] + 100 for _ in range(TOPICS)]
    return np.stack(rows)


@dataclass(frozen=True)
class Chunk:
    """Documents as numbers of words: those of document i are `terms[starts[i]:starts[i + 1]]`.

    Attributes:
        topics: The topic of each document.
    """

    terms: Ints
    starts: Ints
    topics: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    def document(self, i: int) -> Ints:
        """The words of one."""
        return self.terms[self.starts[i] : self.starts[i + 1]]

    def first(self, count: int) -> Chunk:
        """Its first documents."""
        return Chunk(self.terms[: self.starts[count]], self.starts[: count + 1], self.topics[:count])


def chunks(n: int) -> Iterator[Chunk]:
    """The first `n` documents, 10,000 at a time."""
    topics = _topics()
    general, special = _frequencies(VOCABULARY), _frequencies(WORDS_OF_A_TOPIC)
    for number, begin in enumerate(range(0, n, CHUNK)):
        rng = np.random.default_rng([SEED, 2, number])
        lengths = rng.integers(40, 121, size=CHUNK)
        topics_of = rng.integers(0, TOPICS, size=CHUNK)
        topic = np.repeat(topics_of, lengths)
        total = int(lengths.sum())
        terms = np.searchsorted(general, rng.random(total)).clip(max=VOCABULARY - 1)
        of_topic = np.searchsorted(special, rng.random(total)).clip(max=WORDS_OF_A_TOPIC - 1)
        own = rng.random(total) < 0.25
        terms[own] = topics[topic[own], of_topic[own]]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        yield Chunk(terms, starts, topics_of).first(min(CHUNK, n - begin))


@dataclass(frozen=True)
class Question:
    """What is asked, the numbers of its words, and the document it was made for."""

    text: str
    terms: tuple[int, ...]
    about: int


def questions(n: int, doc_freq: Ints, count: int) -> dict[str, list[Question]]:
    """`count` of each kind, about documents that are in the corpus at every size of at least `CHUNK`.

    selective: two or three words of one document, each in at most one of 500 documents. common: "the fix" and
    two more of the thirty most frequent words. natural: three of the twenty most frequent, three of one
    document, and a rare one of it.
    """
    words = vocabulary()
    rng = np.random.default_rng([SEED, 3])
    head = next(chunks(min(n, CHUNK)))
    rare_at_most = max(20, n // 500)
    out: dict[str, list[Question]] = {kind: [] for kind in KINDS}

    def add(kind: str, about: int, terms: Ints) -> None:
        distinct = tuple(dict.fromkeys(terms.tolist()))
        out[kind].append(Question(" ".join(words[t] for t in distinct), distinct, about))

    while len(out["natural"]) < count:
        about = int(rng.integers(len(head)))
        own = np.unique(head.document(about))
        rare = own[(doc_freq[own] >= 2) & (doc_freq[own] <= rare_at_most)]
        if len(rare) < 3:
            continue
        add("selective", about, rng.permutation(rare)[: int(rng.integers(2, 4))])
        add("common", about, np.concatenate(([0, 1], 2 + rng.permutation(28)[:2])))
        frequent, some = rng.permutation(20)[:3], rng.permutation(own)[:3]
        add("natural", about, np.concatenate((frequent, some, rng.permutation(rare)[:1])))
    return out


class Files:
    """The texts on disk, a line each, made once. Another corpus.py has another folder."""

    def __init__(self, work: Path) -> None:
        digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
        self.folder = work / f"corpus-{digest}"

    def _file(self, chunk: int) -> Path:
        return self.folder / f"{chunk:05}.txt"

    def make(self, n: int) -> None:
        """Writes what is not there of the first `n` documents, in whole chunks."""
        self.folder.mkdir(parents=True, exist_ok=True)
        numbers = range(-(-n // CHUNK))
        if all(self._file(number).exists() for number in numbers):
            return
        words = np.array(vocabulary(), dtype=object)
        for number, chunk in enumerate(chunks(len(numbers) * CHUNK)):
            lines = "".join(" ".join(words[chunk.document(i)]) + "\n" for i in range(len(chunk)))
            draft = self._file(number).with_suffix(".draft")
            draft.write_text(lines, encoding="ascii")
            draft.replace(self._file(number))

    def texts(self, begin: int, end: int) -> list[str]:
        """The texts of documents `begin` to `end`."""
        found: list[str] = []
        for number in range(begin // CHUNK, -(-end // CHUNK)):
            lines = self._file(number).read_text(encoding="ascii").splitlines()
            base = number * CHUNK
            found += lines[max(0, begin - base) : end - base]
        return found

    def batches(self, n: int, size: int) -> Iterator[list[str]]:
        """The texts of the first `n` documents, `size` at a time."""
        for begin in range(0, n, size):
            yield self.texts(begin, min(begin + size, n))
