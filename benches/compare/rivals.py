"""The rivals, each as its documents say. Their packages, the group `compare`, are imported only here."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from itertools import count
from typing import Any

from .engine import Engine

K = 10


class Tantivy(Engine):
    """A segment engine on disk. Scores with lengths in a byte, so that recall is a little below 1."""

    name = "tantivy"
    title = "tantivy"
    packages = ("tantivy",)
    survives = "power loss"

    def load_code(self) -> None:
        import tantivy

        self._lib: Any = tantivy
        self._writer: Any = None

    def _write(self) -> Any:
        if self._writer is None:
            self._writer = self._index.writer(heap_size=256_000_000, num_threads=1)
        return self._writer

    def build(self, batches: Iterable[list[str]]) -> None:
        schema = self._lib.SchemaBuilder()
        schema.add_integer_field("number", stored=False, indexed=True, fast=True)
        schema.add_text_field("text", stored=False)
        self._index = self._lib.Index(schema.build(), path=str(self.folder))
        writer, number = self._write(), count()
        for batch in batches:
            for text in batch:
                writer.add_document(self._lib.Document(number=next(number), text=text))
        writer.commit()
        writer.wait_merging_threads()
        self._writer = None
        self._index.reload()
        self._searcher = self._index.searcher()

    def open(self) -> None:
        self._index = self._lib.Index.open(str(self.folder))
        self._searcher = self._index.searcher()

    def ask(self, text: str) -> list[int]:
        found = self._searcher.search(self._index.parse_query(text, ["text"]), K, count=False).hits
        numbers: list[int] = self._searcher.fast_field_values("number", [address for _, address in found])
        return numbers

    def _commit(self) -> None:
        self._writer.commit()
        self._index.reload()
        self._searcher = self._index.searcher()

    def insert(self, number: int, text: str) -> None:
        self._write().add_document(self._lib.Document(number=number, text=text))
        self._commit()

    def remove(self, number: int) -> None:
        self._write().delete_documents("number", number)
        self._commit()


class Bm25s(Engine):
    """Scores worked out beforehand, added up by numba. Static: one document more is another index."""

    name = "bm25s"
    title = "bm25s (numba)"
    packages = ("bm25s", "numba")

    def load_code(self) -> None:
        import bm25s
        import bm25s.numba.selection

        self._lib: Any = bm25s

    def changes(self) -> bool:
        return False

    def build(self, batches: Iterable[list[str]]) -> None:
        texts = [text for batch in batches for text in batch]
        tokens = self._lib.tokenize(texts, stopwords=None, token_pattern=r"\S+", show_progress=False)
        self._index = self._lib.BM25(method="lucene", k1=1.2, b=0.75, backend="numba")
        self._index.index(tokens, show_progress=False)

    def save(self) -> None:
        self._index.save(str(self.folder / "index"), show_progress=False)

    def open(self) -> None:
        self._index = self._lib.BM25.load(str(self.folder / "index"), load_corpus=False)
        self._index.backend = "numba"
        self._index.activate_numba_scorer()

    def ask(self, text: str) -> list[int]:
        found = self._index.retrieve(
            [text.split()], k=K, return_as="documents", show_progress=False, n_threads=0
        )
        numbers: list[int] = found[0].tolist()
        return numbers


class Fts5(Engine):
    """SQLite's full-text search. Its idf is next to 0 for a word in half of the documents: another order."""

    name = "fts5"
    title = "SQLite FTS5"
    survives = "power loss"

    def open(self) -> None:
        self._db = sqlite3.connect(self.folder / "fts.sqlite", isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")

    def build(self, batches: Iterable[list[str]]) -> None:
        self.open()
        self._db.execute("CREATE VIRTUAL TABLE docs USING fts5(text)")
        number = count()
        self._db.execute("BEGIN")
        for batch in batches:
            rows = ((next(number), text) for text in batch)
            self._db.executemany("INSERT INTO docs(rowid, text) VALUES (?, ?)", rows)
        self._db.execute("COMMIT")
        self._db.execute("INSERT INTO docs(docs) VALUES ('optimize')")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def ask(self, text: str) -> list[int]:
        wanted = " OR ".join(f'"{word}"' for word in text.split())
        rows = self._db.execute(
            "SELECT rowid FROM docs WHERE docs MATCH ? ORDER BY rank LIMIT ?", (wanted, K)
        )
        return [number for (number,) in rows]

    def insert(self, number: int, text: str) -> None:
        self._db.execute("INSERT INTO docs(rowid, text) VALUES (?, ?)", (number, text))

    def remove(self, number: int) -> None:
        if self._db.execute("DELETE FROM docs WHERE rowid = ?", (number,)).rowcount != 1:
            raise LookupError(f"document {number} was not there")

    def close(self) -> None:
        self._db.close()
