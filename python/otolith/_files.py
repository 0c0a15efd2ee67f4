"""Putting a whole file in the place of another, so that a crash leaves the old one or the new one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from otolith.exceptions import StoreError


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
        raise StoreError(
            f"{target}: cannot be written: {error.strerror or error}; give this user write access to "
            f"{target.parent}, then repeat",
            path=str(target),
        ) from error


@contextmanager
def replacing(target: Path, *, mode: int) -> Iterator[BinaryIO]:
    """Opens a file beside `target` that takes its place when the block ends well, flushed to disk.

    Args:
        target: The file, symbolic links resolved.
        mode: Permissions of the new file.

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
        os.replace(beside, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    if hasattr(os, "O_DIRECTORY"):
        directory = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
