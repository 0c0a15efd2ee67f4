"""Our own JSON lines.

::

    {"otolith":"export","format":1,"schema_version":1,"kinds":["episode","file"],"records":2,"files":1,
     "home_embedder":["openai:bge|…",1024]}
    {"id":"…","summary":"…", … ,"vectors":[{"embedder":"openai:bge|…","dim":1024,"f32":"<base64>"}]}
    {"id":"…","summary":"…", … ,"vectors":[{"embedder":"openai:bge|…","dim":1024,"refused":"is …"}]}
    {"kind":"file","path":"memory/MEMORY.md","data":"<base64>"}
    {"otolith":"end","records":2,"vectors":2,"files":1,"sha256":"<of every byte before this line>"}

`kinds` names the kinds of lines that may come between the first and the last; a line without `kind` is an
episode. Records come in the order they were created, those that are served first, each as the store keeps
it. `f32` holds the rows of all chunks one after another, little-endian. `records` and `files` in the first
line are the counts when the export began, the last line has the truth. Files are the Markdown files of the
home, in the order of their paths.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from otolith._core import SCHEMA_VERSION
from otolith.exceptions import NotFound, StoreError
from otolith.records import ExportReport

from .files import line_of, plan
from .streams import output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otolith._core import Engine, Episode

__all__ = ["FORMAT", "KINDS", "export"]

FORMAT = 1
"""Version of the layout above."""
KINDS = ("episode", "file")
"""Kinds of lines that this version writes and reads."""

_PAGE = 256
_STATUSES = ("active", "quarantined")


def export(engine: Engine, dest: object, *, vectors: bool) -> ExportReport:
    """Writes all records the engine's handle sees and, if it has no scope, the Markdown files of the home.

    One page of records or one file is in memory at a time.

    Args:
        engine: The open engine.
        dest: A path, `-` for stdout, or an open file.
        vectors: Whether vectors go with the text.
    """
    records = with_vectors = files = 0
    planned, skipped = plan(engine)
    with output(dest, engine.home) as out:
        home = engine.home_embedder() if vectors else None
        head = {
            "otolith": "export",
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "kinds": list(KINDS),
            "records": sum(engine.count({"status": status}) for status in _STATUSES),
            "files": len(planned),
            "home_embedder": None if home is None else list(home),
        }
        out.line(_compact(head))
        for episode in _all(engine):
            text = episode.to_json()
            try:
                stored = _stored(engine, episode.id) if vectors else []
            except NotFound:
                continue  # forgotten since its page was read
            if stored:
                text = f'{text[:-1]},"vectors":{_compact(stored)}}}'
                with_vectors += 1
            out.line(text)
            records += 1
        for path in planned:
            try:
                line = line_of(str(engine.home), path)
            except FileNotFoundError:
                continue  # removed since it was listed
            except StoreError as error:
                skipped.append((path, str(error)))
                continue
            out.line(_compact(line))
            files += 1
        checksum = out.checksum()
        end = {
            "otolith": "end",
            "records": records,
            "vectors": with_vectors,
            "files": files,
            "sha256": checksum,
        }
        out.line(_compact(end))
    return ExportReport(
        path=out.path,
        records=records,
        vectors=with_vectors,
        bytes=out.size,
        sha256=checksum,
        unreadable=engine.unreadable,
        files=files,
        skipped=tuple(sorted(skipped)),
    )


def _all(engine: Engine) -> Iterator[Episode]:
    """Every record, also those that are not served, in an order that depends on nothing else."""
    for status in _STATUSES:
        after: str | None = None
        while True:
            page, after = engine.page({"status": status}, newest_first=False, after=after, limit=_PAGE)
            yield from page
            if after is None:
                break


def _stored(engine: Engine, id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for embedder, dim, rows in engine.stored_vectors(id):
        one: dict[str, Any] = {"embedder": embedder, "dim": dim}
        if isinstance(rows, str):
            one["refused"] = rows
        else:
            data = b"".join(row.astype("<f4", copy=False).tobytes() for row in rows)
            one["f32"] = base64.b64encode(data).decode("ascii")
        found.append(one)
    return found


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
