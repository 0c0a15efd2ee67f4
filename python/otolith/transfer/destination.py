"""Where an export may go: never in the place of what a memory consists of."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from otolith._home_files import MEMORY
from otolith.exceptions import InvalidInput

__all__ = ["check_path", "check_stream"]

# Names are compared without case: some file systems do not tell it apart.
_FILES = frozenset({"episodes.redb", "holder", "config.toml", ".gitignore"})
_DIRECTORIES = frozenset({"locks", "lost+found", "index", MEMORY})
_DAMAGED = "episodes.redb.damaged-"
_STORE = b"redb\x1a\x0a\xa9\x0d\x0a"
_EXPORT = b'{"otolith":"export"'


def check_path(home: str | os.PathLike[str] | None, name: str) -> None:
    """Refuses a path at which something of a memory is or may come to be.

    Within the home an export may only have a name that does not begin with a dot, is none of Otolith's, and
    is free or that of an earlier export. Refused anywhere: a file of the home by a link, and any store.

    Args:
        home: Directory of the memory that is exported, None for one in RAM.
        name: The path, as given.

    Raises:
        InvalidInput: It is one of those.
    """
    target = os.path.realpath(os.path.expanduser(name))
    try:
        found = os.stat(target)
    except OSError:
        found = None
    begins = _beginning(target) if found is not None and stat.S_ISREG(found.st_mode) else None
    if home is not None and found is not None and (own := _own(Path(home), found)):
        raise _refused(f"{name} is {own} of the home that is exported")
    if begins is not None and begins.startswith(_STORE):
        raise _refused(f"{name} is a store, which an export would replace")
    if home is None:
        return
    parts = _within(home, target)
    if parts is None or (found is not None and stat.S_ISDIR(found.st_mode)):
        return
    if _is_ours(parts):
        raise _refused(f"{name} lies where the home that is exported keeps its own files")
    if parts[-1].startswith("."):
        raise _refused(f"{name} is a hidden name in the home that is exported")
    if begins is not None and not begins.startswith(_EXPORT):
        raise _refused(f"{name} is in the home that is exported and is no earlier export")


def check_stream(home: str | os.PathLike[str] | None, stream: object) -> None:
    """Refuses an open file that is one of the home's, as after `>> episodes.redb` in a shell.

    Args:
        home: As in `check_path`.
        stream: It; one without a file behind it is fine.

    Raises:
        InvalidInput: It is one of those.
    """
    if home is None:
        return
    try:
        found = os.fstat(stream.fileno())  # type: ignore[attr-defined]
    except (AttributeError, OSError, TypeError, ValueError):
        return
    if own := _own(Path(home), found):
        raise _refused(f"the open file is {own} of the home that is exported")


def _refused(what: str) -> InvalidInput:
    return InvalidInput(f"dest: {what}; choose another place, best outside of every home", field="dest")


def _beginning(target: str) -> bytes:
    try:
        with open(target, "rb") as file:
            return file.read(len(_EXPORT))
    except OSError:
        return b""


def _within(home: str | os.PathLike[str], target: str) -> tuple[str, ...] | None:
    """The parts of a path from the home on; None if it is not there. The home may have several names."""
    try:
        top = os.stat(home)
    except OSError:
        return None
    path = Path(target)
    for directory in path.parents:
        try:
            found = directory.stat()
        except OSError:
            continue
        if os.path.samestat(top, found):
            return path.relative_to(directory).parts
    return None


def _is_ours(parts: tuple[str, ...]) -> bool:
    first = parts[0].casefold()
    if first in _DIRECTORIES:
        return True
    return len(parts) == 1 and (first in _FILES or first.startswith((_DAMAGED, ".episodes.redb")))


def _own(home: Path, found: os.stat_result) -> str | None:
    """The path from the home on of the file of the home that this is."""
    if not stat.S_ISREG(found.st_mode):
        return None
    for path in _files(home, ()):
        try:
            if os.path.samestat((home / path).lstat(), found):
                return path
        except OSError:
            continue
    return None


def _files(home: Path, parts: tuple[str, ...]) -> Iterator[str]:
    """The files of a home that are its own."""
    try:
        with os.scandir(home.joinpath(*parts)) as entries:
            listed = list(entries)
    except OSError:
        return
    for entry in listed:
        inner = (*parts, entry.name)
        if not _is_ours(inner):
            continue
        try:
            is_directory = entry.is_dir(follow_symlinks=False)
        except OSError:
            continue
        if is_directory:
            yield from _files(home, inner)
        else:
            yield "/".join(inner)
