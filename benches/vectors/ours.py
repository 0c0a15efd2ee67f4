"""Otolith through its public API: vectors alone, both legs, and the memory around them."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from compare import clock
from otolith import HybridIndex, IdSet, IndexParams, Memory

from .engine import EFS, Engine, Supply
from .rows import Floats
from .sets import Asked

K = 10
# Up to so many numbers every row is compared, unless a graph is asked for.
SCANNED = 8 * 2**20


class Index(Engine):
    """`HybridIndex` with vectors alone and its default settings."""

    name = "otolith"
    title = "HybridIndex"
    efs = (None, *EFS)
    params: ClassVar[dict[str, Any]] = {}

    def __init__(self, folder: Path, width: int) -> None:
        super().__init__(folder, width)
        self._file = folder / "index"
        self._options: dict[str, Any] = {}
        self.index = HybridIndex(width, params=IndexParams(**self.params))

    def build(self, supply: Supply) -> None:
        number = count()
        for texts, rows in supply:
            self.index.insert_many([str(next(number)) for _ in rows], texts or None, rows)
        self.index.compact()

    def save(self) -> None:
        self.index.save(self._file)

    def open(self) -> None:
        self.index = HybridIndex.load(self._file)

    def walks(self, n: int) -> tuple[int | None, ...]:
        compared = n * self.width <= SCANNED and self.params.get("exact_below") != 0
        return (None,) if compared else self.efs

    def effort(self, ef: int | None) -> None:
        self._options = {} if ef is None else {"ef_search": ef}

    def ask(self, asked: Asked) -> list[int]:
        return [int(hit.id) for hit in self.index.search(vector=asked.vector, k=K, **self._options)]

    def subset(self, ids: list[str]) -> IdSet:
        """The ids, looked up once."""
        return self.index.subset(ids)

    def ask_among(self, asked: Asked, ids: list[str] | IdSet) -> list[int]:
        """The ten best of these."""
        found = self.index.search(vector=asked.vector, k=K, ids=ids, **self._options)
        return [int(hit.id) for hit in found]

    def insert(self, number: int, row: Floats) -> None:
        self.index.insert(str(number), vector=row)

    def remove(self, number: int) -> None:
        if not self.index.remove(str(number)):
            raise LookupError(f"document {number} was not there")


class Graph(Index):
    """The same with a graph whatever the size."""

    name = "otolith-graph"
    title = "HybridIndex, exact_below=0"
    params: ClassVar[dict[str, Any]] = {"exact_below": 0}


class Both(Index):
    """`HybridIndex` with words, by the plain analyzer, and vectors."""

    name = "otolith-both"
    title = "HybridIndex, with words"
    both = True
    efs = (None,)
    params: ClassVar[dict[str, Any]] = {"analyzer": "plain"}

    def ask(self, asked: Asked) -> list[int]:
        return [int(hit.id) for hit in self.index.search(asked.text, asked.vector, k=K)]


class Recall(Engine):
    """`Memory.recall` with given vectors: ids, text and the report of every answer are read."""

    name = "otolith-memory"
    title = "Memory.recall"
    both = True
    efs = (None,)

    def __init__(self, folder: Path, width: int) -> None:
        super().__init__(folder, width)
        self.home = folder / "home"

    def changes(self) -> bool:
        return False  # measured beside SQLite: docs/benchmarks-store.md

    def build(self, supply: Supply) -> None:
        self.open()
        number = count()
        for texts, rows in supply:
            records = (
                {"summary": text, "key": str(next(number)), "vector": row}
                for text, row in zip(texts, rows, strict=True)
            )
            report = self._memory.remember_many(records)
            if report.failed or report.vectors_refused:
                raise RuntimeError(
                    f"{len(report.failed)} records and {report.vectors_refused} vectors were refused"
                )
        self.ask(Asked("fix", np.ones(self.width, dtype=np.float32)))  # makes the index on disk

    def settle(self, quiet: float) -> None:
        """Waits until upkeep, which begins after ten seconds, has left the index alone for so long."""
        begin = changed = time.monotonic()
        state: list[tuple[str, int]] = []
        self.ask(Asked("fix", np.ones(self.width, dtype=np.float32)))
        while time.monotonic() < min(max(begin + 12, changed + quiet), begin + 300):
            now = sorted((file.name, file.stat().st_size) for file in clock.files(self.home / "index"))
            if now != state:
                state, changed = now, time.monotonic()
            time.sleep(0.5)

    def compact(self) -> None:
        """Makes the store as small as its content."""
        self._memory.compact()

    def open(self) -> None:
        self._memory = Memory.open(self.home, embedder=None, config={"analyzer.name": "plain"})

    def ask(self, asked: Asked) -> list[int]:
        report = self._memory.recall(asked.text, K, vector=asked.vector)
        read = [(hit.id, hit.episode.summary, hit.episode.key) for hit in report]
        for name, leg in report.legs.items():
            if not leg.ran:
                raise RuntimeError(f"the {name} leg did not run: {leg.reason}")
        return [int(key) for _, _, key in read if key is not None]

    def close(self) -> None:
        self._memory.close()
