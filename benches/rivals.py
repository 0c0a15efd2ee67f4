"""The same rows in Otolith and in SQLite (WAL, a sync a commit), behind the same few calls."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from corpora import DIM, SEED, Corpus
from numpy.typing import NDArray
from otolith import Memory

STORES = ["otolith", "sqlite"]


@dataclass(frozen=True)
class Row:
    """What both store: JSON with a key and a directory that are indexed, and a vector or none."""

    text: str
    key: str
    working_dir: str
    vector: NDArray[np.float32] | None

    def fields(self) -> dict[str, Any]:
        return {"summary": self.text, "key": self.key, "working_dir": self.working_dir}


def rows(data: Corpus, count: int, *, first: int = 0, vectors: bool) -> Iterator[Row]:
    """Seeded rows; row i is the same whatever the count."""
    for start in range(first, first + count, 1000):
        given = np.random.default_rng([SEED, 4, start]).standard_normal((1000, DIM)).astype(np.float32)
        for i in range(start, min(start + 1000, first + count)):
            text = f"{data.texts[i % len(data.texts)]} {i}"
            yield Row(text, f"key-{i}", f"/srv/app{i % 50}", given[i - start] if vectors else None)


class Store(Protocol):
    """What is measured."""

    def put(self, row: Row) -> Any: ...
    def put_many(self, many: list[Row]) -> None: ...
    def get(self, id: Any) -> None: ...
    def forget(self, id: Any) -> None: ...
    def count(self) -> int: ...
    def close(self) -> None: ...


class Otolith:
    """Through the public API."""

    def __init__(self, home: Path, *, read_only: bool = False) -> None:
        self._memory = Memory.open(home, embedder="none", read_only=read_only)

    def put(self, row: Row) -> Any:
        fields = row.fields()
        return self._memory.remember(fields.pop("summary"), vector=row.vector, **fields).id

    def put_many(self, many: list[Row]) -> None:
        given = [
            row.fields() if row.vector is None else {**row.fields(), "vector": row.vector} for row in many
        ]
        report = self._memory.remember_many(given)
        assert (report.written, report.failed) == (len(many), ())

    def get(self, id: Any) -> None:
        self._memory.get(id)

    def forget(self, id: Any) -> None:
        assert self._memory.forget(id) == 1

    def count(self) -> int:
        return self._memory.count()

    def close(self) -> None:
        self._memory.close()


SCHEMA = """
CREATE TABLE IF NOT EXISTS episodes (id BLOB PRIMARY KEY, json TEXT NOT NULL, key TEXT, dir TEXT);
CREATE UNIQUE INDEX IF NOT EXISTS by_key ON episodes (key);
CREATE INDEX IF NOT EXISTS by_dir ON episodes (dir);
CREATE TABLE IF NOT EXISTS vectors (id BLOB PRIMARY KEY, row BLOB NOT NULL);
"""


class Sqlite:
    """The standard library's, as durable as Otolith: every commit is synced."""

    def __init__(self, home: Path, *, read_only: bool = False) -> None:
        home.mkdir(exist_ok=True)
        self._db = sqlite3.connect(home / "rival.sqlite", timeout=30, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._number = 0
        if not read_only:
            self._db.executescript(SCHEMA)

    def _new(self, row: Row) -> tuple[bytes, str]:
        id = uuid.uuid1()  # grows with time, as ours do
        text = json.dumps({"id": str(id), **row.fields()}, ensure_ascii=False)
        time = id.time.to_bytes(8, "big")
        return time + id.bytes[8:], text

    def _insert(self, row: Row) -> bytes:
        id, text = self._new(row)
        insert = "INSERT INTO episodes VALUES (?, ?, ?, ?)"
        self._db.execute(insert, (id, text, row.key, row.working_dir))
        if row.vector is not None:
            self._db.execute("INSERT INTO vectors VALUES (?, ?)", (id, row.vector.tobytes()))
        return id

    def put(self, row: Row) -> Any:
        self._db.execute("BEGIN IMMEDIATE")
        id = self._insert(row)
        self._db.execute("COMMIT")
        return id

    def put_many(self, many: list[Row]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        for row in many:
            self._insert(row)
        self._db.execute("COMMIT")

    def get(self, id: Any) -> None:
        [text] = self._db.execute("SELECT json FROM episodes WHERE id = ?", (id,)).fetchone()
        json.loads(text)

    def forget(self, id: Any) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("DELETE FROM vectors WHERE id = ?", (id,))
        assert self._db.execute("DELETE FROM episodes WHERE id = ?", (id,)).rowcount == 1
        self._db.execute("COMMIT")

    def count(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM episodes").fetchone()[0])

    def close(self) -> None:
        self._db.close()


def open_store(kind: str, home: Path, *, read_only: bool = False) -> Store:
    """The store of this kind in this directory."""
    return Otolith(home, read_only=read_only) if kind == "otolith" else Sqlite(home, read_only=read_only)
