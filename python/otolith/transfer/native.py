"""Reading our own export: the whole file is checked before anything is written."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from otolith._core import Episode
from otolith._fields import shown
from otolith.exceptions import FormatTooNew, InvalidInput, NotFound, OtolithError, StoreCorrupt, StoreError
from otolith.records import ImportReport

from .exporting import FORMAT, KINDS
from .files import File, file_in, restore_file
from .streams import LONGEST_HEAD, alone, lines, source, why_no_json

if TYPE_CHECKING:
    from otolith._core import Engine

__all__ = ["check_export", "holds_content", "import_export", "look_at_head"]

# A record of 16 MiB with a wide vector for each of its chunks fits.
_LONGEST_LINE = 512 << 20
_WIDEST = 8192  # as for every vector of a store
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
    files: int = 0
    files_unchanged: int = 0
    failed: list[tuple[int, OtolithError]] = field(default_factory=list)

    def report(self) -> ImportReport:
        return ImportReport(
            read=self.read,
            created=self.created,
            replaced=self.replaced,
            unchanged=self.unchanged,
            failed=tuple(sorted(self.failed, key=lambda one: one[0])),
            vectors=self.vectors,
            files=self.files,
            files_unchanged=self.files_unchanged,
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
    with source(src, rewindable=True, look=look_at_head) as (stream, name):
        start = stream.tell()
        head, total = check_export(stream, name, partial=partial)
        stream.seek(start)
        try:
            _prepare_embedder(engine, head)
        except InvalidInput as error:  # only of a damaged file: a whole one was checked
            tally.failed.append((1, error))
        batch: list[_Record] = []
        size = 0
        for record in _records(stream, name, head, tally, partial=partial):
            if isinstance(record, File):
                _restore_file(engine, record, tally)
                continue
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


def holds_content(engine: Engine, stream: BinaryIO, name: str) -> bool:
    """Whether a damaged export has at least one record or file that can be imported. Reads up to the first.

    Args:
        engine: An engine in RAM that takes that record.
        stream: It, at its start.
        name: Its name for messages.
    """
    start = stream.tell()
    head = _head(stream, name)
    stream.seek(start)
    for content in _records(stream, name, head, _Tally(), partial=True):
        if isinstance(content, File):
            return True
        trial = _Tally()
        _restore(engine, [content], trial)
        if trial.created:
            return True
    return False


def check_export(stream: BinaryIO, name: str, *, partial: bool) -> tuple[dict[str, Any], int | None]:
    """Reads an export without a store: its first line and, unless a part would do, all of it.

    Args:
        stream: It, at its start; where the call leaves it is not said.
        name: Its name for messages.
        partial: Whether what is whole of a damaged file will do.

    Returns:
        The first line, and how many records there are as far as that is known.
    """
    start = stream.tell()
    head = _head(stream, name)
    if not partial:
        _check_kinds(head, name)
        try:
            _home_embedder(head)
        except InvalidInput as error:
            raise _damaged(name, f"line 1: {error}") from error
    if partial:
        claimed = head.get("records")
        return head, claimed if isinstance(claimed, int) else None
    stream.seek(start)
    return head, _check(stream, name)


def _head(stream: BinaryIO, name: str) -> dict[str, Any]:
    """The first line, which says what the file is."""
    return look_at_head(stream.readline(LONGEST_HEAD), name)


def look_at_head(content: bytes, name: str) -> dict[str, Any]:
    """What the first line of an export says.

    Args:
        content: That line.
        name: Name of the file for messages.

    Raises:
        InvalidInput: It is no export.
        FormatTooNew: One of a newer version.
    """
    first = next(lines(io.BytesIO(content), LONGEST_HEAD), None)
    head: object = None
    if first is not None and first.content is not None:
        try:
            head = json.loads(first.content)
        except (ValueError, RecursionError):
            head = None
    if not isinstance(head, dict) or head.get("otolith") != "export":
        raise InvalidInput(
            f'src: {name} is no export of otolith; for other JSON lines pass format="jsonl" (--format jsonl)',
            field="src",
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


def _check_kinds(head: dict[str, Any], name: str) -> None:
    """Refuses a file with kinds of lines that are not known here: what they hold would be lost."""
    kinds = head.get("kinds", ["episode"])
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise _damaged(name, "line 1: kinds: is not what an export holds")
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise FormatTooNew(
            f"{name}: holds {', '.join(unknown)}, of which this version knows nothing; upgrade otolith, or "
            "pass partial=True (--partial) to take the rest. Nothing was changed",
            path=name,
            what=", ".join(unknown),
            found=head["format"],
            supported=FORMAT,
        )


def _check(stream: BinaryIO, name: str) -> int:
    """Reads the whole file without keeping it: every record, the count and the checksum.

    Returns:
        How many records it holds.
    """
    digest = hashlib.sha256()
    held: bytes | None = None
    records = files = 0
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
            found = _content(parsed, number, len(raw))
        except FormatTooNew:
            raise
        except OtolithError as error:
            raise _damaged(name, f"line {number}: {error}") from error
        records += isinstance(found, _Record)
        files += isinstance(found, File)
    if end is None or held is None or not held.endswith(b"\n") or end.get("otolith") != "end":
        raise _damaged(name, f"is cut off: it has {records} records and no last line")
    if end.get("records") != records:
        raise _damaged(name, f"has {records} records, its last line says {end.get('records')}")
    if end.get("files", 0) != files:
        raise _damaged(name, f"has {files} files, its last line says {end.get('files', 0)}")
    if end.get("sha256") != digest.hexdigest():
        raise _damaged(name, "was altered: its checksum does not fit")
    return records


def _damaged(name: str, what: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"{name}: {what}. Nothing was imported; pass partial=True (--partial) to take what is whole",
        path=name,
        detail=what,
    )


def _records(
    stream: BinaryIO, name: str, head: dict[str, Any], tally: _Tally, *, partial: bool
) -> Iterator[_Record | File]:
    ended = False
    files = 0
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
            tally.read += "kind" not in parsed
            files += parsed.get("kind") == "file"
            yield _content(parsed, line.number, len(line.content))
        except OtolithError as error:
            tally.failed.append((line.number, alone(error)))
    # What a repair puts into lost+found has no last line, and all that it announces.
    announced = (head.get("records"), head.get("files", 0))
    if partial and not ended and announced != (tally.read, files):
        tally.failed.append((line.number, StoreCorrupt(f"{name}: is cut off after this line", path=name)))


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(raw)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"line: is not UTF-8 at byte {error.start}", field="line") from None
    except RecursionError:
        raise InvalidInput("line: is nested too deeply", field="line") from None
    except ValueError as error:
        raise InvalidInput(f"line: is not JSON: {why_no_json(error)}", field="line") from None
    if not isinstance(parsed, dict):
        raise InvalidInput("line: is not a JSON object", field="line")
    return parsed


def _content(parsed: dict[str, Any], number: int, size: int) -> _Record | File:
    """What a line between the first and the last holds."""
    if "kind" not in parsed:
        return _record(parsed, number, size)
    if parsed["kind"] != "file":
        kind = shown(parsed["kind"])
        raise InvalidInput(f"kind: this version does not know {kind}; upgrade otolith", field="kind")
    return file_in(parsed, number)


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
            if "refused" in one and embedder == "" and dim == 0 and not isinstance(dim, bool):
                pass  # refused before the home had an embedder
            elif not _is_embedder(embedder, dim):
                raise TypeError
            if "refused" in one:
                rows: Any = one["refused"]
                if not _is_text(rows):
                    raise TypeError
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
    home = _home_embedder(head)
    if home is not None and engine.home_embedder() is None:
        engine.restore_vectors(*home, [])


def _home_embedder(head: dict[str, Any]) -> tuple[str, int] | None:
    """Fingerprint and width in the first line.

    Raises:
        InvalidInput: They cannot be.
    """
    home = head.get("home_embedder")
    if home is None:
        return None
    if not isinstance(home, list) or len(home) != 2 or not _is_embedder(*home):
        raise InvalidInput("home_embedder: is not what an export holds", field="home_embedder")
    return home[0], home[1]


def _is_embedder(fingerprint: object, dim: object) -> bool:
    """Whether the store would take them: it must not be asked after records were written."""
    whole = isinstance(dim, int) and not isinstance(dim, bool) and 1 <= dim <= _WIDEST
    return whole and _is_text(fingerprint) and bool(str(fingerprint).strip())


def _is_text(given: object) -> bool:
    """Whether it is text that UTF-8 can hold; JSON can name half a character."""
    if not isinstance(given, str):
        return False
    try:
        given.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


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
    by_embedder: dict[tuple[str, int], list[tuple[_Record, Any]]] = {}
    for one in batch:
        if unchanged and _is_older(engine, one):
            continue  # its vectors are of a text that is no longer there
        for embedder, dim, rows in one.vectors:
            by_embedder.setdefault((embedder, dim), []).append((one, rows))
    lost: dict[int, OtolithError] = {}
    for (embedder, dim), rows_of in by_embedder.items():
        lost.update(_restore_vectors(engine, embedder, dim, rows_of))
    tally.vectors += sum(bool(one.vectors) and one.line not in lost for one in batch)
    tally.failed += lost.items()


def _restore_file(engine: Engine, file: File, tally: _Tally) -> None:
    done = restore_file(engine, file)
    if isinstance(done, OtolithError):
        tally.failed.append((file.line, done))
    elif done:
        tally.files += 1
    else:
        tally.files_unchanged += 1


def _is_older(engine: Engine, one: _Record) -> bool:
    """Whether the record was changed after the export, or is gone again."""
    if not one.vectors:
        return False
    try:
        return engine.get(one.episode.id).updated_at > one.episode.updated_at
    except NotFound:
        return True


def _restore_vectors(
    engine: Engine, embedder: str, dim: int, rows_of: list[tuple[_Record, Any]]
) -> dict[int, OtolithError]:
    """Restores vectors of records that are there; gives the lines whose vectors the store does not take."""
    try:
        engine.restore_vectors(embedder, dim, [(one.episode.id, rows) for one, rows in rows_of])
    except StoreError:
        raise
    except OtolithError as error:
        if len(rows_of) > 1:
            lost: dict[int, OtolithError] = {}
            for one in rows_of:
                lost.update(_restore_vectors(engine, embedder, dim, [one]))
            return lost
        told = InvalidInput(f"vectors: {error}; the record is there without them", field="vectors")
        return {rows_of[0][0].line: told}
    return {}
