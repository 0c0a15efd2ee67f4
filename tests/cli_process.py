"""The real command line in a process of its own, away from the settings of whoever runs the tests."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT = 60


@dataclass(frozen=True)
class Answer:
    """How a call ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on stdout."""
        lines = self.out.splitlines()
        assert len(lines) == 1, self
        return json.loads(lines[0])

    @property
    def error(self) -> Any:
        """The last object on stderr."""
        return json.loads(self.err.splitlines()[-1])


def cpu_seconds(arguments: Sequence[str], env: Mapping[str, str], runs: int = 7) -> float:
    """Processor time of a Python process with its children, the least of several runs.

    Not the time of the clock, which the load of the machine stretches.
    """
    best = float("inf")
    for _ in range(runs):
        with open(os.devnull, "wb") as nowhere:
            process = subprocess.Popen([sys.executable, *arguments], env=env, stdout=nowhere, stderr=nowhere)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, arguments
        best = min(best, used.ru_utime + used.ru_stime)
    return best


class Cli:
    """Calls `python -m otolith` with a home, a working directory and user directories of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.cwd = root / "work"
        self.cwd.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTOLITH", "XDG_"))}
        self.env = {
            **kept,
            "HOME": str(root / "me"),
            "XDG_CONFIG_HOME": str(root / "me" / "config"),
            "XDG_STATE_HOME": str(root / "me" / "state"),
            "XDG_DATA_HOME": str(root / "me" / "data"),
            "OTOLITH_HOME": str(self.home),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.env.pop("NO_COLOR", None)

    def environment(self, changes: Mapping[str, str | None] | None) -> dict[str, str]:
        """The environment of a call; None removes a variable."""
        merged = {**self.env, **(changes or {})}
        return {name: value for name, value in merged.items() if value is not None}

    def __call__(
        self,
        *args: str | bytes,
        code: int | None = 0,
        input: str | bytes = b"",
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
    ) -> Answer:
        """Runs one command and checks its exit code; `code=None` leaves that to the test."""
        done = subprocess.run(
            [sys.executable, "-m", "otolith", *args],
            input=input.encode() if isinstance(input, str) else input,
            capture_output=True,
            env=self.environment(env),
            cwd=cwd or self.cwd,
            timeout=TIMEOUT,
            check=False,
        )
        answer = Answer(
            done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        )
        assert "Traceback" not in answer.err, answer.err
        assert code is None or answer.code == code, answer
        return answer
