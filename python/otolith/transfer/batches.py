"""Records of others on their way into the store, some hundred in a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from otolith.exceptions import OtolithError, StoreError
from otolith.records import ImportReport

from .streams import alone

if TYPE_CHECKING:
    from otolith._core import Engine

__all__ = ["Batches"]

_RECORDS = 500
_BYTES = 16 << 20


class Batches:
    """Collects records, writes them, and counts what became of them.

    Args:
        engine: The open engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # With their ordinals: what fails while it is read is told among what fails while it is written.
        self._waiting: list[tuple[int, int | str, dict[str, Any]]] = []
        self._failed: list[tuple[int, int | str, OtolithError]] = []
        self._ordinal = 0
        self._size = 0
        self._created = self._replaced = self._unchanged = 0
        self.read = 0

    @property
    def taken(self) -> int:
        """How many are in the store now."""
        return self._created + self._replaced + self._unchanged

    def add(self, place: int | str, record: dict[str, Any], size: int) -> bool:
        """Takes a record; it is written later.

        Args:
            place: Where it comes from, for messages.
            record: Its fields, checked.
            size: About how many bytes it has.

        Returns:
            Whether it is time to write.
        """
        self._ordinal += 1
        self._waiting.append((self._ordinal, place, record))
        self._size += size
        return len(self._waiting) >= _RECORDS or self._size >= _BYTES

    def fail(self, place: int | str, error: OtolithError) -> None:
        """Notes a record that cannot be taken."""
        self._ordinal += 1
        self._failed.append((self._ordinal, place, alone(error)))

    def write(self) -> None:
        """Writes what waits, in one transaction.

        Raises:
            StoreError: The store cannot be written.
        """
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting:
            return
        outcomes = self._engine.put_many([record for _, _, record in waiting])
        for (ordinal, place, _), outcome in zip(waiting, outcomes, strict=True):
            error = outcome.error
            if outcome.episode is None:
                if isinstance(error, StoreError):
                    raise error
                told = error if isinstance(error, OtolithError) else OtolithError(str(error))
                self._failed.append((ordinal, place, told))
            elif outcome.created:
                self._created += 1
            elif outcome.changed:
                self._replaced += 1
            else:
                self._unchanged += 1

    def report(self, ignored: Mapping[str, int]) -> ImportReport:
        """What became of all of them.

        Args:
            ignored: Names that were left out, and how often.
        """
        return ImportReport(
            read=self.read,
            created=self._created,
            replaced=self._replaced,
            unchanged=self._unchanged,
            failed=tuple((place, error) for _, place, error in sorted(self._failed, key=lambda one: one[0])),
            ignored=ignored,
        )
