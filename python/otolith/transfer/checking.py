"""What can be found out about a file before there is a home to import it into."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO, cast

from .foreign import holds_record
from .locomo import holds_turn, read_document
from .native import check_export, holds_content, look_at_head
from .streams import is_seekable, keeping, source

if TYPE_CHECKING:
    from otolith._core import Engine

__all__ = ["checked"]

_IN_RAM = 1 << 24


@contextlib.contextmanager
def checked(
    src: object,
    *,
    engine: Engine,
    format: str,
    mapping: Mapping[str, str | None] | None,
    key: str | None,
    zone: str | None,
    partial: bool,
) -> Iterator[tuple[BinaryIO, bool]]:
    """Opens a file that is to be imported, and checks what needs no store.

    Args:
        src: As for `import_`.
        engine: An engine in RAM, to try a record of others.
        format: As for `import_`.
        mapping: As for `import_`.
        key: As for `import_`.
        zone: As for `import_`.
        partial: As for `import_`.

    Yields:
        The stream at its start, and whether anything in it can be imported.

    Raises:
        OtolithError: As `import_` would raise.
    """
    with contextlib.ExitStack() as stack:
        stream, name = stack.enter_context(source(src, rewindable=format == "otolith", look=look_at_head))
        if format == "otolith":
            start = stream.tell()
            check_export(stream, name, partial=partial)
            stream.seek(start)
            useful = not partial or holds_content(engine, stream, name)
            stream.seek(start)
            yield stream, useful
            return
        if format == "locomo":
            content = read_document(stream, name)
            yield io.BytesIO(content), holds_turn(engine, content, name, zone=zone)
            return
        kept = tempfile.SpooledTemporaryFile(_IN_RAM)  # noqa: SIM115 (closed by the stack)
        stack.callback(_close, kept)
        again = _Again(stream, name, kept)
        useful = holds_record(engine, cast("BinaryIO", again), mapping=mapping, key=key, zone=zone)
        again.rewind()
        yield cast("BinaryIO", again), useful


def _close(kept: tempfile.SpooledTemporaryFile[bytes]) -> None:
    with contextlib.suppress(OSError):  # of a full disk, which was told
        kept.close()


class _Again:
    """Lines whose beginning is read twice; what follows is read as it comes, as from a pipe.

    Args:
        stream: Where they come from.
        name: Its name for messages.
        kept: Takes the beginning.
    """

    def __init__(self, stream: BinaryIO, name: str, kept: tempfile.SpooledTemporaryFile[bytes]) -> None:
        self._stream = stream
        self._kept = kept
        self._first = True
        self.name = name

    def rewind(self) -> None:
        """Goes back to the beginning, once."""
        with keeping():
            self._kept.seek(0)
        self._first = False

    def seekable(self) -> bool:
        """As of what it reads from."""
        return is_seekable(self._stream)

    def readline(self, size: int = -1) -> bytes:
        """As of a file."""
        return self._next("readline", size)

    def read(self, size: int = -1) -> bytes:
        """As of a file, but the beginning may come in a piece of its own."""
        return self._next("read", size)

    def _next(self, how: str, size: int) -> bytes:
        if not self._first and (kept := bytes(getattr(self._kept, how)(size))):
            return kept
        content = bytes(getattr(self._stream, how)(size))
        if self._first:
            with keeping():
                self._kept.write(content)
        return content
