"""Reading the JSON lines of others: each line on its own, the broken ones reported by their number."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from otolith._fields import FIELDS, moment_of_import, record_fields, shown, zone_of
from otolith.exceptions import InvalidInput, OtolithError

from .batches import Batches
from .streams import Line, is_seekable, lines, source, why_no_json

if TYPE_CHECKING:
    from otolith._core import Engine
    from otolith.records import ImportReport

__all__ = ["holds_record", "import_lines", "zoned"]

_LONGEST_LINE = 32 << 20
_IGNORED_NAMES = 100
_HOPELESS = 100_000
_MISSING: Final = object()
_OURS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
# A file says of itself who wrote it: such a claim is believed only when the caller maps it.
_NEVER_BY_NAME = frozenset({"origin", "trust"})
_NAMES = frozenset({"key", "actor", "agent_id", "task_id", "session_id", "user_id"})


def import_lines(
    engine: Engine,
    src: object,
    *,
    mapping: Mapping[str, str | None] | None,
    key: str | None,
    zone: str | None,
    progress: Callable[[int, int | None], object] | None,
) -> ImportReport:
    """Imports somebody's JSON lines.

    Args:
        engine: The open engine.
        src: A path, `-` for stdin, or an open file.
        mapping: Field to dotted path; None leaves a field out.
        key: Path of what makes a line the same when it comes again.
        zone: Zone of times without an offset: an IANA name or `local`.
        progress: Called with (lines done, None).
    """
    reader = _Reader(mapping, key, zone)
    batches = Batches(engine)
    is_hopeful = False
    with source(src, rewindable=False) as (stream, _):
        for line in lines(stream, _LONGEST_LINE):
            if line.content is not None and not line.content.strip():
                continue
            batches.read += 1
            try:
                full = batches.add(line.number, reader.record(line), len(line.content or b""))
            except OtolithError as error:
                batches.fail(line.number, error)
                if not is_hopeful and batches.read >= _HOPELESS:
                    _refuse_endless(stream, error)
                continue
            is_hopeful = True
            if full:
                batches.write()
                if progress is not None:
                    progress(batches.read, None)
        batches.write()
    if progress is not None:
        progress(batches.read, batches.read)
    return batches.report(reader.ignored)


def holds_record(
    engine: Engine,
    stream: BinaryIO,
    *,
    mapping: Mapping[str, str | None] | None,
    key: str | None,
    zone: str | None,
) -> bool:
    """Whether at least one line can be imported. Reads up to the first that can.

    Args:
        engine: An engine in RAM that takes that line.
        stream: The lines.
        mapping: As in `import_lines`.
        key: As in `import_lines`.
        zone: As in `import_lines`.
    """
    reader = _Reader(mapping, key, zone)
    read = 0
    for line in lines(stream, _LONGEST_LINE):
        if line.content is not None and not line.content.strip():
            continue
        read += 1
        trial = Batches(engine)
        try:
            trial.add(line.number, reader.record(line), 0)
        except OtolithError as error:
            if read >= _HOPELESS:
                _refuse_endless(stream, error)
            continue
        trial.write()
        if trial.taken:
            return True
    return False


def _refuse_endless(stream: BinaryIO, error: OtolithError) -> None:
    """Refuses a pipe without a single record in so many lines: it may have no end. A file has one."""
    if not is_seekable(stream):
        raise InvalidInput(
            f"src: none of the first {_HOPELESS} lines can be imported. The last of them: {error}",
            field="src",
        )


class _Reader:
    """Makes a record of a line.

    Args:
        mapping: Field to dotted path.
        key: Path of the key.
        zone: Zone of times without an offset.
    """

    def __init__(self, mapping: Mapping[str, str | None] | None, key: str | None, zone: str | None) -> None:
        self._paths: dict[str, str] = {
            name: name for name in (*FIELDS, "key", "id") if name not in _NEVER_BY_NAME
        }
        if mapping is not None and not isinstance(mapping, Mapping):
            raise InvalidInput(
                f"mapping: give a dict of field to path, not {type(mapping).__name__}", field="mapping"
            )
        for name, path in (mapping or {}).items():
            if not isinstance(name, str):
                raise InvalidInput(f"mapping: {shown(name)} is not the name of a field", field="mapping")
            if name not in FIELDS and name not in ("key", "id") and not name.startswith("metadata."):
                known = ", ".join((*FIELDS, "key", "id", "metadata.NAME"))
                raise InvalidInput(f"mapping: {name!r} is not a field; there are {known}", field="mapping")
            if path is not None and not isinstance(path, str):
                raise InvalidInput(f"mapping: give a path for {name}, not {shown(path)}", field="mapping")
            if path:
                self._paths[name] = path
            else:
                self._paths.pop(name, None)
        if key is not None and (not isinstance(key, str) or not key.strip()):
            raise InvalidInput("key: give the path of a field of each line", field="key")
        self._key = key
        self._zone = None if zone is None else zoned(zone)
        self._used = {path.split(".")[0] for path in self._paths.values()} | set(self._paths.values())
        if key is not None:
            self._used |= {key, key.split(".")[0]}
        self.ignored: dict[str, int] = {}

    def record(self, line: Line) -> dict[str, Any]:
        """The fields of one line, checked.

        Raises:
            InvalidInput: The line is no record.
        """
        parsed = _object(line)
        given: dict[str, Any] = {"origin": "import", "source": "import"}
        metadata: dict[str, Any] = {}
        for name, path in self._paths.items():
            value = _at(parsed, path)
            if value is _MISSING or value is None or name == "id":
                continue
            if name.startswith("metadata."):
                metadata[name.removeprefix("metadata.")] = _meta(value)
            elif name == "metadata" and isinstance(value, Mapping):
                metadata = {**{str(one): _meta(item) for one, item in value.items()}, **metadata}
            elif name == "occurred_at":
                given[name] = moment_of_import(name, value, self._zone)
            else:
                given[name] = _text_of_number(value) if name in _NAMES else value
        if metadata:
            given["metadata"] = metadata
        if "summary" not in given:
            names = ", ".join(list(parsed)[:20]) or "nothing"
            raise InvalidInput(
                f"summary: is not there; the line has {names}; map one of them, as in summary=text",
                field="summary",
            )
        own = self._identity(parsed, given)
        record = record_fields(given)
        if own is not None:
            record["id"] = own
        for name in parsed:
            if name not in self._used and (name in self.ignored or len(self.ignored) < _IGNORED_NAMES):
                self.ignored[name] = self.ignored.get(name, 0) + 1
        return record

    def _identity(self, parsed: dict[str, Any], given: dict[str, Any]) -> str | None:
        """Sets the key by which the line is known later; returns its id if that is one of ours."""
        if self._key is not None:
            value = _at(parsed, self._key)
            if value is _MISSING or value is None:
                raise InvalidInput(f"key: the line has no {self._key}", field="key")
            given["key"] = f"import:jsonl:{_name('key', value)}"
            return None
        value = _at(parsed, self._paths["id"]) if "id" in self._paths else _MISSING
        if value is _MISSING or value is None:
            return None
        name = _name("id", value)
        if _OURS.fullmatch(name):
            return name.lower()
        given.setdefault("key", f"import:jsonl:{name}")
        return None


def zoned(name: str) -> Callable[[datetime], datetime]:
    """What gives a time without an offset that of a zone.

    Args:
        name: An IANA name, or `local`.
    """
    zone = zone_of(name)
    return (lambda naive: naive.astimezone()) if zone is None else (lambda naive: naive.replace(tzinfo=zone))


def _object(line: Line) -> dict[str, Any]:
    if line.content is None:
        raise InvalidInput(
            f"line: is longer than {_LONGEST_LINE} bytes, more than a record may be", field="line"
        )
    try:
        parsed = json.loads(line.content.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"line: is not UTF-8 at byte {error.start}", field="line") from None
    except RecursionError:
        raise InvalidInput("line: is nested too deeply", field="line") from None
    except ValueError as error:
        raise InvalidInput(f"line: is not JSON: {why_no_json(error)}", field="line") from None
    if not isinstance(parsed, dict):
        raise InvalidInput("line: is not a JSON object", field="line")
    return parsed


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _at(value: Any, path: str) -> Any:
    """What a dotted path leads to; numbers are places in lists. A name with dots of its own goes first."""
    if isinstance(value, dict) and path in value:
        return value[path]
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        else:
            return _MISSING
    return value


def _text_of_number(value: Any) -> Any:
    """Others number their sessions and users; here these are names."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _name(field: str, value: Any) -> str:
    value = _text_of_number(value)
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{field}: {value!r} is neither a name nor a whole number", field=field)
    return value


def _meta(value: Any) -> Any:
    """Metadata is flat here: what is nested is kept as its JSON text, and so are numbers beyond 64 bits."""
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return value
