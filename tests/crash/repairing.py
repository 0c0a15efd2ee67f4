"""`verify` and `verify --repair` on a damaged home, in a process of their own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from otolith import Memory, OtolithError

from .children import ask
from .content import EMBEDDER, as_fields
from .probe import Original


def _verify(home: Path, repair: bool, say: Callable[[Any], None]) -> None:
    verify = importlib.import_module("otolith.maintenance").verify
    try:
        report = verify(home, repair=repair)
    except OtolithError as error:
        say({"error": f"{type(error).__name__}: {error}"})
        return
    repaired = report.repaired
    say(
        {
            "ok": report.ok,
            "problems": [f"{one.kind} {one.table} {one.id}: {one.detail}" for one in report.problems[:20]],
            "kept_as": None if repaired is None else str(repaired.kept_as),
        }
    )


def _answer(home: Path, seconds: float, *, repair: bool) -> dict[str, Any]:
    code, said = ask("verify", lambda say: _verify(home, repair, say), seconds)
    result: dict[str, Any] = said[-1] if said else {"error": f"ended with {code} and no answer"}
    return result


def verified(home: Path, seconds: float) -> str:
    """`seen`, `clean`, `refused` by a store error, which tells as well, or what else came of it."""
    answer = _answer(home, seconds, repair=False)
    if "error" in answer:
        return "refused" if answer["error"].startswith("Store") else str(answer["error"])
    return "clean" if answer["ok"] else "seen"


def repaired(home: Path, damaged: bytes, original: Original, seconds: float) -> tuple[int | None, list[str]]:
    """Repairs, and compares: how many records are back, None if it failed, and what is wrong with them."""
    answer = _answer(home, seconds, repair=True)
    if "error" in answer:
        return None, [f"repair: {answer['error']}"]
    wrong = []
    kept = [path for path in home.rglob("*") if path.is_file() and path.read_bytes() == damaged]
    if not kept:
        wrong.append("repair: the damaged file is nowhere as it was")
    after = verified(home, seconds)
    if after != "clean":
        wrong.append(f"repair: verify says {after} afterwards")
    code, said = ask("compare", lambda say: _compare(home, original, say), seconds)
    if not said:
        return None, [*wrong, f"repair: reading the new file ended with {code}"]
    restored, texts = said[-1]
    return restored, [*wrong, *texts]


def _compare(home: Path, original: Original, say: Callable[[Any], None]) -> None:
    wrong = []
    with Memory.open(home, embedder=EMBEDDER) as memory:
        seen = {episode.id: as_fields(episode) for episode in memory.episodes()}
        if back := sorted(seen.keys() - original.records.keys()):
            wrong.append(f"repair: {len(back)} forgotten records came back: {back[:3]}")
        for one in seen.keys() & original.records.keys():
            fields = seen[one]
            # An earlier form may be all that is left of a record, but what was forgotten stays forgotten.
            if fields != original.records[one] and fields not in original.earlier.get(one, ()):
                wrong.append(f"repair: {one} came back as {fields}")
        if memory.status().unreadable:
            wrong.append("repair: the new file has rows that cannot be read")
        memory.remember("written after the repair")
    say([len(seen), wrong])
