"""What a repair left behind that nobody could be told of in the ordinary way."""

from __future__ import annotations

import os
from typing import NamedTuple

from .asking import STORE

__all__ = ["Traces"]

_LOST = "lost+found"


class Traces(NamedTuple):
    """What a home held at one moment.

    Attributes:
        home: Its directory.
        store: What identifies the store file, None if it cannot be looked at.
        kept: Paths of damaged files and of directories with what could not be brought back.
    """

    home: str
    store: tuple[int, int] | None
    kept: frozenset[str]

    @classmethod
    def of(cls, home: str) -> Traces:
        """Those of now."""
        try:
            found = os.stat(os.path.join(home, STORE))
            store = (found.st_dev, found.st_ino)
        except OSError:
            store = None
        damaged = (name for name in _names(home) if name.startswith(f"{STORE}.damaged-"))
        lost = os.path.join(home, _LOST)
        kept = [os.path.join(home, name) for name in damaged]
        kept += [os.path.join(lost, name) for name in _names(lost)]
        return cls(home, store, frozenset(kept))

    def is_swapped(self) -> bool:
        """Whether another file has the name of the store now."""
        return Traces.of(self.home).store != self.store

    def told(self) -> str:
        """What changed since then, as a sentence; empty if nothing did."""
        now = Traces.of(self.home)
        new = sorted(now.kept - self.kept)
        damaged = [one for one in new if os.path.dirname(one) == self.home]
        lost = [one for one in new if os.path.dirname(one) != self.home]
        if now.store == self.store:
            if not new:
                return ""
            return f"The store is as it was; {' and '.join(new)} came from this repair and can be removed"
        if not damaged:
            return "The store was replaced meanwhile by another process, as by a compaction"
        beside = f", what could not be brought back is in {' and '.join(lost)}" if lost else ""
        return (
            f"The repaired file is in its place all the same, the damaged one is kept as "
            f"{' and '.join(damaged)}{beside}. What was lost could not be told: look at the new file with "
            "`otolith verify`, and compare it with a backup"
        )


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
