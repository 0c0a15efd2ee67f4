"""Another embedder for a home that has one: all vectors anew, while the old ones are still searched.

Nothing but the vectors themselves says how far it is. Whoever goes on, in whichever process, makes those that
are missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ._backoff import Backoff
from ._core import reindex_attach, reindex_pending, reindex_purge, reindex_state, reindex_switch
from ._vectors import rows_for
from .exceptions import EmbedderError, OtolithError, ReadOnly
from .records import ReindexReport

if TYPE_CHECKING:
    from ._core import Engine
    from ._vectors import Chosen, Vectors

__all__ = ["reindex"]

# Each goes through all records once more, for what others wrote or changed meanwhile.
_MOST_PASSES = 5


class Pace(NamedTuple):
    """How a reindex is done.

    Attributes:
        batch: Records at a time.
        patience: Most seconds of waiting in a row.
        progress: Called with (done, to do).
    """

    batch: int
    patience: float
    progress: Callable[[int, int | None], object] | None


def reindex(engine: Engine, vectors: Vectors, target: Chosen, pace: Pace, *, dry_run: bool) -> ReindexReport:
    """Gives the home the vectors of `target`.

    Args:
        engine: The open engine.
        vectors: The handle's embedder, which becomes `target` when the home does.
        target: The embedder.
        pace: How.
        dry_run: Only tell what there is to do.

    Raises:
        InvalidInput: The handle has a scope.
        ReadOnly: It refuses writes.
    """
    if engine.read_only and not dry_run:
        raise ReadOnly(
            f"{engine.home}: opened read-only; open it writable to make its vectors anew", path=engine.home
        )
    work = _Work(engine, vectors, target, pace)
    if not dry_run:
        try:
            work.run()
        except KeyboardInterrupt as stopped:
            stopped.add_note(f"{work.embedded} vectors were made and are kept; run it again to go on")
            raise
    return work.report(dry_run)


class _Work:
    """One run."""

    def __init__(self, engine: Engine, vectors: Vectors, target: Chosen, pace: Pace) -> None:
        self._engine = engine
        self._vectors = vectors
        self._target = target
        self._pace = pace
        self._begin = self._state = reindex_state(engine, target.fingerprint)
        self._backoff = Backoff(pace.patience)
        self._width: int | None = self._begin["dim"]
        # Estimates between two looks at all records.
        self._own, self._theirs = self._begin["vectorized"], self._begin["home_vectorized"]
        self._is_home = self._begin["home"] in (None, target.fingerprint)
        self.embedded = self._outdated = self._purged = 0
        self._refused: set[str] = set()
        self._switched = False
        self._error: OtolithError | None = None

    def run(self) -> None:
        """Makes what is missing, gives the home away when it may, removes what is nobody's then."""
        self._try_switch()
        for number in range(_MOST_PASSES):
            before = self.embedded
            if not self._pass(first=number == 0):
                return
            self._look()
            # What was refused before the first vector is recorded nowhere and comes once more.
            if self._state["pending"] == 0 or self.embedded == before:
                break
        self._try_switch(always=True)
        if not self._is_home:
            self._error = self._not_enough()
            return
        self._adopt()
        while removed := reindex_purge(self._engine):
            self._purged += removed

    def _pass(self, *, first: bool) -> bool:
        """Goes through all records once. False when the embedder failed on the way."""
        after: str | None = None
        while True:
            todo, going_on = reindex_pending(
                self._engine,
                self._target.fingerprint,
                after=after,
                limit=self._pace.batch,
                mismatched=first,
            )
            if todo:
                try:
                    self._embed(todo)
                except EmbedderError as failed:
                    pause = self._backoff.pause(failed)
                    self._vectors.note(str(failed), log=pause is not None)  # else the report tells it
                    if pause is None:
                        self._error = failed
                        self._look()
                        return False
                    self._tell()
                    time.sleep(pause)
                    continue
                self._tell()
                self._try_switch()
            if going_on is None:
                return True
            after = going_on

    def _embed(self, todo: list[Any]) -> None:
        rows, answer = rows_for(self._target, todo, self._width)
        self._backoff.succeeded()
        done = reindex_attach(self._engine, self._target.fingerprint, answer)
        if self._width is None:
            self._width = next((len(row) for row in rows if not isinstance(row, str)), None)
        self._vectors.note_refused(self._target, rows, done.reasons)
        self.embedded += done.attached
        self._refused.update(id for id, _ in done.reasons)
        self._refused.difference_update({one.id for one in todo} - {id for id, _ in done.reasons})
        self._outdated += done.outdated
        self._own += done.attached

    def _tell(self) -> None:
        if self._pace.progress is not None:
            begin = self._begin
            total = begin["pending"] + begin["dimension_mismatches"]
            done = self.embedded + len(self._refused) + self._outdated
            self._pace.progress(done, max(total, done))

    def _look(self) -> None:
        self._state = reindex_state(self._engine, self._target.fingerprint)

    def _try_switch(self, *, always: bool = False) -> None:
        """Gives the home to the target if it serves as many records by now, as far as is known here."""
        if self._is_home or not (always or (self._own and self._own >= self._theirs)):
            return
        switched, self._state = reindex_switch(self._engine, self._target.fingerprint)
        self._own, self._theirs = self._state["vectorized"], self._state["home_vectorized"]
        if switched or self._state["home"] in (None, self._target.fingerprint):
            self._switched |= switched
            self._is_home = True
            self._adopt()

    def _adopt(self) -> None:
        home = self._engine.home_embedder()
        if home is None or home[0] == self._target.fingerprint:
            self._vectors.become(self._target)

    def _not_enough(self) -> EmbedderError:
        state, spec = self._state, self._target.spec
        return EmbedderError(
            f"{spec} has vectors of {state['vectorized']} of {state['total']} records, and "
            f"{state['home_vectorized']} are searched by those of {state['home']}, which stay; see in "
            "`otolith status` what was refused, or take another model",
            embedder=spec,
        )

    def report(self, dry_run: bool) -> ReindexReport:
        """What was done, or is to be done."""
        state = self._state
        return ReindexReport(
            embedder=self._target.fingerprint,
            previous=self._begin["home"],
            total=state["total"],
            vectorized=self._begin["vectorized"] if dry_run else state["vectorized"],
            embedded=self.embedded,
            refused=len(self._refused),
            outdated=self._outdated,
            remaining=state["pending"] + (state["dimension_mismatches"] if dry_run else 0),
            switched=self._switched,
            purged=self._purged,
            dry_run=dry_run,
            error=self._error,
        )
