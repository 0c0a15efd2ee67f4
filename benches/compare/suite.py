"""A whole run: every step in a process of its own, rivals in turns, figures on disk after each step."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .engines import ENGINES
from .runner import Runner
from .steps import DELTA, SIMD_ATTRIBUTE, SIMD_VARIABLE

LEVELS = ("avx512", "avx2", "portable")
# An engine that takes longer to open, a compiler with it, is opened once.
SLOW = 5.0


def wrong(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What must not be: steps that failed, and answers of our index that are not those of exact BM25."""
    failed = [
        f"{row['engine']}, {row['step']}, {row['n']:,} documents: {row['error']}"
        for row in rows
        if row["metric"] == "failed"
    ]
    inexact = [
        f"recall {row['recall']} at {row['metric']}, {row['kind']}, {row['n']:,} documents"
        for row in rows
        if row["engine"] == "otolith" and row.get("recall", 1.0) < 1.0
    ]
    return failed + inexact


class Suite(Runner):
    """A whole run of the lexical comparison."""

    def run(self, sizes: Sequence[int]) -> bool:
        """Everything at every size; False if a step failed or the exact index was not exact."""
        self.begin()
        for n in sizes:
            self._size(n)
        if self.evaluation is not None:
            self._step("quality", "otolith", 0, Path(), {"eval": str(self.evaluation)})
        else:
            self._add({"metric": "missing", "what": "the quality gates: EVAL names no folder"}, "otolith", 0)
        found = wrong(self.rows)
        for line in found:
            print(line, file=sys.stderr)
        return not found

    def _size(self, n: int) -> None:
        names = self.names
        self._step("corpus", names[0], n, Path(), {"extra": str(2 * DELTA)})
        folders = {name: self.work / f"{name}-{n}" for name in names}
        try:
            for name, folder in folders.items():
                shutil.rmtree(folder, ignore_errors=True)
                self._step("build", name, n, folder)
            asked = [name for name in names if name != "otolith-default"]
            for turn in range(self.rounds):
                for name in asked:
                    self._step("query", name, n, folders[name], turn=turn)
                self._levels(n, folders, turn)
            kept = [name for name in asked if ENGINES[name](folders[name]).persists()]
            for step in ("open-warm", "open-cold"):
                slow: set[str] = set()
                for turn in range(self.rounds):
                    for name in kept:
                        if name not in slow:
                            start = time.monotonic()
                            self._step(step, name, n, folders[name], turn=turn)
                            slow |= {name} if time.monotonic() - start > SLOW else set()
            if "otolith" in names:
                self._step("pieces", "otolith", n, folders["otolith"])
            for name in asked:
                if ENGINES[name](folders[name]).changes():
                    self._step("change", name, n, folders[name])
        finally:
            for folder in folders.values():
                shutil.rmtree(folder, ignore_errors=True)

    def _levels(self, n: int, folders: dict[str, Path], turn: int) -> None:
        """Our index with fewer instructions than the machine has, if the module says that it heeds that."""
        if "otolith" not in folders:
            return
        if not any(row.get("simd_seen") for row in self.rows):
            if turn == 0:
                what = f"instruction-set levels: {SIMD_VARIABLE} with otolith._core.{SIMD_ATTRIBUTE}"
                self._add({"metric": "missing", "what": what}, "otolith", n)
            return
        for level in LEVELS:
            if any(
                row["what"].startswith(f"level {level}:") for row in self.rows if row["metric"] == "missing"
            ):
                continue
            found = self._step("query", "otolith", n, folders["otolith"], turn=turn, simd=level)
            seen = [row["simd_seen"] for row in found if "simd_seen" in row]
            if seen and level not in str(seen[0]):
                # Another level ran (one this machine lacks): its times are not this one's.
                self.rows = [row for row in self.rows if row not in found]
                self._add(
                    {"metric": "missing", "what": f"level {level}: {seen[0]} ran instead"}, "otolith", n
                )
