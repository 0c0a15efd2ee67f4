"""Reading files of datasets; an error names file and line."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from otolith.exceptions import InvalidInput
from otolith.transfer.streams import why_no_json


def text_of(path: Path) -> str:
    """All of a file.

    Raises:
        InvalidInput: It cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise broken(path, f"is not UTF-8 at byte {error.start}; convert it first") from None
    except OSError as error:
        raise broken(path, f"cannot be read: {error.strerror}") from None


def json_of(path: Path) -> Any:
    """A JSON document.

    Raises:
        InvalidInput: It is none.
    """
    try:
        return json.loads(text_of(path))
    except (ValueError, RecursionError) as error:
        raise broken(path, f"is not JSON: {_why(error)}") from None


def document_of(path: Path) -> Any:
    """What a file in JSON, TOML or YAML holds.

    Raises:
        InvalidInput: It is none of these by its name, or broken.
    """
    suffix = path.suffix.lower()
    if suffix == ".json":
        return json_of(path)
    if suffix not in (".toml", ".yaml", ".yml"):
        raise broken(path, "ends with none of .json, .toml, .yaml, .yml; rename it, or give a folder")
    text = text_of(path)
    if suffix == ".toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise broken(path, f"is not TOML: {error}") from None
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ImportError:
        raise InvalidInput(
            f"dataset: reading {path} needs a package; install it with `pip install otolith[eval]`, or write "
            "the cases as TOML or JSON",
            field="dataset",
        ) from None
    try:
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError) as error:
        raise broken(path, f"is not YAML: {' '.join(str(error).split())}") from None


def lines_of(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of JSON lines, with the numbers of their lines; blank ones are left out.

    Raises:
        InvalidInput: A line is no JSON object.
    """
    for number, line in enumerate(text_of(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise broken(path, f"is not JSON: {_why(error)}", number) from None
        if not isinstance(row, dict):
            raise broken(path, "is no object", number)
        yield number, row


def name_in(row: dict[str, Any], field: str, path: Path, number: int | None = None) -> str:
    """A text that has to be there and may not be blank."""
    value = row.get(field)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise broken(path, f"has no {field}", number)
    return value


def broken(path: Path, what: str, number: int | None = None) -> InvalidInput:
    """An error about a file, or a line of it."""
    line = "" if number is None else f":{number}"
    return InvalidInput(f"dataset: {path}{line} {what}", field="dataset")


def _why(error: Exception) -> str:
    return why_no_json(error) if isinstance(error, ValueError) else "nested too deeply"
