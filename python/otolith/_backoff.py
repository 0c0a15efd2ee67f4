"""How long bulk embedding waits for an embedder that is busy or broken for a moment."""

from __future__ import annotations

from .exceptions import EmbedderError, EmbedderUnavailable

__all__ = ["Backoff"]

_FIRST = 1.0
_LONGEST = 30.0


class Backoff:
    """Pauses between attempts: what the embedder asks for, else a second, doubling to half a minute.

    Args:
        patience: Most seconds of pauses in a row; 0 for none.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._spent = 0.0
        self._next = _FIRST

    def succeeded(self) -> None:
        """Something was done: pauses begin anew."""
        self._spent, self._next = 0.0, _FIRST

    def pause(self, error: EmbedderError) -> float | None:
        """Seconds to wait before another attempt; None when there is no use or no patience left.

        Args:
            error: What went wrong. Only one that says when asking again may help is waited for.
        """
        if not isinstance(error, EmbedderUnavailable) or error.retry_after is None:
            return None
        wanted = max(error.retry_after, self._next)
        if wanted > self._patience - self._spent:
            return None
        self._spent += wanted
        self._next = min(2 * self._next, _LONGEST)
        return wanted
