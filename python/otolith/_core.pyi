"""Types of the compiled module. Private: people import from `otolith`.

The docstrings are those of the module itself; a test keeps the two the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import Any, Literal, final, overload

import numpy as np
from numpy.typing import NDArray

from ._types import MatrixLike, MetaValue, VectorLike

__all__ = [
    "EMBEDDED_TEXT_VERSION",
    "FORMAT_VERSION",
    "SCHEMA_VERSION",
    "Analysis",
    "Analyzer",
    "Attached",
    "Coverage",
    "Engine",
    "Episode",
    "Explanation",
    "FilterEffect",
    "Hit",
    "HybridIndex",
    "IdSet",
    "IndexHit",
    "IndexParams",
    "Inserted",
    "Leg",
    "Outcome",
    "PendingText",
    "Report",
    "__version__",
    "reindex_attach",
    "reindex_pending",
    "reindex_purge",
    "reindex_state",
    "reindex_switch",
    "repair_store",
    "verify_index",
    "verify_rows",
    "verify_store",
    "graph_recall",
    "holder",
    "file_system",
    "simd_level",
]

__version__: str
SCHEMA_VERSION: int
FORMAT_VERSION: int
EMBEDDED_TEXT_VERSION: int
simd_level: Literal["portable", "avx2", "avx512"]

def file_system(path: str | PathLike[str]) -> dict[str, Any]:
    """The file system a path is on, or would be made on.

    Args:
        path: A file or directory; it need not be there.

    Returns:
        name (str, such as `ext4` or `nfs`), network (bool: other machines may reach its files).

    Raises:
        StoreError: The system does not tell.
    """

@final
class Episode:
    """One remembered thing. Frozen; `replace` makes a changed copy. Two are equal when all their fields are."""
    @property
    def id(self) -> str:
        """Identity, a UUID of version 7; ids sort in the order the records were created."""
    @property
    def key(self) -> str | None:
        """Idempotency key, unique within the scope."""
    @property
    def summary(self) -> str:
        """The memory itself, one sentence or a page."""
    @property
    def body(self) -> str | None:
        """Longer text, searched with less weight."""
    @property
    def title(self) -> str | None:
        """Short name, searched with more weight."""
    @property
    def outcome(self) -> Literal["success", "failure", "blocked", "cancelled"] | None:
        """How the task ended."""
    @property
    def source(self) -> Literal["task", "conversation", "document", "import"]:
        """What kind of event it comes from."""
    @property
    def actor(self) -> str | None:
        """Who said or did it."""
    @property
    def agent_id(self) -> str | None:
        """The agent that wrote it."""
    @property
    def task_id(self) -> str | None:
        """The task it belongs to."""
    @property
    def session_id(self) -> str | None:
        """The session it belongs to."""
    @property
    def user_id(self) -> str | None:
        """The user it belongs to."""
    @property
    def working_dir(self) -> str | None:
        """Absolute directory it is about."""
    @property
    def key_decisions(self) -> tuple[str, ...]:
        """What was decided."""
    @property
    def files_modified(self) -> tuple[str, ...]:
        """Paths of files."""
    @property
    def tags(self) -> tuple[str, ...]:
        """Labels."""
    @property
    def metadata(self) -> dict[str, MetaValue]:
        """Named values for filters; a new dict each time."""
    @property
    def scope(self) -> str:
        """Namespace it lives in; `""` is the root."""
    @property
    def occurred_at(self) -> datetime:
        """When it happened, in the offset it was given with."""
    @property
    def created_at(self) -> datetime:
        """When it was first stored, in UTC."""
    @property
    def updated_at(self) -> datetime:
        """When it was last changed, in UTC; `update(expect=)` takes it."""
    @property
    def importance(self) -> float:
        """0 to 1."""
    @property
    def origin(self) -> Literal["user", "assistant", "tool", "web", "import"]:
        """Who wrote it."""
    @property
    def trust(self) -> Literal["trusted", "untrusted"]:
        """Whether its text may be relied on."""
    @property
    def status(self) -> Literal["active", "quarantined"]:
        """Whether it is served."""
    @property
    def schema_version(self) -> int:
        """Version of the record layout it was written with."""
    def replace(self, **fields: Any) -> Episode:
        """A copy with other values for some fields, checked like a record that is written.

        Args:
            **fields: Any fields. None empties one that may be empty. Trust can be lowered but not raised.

        Raises:
            TypeError: There is no such field.
            InvalidInput: A value does not fit its field.
        """
    def __replace__(self, **fields: Any) -> Episode: ...
    def to_dict(self) -> dict[str, Any]:
        """All fields as plain data ready for JSON: times as RFC 3339, lists for tuples."""
    def to_json(self) -> str:
        """The record as one JSON object, as the store and an export hold it; fields that have no content are left out.

        Raises:
            InvalidInput: It is larger than 16 MiB.
        """
    @staticmethod
    def from_json(text: str | bytes) -> Episode:
        """Reads what `to_json` wrote. Fields of a newer version are kept and written again.

        Args:
            text: One JSON object, as str or bytes in UTF-8.

        Raises:
            FormatTooNew: A newer version wrote it.
            InvalidInput: It is not a record.
        """
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Explanation:
    """A node of a score: `value` follows from the values of `details` as `description` says. `str()` draws the tree."""
    @property
    def value(self) -> float:
        """The number."""
    @property
    def description(self) -> str:
        """What it is, and how it is made of its details."""
    @property
    def details(self) -> tuple[Explanation, ...]:
        """What it is made of."""
    def to_dict(self) -> dict[str, Any]:
        """The tree as plain data."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Hit:
    """One result: the record, and why it is one."""
    @property
    def id(self) -> str:
        """Id of the record."""
    @property
    def kind(self) -> Literal["episode"]:
        """Kind of the record."""
    @property
    def score(self) -> float:
        """What the report is ordered by, 0 to 1."""
    @property
    def relevance(self) -> float:
        """How likely it is about the question at all, 0 to 1, on the same scale for every question."""
    @property
    def parts(self) -> dict[str, float]:
        """Raw scores `bm25` and `cosine`, scaled ones `lexical` and `vector`, as far as they count; a new dict each time."""
    @property
    def text(self) -> str:
        """The memory itself: the summary of the record."""
    @property
    def episode(self) -> Episode:
        """The record as it was when the report was made."""
    @property
    def matched_terms(self) -> tuple[str, ...]:
        """Words of the question that it holds, as they were asked."""
    @property
    def timestamp(self) -> datetime:
        """When it happened."""
    @property
    def trust(self) -> Literal["trusted", "untrusted"]:
        """Whether its text may be relied on."""
    @property
    def explanation(self) -> Explanation | None:
        """How the score came about, when `explain=True` was asked for."""
    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data ready for JSON."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Leg:
    """What became of one way of searching."""
    @property
    def ran(self) -> bool:
        """Whether it ran."""
    @property
    def reason(self) -> str | None:
        """Why it did not; None when it ran."""
    @property
    def candidates(self) -> int:
        """How many records it put forward: its best ones, more than were asked for when two legs are joined."""
    @property
    def method(self) -> Literal["exact", "graph", "graph and exact"] | None:
        """How the vector leg went about it: `exact` when it compared every vector that may be found, `graph` when it walked
        on graphs, `graph and exact` for both: what has no graph yet is compared. None for another leg."""
    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class FilterEffect:
    """One filter of a query: its name and how many records it alone left of all that are served."""
    @property
    def name(self) -> str:
        """Name of the condition."""
    @property
    def left(self) -> int:
        """How many records it alone leaves."""
    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Analyzer:
    """Turns text into the terms that are searched. `Memory` and `HybridIndex` have one; make one to see what finds what.

    Args:
        name: `default`, or `plain`: case-folded words and nothing else, for comparison with other engines.
        language: Whose words are stemmed, by Snowball's name, or `off`; nothing to `plain`, where it is always `off`.

    Raises:
        InvalidInput: There is no such analyzer or language.
    """
    def __new__(cls, name: str = "default", language: str = "english") -> Analyzer: ...
    @property
    def name(self) -> Literal["default", "plain"]:
        """Which pipeline: `default` or `plain`."""
    @property
    def language(self) -> str:
        """Whose words are stemmed, or `off`."""
    @property
    def id(self) -> str:
        """Name, language and version of the rules: terms of another id are not comparable."""
    def terms(self, text: str) -> list[str]:
        """The terms of a document, in the order of the text. One that begins with `=` is a word as it is written, beside its
        stem.

        Args:
            text: Any text.
        """
    def spans(self, text: str, query: str) -> list[tuple[int, int]]:
        """Where a text holds what a question asks for, for highlighting.

        Args:
            text: Any text.
            query: The question.

        Returns:
            Pairs (start, end) for `text[start:end]`, in order, none touching another. Each is whole characters as people see
            them: a letter with its accents, an emoji with its skin tone.
        """
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Analysis:
    """How the query was read: its text, the terms that were searched, and the analyzer that read it."""
    @property
    def text(self) -> str:
        """The text of the query as it was given."""
    @property
    def terms(self) -> tuple[str, ...]:
        """The terms that were searched, as they were written, each once."""
    @property
    def expansions(self) -> dict[str, tuple[str, ...]]:
        """Words that were also taken for others, by word as it was written: synonyms, words that begin with it, words that
        differ by a typo.
        """
    @property
    def analyzer(self) -> Analyzer:
        """How text becomes terms."""
    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where a text holds what was asked for or what it was taken for: any text, such as `hit.text` or the body of its
        record.

        Args:
            text: Any text.

        Returns:
            Pairs (start, end) for `text[start:end]`, in order, none touching another. Each is whole characters as people see
            them: a letter with its accents, an emoji with its skin tone.
        """
    def highlight(self, text: str, before: str = "**", after: str = "**") -> str:
        """The text with marks around what was asked for.

        Args:
            text: Any text. Nothing in it is escaped.
            before: What begins a mark.
            after: What ends it.
        """
    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data; the analyzer by its id."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Coverage:
    """How many records have vectors.
    total = vectorized + pending + stale + refused + dimension_mismatches, always.
    """
    @property
    def total(self) -> int:
        """Records that are served."""
    @property
    def vectorized(self) -> int:
        """Searched by vector."""
    @property
    def pending(self) -> int:
        """Not embedded yet."""
    @property
    def stale(self) -> int:
        """Embedded when their text was another."""
    @property
    def dimension_mismatches(self) -> int:
        """Given a vector of another width."""
    @property
    def refused(self) -> int:
        """Given a vector that cannot be searched: zero, NaN, infinite, too long, none."""
    @property
    def dim(self) -> int | None:
        """Width of the vectors; None before the first."""
    @property
    def embedder(self) -> str | None:
        """Fingerprint of the embedder that is counted for."""
    def ratio(self) -> float:
        """Share of the records that are searched by vector, 0 to 1; 1 when there are none."""
    def bm25_only(self) -> int:
        """How many records only words can find."""
    def has_dimension_mismatch(self) -> bool:
        """Whether vectors of another width were given."""
    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Report(Sequence[Hit]):
    """The answer of `recall`: a sequence of hits, best first, that says how it came about."""
    @property
    def legs(self) -> dict[str, Leg]:
        """What became of each way of searching, `lexical` and `vector`."""
    @property
    def analysis(self) -> Analysis:
        """How the query was read."""
    @property
    def filters(self) -> tuple[FilterEffect, ...]:
        """Each condition of the filter with how many records it alone left."""
    @property
    def considered(self) -> int:
        """Records that all conditions together left: those that could have been found."""
    @property
    def coverage(self) -> Coverage:
        """How many records have vectors."""
    @property
    def elapsed_us(self) -> int:
        """Time from question to answer, in microseconds."""
    def why_empty(self) -> str:
        """Why there are no hits, in sentences; empty when there are some."""
    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data ready for JSON; the hits are under `hits`."""
    def index(self, value: Any, start: int = 0, stop: int | None = None, /) -> int:
        """Place of the first hit that equals `value`.

        Raises:
            ValueError: There is none.
        """
    def count(self, value: Any, /) -> int:
        """How many hits equal `value`."""
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> Hit: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[Hit, ...]: ...
    def __iter__(self) -> Iterator[Hit]: ...
    def __reversed__(self) -> Iterator[Hit]: ...
    def __contains__(self, value: object, /) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Outcome:
    """What became of one record: the episode, or of a batch the error in its place."""
    @property
    def episode(self) -> Episode | None:
        """The record as it is stored; None when there is an error."""
    @property
    def created(self) -> bool:
        """Whether it is new; else one of the same id or key was replaced."""
    @property
    def changed(self) -> bool:
        """Whether anything was written; the same record again is not."""
    @property
    def error(self) -> Exception | None:
        """Why nothing was written."""
    @property
    def vector_refused(self) -> str | None:
        """Why its vector is not searched."""

@final
class PendingText:
    """A record that lacks a current vector, and the texts to embed for it."""
    @property
    def id(self) -> str:
        """The record."""
    @property
    def chunks(self) -> list[str]:
        """Texts to embed in order, at least one, none blank; each becomes one row."""
    @property
    def text_hash(self) -> bytes:
        """16 bytes that `attach` takes back, so that rows of a text that changed meanwhile are dropped."""
    @property
    def reason(self) -> str | None:
        """Why the vector it was given cannot be searched; None when it has none of its present text."""

@final
class Attached:
    """What became of vectors that were handed in."""
    @property
    def attached(self) -> int:
        """Records whose vectors are searched now."""
    @property
    def refused(self) -> int:
        """Records whose vectors cannot be searched; counted, and not asked for again."""
    @property
    def outdated(self) -> int:
        """Records that are gone, or whose text changed meanwhile."""
    @property
    def reasons(self) -> list[tuple[str, str]]:
        """For each that was refused its id and why, as text that begins with `wrong width` where that is the reason."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Engine:
    """One open handle on a home. Safe to use from many threads; every slow call releases the interpreter, and waiting for
    the write lock of another process can be interrupted by signals.
    """
    @staticmethod
    def open(
        home: str | PathLike[str] | None,
        *,
        scope: str = "",
        origin: str = "assistant",
        create: bool = True,
        read_only: bool = False,
        embedder: str | None = None,
        lock_timeout: float = 30.0,
        mode: str = "shared",
        durability: str = "full",
        network: str = "refuse",
        analyzer: str = "default",
        language: str = "english",
        expand: str = "missing",
        synonyms: Mapping[str, Sequence[str]] | None = None,
    ) -> Engine:
        """Opens a home.

        Args:
            home: Its directory; None is a memory that lives in RAM and ends with the handle.
            scope: Namespace that every read and write stays within.
            origin: Who writes through this handle, unless a record says otherwise.
            create: Whether to make the home if it is not there.
            read_only: Never write a byte.
            embedder: Fingerprint of the handle's embedder; None for keyword search and vectors given by the caller.
            lock_timeout: Longest wait for the write lock, in seconds.
            mode: `shared`, or `exclusive` to have the home to itself.
            durability: `full`, or `batched` for writes that return up to 50 ms before their commit.
            network: `refuse` or `allow` a network file system.
            analyzer: `default`, or `plain` for case-folded words and nothing else.
            language: Whose words are stemmed, by Snowball's name, or `off`; nothing to `plain`.
            expand: Which words of a question are taken for those that begin with them or differ by a typo: `missing` for
                those that no record holds, `always`, or `off`.
            synonyms: What words are also called, a mapping from a word to a list of words.

        Raises:
            InvalidInput: An argument is wrong.
            StoreError: The home cannot be used; its subclasses say why.
        """
    @property
    def home(self) -> str | None:
        """The home as an absolute path; None for a memory in RAM."""
    @property
    def read_only(self) -> bool:
        """Whether writing is refused."""
    @property
    def scope(self) -> str:
        """Namespace that every read and write stays within; `""` is the root."""
    @property
    def unreadable(self) -> int:
        """How many records are left out of every answer because of damage, as far as this handle has looked."""

    @property
    def embedder(self) -> str | None:
        """Fingerprint of the handle's embedder."""
    def use_embedder(self, fingerprint: str | None) -> None:
        """Sets the handle's embedder, as `open(embedder=)` would have: `auto` knows it only after `home_embedder()`.

        Args:
            fingerprint: What identifies the embedder; None for none.
        """
    def put(
        self,
        fields: Mapping[str, Any],
        *,
        id: str | None = None,
        vector: VectorLike | None = None,
    ) -> Outcome:
        """Writes one record durably; the same id, or the same key in its scope, replaces.

        Args:
            fields: The fields of the record; `summary` is needed. None empties a field that may be empty.
            id: An id of ours, for a record that is written again or comes from an export.
            vector: Its vector, one row of the handle's embedder. One that cannot be searched is refused and counted; the
                text is kept.

        Returns:
            The record as it is stored.

        Raises:
            InvalidInput: A field is wrong or unknown.
            Conflict: Key and id belong to different records.
            StoreError: It could not be stored; its subclasses say why.
        """
    def put_many(
        self,
        records: Sequence[Mapping[str, Any]],
        *,
        vectors: MatrixLike | None = None,
    ) -> list[Outcome]:
        """Writes many records in one transaction. Wrong ones are reported in their place and the rest is written.

        Args:
            records: The fields of each as for `put`; a record may hold its `id`.
            vectors: A vector for each, or None; a matrix with a row for each is fine too.

        Returns:
            What became of each, in order.

        Raises:
            InvalidInput: There are not as many vectors as records.
            StoreError: Nothing could be stored.
        """
    def restore(self, episodes: Sequence[Episode]) -> tuple[int, int, int]:
        """Writes records exactly as they are (times, status, ids): the import of our own export. One transaction.

        Args:
            episodes: The records.

        Returns:
            How many were created, replaced and already there unchanged.

        Raises:
            InvalidInput: A record lies outside the handle's scope.
            Conflict: A key belongs to another record; nothing was written.
            StoreError: Nothing could be stored.
        """
    def restore_vectors(
        self, fingerprint: str, dim: int, rows: Sequence[tuple[str, MatrixLike | str]]
    ) -> Attached:
        """Vectors, or the reason of a refusal, of an export, for records that exist; one transaction.

        The home's embedder becomes `fingerprint` if it has none; rows of other embedders are stored, not served.

        Args:
            fingerprint: What identifies the embedder they are from.
            dim: Its width.
            rows: The record's id with its rows or the reason of its refusal.

        Raises:
            InvalidInput: A fingerprint or width that cannot be.
            StoreError: Nothing could be stored.
        """
    def stored_vectors(self, id: str) -> list[tuple[str, int, list[NDArray[np.float32]] | str]]:
        """All that is stored of a record's vectors.

        Args:
            id: The record.

        Returns:
            For each embedder its fingerprint, its width, and the rows as they were written (arrays of float32, one for
            each part of the text) or the reason of a refusal.

        Raises:
            NotFound: There is no such record in the handle's scope.
        """
    def update(self, id: str, fields: Mapping[str, Any], *, expect: datetime | None = None) -> Episode:
        """Changes fields of a record.

        Args:
            id: The record.
            fields: What to set; None empties a field that may be empty.
            expect: Its `updated_at` as the caller read it; None overwrites whatever is there.

        Returns:
            The record as it is stored now.

        Raises:
            NotFound: There is no such record in the handle's scope.
            Conflict: It changed since `expect`.
            InvalidInput: A field is wrong or unknown.
            StoreError: It could not be stored.
        """
    def trust(self, id: str) -> Episode:
        """Makes a record trusted, whoever wrote it: somebody looked at it.

        Args:
            id: The record.

        Returns:
            The record as it is stored now.

        Raises:
            NotFound: There is no such record in the handle's scope.
            StoreError: It could not be stored.
        """

    def get(self, id: str) -> Episode:
        """The record with this id as it is now.

        Raises:
            NotFound: There is none in the handle's scope.
            InvalidInput: It is not an id of ours.
        """
    def find(self, prefix: str, limit: int = 100) -> list[str]:
        """Ids that begin with `prefix`, smallest first.

        Args:
            prefix: Hexadecimal digits, with or without hyphens.
            limit: At most so many.

        Raises:
            InvalidInput: The prefix holds anything else.
        """
    def page(
        self,
        filter: Mapping[str, Any] | None,
        *,
        newest_first: bool = True,
        after: str | None = None,
        limit: int = 256,
    ) -> tuple[list[Episode], str | None]:
        """Up to `limit` matching records in the order of their ids, which is that of their creation.

        Args:
            filter: Which; None for all.
            newest_first: The order.
            after: Go on after this id, itself left out.
            limit: At most so many.

        Returns:
            The records, and the id to go on after; None at the end.
        """
    def count(self, filter: Mapping[str, Any] | None = None) -> int:
        """How many records match.

        Args:
            filter: Which; None for all.
        """
    def forget(self, ids: Sequence[str]) -> int:
        """Deletes records everywhere; unknown ids count as gone already.

        Args:
            ids: The records.

        Returns:
            How many there were.

        Raises:
            StoreError: Nothing could be deleted.
        """
    def forget_where(self, filter: Mapping[str, Any], *, dry_run: bool = False) -> list[str]:
        """Deletes all that match in one transaction that checks each again.

        Args:
            filter: Which. An empty one is everything the handle sees.
            dry_run: Delete nothing.

        Returns:
            The ids that match.

        Raises:
            StoreError: Nothing could be deleted.
        """
    def recall(
        self,
        query: str | None,
        k: int = 10,
        *,
        vector: VectorLike | None = None,
        vector_reason: str | None = None,
        filter: Mapping[str, Any] | None = None,
        explain: bool = False,
        min_relevance: float = 0.0,
        fusion: str = "weighted",
        weights: Mapping[str, float] | None = None,
        legs: Sequence[str] | None = None,
        vector_embedder: str | None = None,
    ) -> Report:
        """Answers a question from everything committed before it began, by whichever process.

        Args:
            query: Words in any language. Without words and vector the newest records are listed.
            k: Hits wanted; 0 gives an empty report, more than there are gives all.
            vector: The question's vector, one row of the handle's embedder.
            vector_reason: Why no query vector was made; it becomes the reason of the vector leg.
            filter: Which records may be found, applied before ranking.
            explain: Whether hits carry how their score came about.
            min_relevance: Hits of less relevance (0 to 1) are left out.
            fusion: `weighted` or `rrf`.
            weights: Weight of each leg by name; only their ratio counts.
            legs: Only these legs: `lexical`, `vector`.
            vector_embedder: Fingerprint of the embedder that made the vector; it is not searched with when the handle has
                another one by now.

        Raises:
            InvalidInput: An argument is wrong.
            DimensionMismatch: The vector is not as wide as those of the home.
            StoreError: The store cannot be read.
        """
    def wants_query_vector(self) -> str | None:
        """None if a query vector of the handle's embedder can be searched, else why not."""
    def pending(
        self,
        *,
        after: str | None = None,
        limit: int = 64,
        ids: Sequence[str] | None = None,
        refused: bool = False,
    ) -> list[PendingText]:
        """Records without a current vector of the handle's embedder, in the order of their ids.

        Args:
            after: Go on after this id, itself left out.
            limit: At most so many.
            ids: Only among these; the other arguments do not count then.
            refused: Also those whose vector cannot be searched, with the reason.

        Raises:
            InvalidInput: The handle has no embedder, or the home's is another.
        """
    def attach(
        self, rows: Sequence[tuple[str, bytes, MatrixLike | str]], *, embedder: str | None = None
    ) -> Attached:
        """Attaches vectors to records whose text is still the one that was embedded; one transaction. The first ones make
        the handle's embedder the home's.

        Args:
            rows: For each record its id, its `text_hash`, and one row for each chunk or the reason of a refusal.
            embedder: Fingerprint of the embedder that made them; refused when the handle has another one by now.

        Returns:
            How many were attached, refused, and dropped because their text changed meanwhile, and why each was refused.

        Raises:
            InvalidInput: The handle has no embedder, the home's is another, or a row is no vector.
            StoreError: Nothing could be stored.
        """
    def coverage(self) -> Coverage:
        """How many records have a current vector, and why others have none."""
    def home_embedder(self) -> tuple[str, int] | None:
        """Fingerprint and width of the embedder this home belongs to; None before its first vector."""
    def foreign_vectors(self) -> dict[str, int]:
        """How many records have vectors of another embedder than the handle's, by fingerprint."""
    def info(self) -> dict[str, Any]:
        """Facts about the home, by name.

        Returns:
            format_version (int), created (datetime), records (int, of every scope and status), last_sequence (int),
            file_bytes (int, 0 in RAM), analyzer (str), unreadable (int: damaged rows), notices (list of str about those and the index),
            index (dict of int: segments mapped from files, checked: compared with their checksums since the handle was opened,
            damaged: times damage was met and built anew, longest_wait_us: the longest that care of the index kept questions
            waiting, in microseconds, vectors: those there are, graph_vectors: those of them that a graph leads to).
        """
    def compact(self, *, progress: Callable[[int, int], object] | None = None) -> dict[str, Any]:
        """Puts a file without holes in the place of the store file. Others read all the time, and write but for the last
        moment; their handles go on in the new file by themselves.

        Args:
            progress: Called now and then with (rows done, rows to do).

        Returns:
            before_bytes and after_bytes (int, of the file), records (int), blocked_us (int: how long nobody could write,
            in microseconds), changed_meanwhile (int: records that changed or went while it ran; bytes of their old form may be
            left until the next compaction), removed_drafts (list of str: unfinished files of killed processes that were
            removed), index (str or None: directory of the index that is free of forgotten words as well).

        Raises:
            StoreCorrupt: A row cannot be read; `otolith verify --repair` comes first.
            StoreLocked: The write lock did not come free.
            StoreError: It could not be done, and nothing was changed.
        """
    def backup(
        self, dest: str | PathLike[str], *, progress: Callable[[int, int], object] | None = None
    ) -> dict[str, Any]:
        """Writes the whole store as it is at one moment to a new file, while others read and write.

        Args:
            dest: The file; it must not exist, its directory must.
            progress: Called now and then with (rows done, rows to do).

        Returns:
            bytes (int, of the file), records (int), last_sequence (int).

        Raises:
            InvalidInput: The handle has a scope, so it does not see everything.
            StoreCorrupt: A row cannot be read; `otolith verify --repair` comes first.
            StoreError: `dest` is there already or cannot be written; there is nothing new then.
        """
    def census(self) -> dict[str, Any]:
        """Reads every record, vector and change of the home, whatever the handle's scope; builds no index.

        Returns:
            records, vectors (int: what can be read), payload_bytes (int: of their JSON and rows, about), last_sequence
            (int), unreadable (list of str: what cannot be read and why).

        Raises:
            StoreError: The store cannot be read.
        """
    def flush(self) -> None:
        """Returns when every write so far is on disk; at once unless durability is batched.

        Raises:
            StoreError: Writes that had been acknowledged could not be committed; told once.
        """
    def close(self) -> None:
        """Ends the handle; later calls raise `StoreError`. Closing twice is fine.

        Raises:
            StoreError: In a forked child, where nothing is closed; when writes that had been acknowledged could not be
                committed, after closing.
        """

@final
class IndexParams:
    """Settings of a `HybridIndex`.

    Args:
        k1: Saturation of the term frequency, 0 to 10; 0 ignores repetition.
        b: Strength of the length normalisation, 0 to 1; 0 ignores length.
        analyzer: `default`, or `plain`: case-folded words and nothing else, for comparison with other engines.
        language: Whose words are stemmed, by Snowball's name, or `off`; nothing to `plain`, where it is always `off`.
        ef_search: Vectors that are kept on a walk over their graph, 1 or more; more find more and take longer. None is 128.
        exact_below: Fewer vectors get no graph by `compact`: each is compared. None is as many as take 2 MiB at a byte a
            component, 5,461 of 384, where words are asked for too, and 8 MiB by the vector alone.

    Raises:
        InvalidInput: A value is out of its range.
    """
    def __new__(
        cls,
        *,
        k1: float = 1.2,
        b: float = 0.75,
        analyzer: Literal["default", "plain"] = "default",
        language: str = "english",
        ef_search: int | None = None,
        exact_below: int | None = None,
    ) -> IndexParams: ...
    @property
    def k1(self) -> float:
        """Saturation of the term frequency."""
    @property
    def b(self) -> float:
        """Strength of the length normalisation."""
    @property
    def analyzer(self) -> Literal["default", "plain"]:
        """How text becomes terms."""
    @property
    def language(self) -> str:
        """Whose words are stemmed, or `off`."""
    @property
    def ef_search(self) -> int | None:
        """Vectors that are kept on a walk over their graph; None is 128."""
    @property
    def exact_below(self) -> int | None:
        """Fewer vectors are compared one by one; None is as many as take 2 MiB with words, 8 MiB without."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Inserted:
    """What an insertion did."""
    @property
    def replaced(self) -> bool:
        """Whether a document of this id was there and is gone."""
    @property
    def vectorized(self) -> bool:
        """Whether its vector is searched."""
    @property
    def refused(self) -> str | None:
        """Why its vector is not; None when it is, or when there was none."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class IndexHit:
    """One result of a `HybridIndex`."""
    @property
    def id(self) -> str:
        """The id it was inserted with."""
    @property
    def score(self) -> float:
        """What the results are ordered by, 0 to 1."""
    @property
    def parts(self) -> dict[str, float]:
        """Raw scores `bm25` and `cosine`, scaled ones `lexical` and `vector`, as far as they count; a new dict each time."""
    @property
    def explanation(self) -> Explanation | None:
        """How the score came about, when `explain=True` was asked for."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class IdSet:
    """Ids of a `HybridIndex` that are looked up once, for any number of searches; `HybridIndex.subset` makes it.

    It does not change. It stands for the documents that have its ids when it is searched with: those that are inserted later
    are found too, those that are removed are not. `len` tells how many different ids it holds.
    """
    @property
    def unknown(self) -> int:
        """How many of its ids no document had when it was made."""
    def __len__(self) -> int: ...

@final
class HybridIndex:
    """BM25 and cosine over documents in memory. Ids are any strings; ties go to the document inserted first.

    Safe to use from many threads; every call releases the interpreter, and searches run side by side.

    Args:
        dim: Width of the vectors, 1 to 8192; None takes that of the first vector.
        params: Settings of ranking and text analysis.

    Raises:
        InvalidInput: A width that cannot be.
    """
    def __new__(cls, dim: int | None = None, *, params: IndexParams | None = None) -> HybridIndex: ...
    def insert(
        self, id: str, text: str | Mapping[str, str] | None = None, vector: VectorLike | None = None
    ) -> Inserted:
        """Adds a document, or replaces the one of the same id.

        Args:
            id: Any text that is not empty.
            text: Its text, or named fields: `title`, `tags` and `files` weigh 3, `body`, `caption` and `code` one half,
                others 1.
            vector: Its vector, one row as wide as the index. One that cannot be searched is refused and counted; the text
                is kept.

        Raises:
            InvalidInput: The id is empty, there is neither text nor vector, or an argument is of the wrong type.
        """
    def insert_many(
        self,
        ids: Sequence[str],
        texts: Sequence[str | Mapping[str, str] | None] | None = None,
        vectors: MatrixLike | None = None,
    ) -> list[Inserted]:
        """As `insert`, for many documents. All arguments are checked before the first is inserted.

        Args:
            ids: Their ids.
            texts: A text for each, or None.
            vectors: A matrix with a row for each, or a list with a vector or None for each.

        Returns:
            What each insertion did, in order.

        Raises:
            InvalidInput: As for `insert`, or the arguments are not equally long.
        """
    def add_embedding(self, id: str, vector: VectorLike) -> bool:
        """Gives a document a vector, in place of the one it had.

        Args:
            id: The document.
            vector: One row as wide as the index.

        Returns:
            False when it cannot be searched; it is counted then, and the document has none.

        Raises:
            NotFound: There is no such document.
        """
    def remove(self, id: str) -> bool:
        """Takes a document out; False when there was none of this id."""
    def save(self, path: str | PathLike[str]) -> None:
        """Writes the index to a file, in place of what is there: beside it first, synced, then renamed, so that the file is
        the old or the new one whatever happens.

        Args:
            path: The file.

        Raises:
            StoreCorrupt: The file it was loaded from is damaged.
            StoreError: It cannot be written.
        """
    @staticmethod
    def load(path: str | PathLike[str]) -> HybridIndex:
        """The index in a file that `save` wrote, with its settings. Words and ids stay in the file and are read as they are
        searched: do not change it, save to it instead.

        Args:
            path: The file.

        Raises:
            FormatTooNew: A newer version wrote it.
            StoreCorrupt: It is cut short, or what has to be read to open it is damaged. Damage of the rest is found by
                `compact` and `save`; until then it may cost ranking.
            StoreError: It cannot be read, or another version's analyzer made its words.
        """
    def compact(self) -> None:
        """Makes the index smaller and faster after many changes: documents that were removed or replaced are gone from it
        for good, and `max_doc` is `num_docs`. Many vectors get a graph, which takes some twenty seconds for 100,000; what is
        inserted meanwhile or afterwards is compared one by one until the next time. Ctrl-C ends it, and the next call goes on.

        Searches and changes by other threads wait while the documents are put together, a fraction of a second for 100,000,
        not while the graph is built: that is done over a copy of the vectors of a byte a component. Only if other threads
        compact it twice in that time do they wait for the graph.

        Raises:
            StoreCorrupt: The file it was loaded from is damaged.
        """
    def subset(self, ids: Sequence[str]) -> IdSet:
        """Looks ids up once, for any number of searches among them: `search(..., ids=index.subset(ids))`.

        Args:
            ids: Ids of documents; unknown ones are kept, in case they come later.

        Returns:
            A set that is searched with in this index alone. It need not be made again after insertions, removals or
            compactions.

        Raises:
            InvalidInput: It is no list or tuple of str.
        """
    def search(
        self,
        query: str | None = None,
        vector: VectorLike | None = None,
        k: int = 10,
        *,
        ids: Sequence[str] | IdSet | None = None,
        fusion: str = "weighted",
        weights: Mapping[str, float] | None = None,
        ef_search: int | None = None,
        exact: bool | None = None,
        explain: bool = False,
    ) -> list[IndexHit]:
        """The best `k` documents, best first; without query and vector there are none.

        Args:
            query: Words in any language.
            vector: One row as wide as the index.
            k: Hits wanted; more than there are gives all.
            ids: Only these; unknown ones are ignored. For more than one search among many, `subset` looks them up once.
            fusion: `weighted` or `rrf`.
            weights: Weight of each leg by name, `lexical` and `vector`; only their ratio counts.
            ef_search: Vectors that are kept on a walk over their graph, instead of that of the settings.
            exact: Whether every vector is compared; None and False leave it to the size.
            explain: Whether hits carry how their score came about.

        Raises:
            DimensionMismatch: The vector is not as wide as the index.
            InvalidInput: An argument is wrong, the vector has no direction, or the set is of another index.
        """
    def search_many(
        self,
        queries: Sequence[str | None] | None = None,
        vectors: MatrixLike | None = None,
        k: int = 10,
        *,
        ids: Sequence[str] | IdSet | None = None,
        ef_search: int | None = None,
        exact: bool | None = None,
    ) -> list[list[IndexHit]]:
        """As `search`, for several questions at once.

        Args:
            queries: Words of each question, or None.
            vectors: A matrix with a row for each question, or a list with a vector or None for each.
            k: Hits wanted for each.
            ids: Only these, for all questions.
            ef_search: As for `search`.
            exact: As for `search`.

        Returns:
            The hits of each question, in order.

        Raises:
            DimensionMismatch: A vector is not as wide as the index.
            InvalidInput: As for `search`, or the arguments are not equally long.
        """
    def vector_coverage(self) -> Coverage:
        """How many documents have vectors, and why others have none."""
    @property
    def num_docs(self) -> int:
        """Documents that are there."""
    @property
    def max_doc(self) -> int:
        """Documents with those that were removed or replaced and whose place is not used again yet."""
    @property
    def dim(self) -> int | None:
        """Width of the vectors; None before the first."""
    def __len__(self) -> int: ...
    def __contains__(self, id: str, /) -> bool: ...

def reindex_state(engine: Engine, embedder: str) -> dict[str, Any]:
    """How far the vectors of an embedder are that is to be the home's. Reads every record, and builds no index.

    Args:
        engine: The open engine.
        embedder: Its fingerprint.

    Returns:
        total (int: records that are searched, of every scope), vectorized, pending, refused, dimension_mismatches (int: of
        these, by what the embedder has of them), dim (int or None: its width), home (str or None: fingerprint of the
        embedder the home belongs to), home_vectorized (int: records with a current vector of that one).

    Raises:
        InvalidInput: The handle has a scope, so it does not see everything.
        StoreError: The store cannot be read.
    """

def reindex_pending(
    engine: Engine, embedder: str, *, after: str | None = None, limit: int = 64, mismatched: bool = False
) -> tuple[list[PendingText], str | None]:
    """Records that lack a current vector of an embedder, whichever the home's is, in the order of their ids.

    Args:
        engine: The open engine.
        embedder: Its fingerprint.
        after: Go on after this id, itself left out.
        limit: At most so many.
        mismatched: Also those that were given a vector of another width.

    Returns:
        The records, and the id to go on after; None at the end.

    Raises:
        InvalidInput: The handle has a scope, so it does not see everything.
        StoreError: The store cannot be read.
    """

def reindex_attach(
    engine: Engine, embedder: str, rows: Sequence[tuple[str, bytes, MatrixLike | str]]
) -> Attached:
    """Attaches vectors of an embedder to records whose text is still the one that was embedded, beside those of the home's;
    one transaction.

    Args:
        engine: The open engine.
        embedder: Its fingerprint.
        rows: As for `Engine.attach`.

    Raises:
        InvalidInput: The handle has a scope, or a row is no vector.
        StoreError: Nothing could be stored.
    """

def reindex_switch(engine: Engine, embedder: str) -> tuple[bool, dict[str, Any]]:
    """Makes an embedder the home's, in one transaction, if its vectors serve the home at least as well as those that are
    searched now: as many records, or at least half as many once all were tried.

    Args:
        engine: The open engine.
        embedder: Its fingerprint.

    Returns:
        Whether it did, and what `reindex_state` told before.

    Raises:
        InvalidInput: The handle has a scope, so it does not see everything.
        StoreError: It could not be stored.
    """

def reindex_purge(engine: Engine) -> int:
    """Removes some of the vectors whose embedder's place another took, in one transaction.

    Args:
        engine: The open engine.

    Returns:
        How many rows of the store went; 0 when none are left.

    Raises:
        StoreError: Nothing could be removed.
    """

def verify_store(
    home: str | PathLike[str],
    *,
    lock_timeout: float,
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """Checks the store file of a home, without writing to it.

    Args:
        home: Its directory.
        lock_timeout: Longest wait for the write lock, in seconds.
        progress: Called now and then with (bytes done, bytes to do).

    Returns:
        problems (list of (kind, table, id, detail)), records, vectors, bytes, held_ms (int).

    Raises:
        StoreError: It cannot be looked at.
    """

def repair_store(
    home: str | PathLike[str],
    *,
    lock_timeout: float,
    distrust: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """Checks the store file of a home and puts a whole one in its place if it is damaged.

    Args:
        home: Its directory.
        lock_timeout: Longest wait for the write lock, in seconds.
        distrust: Make a new file whatever is found: the check of this one ended its process.
        progress: Called now and then with (bytes done, bytes to do).

    Returns:
        What `verify_store` does, of the file before; kept_as and lost_found (str or None), restored,
        restored_vectors (int), lost (list of (table, id, detail, file or None)).

    Raises:
        StoreError: It could not be done, and nothing was changed.
    """

def verify_rows(engine: Engine) -> dict[str, Any]:
    """Checks the rows of an open memory against each other.

    Args:
        engine: The open handle.

    Returns:
        As `verify_store`.

    Raises:
        StoreError: The store cannot be read.
    """

def verify_index(engine: Engine) -> list[tuple[str, str, str, str]]:
    """Compares the index of an open memory with one built anew from the store.

    Args:
        engine: The open handle.

    Returns:
        Problems as in `verify_store`; none for a handle that was never asked anything.

    Raises:
        StoreError: The store cannot be read.
    """

def graph_recall(engine: Engine) -> tuple[float | None, list[tuple[str, str, str, str]]]:
    """Share of the ten nearest to stored vectors that searching on their graphs finds, over 200 of them.

    Args:
        engine: The open handle.

    Returns:
        0 to 1, None where every vector is compared; and as problems, as in `verify_store`, whether it is too little.

    Raises:
        StoreError: The store cannot be read.
    """

def holder(home: str | PathLike[str]) -> dict[str, Any] | None:
    """Who holds the write lock of a home now, as its holder note says. Opens no store and waits for nothing.

    Args:
        home: Directory of the memory.

    Returns:
        `pid`, `command`, `since` (RFC 3339 in UTC) and `exclusive` (bool: it keeps the store to itself for as long as it
        is open); None if nobody does, or if the note cannot be read.

    Raises:
        InvalidInput: `home` is no path.
    """
