"""All engines by name, ours first."""

from __future__ import annotations

from .engine import Engine
from .ours import DefaultIndex, Index, Recall
from .rivals import Bm25s, Fts5, Tantivy

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine for engine in (Index, DefaultIndex, Recall, Tantivy, Bm25s, Fts5)
}
