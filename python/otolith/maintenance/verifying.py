"""Checking and repairing in a process of its own.

redb may end the process on a damaged page. The check is made so that it never shows it one, and still runs
in a child: whatever happens to it is an answer, and it can be stopped while it waits in the kernel for a
lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from otolith import exceptions
from otolith._arguments import check_progress, home_path, settings_for
from otolith._fields import flag
from otolith.exceptions import InternalError, OtolithError, StoreError
from otolith.records import Loss, Problem, Repair, VerifyReport

Progress = Callable[[int, "int | None"], object]

_STORE = "episodes.redb"
# Between two words of the child there are at most the check of redb, a look at every page, or the check of
# the new file: each is many times faster than this.
_SLOWEST_BYTES_A_SECOND = 5_000_000
_SILENCE = 60.0


def verify(
    home: str | os.PathLike[str] | None = None,
    *,
    repair: bool = False,
    lock_timeout: float | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Checks a store file for damage, and puts a whole one in its place if asked to.

    The home need not be one that can be opened. Writers wait meanwhile, readers do not. The damaged file is
    kept as it is under a dated name, bytes that cannot be brought back go into `lost+found`; nothing is
    deleted.

    Args:
        home: Its directory; by default the one that `Memory.open` would take.
        repair: Whether to repair what is found.
        lock_timeout: Longest wait for writers, in seconds; by default the setting.
        progress: Called now and then with (bytes done, bytes to do).

    Returns:
        What was found and done.

    Raises:
        StoreError: It cannot be looked at or repaired; nothing was changed.
        FormatTooNew: Written by a newer version; nothing was changed.
    """
    flag("repair", repair)
    check_progress(progress)
    if home is not None:
        home = home_path(home)
    if home is None or lock_timeout is None:
        settings = settings_for(home, None)
        home = settings.home if home is None else home
        lock_timeout = settings.get("lock_timeout") if lock_timeout is None else lock_timeout
    where = os.path.abspath(os.fspath(home))
    started = time.monotonic()
    answer, end = _ask("repair" if repair else "verify", where, lock_timeout, progress)
    crashed: tuple[Problem, ...] = ()
    if answer is None:
        crashed = (Problem("file", "", "", f"the check of the file ended its process ({end})"),)
        if repair:
            answer, end = _ask("distrust", where, lock_timeout, progress)
            if answer is None:
                raise StoreError(
                    f"{where}: repairing it ended the process ({end}); nothing was changed, keep the file "
                    "and restore a backup",
                    path=where,
                )
    seconds = time.monotonic() - started
    if answer is None:
        return VerifyReport(
            ok=False, problems=crashed, records=0, vectors=0, bytes=_size(where), seconds=seconds
        )
    return reported(answer, crashed, seconds)


def reported(answer: dict[str, Any], crashed: tuple[Problem, ...] = (), seconds: float = 0.0) -> VerifyReport:
    """The report in what the compiled module answered.

    Args:
        answer: The answer.
        crashed: What is known beside it.
        seconds: How long it took.
    """
    problems = (*crashed, *(Problem(*problem) for problem in answer["problems"]))
    repaired = None
    if answer.get("kept_as") is not None:
        repaired = Repair(
            kept_as=answer["kept_as"],
            lost_found=answer["lost_found"],
            restored=answer["restored"],
            restored_vectors=answer["restored_vectors"],
            lost=tuple(Loss(*loss) for loss in answer["lost"]),
        )
    return VerifyReport(
        # A repair ends well only when the new file was found whole.
        ok=repaired is not None or not problems,
        problems=problems,
        records=answer["records"],
        vectors=answer["vectors"],
        bytes=answer["bytes"],
        seconds=seconds,
        repaired=repaired,
    )


def _size(home: str) -> int:
    try:
        return os.stat(os.path.join(home, _STORE)).st_size
    except OSError:
        return 0


def _ask(
    action: str, home: str, lock_timeout: float, progress: Progress | None
) -> tuple[dict[str, Any] | None, str]:
    """What the child answered; None when it ended without an answer, and then how."""
    patience = lock_timeout + _SILENCE + _size(home) / _SLOWEST_BYTES_A_SECOND
    with _child(action, home, lock_timeout) as (child, lines):
        heard = time.monotonic()
        while True:
            try:
                line = lines.get(timeout=0.2)
            except queue.Empty:
                if time.monotonic() - heard > patience:
                    raise StoreError(
                        f"{home}: the check did not come on for {patience:.0f} s and was stopped; nothing "
                        "was changed. Look at the disk, then repeat",
                        path=home,
                    ) from None
                continue
            heard = time.monotonic()
            if line is None:
                return None, _how_it_ended(child)
            try:
                told = json.loads(line)
            except ValueError:
                continue  # cut off by its end
            if "progress" in told:
                if progress is not None:
                    progress(*told["progress"])
            elif "error" in told:
                raise _error(told["error"])
            else:
                done: dict[str, Any] = told["done"]
                return done, ""


@contextlib.contextmanager
def _child(
    action: str, home: str, lock_timeout: float
) -> Iterator[tuple[subprocess.Popen[str], queue.SimpleQueue[str | None]]]:
    """A running child and what it says, None at the end. It is gone when the context is left."""
    if not sys.executable:
        raise InternalError("there is no interpreter to check the file with; run `otolith verify` instead")
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    # -P: a directory somebody else made is no place to import from.
    command = [sys.executable, "-P", "-m", "otolith.maintenance.child", action, home, str(lock_timeout)]
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="ascii",
        errors="replace",
        env={**os.environ, "PYTHONPATH": path},
    )
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    reader = threading.Thread(target=_read, args=(child, lines), name="otolith-verify", daemon=True)
    reader.start()
    try:
        yield child, lines
    finally:
        # Killed at any point, it leaves the old file or the new one.
        if child.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=0.5 if sys.exc_info()[0] is None else 0)
        child.kill()
        child.wait()
        reader.join()
        if child.stdout is not None:
            child.stdout.close()


def _read(child: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        lines.put(line)
    lines.put(None)


def _how_it_ended(child: subprocess.Popen[str]) -> str:
    code = child.wait()
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _error(told: dict[str, Any]) -> OtolithError:
    kind = getattr(exceptions, told["kind"], InternalError)
    error = kind(told["message"], **told["details"])
    assert isinstance(error, OtolithError)
    return error
