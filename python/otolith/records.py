"""What goes in and comes out: the compiled record classes, filters and the reports of long calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from os import PathLike
from typing import Any, Literal

from ._core import (
    Analysis,
    Analyzer,
    Coverage,
    Episode,
    Explanation,
    FilterEffect,
    Hit,
    HybridIndex,
    IdSet,
    IndexHit,
    IndexParams,
    Inserted,
    Leg,
    Report,
)
from .exceptions import InvalidInput, OtolithError

__all__ = [
    "Analysis",
    "Analyzer",
    "BackupReport",
    "CompactReport",
    "Coverage",
    "EmbedReport",
    "Episode",
    "Explanation",
    "ExportReport",
    "Filter",
    "FilterEffect",
    "ForgetReport",
    "Hit",
    "HybridIndex",
    "IdSet",
    "ImportReport",
    "IndexHit",
    "IndexParams",
    "Inserted",
    "Keeper",
    "Leg",
    "Loss",
    "Pending",
    "Problem",
    "ReindexReport",
    "RememberReport",
    "Repair",
    "Report",
    "Status",
    "VerifyReport",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """Which records a call looks at. Everything is optional; what is given must all hold.

    Args:
        ids: Only these.
        not_ids: None of these.
        kinds: Kinds of record; `episode` is the only one there is.
        key: Exactly this key.
        scope: This scope and everything below it; `""` is everything the handle sees.
        user_id: Exactly this user.
        agent_id: Exactly this agent.
        session_id: Exactly this session.
        task_id: Exactly this task.
        working_dir: This directory; a relative path starts at the current one, `~` is the home directory.
        below: With `working_dir`, everything below it too.
        tags: All of these.
        outcome: `success`, `failure`, `blocked` or `cancelled`.
        source: `task`, `conversation`, `document` or `import`.
        actor: Exactly this actor.
        origin: `user`, `assistant`, `tool`, `web` or `import`.
        trust: `trusted` or `untrusted`.
        since: Happened at this moment or later (`occurred_at`), with an offset.
        until: Happened before this moment, with an offset.
        metadata: Each of these entries has this value.
        status: `active` or `quarantined`.
    """

    ids: tuple[str, ...] | None = None
    not_ids: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    key: str | None = None
    scope: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    task_id: str | None = None
    working_dir: str | PathLike[str] | None = None
    below: bool = False
    tags: tuple[str, ...] | None = None
    outcome: Literal["success", "failure", "blocked", "cancelled"] | None = None
    source: Literal["task", "conversation", "document", "import"] | None = None
    actor: str | None = None
    origin: Literal["user", "assistant", "tool", "web", "import"] | None = None
    trust: Literal["trusted", "untrusted"] | None = None
    since: datetime | None = None
    until: datetime | None = None
    metadata: Mapping[str, str | int | float | bool | None] | None = None
    status: Literal["active", "quarantined"] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields that are set."""
        given = ((one.name, getattr(self, one.name)) for one in fields(self))
        return {name: value for name, value in given if value is not None and value is not False}


class _Counts:
    """A frozen dataclass that turns into plain data."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {one.name: _plain(getattr(self, one.name)) for one in fields(self)}  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if isinstance(value, OtolithError):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


@dataclass(frozen=True, slots=True)
class RememberReport(_Counts):
    """What became of `remember_many`.

    Attributes:
        written: Records in the store now: created, replaced and unchanged ones.
        created: Records that were new.
        replaced: Records whose id or key was there before, with other content.
        failed: Position (from 0) and error of each record that was refused.
        ids: The id of each record by position, None where it failed.
        vectors_attached: Records that got their vector.
        vectors_pending: Records that wait for `embed_pending`.
        vectors_refused: Records whose vector cannot be used; their text is kept and searched.
        unchanged: Records that were there already, exactly so.
    """

    written: int
    created: int
    replaced: int
    failed: tuple[tuple[int, OtolithError], ...]
    ids: tuple[str | None, ...]
    vectors_attached: int = 0
    vectors_pending: int = 0
    vectors_refused: int = 0
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class EmbedReport(_Counts):
    """What became of `embed_pending`.

    Attributes:
        embedded: Records that got their vector.
        refused: Records whose vector cannot be used, each recorded with its reason.
        outdated: Records whose text changed or went away while it was embedded.
        remaining: Records that still wait.
        error: Why it stopped early, if it did; run it again to go on.
    """

    embedded: int
    refused: int
    outdated: int
    remaining: int
    error: OtolithError | None = None


@dataclass(frozen=True, slots=True)
class Pending(_Counts):
    """A record without a vector that can be searched.

    Attributes:
        id: The record.
        reason: Why the vector it was given cannot be searched; None when it waits for one of its present
            text.
    """

    id: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ReindexReport(_Counts):
    """What became of `reindex`, or would.

    Attributes:
        embedder: Fingerprint of the embedder whose vectors were made.
        previous: Fingerprint of the one the home belonged to when it began; None if to none.
        total: Records that are searched.
        vectorized: How many of them have a current vector of `embedder` now.
        embedded: Records that got their vector in this run.
        refused: Records whose vector cannot be used, each recorded with its reason.
        outdated: Records whose text changed or went away while it was embedded.
        remaining: Records that still wait; of a dry run, those that would be embedded.
        switched: Whether the home was given to `embedder` in this run.
        purged: Rows of the store with vectors of embedders before it that were removed.
        dry_run: Whether nothing was changed.
        error: Why it stopped early or the home stays as it was, if so; run it again to go on.
    """

    embedder: str
    previous: str | None
    total: int
    vectorized: int
    embedded: int
    refused: int
    outdated: int
    remaining: int
    switched: bool
    purged: int
    dry_run: bool
    error: OtolithError | None = None


@dataclass(frozen=True, slots=True)
class ForgetReport(_Counts):
    """What `forget_where` forgot, or would forget.

    Attributes:
        ids: The records.
        count: How many they are.
        dry_run: Whether nothing was changed.
    """

    ids: tuple[str, ...]
    count: int
    dry_run: bool


@dataclass(frozen=True, slots=True)
class ExportReport(_Counts):
    """What `export` wrote.

    Attributes:
        path: The file, None if it went to a stream.
        records: Number of records.
        vectors: Number of records with vectors.
        bytes: Size in bytes.
        sha256: Checksum of everything before the last line, as the last line has it.
        unreadable: Records that were left out because they cannot be read.
        files: Number of Markdown files.
        skipped: Path and reason of what lies below `memory/` and was left out.
    """

    path: str | None
    records: int
    vectors: int
    bytes: int
    sha256: str
    unreadable: int = 0
    files: int = 0
    skipped: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ImportReport(_Counts):
    """What became of `import_`.

    Attributes:
        read: Lines, or parts of a document, that held a record or should have.
        created: Records that were new.
        replaced: Records whose id or key was there before, with other content.
        unchanged: Records that were there already, exactly so.
        failed: Line number (from 1), or the path within a JSON document, and error of each part that was not
            imported.
        vectors: Records that came with vectors.
        ignored: Names in strangers' files that are no field here, and how many there were.
        files: Markdown files that were written.
        files_unchanged: Markdown files that were there already, exactly so.
    """

    read: int
    created: int
    replaced: int
    unchanged: int
    failed: tuple[tuple[int | str, OtolithError], ...]
    vectors: int = 0
    ignored: Mapping[str, int] = field(default_factory=dict)
    files: int = 0
    files_unchanged: int = 0


@dataclass(frozen=True, slots=True)
class Keeper(_Counts):
    """Something in a home that may still hold the bytes of forgotten records.

    Attributes:
        path: Its path from the home on.
        kind: `previous` version of a file, `damaged` store, `lost+found`, `backup`, `draft` of another
            process, `index` of other settings or another version, or that somebody was at work in, or
            `other`, which otolith did not make.
        bytes: Its size.
    """

    path: str
    kind: Literal["previous", "damaged", "lost+found", "backup", "draft", "index", "other"]
    bytes: int


@dataclass(frozen=True, slots=True)
class CompactReport(_Counts):
    """What became of `compact`.

    Attributes:
        before_bytes: Size of the store before.
        after_bytes: Its size now.
        records: Records in it.
        blocked_us: Longest time that nobody could write, in microseconds.
        keepers: Files of the home that may still hold bytes of forgotten records; nothing else there does.
        removed_drafts: Unfinished files of killed processes that were removed.
        changed_meanwhile: Records that changed or were forgotten while it ran: bytes of their old form may be
            left in the store until the next compaction.
    """

    before_bytes: int
    after_bytes: int
    records: int
    blocked_us: int
    keepers: tuple[Keeper, ...] = ()
    removed_drafts: tuple[str, ...] = ()
    changed_meanwhile: int = 0


@dataclass(frozen=True, slots=True)
class BackupReport(_Counts):
    """What `backup` made.

    Attributes:
        path: The directory, a home.
        records: Records in it, of every scope and status.
        vectors: Rows of vectors in it.
        last_sequence: Number of the last change in it.
        bytes: Size of everything.
        files: Files beside the store: Markdown files, settings.
        skipped: Path and reason of what was left out.
        leftovers: Unfinished backups of the same name by processes that were killed; remove them.
    """

    path: str
    records: int
    vectors: int
    last_sequence: int
    bytes: int
    files: int
    skipped: tuple[tuple[str, str], ...] = ()
    leftovers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Status(_Counts):
    """The state of a memory, as `otolith status` shows it.

    Attributes:
        home: Its directory.
        scope: Scope of the handle.
        origin: Origin of what the handle writes.
        read_only: Whether the handle refuses writes.
        records: Records the handle sees.
        coverage: How many of them have a current vector.
        embedder: Spec of the handle's embedder, None for keyword search only.
        embedder_source: Where it was asked for (argument, environment, file, home, auto), or why not.
        embedder_tried: What `auto` looked at on this machine when nothing was set, and what came of it.
        fingerprint: What its vectors are stored under.
        home_embedder: Fingerprint the home's vectors were made with.
        home_dim: Their width.
        foreign_vectors: Records with vectors of another embedder than the handle's, by fingerprint.
        format_version: Format of the store.
        created: When the home was made.
        file_bytes: Size of the store.
        analyzer: Id of the text analyzer.
        unreadable: Rows that could not be read.
        query_cache: Vectors of questions that are kept: `size` of `capacity`, and how many questions found
            theirs (`hits`) or did not (`misses`).
        indexed_vectors: Vectors that questions are compared with, some of them of records that are gone.
        graph_vectors: Those of them that a graph leads to; the others are compared one by one.
        notices: What went wrong without stopping anything, newest last; vectors of other models first.
    """

    home: str | None
    scope: str
    origin: str
    read_only: bool
    records: int
    coverage: Coverage
    embedder: str | None
    embedder_source: str
    embedder_tried: tuple[str, ...]
    fingerprint: str | None
    home_embedder: str | None
    home_dim: int | None
    foreign_vectors: Mapping[str, int]
    format_version: int | None
    created: Any
    file_bytes: int | None
    analyzer: str | None
    unreadable: int
    query_cache: Mapping[str, int]
    indexed_vectors: int
    graph_vectors: int
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem(_Counts):
    """One thing that is wrong with a memory.

    Attributes:
        kind: `file` (the file itself), `row` (its bytes are not what was written), `missing`, `orphan` (it
            belongs to nothing), `mismatch` (two things contradict each other), `index` (the index of the
            handle is not the one that the store gives).
        table: The table of the store; empty for the file.
        id: Id of the record, key of the row, or place in the file.
        detail: What is wrong.
    """

    kind: str
    table: str
    id: str
    detail: str


@dataclass(frozen=True, slots=True)
class Loss(_Counts):
    """Something that did not come back in a repair, or not as it was.

    Attributes:
        table: The table of the store.
        id: Id of the record or key of the row; empty when nothing names it any more.
        detail: Why, and what there is instead.
        file: Name of the file in `lost+found` with its bytes, None if there are none.
    """

    table: str
    id: str
    detail: str
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Repair(_Counts):
    """What a repair did.

    Attributes:
        kept_as: Where the damaged file is now, byte for byte.
        lost_found: Directory with what could not be brought back, None if there is nothing.
        restored: Records in the new file.
        restored_vectors: Vectors in the new file.
        lost: What is not in it, or only in an earlier version.
    """

    kept_as: str
    lost_found: str | None
    restored: int
    restored_vectors: int
    lost: tuple[Loss, ...]


@dataclass(frozen=True, slots=True)
class VerifyReport(_Counts):
    """What `verify` found.

    Attributes:
        ok: Whether the store is whole now.
        problems: What was wrong, the file first.
        records: Records that could be read.
        vectors: Vectors that could be read.
        bytes: Size of the file.
        seconds: How long it took.
        repaired: What was done about it, None if nothing was.
        graph_recall: Share of the ten nearest that searching on the graphs over the vectors finds, for 200
            of the stored ones; None where every vector is compared.
    """

    ok: bool
    problems: tuple[Problem, ...]
    records: int
    vectors: int
    bytes: int
    seconds: float
    repaired: Repair | None = None
    graph_recall: float | None = None

    def with_problems(self, more: Sequence[tuple[str, str, str, str]]) -> VerifyReport:
        """This report and further problems, as (kind, table, id, detail)."""
        if not more:
            return self
        return replace(self, ok=False, problems=(*self.problems, *(Problem(*problem) for problem in more)))


def record_id(value: object) -> str:
    """The id in a str, an `Episode` or a `Hit`."""
    if isinstance(value, (Episode, Hit)):
        return value.id
    if isinstance(value, str):
        return value
    raise InvalidInput(f"id: give a str, an Episode or a Hit, not {type(value).__name__}", field="id")
