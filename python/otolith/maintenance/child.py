"""The process that looks at a damaged file: `python -m otolith.maintenance.child ACTION HOME LOCK_TIMEOUT`.

It says on stdout, one JSON object a line: `progress` as often as it wants, then `done` or `error`. Damage may
end it without a word; who started it takes that for an answer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from otolith import _core
from otolith.exceptions import OtolithError

_PLAIN = (str, int, float, type(None))


def main(arguments: list[str]) -> int:
    """Does one action and tells what came of it.

    Args:
        arguments: `verify`, `repair` or `distrust` (a repair whatever is found), the home, seconds.
    """
    # Who started this process decides what an interrupt means; being killed harms nothing.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    action, home, lock_timeout = arguments
    try:
        if action == "verify":
            done = _core.verify_store(home, lock_timeout=float(lock_timeout), progress=_progress)
        else:
            done = _core.repair_store(
                home, lock_timeout=float(lock_timeout), distrust=action == "distrust", progress=_progress
            )
        _tell(done=done)
    except OtolithError as error:
        details = {name: value for name, value in vars(error).items() if isinstance(value, _PLAIN)}
        _tell(error={"kind": type(error).__name__, "message": str(error), "details": details})
    except BrokenPipeError:
        # Nobody listens any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    return 0


def _progress(done: int, total: int) -> None:
    _tell(progress=[done, total])


def _tell(**what: Any) -> None:
    # ASCII, with what is not text in a path escaped: it comes out of `json.loads` as it went in.
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
