"""Data shared by the benchmarks, made once a session."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from corpora import Corpus, Queries, corpus, queries
from otolith import Memory

SIZE = 10_000


@pytest.fixture(scope="session")
def data() -> Corpus:
    return corpus(SIZE)


@pytest.fixture(scope="session")
def asked(data: Corpus) -> Queries:
    return queries(data)


@pytest.fixture(scope="session")
def home(data: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of 10,000 records with vectors."""
    path = tmp_path_factory.mktemp("bench") / "home"
    with Memory.open(path, embedder="none") as memory:
        records = (
            {"summary": text, "vector": vector, "session_id": f"s{i // 20}"}
            for i, (text, vector) in enumerate(zip(data.texts, data.vectors, strict=True))
        )
        report = memory.remember_many(records)
        assert report.written == SIZE
    return path


@pytest.fixture
def memory(home: Path) -> Iterator[Memory]:
    with Memory.open(home, embedder="none") as opened:
        opened.recall("warm", vector=np.ones(384))
        yield opened


@pytest.fixture
def sync_floor_ms(tmp_path: Path) -> float:
    """Median of appending 4 KiB and syncing, in milliseconds: what any durable write costs on this disk."""
    times = []
    with (tmp_path / "floor").open("ab", buffering=0) as file:
        for _ in range(50):
            start = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[len(times) // 2]
