"""The embedder of one open memory: which it is, and what happens when it is slow, down or wrong.

Text is always stored first. What goes wrong here is counted and said, and never fails a write or a search.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .embedders.base import document_rows, query_vector, spec_of, stack
from .embedders.specs import build, from_home
from .exceptions import EmbedderError, EmbedderUnavailable, OtolithError

if TYPE_CHECKING:
    from ._core import Engine, PendingText
    from .config import Settings
    from .embedders.base import Embedder, Row, Vector

__all__ = ["Attached", "Vectors"]

logger = logging.getLogger("otolith")
logger.addHandler(logging.NullHandler())

WRITE_SECONDS = 2.0
"""What a write may spend on its vector; later it is pending."""
QUERY_SECONDS = 5.0
"""What a search may spend on the vector of its question."""

_CONFIGURE = "set one with `otolith config set embedder openai:MODEL` or OTOLITH_EMBEDDER"
_ANOTHER = "open it with that embedder, or export with --no-vectors and import into a new home"
# After a failure that took this long, writes and searches leave the embedder alone for a while.
_SLOW_FAILURE = 0.5
_REST_SECONDS = 15.0
_CACHED_QUERIES = 256
_CACHED_CHARACTERS = 2048
_NOTICES = 50


class Attached(NamedTuple):
    """What became of the vectors of some records."""

    attached: int = 0
    refused: int = 0
    outdated: int = 0


class Vectors:
    """The embedder of a handle with its cache of questions and its notices.

    Args:
        engine: The open engine; it is told the embedder's fingerprint.
        wanted: What the caller asked for: `auto`, a spec, an object or None.
        settings: Where `auto` looks first.
    """

    def __init__(self, engine: Engine, wanted: object, settings: Settings) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, Vector] = OrderedDict()
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._rest_until = 0.0
        self._owned = isinstance(wanted, str)
        self.embedder: Embedder | None = None
        self.spec: str | None = None
        self.source = "argument"
        self.reason = "no embedder"
        self._advice: str | None = None
        self._choose(wanted, settings)
        self.fingerprint: str | None = None
        if self.embedder is not None:
            # Read once: it may be anybody's property, and one handle has one embedder.
            self.fingerprint = self.embedder.fingerprint
            self.spec = spec_of(self.fingerprint)
            engine.use_embedder(self.fingerprint)
            other = self._other()
            if other is not None:
                self.note(other)

    def _choose(self, wanted: object, settings: Settings) -> None:
        url, key = settings.get("embedder_url"), settings.get("embedder_key")
        if not isinstance(wanted, str) or wanted != "auto":
            self.embedder = build(wanted, url=url, key=key)
            if self.embedder is None:
                self.reason = "embedder=none was asked for"
            return
        chosen = settings.get("embedder")
        if chosen != "auto":
            self.source = settings.source("embedder")
            try:
                self.embedder = build(chosen, url=url, key=key)
            except EmbedderUnavailable as error:
                # The setting was made for every call, this one has its own business.
                self.reason = str(error)
                self.note(str(error))
                return
            if self.embedder is None:
                self.reason = f"embedder=none was asked for ({self.source})"
            return
        home = self._engine.home_embedder()
        if home is None:
            # Every search says the reason, so it is short; the advice is for those who look or ask to embed.
            self._advice = _CONFIGURE
            self.source = f"not set; {_CONFIGURE}"
            return
        try:
            self.embedder, self.source = from_home(home[0], settings)
        except EmbedderUnavailable as error:
            self.source = str(error)
        if self.embedder is None:
            self.reason = self.source

    # -- writing ------------------------------------------------------------------------------------------

    def after_write(self, ids: Sequence[str], *, seconds: float | None = WRITE_SECONDS) -> Attached | None:
        """Embeds records that were just written; what fails stays pending.

        Args:
            ids: The records.
            seconds: Limit for all of them; None for bulk work.

        Returns:
            What became of them; None if the embedder could not be asked, so that asking on is no use.
        """
        started = time.monotonic()
        try:
            if self.embedder is None or self._resting() or self._other() is not None:
                return None
            return self.embed(self._engine.pending(ids=list(ids)), seconds=seconds)
        except OtolithError as error:  # a store that is locked by now, too: the text is already safe
            self._failed(error, time.monotonic() - started)
            return None

    def embed(self, todo: Sequence[PendingText], *, seconds: float | None = None) -> Attached:
        """Makes and attaches the vectors of some records.

        Raises:
            EmbedderError: The embedder failed as a whole; nothing was attached.
        """
        if self.embedder is None or not todo:
            return Attached()
        texts = [chunk for one in todo for chunk in one.chunks]
        rows = document_rows(self.embedder, texts, timeout=seconds)
        self._rest_until = 0.0
        answer: list[tuple[str, bytes, Any]] = []
        at = 0
        for one in todo:
            own = rows[at : at + len(one.chunks)]
            at += len(one.chunks)
            answer.append((one.id, one.text_hash, _joined(own)))
        done = self._engine.attach(answer)
        bad = [row for row in rows if isinstance(row, str)]
        if bad or done.refused:
            reason = bad[0] if bad else "is refused by the store"
            told = f"{self.spec}: a vector {reason}; its text is kept and searched by words"
            self.note(told, len(bad) or done.refused)
        return Attached(done.attached, done.refused, done.outdated)

    def waiting(self, ids: Sequence[str]) -> int:
        """How many of these records lack a current vector of this embedder."""
        if self.embedder is None or not ids:
            return 0
        if self._other() is not None:
            return len(ids)  # as the coverage of this embedder counts them
        return len(self._engine.pending(ids=list(ids)))

    def require(self) -> Embedder:
        """The embedder.

        Raises:
            EmbedderError: There is none, or the home's vectors are of another; says what to do.
        """
        if self.embedder is None:
            advice = "" if self._advice is None else f"; {self._advice}"
            raise EmbedderUnavailable(f"cannot embed: {self.reason}{advice}", embedder=self.spec)
        other = self._other()
        if other is not None:
            raise EmbedderError(f"cannot embed: {other}", embedder=self.spec)
        return self.embedder

    # -- searching ----------------------------------------------------------------------------------------

    def query(self, text: str) -> tuple[Vector | None, str | None]:
        """The vector of a question, or None and why there is none."""
        if self.embedder is None:
            return None, self.reason
        blocked = self._other() or self._engine.wants_query_vector()
        if blocked is not None:
            return None, blocked
        with self._lock:
            if text in self._cache:
                self._cache.move_to_end(text)
                return self._cache[text], None
        if self._resting():
            return None, f"{self.spec} failed a moment ago and is left alone for {_REST_SECONDS:.0f} s"
        started = time.monotonic()
        try:
            vector = query_vector(self.embedder, text, timeout=QUERY_SECONDS)
        except EmbedderError as error:
            self._failed(error, time.monotonic() - started)
            return None, str(error)
        if len(text) <= _CACHED_CHARACTERS:
            with self._lock:
                self._cache[text] = vector
                if len(self._cache) > _CACHED_QUERIES:
                    self._cache.popitem(last=False)
        return vector, None

    # -- what went wrong ----------------------------------------------------------------------------------

    def note(self, message: str, times: int = 1, *, log: bool = True) -> None:
        """Counts something that went wrong; the first time it is logged too unless the caller tells it."""
        with self._lock:
            first = message not in self._counts
            self._counts[message] = self._counts.pop(message, 0) + times
            if len(self._counts) > _NOTICES:
                self._counts.popitem(last=False)
        if first and log:
            logger.warning("%s", message)

    def notices(self) -> list[str]:
        """What went wrong, newest last, with how often."""
        with self._lock:
            return [f"{text} ({times} times)" if times > 1 else text for text, times in self._counts.items()]

    def close(self) -> None:
        """Closes the connections of an embedder that was made here."""
        close = getattr(self.embedder, "close", None)
        if self._owned and callable(close):
            close()

    def _failed(self, error: OtolithError, seconds: float) -> None:
        if seconds >= _SLOW_FAILURE:
            self._rest_until = time.monotonic() + _REST_SECONDS
        self.note(str(error))

    def _resting(self) -> bool:
        return time.monotonic() < self._rest_until

    def _other(self) -> str | None:
        """Why vectors of this embedder cannot go into this home, if so."""
        home = self._engine.home_embedder()
        if home is None or self.embedder is None or home[0] == self.fingerprint:
            return None
        return f"the vectors of this home are of {home[0]}, not of {self.fingerprint}; {_ANOTHER}"


def _joined(rows: Sequence[Row]) -> Any:
    """The chunks of one record as a matrix, or why the record gets no vector.

    A chunk without a usable vector is a row of NaN, which the engine leaves out: the others serve the record.
    """
    if all(isinstance(row, str) for row in rows):
        return rows[0] if rows else "is missing"
    return stack(rows, None)
