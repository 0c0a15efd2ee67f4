"""Looks at a store that nobody writes: contents, keys, directories, vectors, what is recalled."""

from __future__ import annotations

import base64
import io
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from otolith import Filter, Memory

from .children import ask
from .content import EMBEDDER, as_fields, is_right, vector_of, word

SAMPLE = 40
DEADLINE = 120.0


def look(home: Path, gone: list[str], say: Callable[[Any], None]) -> None:
    """Runs in a child: says what is there and what does not agree with itself."""
    wrong: list[str] = []
    opening = time.monotonic()
    with Memory.open(home, embedder=EMBEDDER) as memory:
        opened = time.monotonic()
        found: dict[str, dict[str, Any]] = {}
        for episode in memory.episodes():
            fields = as_fields(episode)
            if not is_right(fields):
                wrong.append(f"wrong content: {episode!r}")
                continue
            name = str(fields["metadata"]["name"])
            if name in found:
                wrong.append(f"{name} is there twice")
            found[name] = {**fields, "id": episode.id, "actor": episode.actor}
        wrong += _counts(memory, found)
        wrong += _by_key_and_dir(memory, found)
        wrong += _recalled(memory, found, gone)
        wrong += _exported(memory, found)
        report = memory.embed_pending()
        if report.error is not None or report.remaining:
            wrong.append(f"embed_pending: {report}")
        if memory.coverage().vectorized != len(found):
            wrong.append(f"after embed_pending: {memory.coverage()}")
        if hasattr(memory, "verify"):
            verified = memory.verify()
            if not verified.ok:
                wrong.append(f"verify: {verified.problems[:5]}")
        status = memory.status()
        if status.unreadable:
            wrong.append(f"status: {status.unreadable} unreadable, {status.notices}")
    say(
        {
            "open_ms": (opened - opening) * 1e3,
            "wrong": wrong,
            "found": {
                name: {"version": one["metadata"]["version"], "id": one["id"], "actor": one["actor"]}
                for name, one in found.items()
            },
        }
    )


def look_in_child(home: Path, gone: list[str]) -> dict[str, Any]:
    """`look` in a child; a child that dies or hangs is itself a finding."""
    code, said = ask("check", lambda say: look(home, gone, say), DEADLINE)
    if not said:
        return {"open_ms": 0.0, "wrong": [f"the check ended with {code} and no answer"], "found": None}
    result: dict[str, Any] = said[-1]
    return result


def _counts(memory: Memory, found: dict[str, dict[str, Any]]) -> list[str]:
    coverage = memory.coverage()
    states = (
        coverage.vectorized,
        coverage.pending,
        coverage.stale,
        coverage.refused,
        coverage.dimension_mismatches,
    )
    wrong = []
    if len(memory) != len(found) or coverage.total != len(found):
        wrong.append(f"{len(found)} records are listed, {len(memory)} counted, {coverage.total} covered")
    if sum(states) != coverage.total or coverage.refused or coverage.dimension_mismatches:
        wrong.append(f"coverage does not add up: {coverage}")
    return wrong


def _by_key_and_dir(memory: Memory, found: dict[str, dict[str, Any]]) -> list[str]:
    wrong = []
    for name, one in found.items():
        if one["key"] is None:
            continue
        ids = [episode.id for episode in memory.episodes(Filter(key=one["key"]))]
        if ids != [one["id"]]:
            wrong.append(f"key {one['key']} leads to {ids}, {name} is {one['id']}")
    for where in ("/work/a", "/work/b/x", "/work"):
        listed = {episode.id for episode in memory.episodes(Filter(working_dir=where, below=True))}
        wanted = {one["id"] for one in found.values() if f"{one['working_dir']}/".startswith(f"{where}/")}
        if listed != wanted:
            wrong.append(f"{where} lists {len(listed)} records, {len(wanted)} are below it")
    return wrong


def _recalled(memory: Memory, found: dict[str, dict[str, Any]], gone: list[str]) -> list[str]:
    wrong = [
        f"get of {one['id']} is not {name}"
        for name, one in found.items()
        if as_fields(memory.get(one["id"])) != {key: one[key] for key in as_fields(memory.get(one["id"]))}
    ]
    for name in sorted(found, key=word)[:SAMPLE]:
        ids = [hit.id for hit in memory.recall(word(name), legs=["lexical"])]
        if ids != [found[name]["id"]]:
            wrong.append(f"the word of {name} ({found[name]['id']}) finds {ids}")
    for name in gone:
        if hits := memory.recall(word(name), legs=["lexical"]):
            wrong.append(f"{name} was forgotten and is recalled: {hits[0].id}")
    return wrong


def _exported(memory: Memory, found: dict[str, dict[str, Any]]) -> list[str]:
    """Everything is in an export too, with the vectors that were given bit by bit."""
    wrong, file = [], io.BytesIO()
    memory.export(file)
    names: Counter[str] = Counter()
    for line in file.getvalue().splitlines():
        record = json.loads(line)
        if "summary" not in record:
            continue
        name, version = record["metadata"]["name"], record["metadata"]["version"]
        names[name] += 1
        if found.get(name, {}).get("metadata") != record["metadata"]:
            wrong.append(f"the export has {name} as {version}")
        vectors = record.get("vectors", [])
        if record["metadata"]["given"]:
            # Text and vector were one transaction: one without the other is half a record.
            rows = [np.frombuffer(base64.b64decode(one["f32"]), "<f4") for one in vectors]
            if len(rows) != 1 or not np.allclose(rows[0], vector_of(name, version), atol=1e-6):
                wrong.append(f"{name} has {len(rows)} vectors, not the one that was given")
    if set(names) != set(found) or set(names.values()) - {1}:
        wrong.append(f"{len(found)} records are listed, {names.total()} exported")
    return wrong
