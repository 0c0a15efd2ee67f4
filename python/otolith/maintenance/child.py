"""The process that looks at a damaged file; `asking` starts it with ACTION HOME LOCK_TIMEOUT.

It says on its first stdout, one JSON object a line: `started`, `progress` as often as it wants, then `done`
or `error`. Everything else that is printed in it goes to stderr. Damage may end it without a word; who
started it takes that for an answer. It ends when its stdin does: nobody waits for it then, and it holds the
write lock.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any, TextIO

from otolith import _core
from otolith.exceptions import OtolithError

_PLAIN = (str, int, float, type(None))
# How often it looks whether its parent lives, should another process keep its stdin open.
_LOOK = 1.0
_ALONE = 4


def main(arguments: list[str]) -> int:
    """Does one action and tells what came of it.

    Args:
        arguments: `verify`, `repair` or `distrust` (a repair whatever is found), the home, seconds.
    """
    # Who started this process decides what an interrupt means; being killed harms nothing.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    told = _Told(os.fdopen(os.dup(1), "w", encoding="ascii"))
    os.dup2(2, 1)
    action, home, lock_timeout = arguments
    try:
        threading.Thread(target=_end_when_alone, args=(os.getppid(),), daemon=True).start()
        told.say(started=True)
        if action == "verify":
            done = _core.verify_store(home, lock_timeout=float(lock_timeout), progress=told.progress)
        else:
            done = _core.repair_store(
                home,
                lock_timeout=float(lock_timeout),
                distrust=action == "distrust",
                progress=told.progress,
            )
        told.say(done=done)
    except OtolithError as error:
        details = {name: value for name, value in vars(error).items() if isinstance(value, _PLAIN)}
        told.say(error={"kind": type(error).__name__, "message": str(error), "details": details})
    return 0


class _Told:
    """What is said to who started this process.

    Args:
        stream: Where.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, **what: Any) -> None:
        """Says one object."""
        try:
            # ASCII, with what is not text in a path escaped: it comes out of `json.loads` as it went in.
            self._stream.write(json.dumps(what) + "\n")
            self._stream.flush()
        except BrokenPipeError:
            os._exit(_ALONE)

    def progress(self, done: int, total: int) -> None:
        """Says how far it is."""
        self.say(progress=[done, total])


def _end_when_alone(parent: int) -> None:
    """Ends this process, at whatever point, when the one that started it is gone."""
    try:
        while _is_awaited(parent):
            pass
    finally:
        os._exit(_ALONE)


def _is_awaited(parent: int) -> bool:
    if os.name != "nt":
        import select

        if not select.select([0], [], [], _LOOK)[0]:
            return os.getppid() == parent
    return bool(os.read(0, 1))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
