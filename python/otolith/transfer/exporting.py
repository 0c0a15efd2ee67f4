"""Our own JSON lines.

::

    {"otolith":"export","format":1,"schema_version":1,"records":2,"home_embedder":["openai:bge|…",1024]}
    {"id":"…","summary":"…", … ,"vectors":[{"embedder":"openai:bge|…","dim":1024,"f32":"<base64>"}]}
    {"id":"…","summary":"…", … ,"vectors":[{"embedder":"openai:bge|…","dim":1024,"refused":"is …"}]}
    {"otolith":"end","records":2,"vectors":2,"sha256":"<of every byte before this line>"}

Records come in the order they were created, each as the store keeps it. `f32` holds the rows of all chunks
one after another, little-endian. `records` in the first line is the count when the export began, the last
line has the truth.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from otolith._core import SCHEMA_VERSION
from otolith.records import ExportReport

from .streams import output

if TYPE_CHECKING:
    from otolith._core import Engine

__all__ = ["FORMAT", "export"]

FORMAT = 1
"""Version of the layout above."""

_PAGE = 256


def export(engine: Engine, dest: object, *, vectors: bool) -> ExportReport:
    """Writes all records the engine's handle sees; one page is in memory at a time.

    Args:
        engine: The open engine.
        dest: A path, `-` for stdout, or an open file.
        vectors: Whether vectors go with the text.
    """
    records = with_vectors = 0
    with output(dest) as out:
        home = engine.home_embedder() if vectors else None
        head = {
            "otolith": "export",
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "records": engine.count(),
            "home_embedder": None if home is None else list(home),
        }
        out.line(_compact(head))
        after: str | None = None
        while True:
            page, after = engine.page(None, newest_first=False, after=after, limit=_PAGE)
            for episode in page:
                text = episode.to_json()
                stored = _stored(engine, episode.id) if vectors else []
                if stored:
                    text = f'{text[:-1]},"vectors":{_compact(stored)}}}'
                    with_vectors += 1
                out.line(text)
                records += 1
            if after is None:
                break
        checksum = out.checksum()
        out.line(
            _compact({"otolith": "end", "records": records, "vectors": with_vectors, "sha256": checksum})
        )
    return ExportReport(path=out.path, records=records, vectors=with_vectors, bytes=out.size, sha256=checksum)


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
