"""What the same records take in SQLite: texts and vectors in one table, and an index of the words."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from compare import clock

from .engine import Supply


def table_mb(folder: Path, supply: Supply) -> float:
    """Megabytes on the disk, once written and compacted."""
    folder.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(folder / "table.sqlite", isolation_level=None)
    db.execute("CREATE TABLE docs (number INTEGER PRIMARY KEY, key TEXT UNIQUE, text TEXT, vector BLOB)")
    db.execute("CREATE VIRTUAL TABLE words USING fts5(text, content='docs', content_rowid='number')")
    db.execute("BEGIN")
    number = 0
    for texts, rows in supply:
        for text, row in zip(texts, rows, strict=True):
            db.execute("INSERT INTO docs VALUES (?, ?, ?, ?)", (number, str(number), text, row.tobytes()))
            number += 1
    db.execute("INSERT INTO words(words) VALUES ('rebuild')")
    db.execute("COMMIT")
    db.execute("INSERT INTO words(words) VALUES ('optimize')")
    db.execute("VACUUM")
    db.close()
    return clock.disk_mb(folder)
