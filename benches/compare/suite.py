"""A whole run: every step in a process of its own, rivals in turns, figures on disk after each step."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .clock import ONE_THREAD
from .engines import ENGINES
from .steps import DELTA, SIMD_ATTRIBUTE, SIMD_VARIABLE

BENCHES = Path(__file__).parent.parent
LEVELS = ("avx512", "avx2", "portable")
# An engine that takes longer to open, a compiler with it, is opened once.
SLOW = 5.0


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    cpu = platform.processor() or platform.machine()
    about = Path("/proc/cpuinfo")
    if about.exists():
        names = [
            line.split(":", 1)[1].strip() for line in about.read_text().splitlines() if "model name" in line
        ]
        cpu = names[0] if names else cpu
    packages = ["otolith", "numpy", *sorted({p for engine in ENGINES.values() for p in engine.packages})]
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except ModuleNotFoundError:
            continue
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {**found, "SQLite": sqlite3.sqlite_version},
    }


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


@dataclass
class Suite:
    """One run.

    Args:
        target: The JSON file of the figures, written anew after every step.
        work: A folder for the corpus, which stays, and the indexes, which do not.
        names: Engines by name.
        count: Questions of each kind.
        rounds: How often every engine is asked, in turns.
        passes: How often each question is asked within a round.
        budget: Seconds for one kind of question of one engine within a round.
        evaluation: A folder of evaluation data, or None.
    """

    target: Path
    work: Path
    names: Sequence[str]
    count: int
    rounds: int
    passes: int
    budget: float
    evaluation: Path | None
    rows: list[dict[str, Any]] = field(default_factory=list)

    def run(self, sizes: Sequence[int]) -> bool:
        """Everything at every size; False if a step failed or the exact index was not exact."""
        self.begun = time.time()
        self.about = machine()
        self.loads = [os.getloadavg()[0]]
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

    def _add(self, row: dict[str, Any], engine: str, n: int) -> None:
        whole = {"engine": engine, "n": n, **row}
        if row["metric"] != "missing" or whole not in self.rows:
            self.rows.append(whole)
        self._write()

    def _step(
        self,
        step: str,
        engine: str,
        n: int,
        folder: Path,
        options: dict[str, str] | None = None,
        *,
        turn: int = 0,
        simd: str | None = None,
    ) -> list[dict[str, Any]]:
        """The rows of one step, which are also kept."""
        given = {
            "engine": engine,
            "size": str(n),
            "questions": str(self.count),
            "passes": str(self.passes),
            "budget": str(self.budget),
            "work": str(self.work),
            "folder": str(folder),
            **(options or {}),
        }
        command = [sys.executable, "-m", "compare", "step", step]
        command += [part for name, value in given.items() for part in (f"--{name}", value)]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("OTOLITH_")}
        path = os.pathsep.join(filter(None, [str(BENCHES), clean.get("PYTHONPATH", "")]))
        env = {**clean, **ONE_THREAD, "PYTHONPATH": path}
        if simd is not None:
            env[SIMD_VARIABLE] = simd
        start = time.monotonic()
        done = subprocess.run(command, env=env, capture_output=True, text=True, encoding="utf-8", check=False)
        before = len(self.rows)
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                self._add({**json.loads(line), "round": turn}, engine, n)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            self._add({"metric": "failed", "step": step, "error": last}, engine, n)
            print(done.stderr, file=sys.stderr)
        self.loads.append(os.getloadavg()[0])
        print(
            f"{n:>9,} {engine:<16} {step:<10} {time.monotonic() - start:6.1f} s", file=sys.stderr, flush=True
        )
        return self.rows[before:]

    def _write(self) -> None:
        self.target.parent.mkdir(parents=True, exist_ok=True)
        figures = {
            "machine": self.about,
            "load": [round(min(self.loads), 1), round(max(self.loads), 1)],
            "date": time.strftime("%Y-%m-%d", time.gmtime(self.begun)),
            "questions": self.count,
            "rounds": self.rounds,
            "passes": self.passes,
            "rows": self.rows,
        }
        draft = self.target.with_suffix(".draft")
        draft.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        draft.replace(self.target)
