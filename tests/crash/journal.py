"""What a process was about to do and what it was told: a file that outlives SIGKILL of its writer.

Every line is one JSON object with `t`, the monotonic clock of the machine. A line cut off by a kill is left
out; each process has a file of its own, so that none is continued after a torn line.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Journal:
    """The writing side."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, **what: Any) -> None:
        """Appends one line, in one call of the system."""
        line = json.dumps({"t": time.monotonic(), **what}).encode() + b"\n"
        os.write(self._file, line)


@dataclass
class Follower:
    """The reading side: gives each line once."""

    path: Path
    _at: int = 0

    @classmethod
    def from_now(cls, path: Path) -> Follower:
        """Leaves out what is there already."""
        follower = cls(path)
        follower.new()
        return follower

    def new(self) -> list[dict[str, Any]]:
        """The whole lines since the last call."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._at)
                part = file.read()
        except FileNotFoundError:
            return []
        whole = part[: part.rfind(b"\n") + 1]
        self._at += len(whole)
        return [json.loads(line) for line in whole.splitlines()]
