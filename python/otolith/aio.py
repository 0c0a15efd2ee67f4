"""`AsyncMemory`: the calls of `Memory` as coroutines.

Each call runs `Memory`'s in a thread (`asyncio.to_thread`). What cancelling does: the coroutine ends at once,
the thread goes on to its end and its result is dropped. A cancelled read costs nothing but that time. A
cancelled write may have happened or not; give it a `key` (or `id`) and repeat it: the same key never makes a
second record. Progress callbacks are called in the thread, not in the event loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from ._keeping import Progress
from .memory import Id, Memory, Origin, Which

if TYPE_CHECKING:
    from types import TracebackType
    from typing import BinaryIO, TextIO

    from ._core import Coverage, Episode, Report
    from ._types import VectorLike
    from .config import Settings
    from .embedders.base import Embedder
    from .records import (
        BackupReport,
        CompactReport,
        EmbedReport,
        ExportReport,
        ForgetReport,
        ImportReport,
        Pending,
        ReindexReport,
        RememberReport,
        Status,
        VerifyReport,
    )

__all__ = ["AsyncMemory"]

_PAGE = 256


class AsyncMemory:
    """As `Memory`, for programs with an event loop.

    ::

        async with AsyncMemory.open("notes") as memory:
            await memory.remember("The deploy failed because the token had expired")
            report = await memory.recall("why did the deployment fail?")
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

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
    ) -> _Opening:
        """As `Memory.open`; await it, or use it with `async with`.

        Args:
            home: As in `Memory.open`.
            scope: As in `Memory.open`.
            origin: As in `Memory.open`.
            embedder: As in `Memory.open`.
            create: As in `Memory.open`.
            read_only: As in `Memory.open`.
            config: As in `Memory.open`.
        """
        return _Opening(
            lambda: Memory.open(
                home,
                scope=scope,
                origin=origin,
                embedder=embedder,
                create=create,
                read_only=read_only,
                config=config,
            )
        )

    async def remember(
        self,
        summary: str,
        *,
        id: str | None = None,
        key: str | None = None,
        vector: VectorLike | None = None,
        embed: Literal["now", "later"] = "now",
        **fields: Any,
    ) -> Episode:
        """As `Memory.remember`."""
        return await asyncio.to_thread(
            self._memory.remember, summary, id=id, key=key, vector=vector, embed=embed, **fields
        )

    async def remember_many(
        self,
        episodes: Iterable[Episode | Mapping[str, Any] | str],
        *,
        batch: int = 1000,
        embed: Literal["now", "later"] = "now",
        progress: Progress | None = None,
    ) -> RememberReport:
        """As `Memory.remember_many`; `episodes` is read in the thread."""
        return await asyncio.to_thread(
            self._memory.remember_many, episodes, batch=batch, embed=embed, progress=progress
        )

    async def recall(
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
        """As `Memory.recall`."""
        return await asyncio.to_thread(
            self._memory.recall,
            query,
            k,
            vector=vector,
            filter=filter,
            explain=explain,
            min_relevance=min_relevance,
            fusion=fusion,
            weights=weights,
            legs=legs,
        )

    async def recall_many(
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
        """As `Memory.recall_many`."""
        return await asyncio.to_thread(
            self._memory.recall_many,
            queries,
            k,
            filter=filter,
            explain=explain,
            min_relevance=min_relevance,
            fusion=fusion,
            weights=weights,
            legs=legs,
        )

    async def get(self, id: Id) -> Episode:
        """As `Memory.get`."""
        return await asyncio.to_thread(self._memory.get, id)

    async def find(self, id_prefix: str) -> list[str]:
        """As `Memory.find`."""
        return await asyncio.to_thread(self._memory.find, id_prefix)

    async def episodes(
        self,
        filter: Which | None = None,
        *,
        newest_first: bool = True,
        after: Id | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Episode]:
        """As `Memory.episodes`, for `async for`."""
        supply = self._memory.episodes(filter, newest_first=newest_first, after=after, limit=limit)
        while page := await asyncio.to_thread(lambda: list(islice(supply, _PAGE))):
            for episode in page:
                yield episode

    async def count(self, filter: Which | None = None) -> int:
        """As `Memory.count`."""
        return await asyncio.to_thread(self._memory.count, filter)

    def __len__(self) -> int:
        return len(self._memory)

    def __bool__(self) -> bool:
        return True

    async def update(self, id: Id, *, expect: datetime | None = None, **fields: Any) -> Episode:
        """As `Memory.update`."""
        return await asyncio.to_thread(self._memory.update, id, expect=expect, **fields)

    async def trust(self, id: Id) -> Episode:
        """As `Memory.trust`."""
        return await asyncio.to_thread(self._memory.trust, id)

    async def forget(self, *ids: Id) -> int:
        """As `Memory.forget`."""
        return await asyncio.to_thread(self._memory.forget, *ids)

    async def forget_where(self, filter: Which, *, dry_run: bool = False) -> ForgetReport:
        """As `Memory.forget_where`."""
        return await asyncio.to_thread(self._memory.forget_where, filter, dry_run=dry_run)

    async def embed_pending(
        self, *, batch: int = 64, patience: float = 60.0, progress: Progress | None = None
    ) -> EmbedReport:
        """As `Memory.embed_pending`."""
        return await asyncio.to_thread(
            self._memory.embed_pending, batch=batch, patience=patience, progress=progress
        )

    async def pending(
        self, *, refused: bool = False, after: Id | None = None, limit: int | None = None
    ) -> list[Pending]:
        """As `Memory.pending`, all of it at once."""
        return await asyncio.to_thread(
            lambda: list(self._memory.pending(refused=refused, after=after, limit=limit))
        )

    async def reindex(
        self,
        *,
        embedder: str | Embedder | Callable[[list[str]], Any] | None = None,
        dry_run: bool = False,
        batch: int = 64,
        patience: float = 60.0,
        progress: Progress | None = None,
    ) -> ReindexReport:
        """As `Memory.reindex`."""
        return await asyncio.to_thread(
            self._memory.reindex,
            embedder=embedder,
            dry_run=dry_run,
            batch=batch,
            patience=patience,
            progress=progress,
        )

    async def coverage(self) -> Coverage:
        """As `Memory.coverage`."""
        return await asyncio.to_thread(self._memory.coverage)

    async def status(self) -> Status:
        """As `Memory.status`."""
        return await asyncio.to_thread(self._memory.status)

    async def verify(self, *, repair: bool = False, progress: Progress | None = None) -> VerifyReport:
        """As `Memory.verify`."""
        return await asyncio.to_thread(self._memory.verify, repair=repair, progress=progress)

    async def export(
        self, dest: str | os.PathLike[str] | BinaryIO | TextIO, *, vectors: bool = True
    ) -> ExportReport:
        """As `Memory.export`."""
        return await asyncio.to_thread(self._memory.export, dest, vectors=vectors)

    async def import_(
        self,
        src: str | os.PathLike[str] | BinaryIO | TextIO,
        *,
        format: Literal["otolith", "jsonl", "locomo"] = "otolith",
        mapping: Mapping[str, str | None] | None = None,
        key: str | None = None,
        zone: str | None = None,
        partial: bool = False,
        progress: Progress | None = None,
    ) -> ImportReport:
        """As `Memory.import_`."""
        return await asyncio.to_thread(
            self._memory.import_,
            src,
            format=format,
            mapping=mapping,
            key=key,
            zone=zone,
            partial=partial,
            progress=progress,
        )

    async def backup(self, dest: str | os.PathLike[str], *, progress: Progress | None = None) -> BackupReport:
        """As `Memory.backup`."""
        return await asyncio.to_thread(self._memory.backup, dest, progress=progress)

    async def compact(self, *, progress: Progress | None = None) -> CompactReport:
        """As `Memory.compact`."""
        return await asyncio.to_thread(self._memory.compact, progress=progress)

    async def flush(self) -> None:
        """As `Memory.flush`."""
        await asyncio.to_thread(self._memory.flush)

    async def close(self) -> None:
        """As `Memory.close`."""
        await asyncio.to_thread(self._memory.close)

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Async{self._memory!r}"


class _Opening:
    """What `AsyncMemory.open` gives: awaitable, and a context manager."""

    def __init__(self, opener: Callable[[], Memory]) -> None:
        self._opener = opener
        self._opened: AsyncMemory | None = None

    def __await__(self) -> Generator[Any, None, AsyncMemory]:
        return self._open().__await__()

    async def _open(self) -> AsyncMemory:
        return AsyncMemory(await asyncio.to_thread(self._opener))

    async def __aenter__(self) -> AsyncMemory:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.close()
