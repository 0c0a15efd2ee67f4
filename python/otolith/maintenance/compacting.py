"""Compaction, and the files of a home that keep what it cannot take away."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otolith._home_files import MEMORY
from otolith.exceptions import InvalidInput
from otolith.records import CompactReport, Keeper

if TYPE_CHECKING:
    from otolith._core import Engine

__all__ = ["STORE", "compact", "keepers"]

STORE = "episodes.redb"
"""Name of the store file within a home."""

_CURRENT = frozenset({STORE, "holder", "config.toml", ".gitignore"})
_LOCKS = "locks"
_INDEX = "index"
_LOST = "lost+found"
_DRAFT = re.compile(r"\.episodes\.redb\.[0-9]+(-[0-9]+)*\.new")


def compact(engine: Engine, *, progress: Callable[[int, int | None], object] | None) -> CompactReport:
    """Puts a file without holes in the place of the store and names what still keeps forgotten bytes.

    Args:
        engine: The open engine.
        progress: Called with (rows done, rows to do).

    Raises:
        InvalidInput: The memory lives in RAM.
        StoreError: The store cannot be compacted; it is as it was.
    """
    if engine.home is None:
        raise InvalidInput("compact: a memory in RAM has no file; there is nothing to compact", field="home")
    done: dict[str, Any] = engine.compact(progress=progress)
    return CompactReport(
        before_bytes=done["before_bytes"],
        after_bytes=done["after_bytes"],
        records=done["records"],
        blocked_us=done["blocked_us"],
        keepers=keepers(Path(engine.home), None if done["index"] is None else Path(done["index"])),
        removed_drafts=tuple(done["removed_drafts"]),
        changed_meanwhile=done["changed_meanwhile"],
    )


def keepers(home: Path, index: Path | None = None) -> tuple[Keeper, ...]:
    """The files of a home, other than its current ones, that may hold bytes of forgotten records.

    Links are not followed: what they lead to is no file of the home.

    Args:
        home: Directory of the memory.
        index: Directory of the index that was compacted just now.
    """
    clean = None if index is None else index.name
    return tuple(one for one in _below(home, ()) if one.path.split("/")[:2] != [_INDEX, clean])


def _below(directory: Path, parts: tuple[str, ...]) -> Iterator[Keeper]:
    for entry in _listed(directory):
        inner = (*parts, entry.name)
        path = "/".join(inner)
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue  # gone meanwhile
        if stat.S_ISDIR(found.st_mode):
            if inner == (_LOCKS,):
                continue
            if inner[0] != _LOST and (directory / entry.name / STORE).is_file():
                yield Keeper(path, "backup", sum(_sizes(directory / entry.name)))
            else:
                yield from _below(directory / entry.name, inner)
        elif inner[0] == _INDEX and len(inner) > 1 and not found.st_size:
            continue  # a lock or a note of use
        elif stat.S_ISREG(found.st_mode) and (kind := _kind(inner)) is not None:
            yield Keeper(path, kind, found.st_size)


def _kind(parts: tuple[str, ...]) -> Any:
    """What a file keeps; None for one that is current or that people edit."""
    name = parts[-1]
    if parts[0] == _LOST:
        return "lost+found"
    if parts[0] == _INDEX and len(parts) == 3:
        return "index"
    if name.endswith((".bak", ".prev")):
        return "previous"
    if len(parts) == 1:
        if name in _CURRENT:
            return None
        if name.startswith(f"{STORE}.damaged-"):
            return "damaged"
        if _DRAFT.fullmatch(name):
            return "draft"
    return None if parts[0] == MEMORY else "other"


def _sizes(directory: Path) -> Iterator[int]:
    for entry in _listed(directory):
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode):
            yield from _sizes(directory / entry.name)
        elif stat.S_ISREG(found.st_mode):
            yield found.st_size


def _listed(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return []
