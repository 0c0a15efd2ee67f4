"""Durable writes, beside the sync floor of the disk."""

from itertools import count
from pathlib import Path
from typing import Any

from corpora import Corpus
from otolith import Memory


def test_remember_one(benchmark: Any, home: Path, data: Corpus, sync_floor_ms: float) -> None:
    with Memory.open(home, embedder="none") as memory:
        number = count()
        benchmark.pedantic(lambda: memory.remember(data.texts[next(number) % 1000]), rounds=200, iterations=1)
    benchmark.extra_info["sync_floor_ms"] = round(sync_floor_ms, 3)
    benchmark.extra_info["ratio_to_floor"] = round(benchmark.stats.stats.median * 1e3 / sync_floor_ms, 2)


def test_remember_one_with_vector(benchmark: Any, home: Path, data: Corpus, sync_floor_ms: float) -> None:
    with Memory.open(home, embedder="none") as memory:
        number = count()

        def write() -> None:
            i = next(number) % 1000
            memory.remember(data.texts[i], vector=data.vectors[i])

        benchmark.pedantic(write, rounds=200, iterations=1)
    benchmark.extra_info["sync_floor_ms"] = round(sync_floor_ms, 3)
    benchmark.extra_info["ratio_to_floor"] = round(benchmark.stats.stats.median * 1e3 / sync_floor_ms, 2)


def test_remember_many_1000(benchmark: Any, tmp_path: Path, data: Corpus, sync_floor_ms: float) -> None:
    with Memory.open(tmp_path / "home", embedder="none") as memory:

        def write() -> None:
            report = memory.remember_many(data.texts[:1000])
            assert report.written == 1000

        benchmark.pedantic(write, rounds=10, iterations=1)
    benchmark.extra_info["records_per_second"] = round(1000 / benchmark.stats.stats.median)
    benchmark.extra_info["sync_floor_ms"] = round(sync_floor_ms, 3)


def test_remember_many_1000_with_vectors(
    benchmark: Any, tmp_path: Path, data: Corpus, sync_floor_ms: float
) -> None:
    rows = [{"summary": t, "vector": v} for t, v in zip(data.texts[:1000], data.vectors[:1000], strict=True)]
    with Memory.open(tmp_path / "home", embedder="none") as memory:

        def write() -> None:
            report = memory.remember_many(rows)
            assert report.written == 1000

        benchmark.pedantic(write, rounds=10, iterations=1)
    benchmark.extra_info["records_per_second"] = round(1000 / benchmark.stats.stats.median)
    benchmark.extra_info["sync_floor_ms"] = round(sync_floor_ms, 3)
