"""From what people pass to what the engine takes: names, times and directories, checked before any write."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields as dataclass_fields
from datetime import UTC, datetime, timezone, tzinfo
from typing import Any

from ._files import absolute
from .exceptions import InvalidInput
from .records import Episode, Filter, Hit, record_id

FIELDS = (
    "summary",
    "body",
    "title",
    "outcome",
    "source",
    "actor",
    "agent_id",
    "task_id",
    "session_id",
    "user_id",
    "working_dir",
    "key_decisions",
    "files_modified",
    "tags",
    "metadata",
    "scope",
    "occurred_at",
    "importance",
    "origin",
    "trust",
)
"""The fields a caller may set, besides `id` and `key`."""

_SET_BY_STORE = frozenset({"created_at", "updated_at", "status", "schema_version"})
_LISTS = frozenset({"key_decisions", "files_modified", "tags"})
_KNOWN = frozenset(FIELDS) | {"key"}
_FILTERS = tuple(one.name for one in dataclass_fields(Filter))
_FILTER_LISTS = frozenset({"ids", "not_ids", "kinds", "tags"})
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
# Unix seconds beyond this are the year 5138 or, far more likely, milliseconds.
_MILLISECONDS = 1e11


def shown(value: object) -> str:
    """A value as a message names it: short, and whatever its `repr` does."""
    try:
        text = repr(value)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001 - the message is about something else
        return f"a {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:100]}…"


def flag(field: str, value: object) -> bool:
    """A bool and nothing that counts as one.

    Args:
        field: Name for the error.
        value: What was given.
    """
    if not isinstance(value, bool):
        raise InvalidInput(f"{field}: give True or False, not {shown(value)}", field=field)
    return value


def series(field: str, value: object, of: str) -> Iterable[Any]:
    """What can be gone through one by one; a text, bytes or a mapping is one thing and no series.

    Args:
        field: Name for the error.
        value: What was given.
        of: What it should hold, for the error.
    """
    if not isinstance(value, (str, bytes, bytearray, Mapping)):
        try:
            return iter(value)  # type: ignore[call-overload, no-any-return]
        except TypeError:
            pass
    raise InvalidInput(f"{field}: give a list of {of}, not {type(value).__name__}", field=field)


def moment(field: str, value: object) -> datetime:
    """A moment with an offset, from a datetime or an ISO string.

    Args:
        field: Name for the error.
        value: What was given.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise InvalidInput(
                f"{field}: {shown(value)} is not a time; write it like 2026-04-08T09:14:00Z or "
                "2026-04-08T09:14:00+08:00",
                field=field,
            ) from None
    if not isinstance(value, datetime):
        raise InvalidInput(
            f"{field}: give a datetime or an ISO string, not {type(value).__name__}", field=field
        )
    try:
        offset = value.utcoffset()
        fixed = None if offset is None else timezone(offset)
    except Exception as error:
        raise InvalidInput(
            f"{field}: its tzinfo cannot tell the offset: {type(error).__name__}: {error}", field=field
        ) from error
    if fixed is None:
        raise InvalidInput(
            f"{field}: {value.isoformat()} has no offset from UTC, and guessing one would shift it; "
            "add one, for instance datetime.now(UTC)",
            field=field,
        )
    # A tzinfo is anybody's code; from here on the offset stands.
    return value if type(value.tzinfo) is timezone else value.replace(tzinfo=fixed)


def zone_of(name: object) -> tzinfo | None:
    """The zone behind a name; None stands for that of this machine.

    Args:
        name: An IANA name, or `local`.

    Raises:
        InvalidInput: There is no such zone.
    """
    if name == "local":
        return None
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)  # type: ignore[arg-type]
    except (KeyError, ValueError, TypeError, OSError):
        raise InvalidInput(
            f"zone: there is no zone {name!r}; give an IANA name such as Asia/Shanghai, or local",
            field="zone",
        ) from None


def moment_of_import(field: str, value: object, zone: Callable[[datetime], datetime] | None) -> datetime:
    """As `moment`, and Unix seconds too, which other systems write.

    Args:
        field: Name for the error.
        value: What was given.
        zone: Gives a time without an offset its offset; None refuses such a time.
    """
    if isinstance(value, str):
        try:
            naive = datetime.fromisoformat(value.strip())
        except ValueError:
            return moment(field, value)
        if naive.utcoffset() is not None:
            return naive
        if zone is None:
            raise InvalidInput(
                f"{field}: has no offset from UTC; found {value.strip()}; name the zone of such times with "
                "--zone (zone=)",
                field=field,
            )
        try:
            return zone(naive)
        except (OverflowError, OSError, ValueError):
            raise InvalidInput(f"{field}: {value!r} is outside the years 1 to 9999", field=field) from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return moment(field, value)
    if not abs(value) < _MILLISECONDS:  # neither is NaN
        raise InvalidInput(
            f"{field}: {shown(value)} is not a time in Unix seconds; divide milliseconds by 1000", field=field
        )
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, OSError, ValueError):
        raise InvalidInput(f"{field}: {value!r} is outside the years 1 to 9999", field=field) from None


def directory(field: str, value: object) -> str:
    """An absolute directory: `~` expanded, relative ones taken from the current directory."""
    if not isinstance(value, (str, os.PathLike)):
        raise InvalidInput(f"{field}: give a path, not {type(value).__name__}", field=field)
    path = os.fspath(value)
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        raise InvalidInput(f"{field}: {shown(path)} is not a path; leave it out instead", field=field)
    return path if _DRIVE.match(path) else absolute(field, path)


def _names(field: str, value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = list(series(field, value, "str"))
    for item in items:
        if not isinstance(item, str):
            raise InvalidInput(f"{field}: give a list of str; it holds a {type(item).__name__}", field=field)
    return items


def _encodable(field: str, value: object) -> None:
    """Lone surrogates, which Python allows, cannot be stored as UTF-8."""
    if isinstance(value, str):
        if value.isascii():
            return
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"{field}: holds a lone surrogate at character {error.start}, which is not text; "
                'decode it with errors="replace" first',
                field=field,
            ) from None
    elif isinstance(value, list):
        for item in value:
            _encodable(field, item)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            _encodable(field, name)
            _encodable(f"{field}.{name}" if isinstance(name, str) else field, item)


def _plain_name(name: object) -> str:
    return name if isinstance(name, str) else shown(name)


def record_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Checked fields of a record, ready for the engine.

    Args:
        given: Names as in `FIELDS`, and `key`.

    Raises:
        InvalidInput: Naming the field, or listing the names there are.
    """
    unknown = [name for name in given if name not in _KNOWN]
    if unknown:
        name = _plain_name(unknown[0])
        if name in _SET_BY_STORE:
            raise InvalidInput(f"{name}: is set by the store; leave it out", field=name)
        known = ", ".join(("id", "key", *FIELDS))
        raise InvalidInput(f"{name}: is not a field; there are {known}", field=name)
    checked: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            checked[name] = value
        elif name == "occurred_at":
            checked[name] = moment(name, value)
        elif name == "working_dir":
            checked[name] = directory(name, value)
        elif name in _LISTS:
            checked[name] = _names(name, value)
        elif name == "metadata":
            if not isinstance(value, Mapping):
                raise InvalidInput(f"metadata: give a mapping, not {type(value).__name__}", field=name)
            checked[name] = dict(value)
        else:
            checked[name] = value
        _encodable(name, checked[name])
    return checked


def episode_fields(episode: Episode) -> dict[str, Any]:
    """The fields of a record that a caller may set; times of storage and approval stay behind."""
    given = {name: getattr(episode, name) for name in (*FIELDS, "key")}
    if episode.trust == "trusted":
        del given["trust"]  # follows from the origin; it cannot be raised by writing
    return {name: value for name, value in given.items() if value is not None}


def filter_fields(given: Filter | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A checked filter, ready for the engine; only what is set.

    Args:
        given: A `Filter`, a mapping with its names, or None.

    Raises:
        InvalidInput: Naming the field, or listing the names there are.
    """
    if given is None:
        return None
    if not isinstance(given, (Filter, Mapping)):
        raise InvalidInput(f"filter: give a Filter or a dict, not {type(given).__name__}", field="filter")
    plain = given.to_dict() if isinstance(given, Filter) else dict(given)
    checked: dict[str, Any] = {}
    for name, value in plain.items():
        if name not in _FILTERS:
            name = _plain_name(name)
            raise InvalidInput(f"{name}: is not a filter; there are {', '.join(_FILTERS)}", field=name)
        if value is None:
            continue
        if name in ("since", "until"):
            checked[name] = moment(name, value)
        elif name == "working_dir":
            checked[name] = directory(name, value)
        elif name in ("ids", "not_ids"):
            many = (value,) if isinstance(value, (str, Episode, Hit)) else series(name, value, "ids")
            checked[name] = [record_id(one) for one in many]
        elif name in _FILTER_LISTS:
            checked[name] = _names(name, value)
        elif name == "below":
            if flag(name, value):
                checked[name] = value
        elif name == "metadata":
            if not isinstance(value, Mapping):
                raise InvalidInput(f"metadata: give a mapping, not {type(value).__name__}", field=name)
            checked[name] = dict(value)
        elif not isinstance(value, str):
            raise InvalidInput(f"{name}: give a str, not {type(value).__name__}", field=name)
        else:
            checked[name] = value
        _encodable(name, checked.get(name))
    if "below" in checked and "working_dir" not in checked:
        raise InvalidInput("below: needs working_dir, the directory to look below", field="below")
    return checked
