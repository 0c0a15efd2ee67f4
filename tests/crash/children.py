"""Forked children that answer over a pipe, are signalled, and are looked after when they hang."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

# Imported by the library when it needs them; here once, so that no child's time goes into it.
for _name in (
    "numpy.random",
    "otolith.config",
    "otolith.embedders.hashed",
    "otolith.embedders.specs",
    "otolith.transfer.exporting",
    "otolith.trusted",
    "platformdirs",
    "unicodedata",
):
    importlib.import_module(_name)


@dataclass
class Child:
    """One forked process. The parent must not have a store open."""

    name: str
    pid: int
    answer: int
    _said: bytearray = field(default_factory=bytearray)
    code: int | None = None

    @classmethod
    def start(cls, name: str, work: Callable[[Callable[[Any], None]], None]) -> Child:
        """Runs `work` in a child; what it hands to its argument goes to the parent as JSON lines."""
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            os.close(writing)
            return cls(name, pid, reading)
        code = 70
        try:
            os.close(reading)
            faulthandler.disable()  # an abort is counted, not printed
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

            def say(what: Any) -> None:
                left = json.dumps(what).encode() + b"\n"
                while left:
                    left = left[os.write(writing, left) :]

            work(say)
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        except BaseException:  # noqa: BLE001 - the parent sees the exit code and the text
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def signal(self, number: int) -> None:
        """Sends a signal, if the process is still there."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def ended(self) -> bool:
        """Whether it is over; does not wait."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def wait(self, seconds: float) -> bool:
        """Waits for its end, reading what it says; False if it is still there."""
        deadline = time.monotonic() + seconds
        while not self.ended():
            if time.monotonic() > deadline:
                return False
            self._read(0.002)
        return True

    def kill(self) -> None:
        """SIGKILL, and waits for the end."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        while not self.wait(1):
            pass

    def answers(self) -> list[Any]:
        """What it said so far, a torn last line left out."""
        while self._read(0):
            pass
        return [json.loads(line) for line in bytes(self._said).split(b"\n")[:-1]]

    def close(self) -> None:
        """Closes the pipe."""
        if self.answer >= 0:
            os.close(self.answer)
            self.answer = -1

    def _read(self, seconds: float) -> bool:
        if self.answer < 0 or not select.select([self.answer], [], [], seconds)[0]:
            return False
        part = os.read(self.answer, 1 << 16)
        self._said += part
        if not part and seconds:
            time.sleep(seconds)  # closed: the end is near
        return bool(part)


def ask(name: str, work: Callable[[Callable[[Any], None]], None], seconds: float) -> tuple[int, list[Any]]:
    """Runs `work` in a child to its end; its exit code (SIGKILL's at the deadline) and what it said."""
    child = Child.start(name, work)
    try:
        if not child.wait(seconds):
            child.kill()
        return child.code or 0, child.answers()
    finally:
        child.close()
