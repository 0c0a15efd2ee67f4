"""Steps in processes of their own: what they yield is kept in a file, with what the figures depend on."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

from .clock import ONE_THREAD
from .engines import ENGINES
from .steps import SIMD_VARIABLE

BENCHES = Path(__file__).parent.parent


def machine(rivals: Iterable[str]) -> dict[str, Any]:
    """What the figures depend on; `rivals` are packages by name."""
    cpu = platform.processor() or platform.machine()
    about = Path("/proc/cpuinfo")
    if about.exists():
        names = [
            line.split(":", 1)[1].strip() for line in about.read_text().splitlines() if "model name" in line
        ]
        cpu = names[0] if names else cpu
    found = {}
    for name in ["otolith", "numpy", *sorted(set(rivals))]:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {**found, "SQLite": sqlite3.sqlite_version},
    }


@dataclass
class Runner:
    """Runs steps of `python -m <module> step`.

    Args:
        target: The JSON file of the figures, written anew after every step.
        work: A folder for the corpus, which stays, and the indexes.
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

    module: ClassVar[str] = "compare"

    def packages(self) -> Iterable[str]:
        """The rivals, by what is installed."""
        return (package for engine in ENGINES.values() for package in engine.packages)

    def begin(self) -> None:
        """Notes when and where this is."""
        self.begun = time.time()
        self.about = machine(self.packages())
        self.loads = [os.getloadavg()[0]]

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
        command = [sys.executable, "-m", self.module, "step", step]
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
