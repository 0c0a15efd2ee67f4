"""Paths, and putting a whole file in the place of another, so that a crash leaves the old or the new one."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from otolith.exceptions import InvalidInput, StoreError

_ADVICE = {
    errno.ENOSPC: "its disk is full: make room",
    errno.EDQUOT: "this user's share of its disk is used up: make room",
    errno.EROFS: "its file system is read-only: choose another place",
    errno.EACCES: "give this user write access to {parent}",
    errno.EPERM: "give this user write access to {parent}",
    errno.ENOENT: "make {parent} first, or choose another place",
    errno.ENOTDIR: "a part of the path is a file: choose another place",
    errno.EEXIST: "a part of the path is a file: choose another place",
    errno.EISDIR: "give the name of a file",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "its symbolic links lead in a circle: mend them",
}


def advice(error: OSError, path: str | os.PathLike[str]) -> str:
    """The next step after a file could not be written, by what the system said.

    Args:
        error: What it said.
        path: The file.
    """
    known = _ADVICE.get(error.errno or 0, "see what the system says of it")
    return known.format(parent=os.path.dirname(os.fspath(path)) or "the directory")


def absolute(field: str, path: str) -> str:
    """An absolute path: `~` expanded, a relative one taken from the working directory.

    Args:
        field: Name for the error.
        path: What was given.

    Raises:
        InvalidInput: It is relative and the working directory is gone.
    """
    path = os.path.expanduser(path)
    try:
        return os.path.abspath(path)
    except OSError as error:
        raise InvalidInput(
            f"{field}: {path!r} is relative and there is no working directory ({error.strerror}); "
            "give an absolute path",
            field=field,
        ) from None


def replace_file(target: Path, content: bytes, *, mode: int) -> None:
    """Puts `content` in the place of a file: written beside it, flushed to disk, renamed.

    Args:
        target: The file; a symbolic link is followed, so that the link stays. Missing directories are made,
            for this user only.
        content: All bytes of the new file.
        mode: Permissions of the new file.

    Raises:
        StoreError: It cannot be written; the old file is as it was.
    """
    target = Path(os.path.realpath(target))
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(target, mode=mode) as stream:
            stream.write(content)
    except OSError as error:
        raise _unwritable(target, error) from error


def create_file(target: Path, content: bytes, *, mode: int) -> None:
    """Makes a file that must not be there yet: written beside its name, flushed to disk, then named.

    Args:
        target: The file; its directory is there.
        content: All its bytes.
        mode: Its permissions.

    Raises:
        FileExistsError: Something has that name, be it a link that leads nowhere; it is as it was.
        StoreError: It cannot be written.
    """
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, "is there already", str(target))
    try:
        with replacing(target, mode=mode, overwrite=False) as stream:
            stream.write(content)
    except FileExistsError:
        raise
    except OSError as error:
        raise _unwritable(target, error) from error


def _unwritable(target: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{target}: cannot be written: {error.strerror or error}; {advice(error, target)}, then repeat",
        path=str(target),
        errno=error.errno,
    )


def sync_directory(directory: Path) -> None:
    """Makes the names in a directory durable, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def replacing(target: Path, *, mode: int, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Opens a file beside `target` that takes its place when the block ends well, flushed to disk.

    Args:
        target: The file, symbolic links resolved.
        mode: Permissions of the new file.
        overwrite: Whether a file of that name may be replaced.

    Raises:
        OSError: It cannot be written; the old file is as it was.
    """
    import tempfile  # costs 10 ms, and most commands write no file

    descriptor, beside = tempfile.mkstemp(prefix=f".{target.name[:200]}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            if hasattr(os, "fchmod"):
                os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        if overwrite:
            os.replace(beside, target)
        else:
            _name_if_free(beside, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    sync_directory(target.parent)


def _name_if_free(beside: str, target: Path) -> None:
    try:
        os.link(beside, target)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links; the name was free when the caller looked.
        os.rename(beside, target)
    else:
        os.unlink(beside)
