"""All engines by name, ours first."""

from __future__ import annotations

from .engine import Engine
from .ours import Both, Graph, Index, Recall
from .pairs import Bm25sUsearch, TantivyUsearch
from .rivals import Faiss, Hnswlib, Numpy, Usearch, UsearchBf16

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine
    for engine in (
        Index,
        Graph,
        Faiss,
        UsearchBf16,
        Usearch,
        Hnswlib,
        Numpy,
        Both,
        Recall,
        Bm25sUsearch,
        TantivyUsearch,
    )
}
