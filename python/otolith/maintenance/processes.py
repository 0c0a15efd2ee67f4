"""What can be told of another process by its number."""

import os
from pathlib import Path

__all__ = ["is_alive", "is_stopped"]


def is_alive(process: int) -> bool:
    """Whether there is such a process; where that cannot be asked, yes."""
    if os.name == "nt":
        return True
    if process <= 0:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass  # one of another user
    return True


def is_stopped(process: int) -> bool:
    """Whether it was stopped, as by Ctrl-Z; no where that cannot be known."""
    try:
        told = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    # The name of the program stands in brackets and may hold anything.
    return told.rpartition(")")[2].split()[:1] in (["T"], ["t"])
