"""Checking and repairing in a process of its own.

redb may end the process on a damaged page. The check is made so that it never shows it one, and still runs
in a child: whatever happens to it is an answer, and it can be stopped while it waits in the kernel for a
lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from otolith._arguments import check_progress, home_path, settings_for
from otolith._fields import flag
from otolith.config import checked_lock_timeout
from otolith.exceptions import OtolithError, StoreError
from otolith.records import Loss, Problem, Repair, VerifyReport

from .asking import STORE, Asked, End, Silence, ask
from .traces import Traces

Progress = Callable[[int, "int | None"], object]


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
        StoreError: It cannot be looked at or repaired, or something outside ended the process that did it.
            Nothing was changed unless the message says so, which then names what was kept.
        InvalidInput: An argument cannot be.
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
    lock_timeout = checked_lock_timeout(lock_timeout)
    where = os.path.abspath(os.fspath(home))
    started = time.monotonic()
    traces = Traces.of(where)
    crashed: tuple[Problem, ...] = ()
    try:
        answer = ask(Asked("repair" if repair else "verify", where, lock_timeout), progress)
        if isinstance(answer, End) and answer.is_crash and not (repair and traces.is_swapped()):
            told = f"the check of the file ended its process ({answer.how}){answer.words}"
            crashed = (Problem("file", "", "", told),)
            if not repair:
                seconds = time.monotonic() - started
                return VerifyReport(
                    ok=False, problems=crashed, records=0, vectors=0, bytes=_size(where), seconds=seconds
                )
            answer = ask(Asked("distrust", where, lock_timeout), progress)
    except BaseException as error:
        _add(error, traces.told() if repair else "")
        raise
    if isinstance(answer, dict):
        return reported(answer, crashed, time.monotonic() - started)
    raise StoreError(
        f"{where}: {_stopped(answer, 'repair' if repair else 'check')}. "
        f"{(traces.told() if repair else '') or 'Nothing was changed'}",
        path=where,
    )


def _stopped(answer: End | Silence, what: str) -> str:
    if isinstance(answer, Silence):
        return (
            f"the {what} did not come on for {answer.seconds:.0f} s and was stopped; look at the disk, then "
            "repeat"
        )
    told = f"the process of the {what} was ended by {answer.how}{answer.words}"
    if answer.is_crash:
        return f"{told}; keep the file and restore a backup"
    if answer.how == "SIGKILL":
        return f"{told}; that says nothing of the file. See that there is enough memory, then repeat"
    return f"{told}; that says nothing of the file. Repeat"


def _add(error: BaseException, told: str) -> None:
    """Puts what happened beside what stopped the call."""
    if not told:
        return
    if isinstance(error, OtolithError):
        error.args = (f"{error}. {told}",)
    else:
        error.add_note(told)


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
        return os.stat(os.path.join(home, STORE)).st_size
    except OSError:
        return 0
