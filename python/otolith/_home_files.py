"""The files of a home beside its store. Links are never followed: a home may have come with a repository."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

__all__ = ["MEMORY", "Found", "make_directory", "memory_files", "open_file", "read_file", "why_no_path"]

MEMORY = "memory"
"""Directory of the Markdown files within a home."""

_LONGEST_PATH = 1024
_LONGEST_NAME = 255
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class Found(NamedTuple):
    """Something below `memory/`.

    Attributes:
        path: Its path from the home on, parts separated by slashes.
        reason: Why it is no ordinary file, None if it is one.
    """

    path: str
    reason: str | None


def memory_files(home: Path) -> Iterator[Found]:
    """Everything below `memory/` but directories, in the order of its names.

    Args:
        home: Directory of the memory.
    """
    top = home / MEMORY
    try:
        mode = top.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        yield Found(MEMORY, f"cannot be looked at: {error.strerror}")
        return
    if stat.S_ISDIR(mode):
        yield from _below(top, MEMORY)
    else:
        yield Found(MEMORY, _kind(mode) or "is a file and no directory")


def _below(directory: Path, path: str) -> Iterator[Found]:
    try:
        with os.scandir(directory) as entries:
            listed = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        yield Found(path, f"cannot be listed: {error.strerror}")
        return
    for entry in listed:
        inner = f"{path}/{entry.name}"
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            yield Found(inner, f"cannot be looked at: {error.strerror}")
            continue
        if stat.S_ISDIR(mode):
            yield from _below(directory / entry.name, inner)
        else:
            yield Found(inner, _kind(mode))


def _kind(mode: int) -> str | None:
    if stat.S_ISREG(mode):
        return None
    return "is a symbolic link" if stat.S_ISLNK(mode) else "is no ordinary file"


def open_file(file: Path) -> BinaryIO:
    """Opens an ordinary file that is no link for reading.

    Args:
        file: Its path.

    Raises:
        OSError: It is a link, no ordinary file, or cannot be read.
    """
    opened = open(os.open(file, _FLAGS), "rb")  # noqa: SIM115 (the caller closes it)
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        opened.close()
        raise OSError(errno.EINVAL, "is no ordinary file", str(file))
    return opened


def read_file(file: Path, most: int) -> bytes | None:
    """The bytes of an ordinary file that is no link.

    Args:
        file: Its path.
        most: The size it may have.

    Returns:
        Its bytes; None if it is larger.

    Raises:
        OSError: It is a link, no ordinary file, or cannot be read.
    """
    with open_file(file) as opened:
        content = opened.read(most + 1)
    return content if len(content) <= most else None


def why_no_path(path: object) -> str | None:
    """Why a path cannot be one of a Markdown file below `memory/`; None if it can, on every system.

    Args:
        path: What was given.
    """
    if not isinstance(path, str):
        return "is no text"
    try:
        encoded = path.encode("utf-8")
    except UnicodeEncodeError:
        return "is not UTF-8"
    if len(encoded) > _LONGEST_PATH:
        return "is too long"
    if any(ord(char) < 32 or char in "\\:\x7f" for char in path):
        return "holds a character that not every system takes"
    parts = path.split("/")
    if len(parts) < 2 or parts[0] != MEMORY or any(part in ("", ".", "..") for part in parts):
        return f"does not lie below {MEMORY}/"
    if any(len(part.encode("utf-8")) > _LONGEST_NAME for part in parts):
        return "is too long"
    if not path.lower().endswith(".md"):
        return "is no Markdown file"
    return None


def make_directory(home: Path, path: str) -> None:
    """Makes the directories a file of the home lies in, each for this user only.

    Args:
        home: Directory of the memory.
        path: Path of the file from the home on.

    Raises:
        OSError: A part of it is a link or no directory, or cannot be made.
    """
    directory = home
    for part in path.split("/")[:-1]:
        directory = directory / part
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            if not stat.S_ISDIR(directory.lstat().st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "is a link or no directory", str(directory)) from None
