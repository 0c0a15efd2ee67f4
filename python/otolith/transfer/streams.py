"""Where lines come from and go to: files, stdin and stdout, open files."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

from otolith._files import advice, replacing
from otolith.exceptions import InvalidInput, OtolithError, StoreError

from .destination import check_path, check_stream

__all__ = [
    "LONGEST_HEAD",
    "Line",
    "Output",
    "alone",
    "is_seekable",
    "keeping",
    "lines",
    "output",
    "source",
    "why_no_json",
]

LONGEST_HEAD = 16 << 20
"""Most bytes of the first line of an export."""

_CHUNK = 1 << 20
# A run of bytes without a line end that is longer than this beyond what was allowed is no line any more.
_ENDLESS = 64 << 20
# No first line is near that, and no later one of an export beyond this.
_LONGEST_FIRST = 96 << 20
_LONGEST_RUN = 576 << 20


class Line(NamedTuple):
    """One line of a file.

    Attributes:
        number: From 1.
        content: Its bytes without the line end; None if it is longer than was allowed.
    """

    number: int
    content: bytes | None


def lines(stream: BinaryIO, longest: int) -> Iterator[Line]:
    """The lines of a stream, one in memory at a time. A byte order mark at the start is left out.

    Args:
        stream: An open binary stream.
        longest: Most bytes in a line; the rest of a longer one is skipped.

    Raises:
        InvalidInput: It is UTF-16, or a line does not end, as with a device.
    """
    number = 0
    while content := stream.readline(longest + 1):
        number += 1
        if number == 1:
            if content.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise InvalidInput("src: is UTF-16; convert it to UTF-8 first", field="src")
            content = content.removeprefix(b"\xef\xbb\xbf")
        if len(content) > longest and not content.endswith(b"\n"):
            skipped = 0
            while (rest := stream.readline(_CHUNK)) and not rest.endswith(b"\n"):
                skipped += len(rest)
                if skipped > _ENDLESS:
                    raise _endless(number, longest + skipped)
            yield Line(number, None)
        else:
            yield Line(number, content.rstrip(b"\r\n"))


@contextlib.contextmanager
def source(
    src: object, *, rewindable: bool, look: Callable[[bytes, str], object] | None = None
) -> Iterator[tuple[BinaryIO, str]]:
    """Opens what is to be read, as bytes.

    Args:
        src: A path, `-` for stdin, or an open file.
        rewindable: Whether it must be possible to read it twice; what cannot seek goes to a temporary file.
        look: Called with the first line of such a stream and its name before the rest is copied; may refuse
            it.

    Yields:
        The stream at its start, and its name for messages.
    """
    with contextlib.ExitStack() as stack:
        stream: BinaryIO
        if isinstance(src, str) and src == "-":
            if sys.stdin is None:
                raise InvalidInput("src: stdin is closed; give a file", field="src")
            stream, name = sys.stdin.buffer, "stdin"
        elif isinstance(src, (str, os.PathLike)):
            name = _path(src, "src")
            try:
                stream = stack.enter_context(open(os.path.expanduser(name), "rb"))
            except OSError as error:
                raise _unusable(name, error, "give a file that can be read") from error
        else:
            stream, name = _binary(src, "src"), str(getattr(src, "name", "the open file"))
        try:
            if rewindable and not is_seekable(stream):
                # Bound to this machine, readable by this user only, and gone at the end.
                with keeping():
                    spool = stack.enter_context(tempfile.TemporaryFile(buffering=0))
                first = stream.readline(LONGEST_HEAD)
                if look is not None:
                    look(first, name)
                _copy(first, stream, spool)
                stream = cast("BinaryIO", io.BufferedReader(spool))
            yield stream, name
        except OSError as error:
            raise _unusable(name, error, "reading stopped there") from error


def _copy(first: bytes, stream: BinaryIO, spool: io.FileIO) -> None:
    """Copies all of a stream that is lines, the first of which was read."""
    ended, run = 0, 0
    chunk = first
    while chunk:
        last = chunk.rfind(b"\n")
        ended += chunk.count(b"\n")
        run = run + len(chunk) if last < 0 else len(chunk) - last - 1
        if run > (_LONGEST_RUN if ended else _LONGEST_FIRST):
            raise _endless(ended + 1, run)
        with keeping():
            rest = memoryview(chunk)
            while rest:
                rest = rest[spool.write(rest) :]
        chunk = stream.read(_CHUNK)
    spool.seek(0)


@contextlib.contextmanager
def keeping() -> Iterator[None]:
    """What goes wrong with a temporary file becomes an error that names its place."""
    try:
        yield
    except OSError as error:
        try:
            place = tempfile.gettempdir()
        except OSError:
            place = "no temporary directory"
        raise StoreError(
            f"{place}: {error.strerror or error}; what comes from a pipe is kept there while it is checked: "
            "make room, or name another directory in TMPDIR. Nothing was imported",
            path=place,
            errno=error.errno,
        ) from error


def why_no_json(error: ValueError) -> str:
    """What is wrong with a text, without Python's advice about its limits."""
    if isinstance(error, json.JSONDecodeError):
        return str(error)
    return "a number has too many digits" if "int_max_str_digits" in str(error) else str(error)


def alone(error: OtolithError) -> OtolithError:
    """The error without what it came from: that holds the whole line, and reports keep their errors."""
    error.__cause__ = error.__context__ = error.__traceback__ = None
    return error


def _endless(number: int, size: int) -> InvalidInput:
    return InvalidInput(
        f"src: line {number} has no end within {size} bytes; give a file of lines",
        field="src",
    )


class _Writable(Protocol):
    def write(self, data: bytes, /) -> Any: ...


class Output:
    """Writes lines and keeps their size and checksum.

    Args:
        stream: Where they go.
        path: The file behind it, if it is one.
    """

    def __init__(self, stream: _Writable, path: str | None) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self.path = path
        self.size = 0

    def line(self, text: str) -> None:
        """Writes one line."""
        data = text.encode("utf-8") + b"\n"
        self._hash.update(data)
        self.size += len(data)
        self._stream.write(data)

    def checksum(self) -> str:
        """SHA-256 of all lines so far."""
        return self._hash.hexdigest()


@contextlib.contextmanager
def output(dest: object, home: str | os.PathLike[str] | None) -> Iterator[Output]:
    """Opens what is to be written. A file appears under its name only when the block ends well.

    Args:
        dest: A path, `-` for stdout, or an open file.
        home: The home that is exported, whose own files it must not be.

    Raises:
        InvalidInput: It is one of them, or no place to write to.
    """
    if isinstance(dest, str) and dest == "-":
        if sys.stdout is None:
            raise InvalidInput("dest: stdout is closed; give a file", field="dest")
        check_stream(home, sys.stdout)
        sys.stdout.flush()
        yield Output(sys.stdout.buffer, None)
        sys.stdout.buffer.flush()
    elif not isinstance(dest, (str, os.PathLike)):
        check_stream(home, dest)
        yield Output(_writer(dest), None)
    else:
        name = _path(dest, "dest")
        check_path(home, name)
        try:
            with _file(name) as stream:
                yield Output(stream, name)
        except OSError as error:
            raise _unusable(name, error, f"nothing was written there; {advice(error, name)}") from error


@contextlib.contextmanager
def _file(name: str) -> Iterator[BinaryIO]:
    target = Path(os.path.realpath(os.path.expanduser(name)))
    if target.exists() and not target.is_file() and not target.is_dir():
        # A pipe or device is written to, never replaced.
        with target.open("wb") as stream:
            yield stream
        return
    if target.is_dir():
        raise IsADirectoryError(21, "is a directory", name)
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600
    with replacing(target, mode=mode) as stream:
        yield stream


def _binary(src: object, field: str) -> BinaryIO:
    stream: Any = src
    if isinstance(src, io.TextIOBase):
        stream = getattr(src, "buffer", None)
        if stream is None:
            with _given(field):
                return io.BytesIO(src.read().encode("utf-8", "surrogatepass"))
    if callable(getattr(stream, "readline", None)) and callable(getattr(stream, "read", None)):
        return cast("BinaryIO", _Source(stream, field))
    raise InvalidInput(f"{field}: give a path or an open file, not {type(src).__name__}", field=field)


def _writer(dest: object) -> _Writable:
    if isinstance(dest, io.TextIOBase):
        buffer = getattr(dest, "buffer", None)
        if buffer is None:
            return _Sink(_Text(dest))
        with _given("dest"):
            dest.flush()
        return _Sink(buffer)
    if callable(getattr(dest, "write", None)):
        return _Sink(dest)
    raise InvalidInput(f"dest: give a path or an open file, not {type(dest).__name__}", field="dest")


@contextlib.contextmanager
def _given(field: str) -> Iterator[None]:
    """What a stream of the caller raises, as a closed one does, becomes an error that names the argument."""
    try:
        yield
    except (OSError, OtolithError):
        raise
    except Exception as error:
        raise StoreError(f"{field}: the open file failed with {type(error).__name__}: {error}") from error


class _Source:
    """A stream of the caller, which may give anything.

    Args:
        stream: It.
        field: Name of the argument.
    """

    def __init__(self, stream: Any, field: str) -> None:
        self._stream = stream
        self._field = field

    def read(self, size: int = -1) -> bytes:
        return self._bytes(self._stream.read, size)

    def readline(self, size: int = -1) -> bytes:
        return self._bytes(self._stream.readline, size)

    def seekable(self) -> bool:
        return is_seekable(self._stream)

    def seek(self, place: int) -> int:
        with _given(self._field):
            return int(self._stream.seek(place))

    def tell(self) -> int:
        with _given(self._field):
            return int(self._stream.tell())

    def _bytes(self, call: Callable[[int], object], size: int) -> bytes:
        with _given(self._field):
            data = call(size)
        if not isinstance(data, bytes):
            raise InvalidInput(
                f"{self._field}: the open file gives {type(data).__name__}; open it in binary mode, as 'rb'",
                field=self._field,
            )
        return data


class _Sink:
    """A stream of the caller, which may refuse anything."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: bytes, /) -> None:
        try:
            with _given("dest"):
                self._stream.write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unusable("dest", error, "writing stopped there") from error


class _Text:
    """A text stream without bytes below, such as io.StringIO."""

    def __init__(self, stream: io.TextIOBase) -> None:
        self._stream = stream

    def write(self, data: bytes, /) -> None:
        self._stream.write(data.decode("utf-8"))


def is_seekable(stream: BinaryIO) -> bool:
    """Whether a stream can go back."""
    try:
        return stream.seekable()
    except (AttributeError, ValueError):
        return False


def _path(given: str | os.PathLike[str], field: str) -> str:
    name = os.fspath(given)
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidInput(f"{field}: {name!r} is not a path", field=field)
    return name


def _unusable(name: str, error: OSError, hint: str) -> StoreError:
    return StoreError(f"{name}: {error.strerror or error}; {hint}", path=name, errno=error.errno)
