"""The Markdown files of a home as lines of an export."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from otolith._files import create_file
from otolith._home_files import make_directory, memory_files, read_file, why_no_path
from otolith.exceptions import Conflict, InvalidInput, OtolithError, ReadOnly, StoreError

if TYPE_CHECKING:
    from otolith._core import Engine

__all__ = ["LARGEST", "File", "file_in", "line_of", "plan", "restore_file"]

LARGEST = 16 << 20
"""Most bytes of a file that is exported: as much as a record may have."""


class File(NamedTuple):
    """A file in an export.

    Attributes:
        line: Number of its line.
        path: Its path from the home on.
        content: Its bytes.
    """

    line: int
    path: str
    content: bytes


def plan(engine: Engine) -> tuple[list[str], list[tuple[str, str]]]:
    """Which files an export takes.

    Returns:
        Their paths, and path and reason of what is left out. Both are empty for a handle with a scope, as the
        files belong to the whole home, and for a memory in RAM.
    """
    if engine.home is None or engine.scope:
        return [], []
    taken: list[str] = []
    skipped: list[tuple[str, str]] = []
    for path, reason in memory_files(Path(engine.home)):
        reason = reason or why_no_path(path)
        if reason is None:
            taken.append(path)
        else:
            skipped.append((path, reason))
    return taken, skipped


def line_of(home: str, path: str) -> dict[str, str]:
    """What an export says of a file.

    Args:
        home: Directory of the memory.
        path: Path of the file from there on.

    Raises:
        FileNotFoundError: It is gone.
        StoreError: It is too large or cannot be read; the message is the reason.
    """
    try:
        content = read_file(Path(home, path), LARGEST)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(f"cannot be read: {error.strerror}", path=path, errno=error.errno) from error
    if content is None:
        raise StoreError(f"is larger than {LARGEST >> 20} MiB", path=path)
    return {"kind": "file", "path": path, "data": base64.b64encode(content).decode("ascii")}


def file_in(parsed: Mapping[str, Any], line: int) -> File:
    """The file in a line.

    Args:
        parsed: The line.
        line: Its number.

    Raises:
        InvalidInput: It is not what an export holds.
    """
    path, data = parsed.get("path"), parsed.get("data")
    reason = why_no_path(path)
    if reason is not None:
        raise InvalidInput(f"path: {path!r} {reason}", field="path")
    try:
        if not isinstance(data, str):
            raise TypeError
        content = base64.b64decode(data, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise InvalidInput("data: is not base64", field="data") from None
    if len(content) > LARGEST:
        raise InvalidInput(f"data: is larger than {LARGEST >> 20} MiB", field="data")
    return File(line, str(path), content)


def restore_file(engine: Engine, file: File) -> bool | OtolithError:
    """Puts a file in its place. One that is there and different stays as it is.

    Returns:
        True if it was written, False if it was there already, exactly so; else why it was not taken.

    Raises:
        StoreError: The home cannot be written.
    """
    if engine.home is None:
        return InvalidInput("path: a memory in RAM has no files; import into a home", field="path")
    if engine.scope:
        return InvalidInput(
            "path: files belong to the whole home; import with a handle that has no scope", field="path"
        )
    if engine.read_only:
        raise ReadOnly(f"{engine.home}: is open read-only; open it writable", path=engine.home)
    home = Path(engine.home)
    target = home / file.path
    try:
        make_directory(home, file.path)
        create_file(target, file.content, mode=0o600)
        return True
    except FileExistsError:
        pass
    except NotADirectoryError as error:
        return StoreError(
            f"{error.filename}: is a link or no directory; mend it, then repeat", path=str(target)
        )
    try:
        if read_file(target, LARGEST) == file.content:
            return False
    except OSError as error:
        return StoreError(
            f"{target}: {error.strerror}; mend it, then repeat", path=str(target), errno=error.errno
        )
    return Conflict(
        f"{target}: is there with other content and was kept; compare the two, or move it away and import "
        "again",
        what=str(target),
        detail="other content",
    )
