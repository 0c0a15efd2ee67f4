"""Otolith through its public API: the bare index, and the memory around it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from otolith import HybridIndex, IndexParams, Memory
from otolith.config import SETTINGS

from .engine import Engine

K = 10
NOT_PLAIN = "the setting analyzer.name: Memory is measured with the default analyzer"


class Index(Engine):
    """`HybridIndex` with the plain analyzer, as every other engine reads text."""

    name = "otolith"
    title = "HybridIndex, plain analyzer"
    params: ClassVar[IndexParams] = IndexParams(analyzer="plain")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._file = folder / "index"
        self.index = HybridIndex(params=self.params)

    def persists(self) -> bool:
        return hasattr(HybridIndex, "save") and hasattr(HybridIndex, "load")

    def missing(self) -> list[str]:
        return [
            f"HybridIndex.{name}" for name in ("save", "load", "compact") if not hasattr(HybridIndex, name)
        ]

    def build(self, batches: Iterable[list[str]]) -> None:
        number = count()
        for batch in batches:
            self.index.insert_many([str(next(number)) for _ in batch], batch)

    def save(self) -> None:
        if self.persists():
            index: Any = self.index
            index.save(self._file)

    def open(self) -> None:
        kind: Any = HybridIndex
        self.index = kind.load(self._file)

    def ask(self, text: str) -> list[int]:
        return [int(hit.id) for hit in self.index.search(text, k=K)]

    def insert(self, number: int, text: str) -> None:
        self.index.insert(str(number), text)

    def remove(self, number: int) -> None:
        if not self.index.remove(str(number)):
            raise LookupError(f"document {number} was not there")

    def compact(self) -> bool:
        """Makes it one piece; False when it cannot yet."""
        if not hasattr(self.index, "compact"):
            return False
        self.index.compact()
        return True


class DefaultIndex(Index):
    """The same with the analyzer people get: stems, identifiers in parts, every script."""

    name = "otolith-default"
    title = "HybridIndex, default analyzer"
    params = IndexParams()


class Recall(Engine):
    """`Memory.recall` by words: ids, text and the report of every answer are read."""

    name = "otolith-memory"
    title = "Memory.recall"
    survives = "power loss"
    plain: ClassVar[bool] = "analyzer.name" in SETTINGS

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._home = folder / "home"
        options: dict[str, Any] = {"k": K, "legs": ("lexical",)}
        if "context" in inspect.signature(Memory.recall).parameters:
            options["context"] = False
        self._options = options
        self._config: dict[str, Any] = {"analyzer.name": "plain"} if self.plain else {}

    def changes(self) -> bool:
        return False  # measured beside bare redb: docs/benchmarks-store.md

    def missing(self) -> list[str]:
        return [] if self.plain else [NOT_PLAIN]

    def build(self, batches: Iterable[list[str]]) -> None:
        self.open()
        number = count()
        for batch in batches:
            report = self._memory.remember_many({"summary": text, "key": str(next(number))} for text in batch)
            if report.failed:
                raise RuntimeError(f"{len(report.failed)} records were refused: {report.failed[0]}")

    def open(self) -> None:
        self._memory = Memory.open(self._home, embedder=None, config=self._config)

    def ask(self, text: str) -> list[int]:
        report = self._memory.recall(text, **self._options)
        read = [(hit.id, hit.episode.summary, hit.episode.key) for hit in report]
        if not report.legs["lexical"].ran:
            raise RuntimeError(f"the lexical leg did not run: {report.legs['lexical'].reason}")
        return [int(key) for _, _, key in read if key is not None]

    def close(self) -> None:
        self._memory.close()
