"""`Memory`: remember, recall, forget."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ._arguments import (
    as_ours,
    check_batch,
    check_embed,
    check_limit,
    check_patience,
    check_progress,
    embedder_spec,
    home_path,
    length_of,
    record_and_vector,
    settings_for,
    to_embed,
)
from ._backoff import Backoff
from ._core import Coverage, Engine, Episode, Hit, Report
from ._fields import filter_fields, flag, moment, record_fields, series
from ._keeping import Keeping, Progress
from ._vectors import Vectors, logger, of_another_model
from .embedders.objects import wrap
from .exceptions import EmbedderError, InvalidInput, OtolithError
from .records import (
    EmbedReport,
    Filter,
    ForgetReport,
    Pending,
    RememberReport,
    Status,
    record_id,
)

if TYPE_CHECKING:
    from types import TracebackType

    from ._core import PendingText
    from ._types import VectorLike
    from .config import Settings
    from .embedders.base import Embedder

__all__ = ["Memory"]

Origin: TypeAlias = Literal["user", "assistant", "tool", "web", "import"]
Which: TypeAlias = "Filter | Mapping[str, Any]"
Id: TypeAlias = "str | Episode | Hit"

_PAGE = 256
_REFUSED = "a given vector was refused ({}); its text is kept"
_EMBED_AT_ONCE = 64


def _close_in(pid: int, engine: Engine) -> None:
    """Closes a handle in the process that opened it; in a forked child it is not ours to close."""
    if os.getpid() == pid:
        engine.close()


def _opened(settings: Settings, home: str | os.PathLike[str] | None, **options: Any) -> Engine:
    """An engine with the settings that all kinds have."""
    try:
        return Engine.open(
            home,
            lock_timeout=settings.get("lock_timeout"),
            analyzer=settings.get("analyzer.name"),
            language=settings.get("analyzer.language"),
            expand=settings.get("analyzer.expand"),
            synonyms=settings.get("analyzer.synonyms"),
            **options,
        )
    except InvalidInput as error:
        if error.field != "synonyms":
            raise
        name = "analyzer.synonyms"
        text = str(error).removeprefix("synonyms: ")
        place = settings.source(name)
        where = "" if place == "flag" else f"{place}: "
        raise InvalidInput(f"{where}{name}: {text}", field=name) from None


class Memory(Keeping):
    """A long-term memory in one directory, shared by any number of processes.

    Open it with `Memory.open`. It is safe to use from many threads, and a context manager.

    >>> import otolith
    >>> with otolith.Memory.open("my-memory") as memory:
    ...     episode = memory.remember("The deploy failed because the token had expired", tags=["deploy"])
    ...     memory.recall("why did the deployment fail?")[0].text
    'The deploy failed because the token had expired'
    """

    def __init__(self, engine: Engine, vectors: Vectors, settings: Settings, origin: str) -> None:
        self._engine = engine
        self._vectors = vectors
        self._settings = settings
        self._origin = origin
        self._damage_told = False

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | None = None,
        *,
        scope: str = "",
        origin: Origin = "assistant",
        embedder: str | Embedder | Callable[[list[str]], Any] | None = "auto",
        create: bool = True,
        read_only: bool = False,
        config: Settings | Mapping[str, Any] | None = None,
    ) -> Memory:
        """Opens a memory.

        With the setting `durability = batched`, a write returns before its commit, which follows within 50
        ms, at a read through the same handle, and at `flush` and `close`. A crash in between loses the latest
        writes, never half of one; a commit that fails is told by the next call. With `store.mode = exclusive`
        the handle has the home to itself: nobody else reads or writes meanwhile.

        Args:
            home: Its directory; by default `OTOLITH_HOME`, else the nearest `.otolith` upward from the
                working directory, else one in the user's data directory.
            scope: Namespace such as `team/app`: every read and write stays at or below it.
            origin: Who writes through this handle; `user` and `assistant` are trusted.
            embedder: `auto` (the one that is set, else the one the home was made with, else a small model
                that lies on this machine, else keywords only), a spec such as `openai:bge-m3`, an object, or
                None for keywords only.
            create: Whether a home that does not exist is made.
            read_only: Whether the handle refuses every write and never touches a byte.
            config: Settings by name that go before everything else, or resolved ones.

        Raises:
            StoreError: The home cannot be used; the message says why and what to do.
            InvalidInput: An argument or setting is wrong.
            EmbedderUnavailable: The embedder that was asked for here cannot be had.
        """
        if home is not None:
            home = home_path(home)
        flag("create", create)
        flag("read_only", read_only)
        settings = settings_for(home, config)
        # Refused before a home is made.
        if isinstance(embedder, str):
            embedder = embedder_spec(embedder)
        elif embedder is not None:
            embedder = wrap(embedder)
        engine = _opened(
            settings,
            home if home is not None else settings.home,
            scope=scope,
            origin=origin,
            create=create,
            read_only=read_only,
            mode=settings.get("store.mode"),
            durability=settings.get("durability"),
            network=settings.get("store.network"),
        )
        try:
            memory = cls(engine, Vectors(engine, embedder, settings), settings, origin)
        except BaseException:
            engine.close()
            raise
        if settings.get("durability") == "batched":
            # A program that ends without closing keeps what was acknowledged, and hears of it if it does not.
            weakref.finalize(memory, _close_in, os.getpid(), engine)
        return memory

    @classmethod
    def _in_ram(cls, settings: Settings) -> Memory:
        """A memory that lives in RAM, without embedder: shows what a call would do before a home is made."""
        engine = _opened(settings, None)
        return cls(engine, Vectors(engine, None, settings), settings, "assistant")

    # -- writing ------------------------------------------------------------------------------------------

    def remember(
        self,
        summary: str,
        *,
        id: str | None = None,
        key: str | None = None,
        vector: VectorLike | None = None,
        embed: Literal["now", "later"] = "now",
        **fields: Any,
    ) -> Episode:
        """Stores one record durably; the same id, or the same key in its scope, replaces.

        Args:
            summary: The memory itself, one sentence or a page.
            id: An id of ours, to write a record again.
            key: Idempotency key, unique within the scope.
            vector: Its vector, made by the handle's embedder; one that cannot be used is refused and counted.
            embed: `now` spends at most 2 seconds on the vector after the text is safe; `later` leaves it to
                `embed_pending`. An embedder in this process (`python:`, an object) cannot be stopped midway.
            **fields: Any other field of `Episode` but those the store sets.

        Raises:
            InvalidInput: A field is wrong or unknown.
            StoreError: It could not be stored.
        """
        check_embed(embed)
        if not isinstance(summary, str):
            raise InvalidInput(f"summary: give a str, not {type(summary).__name__}", field="summary")
        given = {"summary": summary, **fields}
        if key is not None:
            given["key"] = key
        outcome = self._engine.put(record_fields(given), id=id, vector=vector)
        episode = outcome.episode
        assert episode is not None, "a single write gives its record or raises"
        if outcome.vector_refused is not None:
            self._vectors.note(_REFUSED.format(outcome.vector_refused))
        elif vector is None and embed == "now":
            self._vectors.after_write([episode.id])
        return episode

    def remember_many(
        self,
        episodes: Iterable[Episode | Mapping[str, Any] | str],
        *,
        batch: int = 1000,
        embed: Literal["now", "later"] = "now",
        progress: Progress | None = None,
    ) -> RememberReport:
        """Stores many records, one transaction a batch. A record that is wrong does not stop the rest.

        Args:
            episodes: Records; a str is a summary, a dict may hold `id`, `key` and `vector` too.
            batch: Records in a transaction.
            embed: `now` embeds each batch after its commit, as long as the embedder answers.
            progress: Called after each batch with (written or failed so far, total if known).
        """
        check_embed(embed)
        check_batch(batch)
        check_progress(progress)
        supply = iter(series("episodes", episodes, "records"))
        total = length_of(episodes)
        failed: list[tuple[int, OtolithError]] = []
        ids: list[str | None] = []
        created = unchanged = attached = refused = written = waiting = 0
        embedding = embed == "now" and self._vectors.embedder is not None
        while part := list(islice(supply, batch)):
            start = len(ids)
            ids.extend([None] * len(part))
            places: list[int] = []
            records: list[dict[str, Any]] = []
            vectors: list[VectorLike | None] = []
            for place, one in enumerate(part, start):
                try:
                    record, vector = record_and_vector(one)
                except OtolithError as error:
                    failed.append((place, error))
                else:
                    places.append(place)
                    records.append(record)
                    vectors.append(vector)
            bare: list[str] = []
            given = vectors if any(vector is not None for vector in vectors) else None
            outcomes = self._engine.put_many(records, vectors=given) if records else []
            for place, vector, outcome in zip(places, vectors, outcomes, strict=True):
                if outcome.episode is None:
                    failed.append((place, as_ours(outcome.error)))
                    continue
                ids[place] = outcome.episode.id
                written += 1
                created += outcome.created
                unchanged += not outcome.changed
                if outcome.vector_refused is not None:
                    refused += 1
                    self._vectors.note(_REFUSED.format(outcome.vector_refused))
                elif vector is not None:
                    attached += 1
                else:
                    bare.append(outcome.episode.id)
            while embedding and bare:
                done = self._vectors.after_write(bare[:_EMBED_AT_ONCE], seconds=None)
                if done is None:
                    embedding = False  # the rest waits for embed_pending
                else:
                    attached += done.attached
                    refused += done.refused
                    del bare[:_EMBED_AT_ONCE]
            waiting += self._vectors.waiting(bare)
            if progress is not None:
                progress(len(ids), total)
        failed.sort(key=lambda one: one[0])
        return RememberReport(
            written=written,
            created=created,
            replaced=written - created - unchanged,
            failed=tuple(failed),
            ids=tuple(ids),
            vectors_attached=attached,
            vectors_pending=waiting,
            vectors_refused=refused,
            unchanged=unchanged,
        )

    def update(self, id: Id, *, expect: datetime | None = None, **fields: Any) -> Episode:
        """Changes fields of a record.

        Args:
            id: The record.
            expect: Its `updated_at` as the caller read it.
            **fields: What to set; None empties a field that may be empty.

        Raises:
            NotFound: There is no such record.
            Conflict: It changed since `expect`.
            InvalidInput: A field is wrong or unknown.
        """
        if expect is not None:
            expect = moment("expect", expect)
        episode = self._engine.update(record_id(id), record_fields(fields), expect=expect)
        self._vectors.after_write([episode.id])
        return episode

    def trust(self, id: Id) -> Episode:
        """Makes a record trusted, whoever wrote it: for one that somebody looked at.

        A write can lower trust, and only this raises it. A change by a writer that is not trusted lowers it
        again.

        Args:
            id: The record.

        Raises:
            NotFound: There is no such record.
        """
        return self._engine.trust(record_id(id))

    def forget(self, *ids: Id) -> int:
        """Deletes records everywhere.

        Args:
            *ids: The records.

        Returns:
            How many of them there were.
        """
        return self._engine.forget([record_id(one) for one in ids])

    def forget_where(self, filter: Which, *, dry_run: bool = False) -> ForgetReport:
        """Deletes every record that matches, in one transaction.

        Args:
            filter: Which; one that holds nothing is refused. `Filter(scope="")` means everything the handle
                sees.
            dry_run: Only tell what would go.
        """
        flag("dry_run", dry_run)
        checked = filter_fields(filter)
        if not checked:
            raise InvalidInput(
                'filter: is empty; pass Filter(scope="") if everything is to be forgotten', field="filter"
            )
        ids = tuple(self._engine.forget_where(checked, dry_run=dry_run))
        self._tell_damage()
        return ForgetReport(ids=ids, count=len(ids), dry_run=dry_run)

    def embed_pending(
        self, *, batch: int = 64, patience: float = 60.0, progress: Progress | None = None
    ) -> EmbedReport:
        """Makes the vectors that are missing or out of date. May be stopped at any time and run again.

        Args:
            batch: Records at a time; each batch is safe once it is done.
            patience: Most seconds to wait in a row, without any progress, for an embedder that is busy, out
                of time or broken for a moment; a `Retry-After` of a server is kept to. One that cannot be
                reached, or refuses the key, is not waited for.
            progress: Called after each batch, and before each wait, with (done, total).

        Returns:
            What was done. If the embedder failed on the way, `error` says how and the rest is still pending.

        Raises:
            EmbedderError: The handle has no embedder, or the home's vectors are of another.
        """
        check_batch(batch)
        check_patience(patience)
        check_progress(progress)
        self._vectors.require()
        backoff = Backoff(patience)
        total = to_embed(self._engine.coverage())
        embedded = refused = outdated = 0
        error: OtolithError | None = None
        after: str | None = None
        while True:
            try:
                if not (todo := self._to_embed(after, batch)):
                    break
                done = self._vectors.embed(todo)
            except EmbedderError as stopped:
                pause = backoff.pause(stopped)
                self._vectors.note(str(stopped), log=pause is not None)  # else the report tells it
                if pause is None:
                    error = stopped
                    break
                if progress is not None:
                    progress(embedded + refused + outdated, total)
                time.sleep(pause)
                continue
            backoff.succeeded()
            after = todo[-1].id
            embedded += done.attached
            refused += done.refused
            outdated += done.outdated
            if progress is not None:
                progress(embedded + refused + outdated, total)
        return EmbedReport(
            embedded=embedded,
            refused=refused,
            outdated=outdated,
            remaining=to_embed(self._engine.coverage()),
            error=error,
        )

    def _to_embed(self, after: str | None, limit: int) -> list[PendingText]:
        try:
            return self._engine.pending(after=after, limit=limit)
        except InvalidInput:
            self._vectors.require()  # says it if the home has got another embedder meanwhile
            raise

    def pending(
        self, *, refused: bool = False, after: Id | None = None, limit: int | None = None
    ) -> Iterator[Pending]:
        """The records that `embed_pending` would make vectors for, in the order they were created.

        Args:
            refused: Whether those come too whose vector cannot be searched (zero, NaN, infinite, of another
                width, or refused by the embedder), each with the reason.
            after: Go on after this record, itself left out.
            limit: At most so many.

        Raises:
            EmbedderError: The handle has no embedder, or the home's vectors are of another.
        """
        flag("refused", refused)
        check_limit(limit)
        self._vectors.require()
        return self._pending(refused, None if after is None else record_id(after), limit)

    def _pending(self, refused: bool, after: str | None, left: int | None) -> Iterator[Pending]:
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            page = self._engine.pending(after=after, limit=size, refused=refused)
            yield from (Pending(one.id, one.reason) for one in page)
            if len(page) < size:
                return
            after = page[-1].id
            if left is not None:
                left -= size

    # -- reading ------------------------------------------------------------------------------------------

    def recall(
        self,
        query: str | None = None,
        k: int = 10,
        *,
        vector: VectorLike | None = None,
        filter: Which | None = None,
        explain: bool = False,
        min_relevance: float = 0.0,
        fusion: Literal["weighted", "rrf"] = "weighted",
        weights: Mapping[str, float] | None = None,
        legs: Sequence[str] | None = None,
    ) -> Report:
        """Searches by words and, if there is an embedder, by meaning.

        Args:
            query: The question.
            k: Hits wanted; 0 gives an empty report, more than there are gives all.
            vector: The question's vector, if the caller has it.
            filter: Which records to look at, applied before ranking.
            explain: Whether each hit carries how its score came about.
            min_relevance: Leave out hits whose `relevance` (0 to 1, absolute) is lower.
            fusion: How the legs are put together.
            weights: Weight of each leg by name.
            legs: Only these legs: `lexical`, `vector`.

        Returns:
            The hits, and which legs ran. A leg that could not run says why in `legs`.
        """
        checked = filter_fields(filter)
        flag("explain", explain)
        if isinstance(legs, str):
            legs = [legs]
        elif legs is not None:
            legs = list(series("legs", legs, "str"))
        reason = made_by = None
        wanted = not (isinstance(k, int) and k == 0) and (legs is None or "vector" in legs)
        if vector is None and wanted and isinstance(query, str) and query.strip():
            vector, reason, made_by = self._vectors.query(query)
        report = self._engine.recall(
            query,
            k,
            vector=vector,
            vector_reason=reason,
            filter=checked,
            explain=explain,
            min_relevance=min_relevance,
            fusion=fusion,
            weights=weights,
            legs=legs,
            vector_embedder=made_by,
        )
        self._tell_damage()
        return report

    def recall_many(
        self,
        queries: Iterable[str],
        k: int = 10,
        *,
        filter: Which | None = None,
        explain: bool = False,
        min_relevance: float = 0.0,
        fusion: Literal["weighted", "rrf"] = "weighted",
        weights: Mapping[str, float] | None = None,
        legs: Sequence[str] | None = None,
    ) -> list[Report]:
        """As `recall`, for several questions; one report each, in their order.

        Args:
            queries: The questions.
            k: As in `recall`.
            filter: As in `recall`.
            explain: As in `recall`.
            min_relevance: As in `recall`.
            fusion: As in `recall`.
            weights: As in `recall`.
            legs: As in `recall`.
        """
        if isinstance(queries, str):
            raise InvalidInput("queries: give a list of questions; for one there is recall", field="queries")
        supply = series("queries", queries, "questions")
        return [
            self.recall(
                query,
                k,
                filter=filter,
                explain=explain,
                min_relevance=min_relevance,
                fusion=fusion,
                weights=weights,
                legs=legs,
            )
            for query in supply
        ]

    def get(self, id: Id) -> Episode:
        """The record with this id as it is now.

        Raises:
            NotFound: There is none in the handle's scope.
        """
        return self._engine.get(record_id(id))

    def find(self, id_prefix: str) -> list[str]:
        """The ids that start like this, at most 100.

        Args:
            id_prefix: The first characters of an id.
        """
        return self._engine.find(id_prefix)

    def episodes(
        self,
        filter: Which | None = None,
        *,
        newest_first: bool = True,
        after: Id | None = None,
        limit: int | None = None,
    ) -> Iterator[Episode]:
        """The records that match, in the order they were created.

        Pages are read as they are needed: what is written meanwhile may or may not come.

        Args:
            filter: Which; all by default.
            newest_first: The order.
            after: Go on after this record, itself left out.
            limit: At most so many.
        """
        check_limit(limit)
        flag("newest_first", newest_first)
        start = None if after is None else record_id(after)
        return self._pages(filter_fields(filter), newest_first, start, limit)

    def _pages(
        self, filter: dict[str, Any] | None, newest_first: bool, after: str | None, left: int | None
    ) -> Iterator[Episode]:
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            page, after = self._engine.page(filter, newest_first=newest_first, after=after, limit=size)
            self._tell_damage()
            yield from page
            if after is None:
                return
            if left is not None:
                left -= len(page)

    def count(self, filter: Which | None = None) -> int:
        """How many records match.

        Args:
            filter: Which; all by default.
        """
        counted = self._engine.count(filter_fields(filter))
        self._tell_damage()
        return counted

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        return True  # an empty memory is a memory

    def coverage(self) -> Coverage:
        """How many records have a current vector, and why others have none."""
        return self._engine.coverage()

    def status(self) -> Status:
        """The state of the memory, as `otolith status` shows it."""
        info = self._engine.info()
        index = info.get("index", {})
        home = self._engine.home_embedder()
        ignored = self._settings.ignored_in_short()
        unread = self._vectors.unread_script(self._engine)
        foreign = self._engine.foreign_vectors()
        return Status(
            home=self._engine.home,
            scope=self._engine.scope,
            origin=self._origin,
            read_only=self._engine.read_only,
            records=self._engine.count(),
            coverage=self._engine.coverage(),
            embedder=self._vectors.spec,
            embedder_source=self._vectors.source,
            embedder_tried=self._vectors.tried,
            fingerprint=self._vectors.fingerprint,
            home_embedder=None if home is None else home[0],
            home_dim=None if home is None else home[1],
            foreign_vectors=foreign,
            format_version=info.get("format_version"),
            created=info.get("created"),
            file_bytes=info.get("file_bytes"),
            analyzer=info.get("analyzer"),
            unreadable=info.get("unreadable", 0),
            query_cache=self._vectors.cached_queries(),
            indexed_vectors=index.get("vectors", 0),
            graph_vectors=index.get("graph_vectors", 0),
            notices=(
                *(() if ignored is None else (ignored,)),
                *(of_another_model(mark, count) for mark, count in foreign.items()),
                *info.get("notices", ()),
                *(() if unread is None else (unread,)),
                *self._vectors.notices(),
            ),
        )

    def _tell_damage(self) -> None:
        """Warns once in the life of the handle that an answer lacks records."""
        if self._damage_told or not (lost := self._engine.unreadable):
            return
        self._damage_told = True
        logger.warning(
            "%s: %d records cannot be read and are left out; `otolith status` says which",
            self._engine.home,
            lost,
        )

    # -- closing ------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Returns when every write so far is on disk: at once unless the setting `durability` is `batched`.

        Raises:
            StoreError: Writes that had been acknowledged could not be committed; told once.
        """
        self._engine.flush()

    def close(self) -> None:
        """Closes the handle; later calls raise `StoreError`. Closing twice is fine.

        Raises:
            StoreError: Writes that had been acknowledged could not be committed (`durability = batched`).
        """
        with contextlib.suppress(Exception):
            self._vectors.close()
        self._engine.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        scope = f", scope={self._engine.scope!r}" if self._engine.scope else ""
        return f"Memory({self._engine.home!r}{scope}, embedder={self._vectors.spec!r})"
