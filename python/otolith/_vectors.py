"""The embedder of one open memory: which it is, and what happens when it is slow, down or wrong.

Text is always stored first. What goes wrong here is counted and said, and never fails a write or a search.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .embedders.base import Misfit, document_rows, fitting, misfit, query_vector, spec_of, stack
from .embedders.languages import cjk_share, english_only
from .embedders.naming import model_of
from .embedders.specs import Wishes, build, from_home, like_home
from .exceptions import EmbedderError, EmbedderUnavailable, InvalidInput, OtolithError

if TYPE_CHECKING:
    from ._core import Engine, PendingText
    from .config import Settings
    from .embedders.base import Embedder, Row, Vector

__all__ = ["Attached", "Chosen", "Question", "Vectors", "is_told", "of_another_model", "rows_for"]

logger = logging.getLogger("otolith")
logger.addHandler(logging.NullHandler())

GIVEN = "given:"
"""How the fingerprint begins of vectors that callers gave without an embedder."""
WRITE_SECONDS = 2.0
"""What a write may spend on its vector; later it is pending."""
QUERY_SECONDS = 5.0
"""What a search may spend on the vector of its question."""

_CONFIGURE = "set one with `otolith config set embedder openai:MODEL` or OTOLITH_EMBEDDER"
_HOME_OF = "the vectors of this home are of {}"
_ANOTHER = "open it with that embedder, or make all vectors anew with `otolith reindex`"
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
    "use a model of many languages such as bge-m3 or multilingual-e5: `otolith reindex --embedder SPEC` "
    "makes all vectors anew"
)


class Chosen(NamedTuple):
    """An embedder as it was when it was chosen: its attributes may be anybody's properties.

    Attributes:
        embedder: The embedder.
        fingerprint: What its vectors are stored under.
        spec: The beginning of that.
    """

    embedder: Embedder
    fingerprint: str
    spec: str

    @classmethod
    def of(cls, embedder: Embedder) -> Chosen:
        """Reads what it is, once."""
        mark = embedder.fingerprint
        return cls(embedder, mark, spec_of(mark))


class Question(NamedTuple):
    """A question as it is searched by meaning.

    Attributes:
        vector: Its vector, None if there is none.
        reason: Why there is none.
        fingerprint: What the vector was made by.
    """

    vector: Vector | None = None
    reason: str | None = None
    fingerprint: str | None = None


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
        self._cache: OrderedDict[tuple[str, str], Vector] = OrderedDict()
        self._hits = self._misses = 0
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._rest_until = 0.0
        self._owned: list[Embedder] = []
        self._settings = settings
        self._now: Chosen | None = None
        self.source = "argument"
        self.reason = "no embedder"
        self.tried: tuple[str, ...] = ()
        self._advice: str | None = None
        embedder = self._choose(wanted, settings)
        if embedder is not None:
            if isinstance(wanted, str):
                self._owned.append(embedder)
            self._now = Chosen.of(embedder)
            engine.use_embedder(self._now.fingerprint)
            other = self._other(self._now)
            if other is not None:
                self.note(other)

    @property
    def now(self) -> Chosen | None:
        """The handle's embedder; another one once `become` was called."""
        return self._now

    @property
    def embedder(self) -> Embedder | None:
        """The same, the embedder alone."""
        return None if self._now is None else self._now.embedder

    @property
    def fingerprint(self) -> str | None:
        """What its vectors are stored under."""
        return None if self._now is None else self._now.fingerprint

    @property
    def spec(self) -> str | None:
        """The beginning of that."""
        return None if self._now is None else self._now.spec

    def _choose(self, wanted: object, settings: Settings) -> Embedder | None:
        wishes = Wishes.of(settings)
        if not isinstance(wanted, str) or wanted != "auto":
            embedder = self._built(wanted, wishes) if isinstance(wanted, str) else build(wanted)
            if embedder is None:
                self.reason = "embedder=none was asked for"
            return embedder
        chosen = settings.get("embedder")
        if chosen != "auto":
            self.source = settings.source("embedder")
            try:
                embedder = self._built(chosen, wishes)
            except EmbedderUnavailable as error:
                # The setting was made for every call, this one has its own business.
                self.reason = str(error)
                self.note(str(error))
                return None
            if embedder is None:
                self.reason = f"embedder=none was asked for ({self.source})"
            return embedder
        home = self._engine.home_embedder()
        if home is None:
            return self._find(wishes)
        embedder = None
        try:
            embedder, self.source = from_home(home[0], settings)
        except (EmbedderError, InvalidInput) as error:  # the name in a home may be of any making
            self.source = str(error)
        if embedder is None:
            self.reason = self.source
        return embedder

    def _find(self, wishes: Wishes) -> Embedder | None:
        """Takes a model that is on this machine, for a home that has no vectors yet."""
        from .embedders.auto import find

        found = find()
        self.tried = found.tried
        if found.spec is not None:
            try:
                embedder = self._built(found.spec, wishes)
                self.source = f"auto; {found.spec} is in {found.where}"
                return embedder
            except EmbedderError as error:
                self.tried = (*found.tried, str(error))
        # Every search says the reason, so it is short; the advice is for those who look or ask to embed.
        self._advice = _CONFIGURE
        self.source = f"not set; {_CONFIGURE}"
        return None

    def _built(self, spec: str, wishes: Wishes) -> Embedder | None:
        """The embedder of a spec, in the form that the home's vectors have if it is the home's."""
        embedder = build(spec, wishes)
        home = self._engine.home_embedder()
        return embedder if embedder is None or home is None else like_home(embedder, home[0], wishes)

    def target(self, wanted: object) -> Chosen:
        """The embedder that a home is to get.

        Args:
            wanted: A spec or an object as they are, whatever form the home has; None for the handle's own.

        Raises:
            EmbedderError: It cannot be had, or there is none.
            InvalidInput: It is no embedder.
        """
        if wanted is None:
            return self._required("reindex")
        if isinstance(wanted, str) and wanted.strip() in ("auto", "none"):
            raise InvalidInput(
                f"embedder: {wanted!r} names no embedder; give a spec such as openai:bge-m3", field="embedder"
            )
        embedder = build(wanted, Wishes.of(self._settings) if isinstance(wanted, str) else None)
        assert embedder is not None, "only none and None are none"
        if isinstance(wanted, str):
            self._owned.append(embedder)
        return Chosen.of(embedder)

    def become(self, chosen: Chosen) -> None:
        """Makes this the handle's embedder: the home has got it."""
        with self._lock:
            # What it was told of the home's former embedder is no longer so.
            self._counts = OrderedDict(
                (text, times) for text, times in self._counts.items() if not text.endswith(_ANOTHER)
            )
            if self._now is not None and self._now.fingerprint == chosen.fingerprint:
                return
            self._now = chosen
            self._cache.clear()
            self._rest_until = 0.0
            self.source = "reindex"
        self._engine.use_embedder(chosen.fingerprint)

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
            now = self._now
            if now is None or self._resting() or self._other(now) is not None:
                return None
            return self.embed(self._engine.pending(ids=list(ids)), seconds=seconds)
        except OtolithError as error:  # a store that is locked by now, too: the text is already safe
            self._failed(error, time.monotonic() - started)
            return None

    def embed(self, todo: Sequence[PendingText], *, seconds: float | None = None) -> Attached:
        """Makes and attaches the vectors of some records.

        Raises:
            EmbedderError: The embedder failed as a whole, or the home has got another one meanwhile; nothing
                was attached.
        """
        now = self._now
        if now is None or not todo:
            return Attached()
        rows, answer = rows_for(now, todo, self._width(now), seconds=seconds)
        self._rest_until = 0.0
        try:
            done = self._engine.attach(answer, embedder=now.fingerprint)
        except InvalidInput as error:
            if error.field != "embedder":
                raise
            raise EmbedderError(self._other(now) or str(error), embedder=now.spec) from error
        self.note_refused(now, rows, done.reasons)
        return Attached(done.attached, done.refused, done.outdated)

    def note_refused(self, now: Chosen, rows: list[Row], reasons: Sequence[tuple[str, str]]) -> None:
        """Counts the vectors that cannot be used, by the reason.

        Args:
            now: Whose they are.
            rows: What it gave.
            reasons: What the engine said of those it was given.
        """
        told = Counter(str(row) for row in rows if isinstance(row, str))
        if not told:
            told = Counter(f"is refused: {reason}" for _, reason in reasons)
        for reason, times in told.items():
            self.note(f"{now.spec}: a vector {reason}; its text is kept and searched by words", times)

    def _width(self, now: Chosen) -> int | None:
        """The width that the home's vectors have, if they are of this embedder."""
        home = self._engine.home_embedder()
        return home[1] if home is not None and home[0] == now.fingerprint else None

    def waiting(self, ids: Sequence[str]) -> int:
        """How many of these records lack a current vector of this embedder."""
        now = self._now
        if now is None or not ids:
            return 0
        if self._other(now) is not None:
            return len(ids)  # as the coverage of this embedder counts them
        return len(self._engine.pending(ids=list(ids)))

    def require(self) -> Chosen:
        """The embedder.

        Raises:
            EmbedderError: There is none, or the home's vectors are of another; says what to do.
        """
        now = self._required("embed")
        other = self._other(now)
        if other is not None:
            raise EmbedderError(f"cannot embed: {other}", embedder=now.spec)
        return now

    def _required(self, what: str) -> Chosen:
        if self._now is None:
            advice = "" if self._advice is None else f"; {self._advice}"
            raise EmbedderUnavailable(f"cannot {what}: {self.reason}{advice}", embedder=None)
        return self._now

    # -- searching ----------------------------------------------------------------------------------------

    def query(self, text: str) -> Question:
        """The vector of a question, or why there is none."""
        now = self._now
        if now is None:
            return Question(reason=self.reason)
        blocked = self._other(now) or self._engine.wants_query_vector()
        if blocked is not None:
            return Question(reason=blocked)
        place = (now.fingerprint, text)
        with self._lock:
            if place in self._cache:
                self._hits += 1
                self._cache.move_to_end(place)
                return Question(self._cache[place], fingerprint=now.fingerprint)
            self._misses += 1
        if self._resting():
            left = max(1.0, self._rest_until - time.monotonic())
            return Question(reason=f"{now.spec} failed a moment ago and is left alone for {left:.0f} s")
        started = time.monotonic()
        try:
            vector = query_vector(now.embedder, text, timeout=QUERY_SECONDS)
            # The engine refuses a vector of another width as a mistake of the caller, which this is not.
            fitting(of_width([vector], self._width(now)), now.spec)
        except EmbedderError as error:
            self._failed(error, time.monotonic() - started)
            return Question(reason=str(error))
        if len(text) <= _CACHED_CHARACTERS:
            with self._lock:
                self._cache[place] = vector
                if len(self._cache) > _CACHED_QUERIES:
                    self._cache.popitem(last=False)
        return Question(vector, fingerprint=now.fingerprint)

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
        """Closes the connections of embedders that were made here."""
        for embedder in self._owned:
            close = getattr(embedder, "close", None)
            if callable(close):
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

    def _other(self, now: Chosen) -> str | None:
        """Why vectors of this embedder cannot go into this home, if so."""
        home = self._engine.home_embedder()
        if home is None or home[0] == now.fingerprint:
            return None
        return f"{_HOME_OF.format(home[0])}, not of {now.fingerprint}; {_ANOTHER}"


def is_told(mark: str, notices: Sequence[str]) -> bool:
    """Whether one of the notices says that the home is of this model, with what to do about it."""
    return any(_HOME_OF.format(mark) in notice for notice in notices)


def of_another_model(mark: str, count: int) -> str:
    """Says of vectors that are not searched whose they are, and what to do.

    Args:
        mark: Fingerprint they are stored under.
        count: Records that have one.
    """
    some = "1 vector" if count == 1 else f"{count} vectors"
    if mark.startswith(GIVEN):
        # Not everybody's to make anew, so a reindex keeps them.
        advice = "they were given by callers and are kept; an export with --no-vectors leaves them behind"
    else:
        advice = "open the memory with it to search them, or make them anew with `otolith reindex`"
    return f"{some} of another model, {spec_of(mark)}; {advice}"


def rows_for(
    now: Chosen, todo: Sequence[PendingText], width: int | None, *, seconds: float | None = None
) -> tuple[list[Row], list[tuple[str, bytes, Any]]]:
    """The vectors of some records, and what to tell the engine of them.

    Args:
        now: Who makes them.
        todo: The records.
        width: Width they must have, if it is known.
        seconds: Limit for all of them.

    Returns:
        A row for each chunk, or why it has none; and for each record what `Engine.attach` takes.

    Raises:
        EmbedderError: The embedder failed as a whole, or every vector is of another width.
    """
    texts = [chunk for one in todo for chunk in one.chunks]
    rows = fitting(of_width(document_rows(now.embedder, texts, timeout=seconds), width), now.spec)
    answer: list[tuple[str, bytes, Any]] = []
    at = 0
    for one in todo:
        own = rows[at : at + len(one.chunks)]
        at += len(one.chunks)
        answer.append((one.id, one.text_hash, _joined(own)))
    return rows, answer


def of_width(rows: list[Row], width: int | None) -> list[Row]:
    """The rows, with a reason in place of each that has another width."""
    if width is None:
        return rows
    return [row if isinstance(row, str) or len(row) == width else misfit(len(row), width) for row in rows]


def _joined(rows: Sequence[Row]) -> Any:
    """The chunks of one record as a matrix, or why the record gets no vector.

    A chunk without a usable vector is a row of NaN, which the engine leaves out: the others serve the record.
    """
    if all(isinstance(row, str) for row in rows):
        reason = rows[0] if rows else "is missing"
        # The engine counts by how a reason begins.
        return f"wrong width: {reason}" if isinstance(reason, Misfit) else reason
    return stack(rows, None)
