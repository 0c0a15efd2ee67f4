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

from .embedders.base import document_rows, fitting, misfit, query_vector, spec_of, stack
from .embedders.languages import cjk_share, english_only
from .embedders.naming import model_of
from .embedders.specs import Wishes, build, from_home, like_home
from .exceptions import EmbedderError, EmbedderUnavailable, InvalidInput, OtolithError

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
_LONGEST_REST = 60.0
_CACHED_QUERIES = 256
_CACHED_CHARACTERS = 2048
_NOTICES = 50
# One letter in twenty is no accident; what such a model makes of the text has no meaning.
_FOREIGN_SHARE = 0.05
_SAMPLED = 200
_SAMPLED_CHARACTERS = 1000
_MULTILINGUAL = (
    "use a model of many languages such as bge-m3 or multilingual-e5 (export with --no-vectors, import into "
    "a new home)"
)


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
        self._hits = self._misses = 0
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._rest_until = 0.0
        self._owned = isinstance(wanted, str)
        self.embedder: Embedder | None = None
        self.spec: str | None = None
        self.source = "argument"
        self.reason = "no embedder"
        self.tried: tuple[str, ...] = ()
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
        wishes = Wishes.of(settings)
        if not isinstance(wanted, str):
            self.embedder = build(wanted)
            if self.embedder is None:
                self.reason = "embedder=none was asked for"
            return
        if wanted != "auto":
            self.embedder = self._built(wanted, wishes)
            if self.embedder is None:
                self.reason = "embedder=none was asked for"
            return
        chosen = settings.get("embedder")
        if chosen != "auto":
            self.source = settings.source("embedder")
            try:
                self.embedder = self._built(chosen, wishes)
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
            self._find(wishes)
            return
        try:
            self.embedder, self.source = from_home(home[0], settings)
        except (EmbedderError, InvalidInput) as error:  # the name in a home may be of any making
            self.source = str(error)
        if self.embedder is None:
            self.reason = self.source

    def _find(self, wishes: Wishes) -> None:
        """Takes a model that is on this machine, for a home that has no vectors yet."""
        from .embedders.auto import find

        found = find()
        self.tried = found.tried
        if found.spec is not None:
            try:
                self.embedder = self._built(found.spec, wishes)
                self.source = f"auto; {found.spec} is in {found.where}"
                return
            except EmbedderError as error:
                self.tried = (*found.tried, str(error))
        # Every search says the reason, so it is short; the advice is for those who look or ask to embed.
        self._advice = _CONFIGURE
        self.source = f"not set; {_CONFIGURE}"

    def _built(self, spec: str, wishes: Wishes) -> Embedder | None:
        """The embedder of a spec, in the form that the home's vectors have if it is the home's."""
        embedder = build(spec, wishes)
        home = self._engine.home_embedder()
        return embedder if embedder is None or home is None else like_home(embedder, home[0], wishes)

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
        rows = self._of_home(rows)
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

    def _of_home(self, rows: list[Row]) -> list[Row]:
        """The rows, with a reason in place of each whose width is not that of the home.

        Raises:
            EmbedderError: None has it.
        """
        home = self._engine.home_embedder()
        if home is None:
            return rows
        width = home[1]
        checked = [
            row if isinstance(row, str) or len(row) == width else misfit(len(row), width) for row in rows
        ]
        return fitting(checked, str(self.spec))

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
                self._hits += 1
                self._cache.move_to_end(text)
                return self._cache[text], None
            self._misses += 1
        if self._resting():
            left = max(1.0, self._rest_until - time.monotonic())
            return None, f"{self.spec} failed a moment ago and is left alone for {left:.0f} s"
        started = time.monotonic()
        try:
            vector = query_vector(self.embedder, text, timeout=QUERY_SECONDS)
            # The engine refuses a vector of another width as a mistake of the caller, which this is not.
            self._of_home([vector])
        except EmbedderError as error:
            self._failed(error, time.monotonic() - started)
            return None, str(error)
        if len(text) <= _CACHED_CHARACTERS:
            with self._lock:
                self._cache[text] = vector
                if len(self._cache) > _CACHED_QUERIES:
                    self._cache.popitem(last=False)
        return vector, None

    def unread_script(self, engine: Engine) -> str | None:
        """Says so if the newest records hold Chinese, Japanese or Korean and the model knows English only."""
        model = None if self.spec is None else model_of(self.spec)
        if model is None or not english_only(model):
            return None
        page, _ = engine.page(None, newest_first=True, limit=_SAMPLED)
        share = cjk_share(
            part[:_SAMPLED_CHARACTERS] for one in page for part in (one.title, one.summary, one.body) if part
        )
        if share <= _FOREIGN_SHARE:
            return None
        return (
            f"{share:.0%} of the letters in the newest {len(page)} records are Chinese, Japanese or Korean, "
            f"which {self.spec} does not know; {_MULTILINGUAL}"
        )

    def cached_queries(self) -> dict[str, int]:
        """How the cache of question vectors is doing."""
        with self._lock:
            return {
                "size": len(self._cache),
                "capacity": _CACHED_QUERIES,
                "hits": self._hits,
                "misses": self._misses,
            }

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
        rest = _REST_SECONDS if seconds >= _SLOW_FAILURE else 0.0
        if isinstance(error, EmbedderUnavailable) and error.retry_after is not None:
            rest = max(rest, min(error.retry_after, _LONGEST_REST))  # a server that says when is believed
        if rest:
            self._rest_until = time.monotonic() + rest
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
