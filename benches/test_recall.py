"""Questions to 10,000 records, with recall@10 against exact scores beside the time."""

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import Corpus, NaiveBm25, Queries, recall_at_10
from otolith import HybridIndex, IndexParams, Memory


@pytest.fixture(scope="module")
def index(data: Corpus) -> HybridIndex:
    built = HybridIndex(384, params=IndexParams(analyzer="plain"))
    built.insert_many([str(i) for i in range(len(data.texts))], data.texts, data.vectors)
    return built


@pytest.fixture(scope="module")
def bm25(data: Corpus) -> NaiveBm25:
    return NaiveBm25(data.terms)


def fused(lexical: np.ndarray, cosine: np.ndarray) -> np.ndarray:
    """The documented weighted fusion, over every document."""
    return 0.5 * lexical / lexical.max() + 0.5 * np.clip(cosine / cosine.max(), 0, 1)


def cycle(asked: Queries) -> Any:
    numbers = count()
    return lambda: next(numbers) % len(asked.texts)


def test_index_lexical(benchmark: Any, index: HybridIndex, bm25: NaiveBm25, asked: Queries) -> None:
    found = [
        recall_at_10([h.id for h in index.search(q, k=10)], bm25.scores(t))
        for q, t in zip(asked.texts, asked.terms, strict=True)
    ]
    benchmark.extra_info["recall_at_10"] = round(float(np.mean(found)), 4)
    turn = cycle(asked)
    benchmark(lambda: index.search(asked.texts[turn()], k=10))
    assert np.mean(found) > 0.999


def test_index_vector(benchmark: Any, index: HybridIndex, data: Corpus, asked: Queries) -> None:
    gold = asked.vectors @ data.vectors.T
    found = [
        recall_at_10([h.id for h in index.search(vector=v, k=10)], g)
        for v, g in zip(asked.vectors, gold, strict=True)
    ]
    benchmark.extra_info["recall_at_10"] = round(float(np.mean(found)), 4)
    turn = cycle(asked)
    benchmark(lambda: index.search(vector=asked.vectors[turn()], k=10))
    assert np.mean(found) > 0.999


def test_index_hybrid(
    benchmark: Any, index: HybridIndex, bm25: NaiveBm25, data: Corpus, asked: Queries
) -> None:
    found = []
    for text, terms, vector in zip(asked.texts, asked.terms, asked.vectors, strict=True):
        gold = fused(bm25.scores(terms), data.vectors @ vector)
        found.append(recall_at_10([h.id for h in index.search(text, vector, k=10)], gold))
    benchmark.extra_info["recall_at_10"] = round(float(np.mean(found)), 4)
    turn = cycle(asked)

    def ask() -> None:
        i = turn()
        index.search(asked.texts[i], asked.vectors[i], k=10)

    benchmark(ask)
    assert np.mean(found) > 0.995


def test_memory_lexical(benchmark: Any, memory: Memory, data: Corpus, asked: Queries) -> None:
    """Share of questions whose ten best are those of the whole ranking."""
    whole = [memory.recall(text, k=1000) for text in asked.texts[:50]]
    cut = [memory.recall(text, k=10) for text in asked.texts[:50]]
    same = [[h.id for h in a[:10]] == [h.id for h in b] for a, b in zip(whole, cut, strict=True)]
    benchmark.extra_info["cut_equals_whole"] = float(np.mean(same))
    turn = cycle(asked)
    benchmark(lambda: memory.recall(asked.texts[turn()], k=10))
    assert all(same)


def test_memory_vector(benchmark: Any, memory: Memory, data: Corpus, asked: Queries) -> None:
    place = {text: str(i) for i, text in enumerate(data.texts)}
    gold = asked.vectors @ data.vectors.T
    found = []
    for vector, scores in zip(asked.vectors, gold, strict=True):
        hits = memory.recall(vector=vector, k=10)
        found.append(recall_at_10([place[h.episode.summary] for h in hits], scores))
    benchmark.extra_info["recall_at_10"] = round(float(np.mean(found)), 4)
    turn = cycle(asked)
    benchmark(lambda: memory.recall(vector=asked.vectors[turn()], k=10))
    assert np.mean(found) > 0.999


def test_memory_hybrid(benchmark: Any, memory: Memory, asked: Queries) -> None:
    whole = [
        memory.recall(t, k=1000, vector=v) for t, v in zip(asked.texts[:50], asked.vectors[:50], strict=True)
    ]
    cut = [
        memory.recall(t, k=10, vector=v) for t, v in zip(asked.texts[:50], asked.vectors[:50], strict=True)
    ]
    same = [[h.id for h in a[:10]] == [h.id for h in b] for a, b in zip(whole, cut, strict=True)]
    benchmark.extra_info["cut_equals_whole"] = float(np.mean(same))
    turn = cycle(asked)

    def ask() -> None:
        i = turn()
        memory.recall(asked.texts[i], k=10, vector=asked.vectors[i])

    benchmark(ask)
    assert all(same)


def test_open_and_first_answer(benchmark: Any, home: Path, asked: Queries) -> None:
    """Builds the copy in memory from the store."""

    def start() -> int:
        with Memory.open(home, embedder="none", read_only=True) as memory:
            return len(memory.recall(asked.texts[0], k=10))

    hits = benchmark.pedantic(start, rounds=5, iterations=1)
    benchmark.extra_info["hits"] = hits


def test_open_get_close(benchmark: Any, home: Path) -> None:
    """A short-lived reader: no index is built."""
    with Memory.open(home, embedder="none", read_only=True) as memory:
        known = next(iter(memory.episodes(limit=1))).id

    def read() -> None:
        with Memory.open(home, embedder="none", read_only=True) as memory:
            memory.get(known)

    benchmark(read)
