"""What keeps a memory in order: verify, compact, back up, move, reindex. A part of `Memory`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ._arguments import check_batch, check_patience, check_progress
from ._fields import flag
from .exceptions import InvalidInput, ReadOnly, StoreError

if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

    from ._core import Engine
    from ._vectors import Vectors
    from .config import Settings
    from .embedders.base import Embedder
    from .records import (
        BackupReport,
        CompactReport,
        ExportReport,
        ImportReport,
        ReindexReport,
        VerifyReport,
    )

__all__ = ["Keeping", "Progress"]

Progress: TypeAlias = Callable[[int, "int | None"], object]
"""Called with how many are done and, if known, of how many."""


class Keeping:
    """See the module; `Memory` has the handle."""

    _engine: Engine
    _settings: Settings
    _vectors: Vectors

    if TYPE_CHECKING:

        def _tell_damage(self) -> None: ...

    def verify(self, *, repair: bool = False, progress: Progress | None = None) -> VerifyReport:
        """Checks the store for damage, every row against every other, and the index of this handle.

        The file is looked at in a process of its own. Writers wait meanwhile, readers do not. A repair puts a
        whole file in the place of the damaged one, which is kept under a dated name; handles of all processes
        go on in the new one. `otolith.maintenance.verify` does the same for a home that cannot be opened. The
        store itself is not written to, through a read-only handle either; the holder note says who has the
        lock. A handle with `store.mode = exclusive` has to be closed first.

        Args:
            repair: Whether to repair what is found.
            progress: Called now and then with (bytes done, bytes to do).

        Raises:
            StoreError: It could not be done; nothing was changed.
            ReadOnly: A repair was asked of a read-only handle.
        """
        from ._core import verify_rows
        from .maintenance.verifying import reported, verify

        flag("repair", repair)
        check_progress(progress)
        home = self._engine.home
        if home is None:
            report = reported(verify_rows(self._engine))
        else:
            if repair and self._engine.read_only:
                raise ReadOnly(f"{home}: opened read-only; open it writable to repair it", path=home)
            if self._settings.get("store.mode") == "exclusive" and not self._engine.read_only:
                raise StoreError(
                    f"{home}: this handle keeps the store to itself; close it, then verify with "
                    "`otolith verify` or `otolith.maintenance.verify`",
                    path=home,
                )
            report = verify(
                home, repair=repair, lock_timeout=self._settings.get("lock_timeout"), progress=progress
            )
        return self._with_index(report)

    def _with_index(self, report: VerifyReport) -> VerifyReport:
        """A report on the store with what is wrong with the index, which is built anew then."""
        from ._core import graph_recall, verify_index

        if not report.ok:
            return report
        problems = verify_index(self._engine)
        recall, too_little = graph_recall(self._engine)
        return replace(report.with_problems([*problems, *too_little]), graph_recall=recall)

    def reindex(
        self,
        *,
        embedder: str | Embedder | Callable[[list[str]], Any] | None = None,
        dry_run: bool = False,
        batch: int = 64,
        patience: float = 60.0,
        progress: Progress | None = None,
    ) -> ReindexReport:
        """Makes the vectors of all records with an embedder, and gives it the home.

        Until they cover as many records as those of the embedder before, these are searched, through handles
        that were opened with it. Then the home changes hands in one transaction, and so does this handle;
        others that have the former embedder search by words. What is left is made, and the old vectors are
        removed, but not those that callers gave. May be stopped at any time, killed too, and run again: what
        is done is kept. For the embedder that the home has already, it makes what is missing and what was
        given in another width.

        Args:
            embedder: A spec or an object; by default that of the handle.
            dry_run: Only tell what there is to do.
            batch: Records at a time; each batch is safe once it is done.
            patience: As for `embed_pending`.
            progress: Called after each batch, and before each wait, with (done, total).

        Returns:
            What was done. If the embedder failed on the way, or refused more than half, `error` says how.

        Raises:
            EmbedderError: There is no embedder, or it cannot be had.
            InvalidInput: The handle has a scope, so it does not see everything.
            ReadOnly: The handle refuses writes.
        """
        from ._reindex import Pace, reindex

        flag("dry_run", dry_run)
        check_batch(batch)
        check_patience(patience)
        check_progress(progress)
        target = self._vectors.target(embedder)
        return reindex(self._engine, self._vectors, target, Pace(batch, patience, progress), dry_run=dry_run)

    # -- moving -------------------------------------------------------------------------------------------

    def export(
        self, dest: str | os.PathLike[str] | BinaryIO | TextIO, *, vectors: bool = True
    ) -> ExportReport:
        """Writes all records the handle sees as JSON lines that `import_` restores exactly.

        A handle without scope also writes the Markdown files under `memory/`; links and what is no Markdown
        file are left out and told. One with a scope writes none, as they belong to the whole home.

        Args:
            dest: A file, which appears only when it is whole; `-` for stdout; or an open file. In the
                home only a name that is none of its own, and free or that of an earlier export.
            vectors: Whether vectors go with the text.

        Raises:
            InvalidInput: `dest` is a file of the home, also by a link, or lies where it keeps its own, or is
                a store.
            StoreError: It cannot be written; what was there is as it was.
        """
        from .transfer import export

        flag("vectors", vectors)
        report = export(self._engine, dest, vectors=vectors)
        self._tell_damage()
        return report

    def import_(
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
        """Reads records from a file. Doing it again changes nothing when records have an id or a key.

        Args:
            src: A file, `-` for stdin, or an open file.
            format: `otolith`: what `export` wrote, restored exactly; a record that was changed since the
                export stays as it is, and so does a Markdown file that is there with other content.
                `jsonl`: somebody else's JSON lines. `locomo`: a LoCoMo JSON document, each turn of a
                conversation a record. The records of both have origin `import`, which is not trusted, and
                get their vectors by `embed_pending`.
            mapping: For `jsonl`: where each field is, as a dotted path; fields not named here are taken from
                the same name, and None leaves one out. `metadata.NAME` sets one entry.
            key: For `jsonl`: path of what makes a line the same when it comes again; by default its `id`.
            zone: For `jsonl`: zone of times without an offset and of dates, which are midnight: an IANA name
                such as `Asia/Shanghai`, or `local` for that of this machine. Without it such lines fail. For
                `locomo`: zone of the times of sessions, UTC by default.
            partial: For `otolith`: take what is whole of a damaged file; else it is refused untouched.
            progress: Called now and then with (lines done, total if known).

        Raises:
            StoreCorrupt: An export that is cut off or altered; nothing was changed.
            FormatTooNew: Written by a newer version; nothing was changed.
            InvalidInput: It is not what `format` says, or an argument is wrong.
        """
        from .transfer import import_export, import_lines, import_locomo

        flag("partial", partial)
        check_progress(progress)
        if not isinstance(format, str):
            raise InvalidInput(f"format: give a str, not {type(format).__name__}", field="format")
        if format == "otolith":
            if mapping is not None or key is not None or zone is not None:
                raise InvalidInput('mapping, key and zone: are for format="jsonl"', field="mapping")
            return import_export(self._engine, src, partial=partial, progress=progress)
        if format == "jsonl":
            return import_lines(self._engine, src, mapping=mapping, key=key, zone=zone, progress=progress)
        if format == "locomo":
            if mapping is not None or key is not None:
                raise InvalidInput('mapping and key: are for format="jsonl"', field="mapping")
            return import_locomo(self._engine, src, zone=zone, progress=progress)
        raise InvalidInput(f"format: {format!r} is not one of otolith, jsonl, locomo", field="format")

    def backup(self, dest: str | os.PathLike[str], *, progress: Progress | None = None) -> BackupReport:
        """Copies the home to a directory that is a home too: `otolith --home DEST` works with it.

        The store is copied as of one moment while others go on writing, then settings and everything under
        `memory/`, links left out. The copy is flushed to disk, opened and read through before it has its
        name; whatever goes wrong, nothing is at `dest`.

        Args:
            dest: A directory outside the home that is not there, or is empty; its parent is there.
            progress: Called now and then with (rows done, rows to do).

        Raises:
            InvalidInput: `dest` cannot be, or the handle has a scope or lives in RAM.
            StoreError: Something is at `dest` already, or the backup could not be written.
        """
        from .maintenance.backing_up import back_up

        check_progress(progress)
        return back_up(self._engine, dest, progress=progress)

    def compact(self, *, progress: Progress | None = None) -> CompactReport:
        """Makes the store as small as its content, and takes the bytes of what was forgotten from it.

        Others read all the time and write but for a moment. A file without holes is made beside and put in
        the place of the store, so there must be room for both. What is changed or forgotten while it runs may
        leave bytes until the next compaction; `changed_meanwhile` counts it. Drafts that killed processes
        left more than a minute ago are removed. Then many vectors get a graph; after an interruption the next
        call goes on with it.

        Args:
            progress: Called now and then with (rows done, rows to do), for the store and for the graph.

        Returns:
            What it did, and which other files of the home may still hold forgotten bytes.

        Raises:
            InvalidInput: The memory lives in RAM.
            StoreError: It could not be done, or another process is compacting or repairing; the store is as
                it was.
        """
        from .maintenance.compacting import compact

        check_progress(progress)
        return compact(self._engine, progress=progress)

    @contextlib.contextmanager
    def _looked_at(
        self,
        src: object,
        *,
        format: str,
        mapping: Mapping[str, str | None] | None,
        key: str | None,
        zone: str | None,
        partial: bool,
    ) -> Iterator[tuple[BinaryIO, bool]]:
        """What is to be imported, checked as far as goes without a home, and whether it is of use."""
        from .transfer import checked

        with checked(
            src, engine=self._engine, format=format, mapping=mapping, key=key, zone=zone, partial=partial
        ) as looked_at:
            yield looked_at
