"""Asking a process of its own about a file that may end it, and telling the ways it may end apart."""

from __future__ import annotations

import collections
import contextlib
import errno
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import otolith
from otolith import exceptions
from otolith.exceptions import InternalError, OtolithError, StoreError

__all__ = ["STORE", "Asked", "End", "Silence", "ask"]

STORE = "episodes.redb"
"""Name of the store file within a home."""

# Between two words of the child there are at most the check of redb, a look at every page, or the check of
# the new file: each is many times faster than this.
_SLOWEST_BYTES_A_SECOND = 5_000_000
_SILENCE = 60.0
_LONGEST_START = 60.0
_LAST_WORDS = 300
_KEPT_WORDS = 50
_CHUNK = 1 << 16

# What a process does to itself over a file. All other signals come from outside.
_CRASHES = frozenset({"SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL"})
_WINDOWS_CRASHES = {
    3: "abort",
    0xC0000005: "access violation",
    0xC0000006: "in-page error",
    0xC000001D: "illegal instruction",
    0xC0000409: "fail-fast",
}
# Rust says this before it aborts.
_NO_MEMORY = re.compile(r"memory allocation of (\d+) bytes failed")

# The standard library of the interpreter goes first, then this very package, wherever it was found; what lies
# beside it comes last, for packages installed into a directory of their own. Nothing of the environment.
_BOOT = """
import importlib.util, json, sys
file, path, beside, question = json.loads(sys.argv[1])
spec = importlib.util.spec_from_file_location("otolith", file, submodule_search_locations=path)
module = importlib.util.module_from_spec(spec)
sys.modules["otolith"] = module
sys.path += beside
spec.loader.exec_module(module)
from otolith.maintenance.child import main
sys.exit(main(question))
"""

_REFUSED = {
    errno.EAGAIN: "this user may start no more processes: end some, or raise the limit (`ulimit -u`)",
    errno.EMFILE: "this process has too many open files: close some, or raise the limit (`ulimit -n`)",
    errno.ENFILE: "the system has too many open files: close some",
    errno.ENOMEM: "memory is short: end something, or raise the limit (`ulimit -v`)",
}
_OTHER_WAY = "run `otolith verify` from a shell"


class Asked(NamedTuple):
    """A question.

    Attributes:
        action: `verify`, `repair` or `distrust`.
        home: The home, as an absolute path.
        lock_timeout: Longest wait for writers, in seconds.
    """

    action: str
    home: str
    lock_timeout: float


class End(NamedTuple):
    """How a process ended that gave no answer.

    Attributes:
        how: The signal or exit code.
        is_crash: Whether the file may be at fault.
        words: The last it said, empty if nothing.
    """

    how: str
    is_crash: bool
    words: str


class Silence(NamedTuple):
    """A process that did not come on and was stopped.

    Attributes:
        seconds: How long it said nothing.
    """

    seconds: float


def ask(asked: Asked, progress: Callable[[int, int | None], object] | None) -> dict[str, Any] | End | Silence:
    """What the process answered, or how it ended.

    Args:
        asked: The question.
        progress: Called with (bytes done, bytes to do).

    Raises:
        StoreError: The process could not be started.
        OtolithError: As it told.
    """
    try:
        with _child(asked) as child:
            if (end := _await_start(child, asked.home)) is not None:
                return end
            return _listen(child, asked, progress)
    except _CannotStart as stopped:
        raise _not_started(asked.home, stopped.error) from stopped.error


def _await_start(child: _Child, home: str) -> End | None:
    """Waits for its first word. How it ended if something outside ended it before."""
    begun = time.monotonic()
    while True:
        told = child.next()
        if told is not None and "started" in told:
            return None
        if told is not None and not told:
            how, is_crash = child.how()
            if how.startswith("SIG") and not is_crash:
                return End(how, False, child.words())
            raise _no_start(home, f"ended at once ({how}){child.words()}")
        if time.monotonic() - begun > _LONGEST_START:
            raise _no_start(home, f"said nothing for {_LONGEST_START:.0f} s{child.words()}")


def _not_started(home: str, error: OSError | RuntimeError) -> StoreError:
    if not isinstance(error, OSError):  # no more threads
        number, what = errno.EAGAIN, str(error)
    else:
        number, what = error.errno or 0, error.strerror or str(error)
    advice = _REFUSED.get(number)
    if advice is None:
        return _no_start(home, f"cannot be run ({what})", number)
    return StoreError(
        f"{home}: the process that looks at the file cannot be started: {what}; {advice}, then repeat. "
        "Nothing was changed",
        path=home,
        errno=number,
    )


def _no_start(home: str, what: str, number: int | None = None) -> StoreError:
    return StoreError(
        f"{home}: the process that looks at the file did not start: {sys.executable} {what}; see that it "
        f"runs Python, or {_OTHER_WAY}. Nothing was changed",
        path=home,
        errno=number,
    )


def _listen(
    child: _Child, asked: Asked, progress: Callable[[int, int | None], object] | None
) -> dict[str, Any] | End | Silence:
    size = _size(asked.home)
    patience = asked.lock_timeout + _SILENCE + size / _SLOWEST_BYTES_A_SECOND
    heard = time.monotonic()
    while True:
        told = child.next()
        if told is None:
            if time.monotonic() - heard > patience:
                return Silence(patience)
            continue
        heard = time.monotonic()
        if "progress" in told:
            if progress is not None:
                progress(*told["progress"])
        elif "error" in told:
            raise _error(told["error"])
        elif "done" in told:
            done: dict[str, Any] = told["done"]
            return done
        elif not told:
            how, is_crash = child.how()
            words = child.words()
            wanted = _NO_MEMORY.search(words)
            # A length read from a damaged file is beyond all measure; what is less was honestly needed.
            if wanted and int(wanted[1]) <= size + (1 << 30):
                is_crash = False
            return End(how, is_crash, words)


class _CannotStart(Exception):
    def __init__(self, error: OSError | RuntimeError) -> None:
        super().__init__(str(error))
        self.error = error


class _Child:
    """A running child: what it says, and its last words."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._words: collections.deque[str] = collections.deque(maxlen=_KEPT_WORDS)
        self._threads = [
            threading.Thread(target=one, args=(stream,), name="otolith-verify", daemon=True)
            for one, stream in ((self._hear, process.stdout), (self._note, process.stderr))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def next(self) -> dict[str, Any] | None:
        """What it said; None if nothing for now, empty at its end."""
        try:
            return self._said.get(timeout=0.2)
        except queue.Empty:
            return None

    def how(self) -> tuple[str, bool]:
        """How it ended, and whether by its own doing."""
        code = self.process.wait()
        if os.name == "nt":
            name = _WINDOWS_CRASHES.get(code & 0xFFFFFFFF)
            return name or f"exit code {code}", name is not None
        if code >= 0:
            return f"exit code {code}", False
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return name, name in _CRASHES

    def words(self) -> str:
        """The last it said, to be put behind something; call it at its end."""
        self._threads[1].join(timeout=1)
        text = " ".join(" ".join(list(self._words)[-3:]).split())
        return f": {text[-_LAST_WORDS:]}" if text else ""

    def stop(self) -> None:
        """Ends it. Killed at any point, it leaves the old file or the new one."""
        process = self.process
        if process.poll() is None and sys.exc_info()[0] is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.5)
        # Also what it started itself sees the end of stdin, if it is a script around the interpreter.
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.kill()
        process.wait()
        for thread, stream in zip(self._threads, (process.stdout, process.stderr), strict=True):
            if thread.ident is not None:
                thread.join(timeout=5)
            if stream is not None and not thread.is_alive():
                stream.close()

    def _hear(self, stream: IO[bytes]) -> None:
        for line in stream:
            try:
                told = json.loads(line)
            except ValueError:
                told = None
            if isinstance(told, dict) and told:
                self._said.put(told)
            else:
                # Something of the environment prints before it starts, or its end cut it off.
                self._add(line)
        self._said.put({})

    def _note(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._add(line)

    def _add(self, line: bytes) -> None:
        text = line[-_CHUNK:].decode("utf-8", "replace").strip()
        if text:
            self._words.append(text)


@contextlib.contextmanager
def _child(asked: Asked) -> Iterator[_Child]:
    """A running child. It is gone when the context is left."""
    if not sys.executable:
        raise StoreError(
            f"{asked.home}: no Python is known to look at the file with (`sys.executable`); {_OTHER_WAY}",
            path=asked.home,
        )
    path = [os.path.abspath(one) for one in otolith.__path__]
    question = [asked.action, asked.home, str(asked.lock_timeout)]
    told = json.dumps([str(otolith.__file__), path, [os.path.dirname(one) for one in path], question])
    # -I: neither the environment nor a directory somebody else made is a place to import from.
    flags = ["-I", "-X", f"utf8={sys.flags.utf8_mode}"]
    try:
        process = subprocess.Popen(
            [sys.executable, *flags, "-c", _BOOT, told],
            # Held open for as long as this process lives.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise _CannotStart(error) from error
    child = _Child(process)
    try:
        try:
            child.start()
        except RuntimeError as error:  # no more threads
            raise _CannotStart(error) from error
        yield child
    finally:
        child.stop()


def _size(home: str) -> int:
    try:
        return os.stat(os.path.join(home, STORE)).st_size
    except OSError:
        return 0


def _error(told: dict[str, Any]) -> OtolithError:
    kind = getattr(exceptions, told["kind"], InternalError)
    error = kind(told["message"], **told["details"])
    assert isinstance(error, OtolithError)
    return error
