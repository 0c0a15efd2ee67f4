"""What can go wrong, as one tree.

::

    OtolithError
    ├── NotFound                  no such record, or none within the handle's scope
    ├── InvalidInput              a value that cannot be accepted (also a ValueError)
    │   └── DimensionMismatch     a vector of the wrong width
    ├── Conflict                  the record or file changed since it was read
    ├── StoreError                the store cannot be used: permission, disk, closed or forked handle
    │   ├── StoreLocked           others kept the store locked until the deadline
    │   ├── StoreCorrupt          bytes on disk are not what was written
    │   ├── FormatTooNew          written by a newer version of Otolith
    │   └── ReadOnly              a write was asked of a read-only handle
    ├── EmbedderError             the embedder failed or answered nonsense
    │   └── EmbedderUnavailable   there is none, it is not installed, or it cannot be reached
    └── InternalError             a bug in Otolith

Every message names the path or id and ends with the next step. What a program may want to look at is in
attributes, listed with each class.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "Conflict",
    "DimensionMismatch",
    "EmbedderError",
    "EmbedderUnavailable",
    "FormatTooNew",
    "InternalError",
    "InvalidInput",
    "NotFound",
    "OtolithError",
    "ReadOnly",
    "StoreCorrupt",
    "StoreError",
    "StoreLocked",
]


class OtolithError(Exception):
    """Base of everything Otolith raises on purpose.

    Args:
        message: The whole sentence for a person to read.
        **details: Become attributes of the error.
    """

    def __init__(self, message: str = "", **details: Any) -> None:
        super().__init__(message)
        # Kept in __dict__, which is what the default pickling of exceptions carries over.
        self.__dict__.update(details)


class NotFound(OtolithError):
    """No such record, or none within the handle's scope.

    Attributes:
        what: Kind of thing that was asked for, for instance `episode`.
        id: The id as the caller gave it.
    """

    what: str = "episode"
    id: str = ""


class InvalidInput(OtolithError, ValueError):
    """A value that cannot be accepted; the message says which and what would be.

    Attributes:
        field: The field or argument at fault.
    """

    field: str = ""


class DimensionMismatch(InvalidInput):
    """A vector of the wrong width.

    Attributes:
        expected: Width of the index.
        found: Width that was given.
    """

    field: str = "vector"
    expected: int = 0
    found: int = 0


class Conflict(OtolithError):
    """The record or file changed since the caller read it.

    Attributes:
        what: Record id or path.
        detail: What is there now.
    """

    what: str = ""
    detail: str = ""


class StoreError(OtolithError):
    """The store cannot be used: permission, disk, file system, closed or forked handle.

    Attributes:
        path: The file or directory at fault.
        errno: The operating system's number for what happened, if it was its refusal.
    """

    path: str | None = None
    errno: int | None = None


class StoreLocked(StoreError):
    """Others kept the store locked until the deadline.

    Attributes:
        lock: What kept it: `write`, the lock of one commit (reading goes on); `exclusive`, a handle with
            `store.mode = exclusive` (nothing goes on beside it); `shared`, handles in the way of such a one.
        holder_pid: Process id of the holder, if known.
        holder_command: Its command line, shortened, if known.
        holder_since: When it took the lock, RFC 3339 in UTC, if known.
        waited_ms: How long this call waited, in milliseconds.
    """

    lock: str = "write"
    holder_pid: int | None = None
    holder_command: str | None = None
    holder_since: str | None = None
    waited_ms: int = 0


class StoreCorrupt(StoreError):
    """Bytes on disk are not what was written. Nothing was changed.

    Attributes:
        detail: Where and what.
    """

    detail: str = ""


class FormatTooNew(StoreError):
    """Written by a newer version of Otolith. Nothing was changed.

    Attributes:
        what: File or record.
        found: Version found.
        supported: Newest version this build reads.
    """

    what: str = ""
    found: int = 0
    supported: int = 0


class ReadOnly(StoreError):
    """A write was asked of a read-only handle."""


class EmbedderError(OtolithError):
    """The embedder failed or answered nonsense. Text is kept; its vectors can be made later.

    Attributes:
        embedder: Spec of the embedder, if known.
    """

    embedder: str | None = None


class EmbedderUnavailable(EmbedderError):
    """There is no embedder, it is not installed, or it cannot be reached.

    Attributes:
        retry_after: Seconds after which asking again may help; None when something has to be done first.
    """

    retry_after: float | None = None


class InternalError(OtolithError):
    """A panic or a broken invariant inside Otolith: a bug worth reporting with this text."""
