"""Backup: a directory that is a home, complete and checked before it has its name."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otolith._core import Engine
from otolith._files import absolute, advice, sync_directory
from otolith._home_files import Found, make_directory, memory_files, open_file
from otolith.exceptions import InvalidInput, StoreCorrupt, StoreError
from otolith.records import BackupReport

from .compacting import STORE
from .processes import is_alive

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["back_up"]

_BESIDE = ("config.toml", ".gitignore")
_MARK = ".backup-"


def back_up(
    engine: Engine, dest: object, *, progress: Callable[[int, int | None], object] | None
) -> BackupReport:
    """Copies a home while others write to it.

    The copy grows in a hidden directory beside `dest`, is flushed to disk, opened and read through, and only
    then renamed. Whatever goes wrong, nothing has the name `dest`.

    Args:
        engine: The open engine.
        dest: A directory that is not there, or is empty.
        progress: Called with (rows done, rows to do).

    Raises:
        InvalidInput: `dest` cannot be, or the handle has no whole home to copy.
        StoreError: The backup could not be made.
    """
    if engine.home is None:
        raise InvalidInput("backup: a memory in RAM has no file; use export", field="home")
    if engine.scope:
        raise InvalidInput(
            f"backup: copies the whole home, and this handle sees {engine.scope} only; open it without "
            "scope, or use export",
            field="scope",
        )
    home = Path(engine.home)
    target = _target(dest, home)
    leftovers = tuple(_leftovers(target))
    draft = target.parent / f".{_short(target)}{_MARK}{os.getpid()}-{secrets.token_hex(4)}"
    process = os.getpid()
    try:
        draft.mkdir(mode=0o700)
        told = engine.backup(draft / STORE, progress=progress)
        files, size, skipped = _copy_files(home, draft)
        vectors = _check(draft, told)
        _sync(draft)
        if os.name == "nt" and target.is_dir():
            target.rmdir()  # a rename does not replace an empty directory there
        draft.rename(target)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise _unwritten(target, error) from error
    except BaseException:
        if os.getpid() == process:  # a forked child that ends in here has no draft of its own
            shutil.rmtree(draft, ignore_errors=True)
        raise
    try:
        sync_directory(target.parent)
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        raise _unwritten(target, error) from error
    return BackupReport(
        path=str(target),
        records=told["records"],
        vectors=vectors,
        last_sequence=told["last_sequence"],
        bytes=told["bytes"] + size,
        files=files,
        skipped=tuple(skipped),
        leftovers=leftovers,
    )


def _target(dest: object, home: Path) -> Path:
    """Where the backup is to lie; nothing may be there."""
    if not isinstance(dest, (str, os.PathLike)):
        raise InvalidInput(f"dest: give a path, not {type(dest).__name__}", field="dest")
    text = os.fspath(dest)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise InvalidInput(f"dest: {text!r} is not a path", field="dest")
    target = Path(absolute("dest", text))
    real = Path(os.path.realpath(target.parent), target.name)
    if real.is_relative_to(os.path.realpath(home)):
        raise InvalidInput(
            f"dest: {target} lies in the home itself, where it would keep what is forgotten later; choose a "
            "place outside",
            field="dest",
        )
    try:
        if not os.path.lexists(target):
            if not target.parent.is_dir():
                raise StoreError(
                    f"{target.parent}: is no directory; make it first, or choose another place",
                    path=str(target.parent),
                )
            return target
        free = not target.is_symlink() and target.is_dir() and not any(target.iterdir())
    except OSError as error:
        raise _unwritten(target, error) from error
    if not free:
        raise StoreError(
            f"{target}: is there already, and a backup replaces nothing; choose another name",
            path=str(target),
        )
    return target


def _short(target: Path) -> str:
    """Its name, cut so that there is room for what is put around it: names are at most 255 bytes."""
    return os.fsdecode(os.fsencode(target.name)[:180])


def _leftovers(target: Path) -> Iterator[str]:
    """Directories that earlier backups of this name left when they were killed."""
    start = f".{_short(target)}{_MARK}"
    try:
        names = sorted(os.listdir(target.parent))
    except OSError:
        return
    for name in names:
        process = name.removeprefix(start).partition("-")[0]
        if name.startswith(start) and process.isdecimal() and not is_alive(int(process)):
            yield str(target.parent / name)


def _copy_files(home: Path, draft: Path) -> tuple[int, int, list[tuple[str, str]]]:
    """Copies settings and Markdown files; how many, their bytes, and what was left out."""
    count = size = 0
    skipped: list[tuple[str, str]] = []
    beside = (Found(name, "is a symbolic link" if (home / name).is_symlink() else None) for name in _BESIDE)
    for path, reason in (*beside, *memory_files(home)):
        if reason is None:
            try:
                source = open_file(home / path)
            except FileNotFoundError:
                continue
            except OSError as error:
                reason = f"cannot be read: {error.strerror}"
        if reason is not None:
            skipped.append((path, reason))
            continue
        with source:
            make_directory(draft, path)
            descriptor = os.open(draft / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
                copy.flush()
                os.fsync(copy.fileno())
                size += copy.tell()
        count += 1
    return count, size, skipped


def _check(draft: Path, told: dict[str, Any]) -> int:
    """Opens the copy as a home and reads every row.

    Returns:
        How many rows of vectors it has.

    Raises:
        StoreCorrupt: It is not what was written.
    """
    # Only this process knows of it: there is nobody to lock out, on a network either.
    copy = Engine.open(draft, create=False, read_only=True, network="allow")
    try:
        found = copy.census()
    finally:
        copy.close()
    wrong = list(found["unreadable"])
    for name in ("records", "last_sequence"):
        if found[name] != told[name]:
            wrong.append(f"{name} is {found[name]} and was {told[name]} when it was written")
    if wrong:
        raise StoreCorrupt(
            f"{draft / STORE}: the copy cannot be read back: {wrong[0]}; look at the disk, then repeat. "
            "Nothing was kept",
            path=str(draft / STORE),
            detail="; ".join(wrong),
        )
    return int(found["vectors"])


def _sync(directory: Path) -> None:
    for inner, _, _ in os.walk(directory, topdown=False):
        sync_directory(Path(inner))


def _unwritten(target: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{target}: the backup cannot be written: {error.strerror or error}; {advice(error, target)}, then "
        "repeat. Nothing was kept",
        path=str(target),
        errno=error.errno,
    )
