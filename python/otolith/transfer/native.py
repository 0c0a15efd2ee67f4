"""Reading our own export: the whole file is checked before anything is written."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from otolith._core import Episode
from otolith.exceptions import FormatTooNew, InvalidInput, OtolithError, StoreCorrupt, StoreError
from otolith.records import ImportReport

from .exporting import FORMAT
from .streams import lines, source

if TYPE_CHECKING:
    from otolith._core import Engine

__all__ = ["import_export"]

# A record of 16 MiB with a wide vector for each of its chunks fits.
_LONGEST_LINE = 512 << 20
_WIDEST = 1 << 20
_BATCH_RECORDS = 500
_BATCH_BYTES = 16 << 20


@dataclass(slots=True)
class _Record:
    line: int
    episode: Episode
    vectors: list[tuple[str, int, Any]]
    size: int


@dataclass(slots=True)
class _Tally:
    read: int = 0
    created: int = 0
    replaced: int = 0
    unchanged: int = 0
    vectors: int = 0
    failed: list[tuple[int, OtolithError]] = field(default_factory=list)

    def report(self) -> ImportReport:
        return ImportReport(
            read=self.read,
            created=self.created,
            replaced=self.replaced,
            unchanged=self.unchanged,
            failed=tuple(sorted(self.failed, key=lambda one: one[0])),
            vectors=self.vectors,
        )


def import_export(
    engine: Engine, src: object, *, partial: bool, progress: Callable[[int, int | None], object] | None
) -> ImportReport:
    """Restores an export exactly.

    Args:
        engine: The open engine.
        src: A path, `-` for stdin, or an open file.
        partial: Take what is whole of a damaged file instead of refusing it untouched.
        progress: Called with (records done, total).
    """
    tally = _Tally()
    with source(src, rewindable=True) as (stream, name):
        start = stream.tell()
        head = _head(stream, name)
        stream.seek(start)
        total: int | None = None
        if not partial:
            total = _check(stream, name)
            stream.seek(start)
        elif isinstance(head.get("records"), int):
            total = head["records"]
        _prepare_embedder(engine, head)
        batch: list[_Record] = []
        size = 0
        for record in _records(stream, name, tally, partial=partial):
            batch.append(record)
            size += record.size
            if len(batch) >= _BATCH_RECORDS or size >= _BATCH_BYTES:
                _restore(engine, batch, tally)
                batch, size = [], 0
                if progress is not None:
                    progress(tally.read, total)
        _restore(engine, batch, tally)
        if progress is not None:
            progress(tally.read, total)
    return tally.report()


def _head(stream: BinaryIO, name: str) -> dict[str, Any]:
    """The first line, which says what the file is."""
    first = next(lines(stream, _LONGEST_LINE), None)
    head: object = None
    if first is not None and first.content is not None:
        try:
            head = json.loads(first.content)
        except (ValueError, RecursionError):
            head = None
    if not isinstance(head, dict) or head.get("otolith") != "export":
        raise InvalidInput(
            f'src: {name} is no export of otolith; for other JSON lines pass format="jsonl"', field="src"
        )
    found = head.get("format")
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise InvalidInput(f"src: {name} has no usable format number in its first line", field="src")
    if found > FORMAT:
        raise FormatTooNew(
            f"{name}: is an export of format {found}, this version reads up to {FORMAT}; upgrade otolith. "
            "Nothing was changed",
            path=name,
            what=name,
            found=found,
            supported=FORMAT,
        )
    return head


def _check(stream: BinaryIO, name: str) -> int:
    """Reads the whole file without keeping it: every record, the count and the checksum.

    Returns:
        How many records it holds.
    """
    digest = hashlib.sha256()
    held: bytes | None = None
    records = 0
    number = 0
    end: dict[str, Any] | None = None
    while raw := stream.readline(_LONGEST_LINE + 1):
        number += 1
        if len(raw) > _LONGEST_LINE:
            raise _damaged(name, f"line {number} is longer than any record")
        if end is not None:
            raise _damaged(name, f"line {number} comes after the last line")
        if held is not None:
            digest.update(held)
        held = raw
        if number == 1:
            continue
        try:
            parsed = _parsed(raw)
            if "otolith" in parsed:
                end = parsed
                continue
            _record(parsed, number, len(raw))
        except FormatTooNew:
            raise
        except OtolithError as error:
            raise _damaged(name, f"line {number}: {error}") from error
        records += 1
    if end is None or held is None or not held.endswith(b"\n") or end.get("otolith") != "end":
        raise _damaged(name, f"is cut off: it has {records} records and no last line")
    if end.get("records") != records:
        raise _damaged(name, f"has {records} records, its last line says {end.get('records')}")
    if end.get("sha256") != digest.hexdigest():
        raise _damaged(name, "was altered: its checksum does not fit")
    return records


def _damaged(name: str, what: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"{name}: {what}. Nothing was imported; pass partial=True (--partial) to take what is whole",
        path=name,
        detail=what,
    )


def _records(stream: BinaryIO, name: str, tally: _Tally, *, partial: bool) -> Iterator[_Record]:
    ended = False
    for line in lines(stream, _LONGEST_LINE):
        if line.number == 1 or line.content == b"":
            continue
        try:
            if line.content is None:
                raise InvalidInput("line: is longer than any record", field="line")
            parsed = _parsed(line.content)
            if "otolith" in parsed:
                ended = True
                continue
            tally.read += 1
            yield _record(parsed, line.number, len(line.content))
        except OtolithError as error:
            tally.failed.append((line.number, error))
    if partial and not ended:
        tally.failed.append((line.number, StoreCorrupt(f"{name}: is cut off after this line", path=name)))


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(raw)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"line: is not UTF-8 at byte {error.start}", field="line") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"line: is not JSON: {error}", field="line") from None
    if not isinstance(parsed, dict):
        raise InvalidInput("line: is not a JSON object", field="line")
    return parsed


def _record(parsed: dict[str, Any], number: int, size: int) -> _Record:
    stored = parsed.pop("vectors", None)
    try:
        text = json.dumps(parsed, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInput("line: holds a lone surrogate, which is not text", field="line") from None
    episode = Episode.from_json(text)
    return _Record(number, episode, _vectors(stored), size)


def _vectors(stored: object) -> list[tuple[str, int, Any]]:
    """Fingerprint, width and rows (or the reason of a refusal) of each embedder."""
    if stored is None:
        return []
    import numpy as np

    found: list[tuple[str, int, Any]] = []
    try:
        if not isinstance(stored, list):
            raise TypeError
        for one in stored:
            embedder, dim = one["embedder"], one["dim"]
            # Width 0: refused before the home had an embedder.
            least = 0 if "refused" in one else 1
            if not isinstance(embedder, str) or not isinstance(dim, int) or not least <= dim <= _WIDEST:
                raise TypeError
            if "refused" in one:
                rows: Any = str(one["refused"])
            else:
                rows = np.frombuffer(base64.b64decode(one["f32"], validate=True), dtype="<f4")
                rows = rows.reshape(-1, dim)
                if not len(rows):
                    raise ValueError
            found.append((embedder, dim, rows))
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise InvalidInput("vectors: are not what an export holds", field="vectors") from None
    return found


def _prepare_embedder(engine: Engine, head: dict[str, Any]) -> None:
    """The embedder of the exported home becomes this one's, if it has none, whichever record comes first."""
    home = head.get("home_embedder")
    if engine.home_embedder() is None and isinstance(home, list) and len(home) == 2:
        embedder, dim = home
        if isinstance(embedder, str) and isinstance(dim, int) and dim > 0:
            engine.restore_vectors(embedder, dim, [])


def _restore(engine: Engine, batch: list[_Record], tally: _Tally) -> None:
    if not batch:
        return
    try:
        created, replaced, unchanged = engine.restore([one.episode for one in batch])
    except StoreError:
        raise
    except OtolithError as error:
        # One record that cannot be taken (its key belongs to another) must not stop the rest.
        if len(batch) == 1:
            tally.failed.append((batch[0].line, error))
            return
        for one in batch:
            _restore(engine, [one], tally)
        return
    tally.created += created
    tally.replaced += replaced
    tally.unchanged += unchanged
    by_embedder: dict[tuple[str, int], list[tuple[str, Any]]] = {}
    for one in batch:
        tally.vectors += bool(one.vectors)
        for embedder, dim, rows in one.vectors:
            by_embedder.setdefault((embedder, dim), []).append((one.episode.id, rows))
    for (embedder, dim), rows_of in by_embedder.items():
        engine.restore_vectors(embedder, dim, rows_of)
