"""A whole run: every step in a process of its own, engines in turns, rivals' builds kept for the next run."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from compare.runner import Runner

from .engines import ENGINES
from .ours import SCANNED
from .steps import DELTA

WIDTH = 384
VECTORS = ("otolith", "otolith-graph", "faiss", "usearch-bf16", "hnswlib", "numpy")
BOTH = ("otolith-both", "otolith-memory", "bm25s+usearch", "tantivy+usearch")
SENTENCES = ("otolith-graph", "faiss", "usearch-bf16", "hnswlib", "numpy")
CACHED = ("rows.py", "rivals.py", "pairs.py")
BUILT = "built.json"


def _digest() -> str:
    """Another corpus or rival has other folders."""
    here = Path(__file__).parent
    files = [*(here / name for name in CACHED), here.parent / "compare" / "corpus.py"]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def wrong(rows: Iterable[dict[str, Any]]) -> list[str]:
    """What must not be: steps that failed."""
    return [
        f"{row['engine']}, {row['step']}, {row['n']:,} rows: {row['error']}"
        for row in rows
        if row["metric"] == "failed"
    ]


@dataclass
class Suite(Runner):
    """A whole run.

    Args:
        fresh: Whether rivals are built even if an earlier run left them.
    """

    fresh: bool = False

    module: ClassVar[str] = "vectors"

    def packages(self) -> Iterable[str]:
        return (package for engine in ENGINES.values() for package in engine.packages)

    def run(self, sizes: Sequence[int], wide: Sequence[tuple[int, int]]) -> bool:
        """Both legs at every size, vectors of other widths, sentences; False if a step failed."""
        self.begin()
        for n in sizes:
            self._documents(n, WIDTH, both=True)
        for n, width in wide:
            self._documents(n, width, both=False)
        self._sentences()
        found = wrong(self.rows)
        for line in found:
            print(line, file=sys.stderr)
        return not found

    def _named(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.names]

    def _documents(self, n: int, width: int, *, both: bool) -> None:
        options = {"set": "documents", "width": str(width)}
        legs = {"legs": "both" if both else "vectors"}
        self._step("data", "otolith", n, Path(), {**options, **legs, "extra": str(DELTA)})
        forced = n * width <= SCANNED
        vectors = self._named(name for name in VECTORS if forced or name != "otolith-graph")
        pairs = self._named(BOTH) if both else []
        folders = {name: self.work / f"{name}-{n}-{width}-{_digest()}" for name in [*vectors, *pairs]}
        try:
            for name, folder in folders.items():
                self._built(name, n, folder, options)
            if "otolith-memory" in pairs:  # first, since the graph of the home is built meanwhile
                self._step("disk", "otolith-memory", n, folders["otolith-memory"], options)
            for turn in range(self.rounds):
                for name, folder in folders.items():
                    self._step("query", name, n, folder, options, turn=turn)
                if "otolith" in vectors and width == WIDTH:
                    self._step("filtered", "otolith", n, folders["otolith"], options, turn=turn)
                for name in pairs:
                    self._step("open", name, n, folders[name], options, turn=turn)
                    self._step("memory", name, n, folders[name], options, turn=turn)
            for name in vectors:
                if ENGINES[name](folders[name], width).changes() and width == WIDTH:
                    self._step("change", name, n, folders[name], options)
            if "otolith" in vectors and width == WIDTH:
                self._step("tombstones", "otolith", n, folders["otolith"], options)
        finally:
            self._leave(folders)

    def _sentences(self) -> None:
        if self.evaluation is None or not (self.evaluation / "scifact").is_dir():
            what = "sentences with a real model's vectors: EVAL names no folder with scifact/"
            self._add({"metric": "missing", "what": what}, "otolith", 0)
            return
        options = {"set": "sentences", "width": str(WIDTH)}
        self._step("data", "otolith", 0, Path(), {**options, "eval": str(self.evaluation)})
        folders = {name: self.work / f"{name}-sentences-{_digest()}" for name in self._named(SENTENCES)}
        try:
            for name, folder in folders.items():
                self._built(name, 0, folder, options)
            for turn in range(self.rounds):
                for name, folder in folders.items():
                    self._step("query", name, 0, folder, options, turn=turn)
        finally:
            self._leave(folders)

    def _built(self, name: str, n: int, folder: Path, options: dict[str, str]) -> None:
        """Builds ours, and rivals that are not there."""
        kept = folder / BUILT
        if kept.exists() and not self.fresh and not name.startswith("otolith"):
            for row in json.loads(kept.read_text(encoding="utf-8")):
                self._add({**row, "kept": True}, name, n)
            return
        shutil.rmtree(folder, ignore_errors=True)
        rows = self._step("build", name, n, folder, options)
        if rows and rows[-1]["metric"] != "failed":
            kept.write_text(json.dumps(rows), encoding="utf-8")

    def _leave(self, folders: dict[str, Path]) -> None:
        """Removes ours, which the next run builds anew."""
        for name, folder in folders.items():
            if name.startswith("otolith"):
                shutil.rmtree(folder, ignore_errors=True)
