"""Six processes for a long time: memory, file and latency stay flat."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from otolith import Filter, Memory, OtolithError

from .children import Child, ask
from .content import EMBEDDER, as_fields, fields_of, is_right, vector_of
from .figures import percentile, slope
from .journal import Follower, Journal

HOT = 600
"""Live records of each process that adds, so that the store stays as large as it is."""
KEYS = 300
COMPACT_EVERY = 150.0
"""Seconds between two compactions. Without one the change feed only grows."""
PAUSE = 0.02
"""Longest pause between two calls: half of them idle, as agents are."""
PEAK_GROWTH = 1.1
"""Of the largest resident size: it goes up and down by a tenth as copies in memory are built anew."""
FILE_GROWTH = 1.1
LATENCY_GROWTH = 1.5
Step = Callable[[Memory, random.Random, str, int], str]


def _write(memory: Memory, rng: random.Random, slot: str, number: int) -> str:
    """Adds one record, or a batch now and then, and forgets as many of its oldest."""
    if number % 20 == 19:
        batch = [fields_of(f"{slot}-{number}-{n}", "first") | {"actor": slot} for n in range(20)]
        memory.remember_many(batch)
        ids = [one.id for one in memory.episodes(Filter(actor=slot), newest_first=False)]
        memory.forget(*ids[: max(0, len(ids) - HOT)])
        return "batch"
    name = f"{slot}-{number}"
    vector = vector_of(name, "first") if rng.random() < 0.5 else None
    memory.remember(**fields_of(name, "first", given=vector is not None), actor=slot, vector=vector)
    return "remember"


def _upsert(memory: Memory, rng: random.Random, slot: str, number: int) -> str:
    name = f"{slot}-key-{rng.randrange(KEYS)}"
    memory.remember(**fields_of(name, f"v{number}", key=name), actor=slot)
    return "upsert"


class _Change:
    """Adds, changes and forgets records of its own, and compacts now and then, as a cron job does."""

    def __init__(self) -> None:
        self.compacted = time.monotonic()

    def __call__(self, memory: Memory, rng: random.Random, slot: str, number: int) -> str:
        if time.monotonic() - self.compacted >= COMPACT_EVERY:
            memory.compact()
            self.compacted = time.monotonic()
            return "compact"
        own = list(memory.episodes(Filter(actor=slot), limit=40))
        if len(own) < 30:
            memory.remember(**fields_of(f"{slot}-{number}", "first"), actor=slot)
            return "remember"
        chosen = rng.choice(own)
        if rng.random() < 0.2:
            memory.forget(chosen.id)
            return "forget"
        renewed = fields_of(str(chosen.metadata["name"]), f"v{number}")
        memory.update(chosen.id, **{"body": None, "working_dir": None, **renewed})
        return "update"


def _recall(memory: Memory, rng: random.Random, slot: str, number: int) -> str:
    question = " ".join(rng.sample(["token", "rollback", "pool", "schema", "harbour", "令牌", "lock"], 2))
    for hit in memory.recall(question, 10):
        if not is_right(as_fields(hit.episode)):
            raise AssertionError(f"{slot} saw {hit.episode!r}")
    return "recall"


ROLES: dict[str, Step] = {
    "writer0": _write,
    "writer1": _write,
    "upserter": _upsert,
    "changer": _Change(),
    "reader0": _recall,
    "reader1": _recall,
}


def _live(home: Path, path: Path, slot: str, seed: int, say: Callable[[Any], None]) -> None:
    journal, rng = Journal(path), random.Random(f"{seed}/{slot}")
    step, number = ROLES[slot], 0
    with Memory.open(home, embedder=EMBEDDER) as memory:
        while True:
            began = time.monotonic()
            try:
                what = step(memory, rng, slot, number)
            except (OtolithError, AssertionError) as error:
                journal.note(**{"is": "wrong"}, text=f"{slot}: {type(error).__name__}: {error}")
            else:
                journal.note(**{"is": what}, ms=(time.monotonic() - began) * 1e3)
            number += 1
            time.sleep(rng.uniform(0, PAUSE))


def _resident(pid: int) -> float:
    """Resident memory in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _control(root: Path) -> float:
    """Milliseconds of some fixed work and a synced 4 KiB append: how busy machine and disk are."""
    began, rounds = time.monotonic(), 5
    with (root / "control").open("wb") as file:
        for _ in range(rounds):
            for _ in range(200):
                hashlib.sha256(bytes(20_000)).digest()
            file.write(bytes(4096))
            file.flush()
            os.fdatasync(file.fileno())
    return (time.monotonic() - began) * 1e3 / rounds


def _payload(home: Path, say: Callable[[Any], None]) -> None:
    """Live records, and the bytes of their texts and vectors as an export has them, base64 undone."""
    with Memory.open(home, embedder=EMBEDDER, read_only=True) as memory:
        count = 0
        texts = 0
        for episode in memory.episodes():
            count += 1
            texts += len(json.dumps(as_fields(episode), ensure_ascii=False).encode())
        say([count, texts + memory.coverage().vectorized * 4 * (memory.coverage().dim or 0)])


def run(minutes: float, every: float, seed: int) -> dict[str, Any]:
    """Lets them work and samples.

    Args:
        minutes: How long.
        every: Seconds between two samples.
        seed: Of what they do.
    """
    if not Path("/proc/self/statm").exists():
        raise SystemExit("soak: needs /proc to read the memory of processes; run it on Linux")
    root = Path(tempfile.mkdtemp(prefix="otolith-soak-"))
    home = root / "home"
    followers: dict[str, Follower] = {}
    children: dict[str, Child] = {}
    for slot in ROLES:
        path = root / f"{slot}.log"
        followers[slot] = Follower(path)
        children[slot] = Child.start(slot, partial(_live, home, path, slot, seed))
    samples: list[dict[str, Any]] = []
    wrong: list[str] = []
    began = time.monotonic()
    try:
        while (passed := time.monotonic() - began) < minutes * 60 and not wrong:
            time.sleep(min(every, minutes * 60 - passed + 0.01))
            sample = _sample(home, children, followers, wrong)
            sample["minutes"] = (time.monotonic() - began) / 60
            samples.append(sample)
            print(_line(sample, header=len(samples) % 20 == 1), file=sys.stderr, flush=True)
    finally:
        for child in children.values():
            child.kill()
            child.close()
    result = _figures(samples, wrong, minutes)
    result |= {"seed": seed, "seconds": time.monotonic() - began}
    if result["ok"]:
        shutil.rmtree(root)
    else:
        result["kept"] = str(root)
    return result


def _sample(
    home: Path, children: dict[str, Child], followers: dict[str, Follower], wrong: list[str]
) -> dict[str, Any]:
    times: dict[str, list[float]] = {}
    for slot, follower in followers.items():
        for line in follower.new():
            if line["is"] == "wrong":
                wrong.append(line["text"])
            else:
                times.setdefault(line["is"], []).append(line["ms"])
        if children[slot].ended():
            wrong.append(f"{slot} ended with {children[slot].code}")
    code, said = ask("payload", lambda say: _payload(home, say), 60)
    records, payload = said[-1] if said else (0, 0)
    if not said:
        wrong.append(f"counting the records ended with {code}")
    size = (home / "episodes.redb").stat().st_size
    return {
        "control_ms": _control(home.parent),
        "rss_mb": {slot: _resident(child.pid) for slot, child in children.items() if child.code is None},
        "file_mb": size / 1e6,
        "records": records,
        "payload_mb": payload / 1e6,
        "calls": sum(map(len, times.values())),
        **{
            f"{what}_{name}_ms": percentile(times.get(what, []), share)
            for what in ("remember", "recall")
            for name, share in (("p50", 0.5), ("p99", 0.99))
        },
    }


def _line(sample: dict[str, Any], *, header: bool) -> str:
    names = ["minutes", "records", "file_mb", "payload_mb", "calls"]
    names += [f"{what}_{share}_ms" for what in ("remember", "recall") for share in ("p50", "p99")]
    cells = "".join(f"{sample[name]:>17.2f}" for name in names)
    rss = " ".join(f"{value:.1f}" for value in sample["rss_mb"].values())
    line = f"{cells}   rss {rss}"
    return f"{''.join(f'{name:>17}' for name in names)}\n{line}" if header else line


def _figures(samples: list[dict[str, Any]], wrong: list[str], minutes: float) -> dict[str, Any]:
    # The first fifth is growth to the size that is held: caches fill, the hot sets too.
    steady = samples[len(samples) // 5 :]
    third = max(1, len(steady) // 3)
    first, last = steady[:third], steady[-third:]
    hours = [sample["minutes"] / 60 for sample in steady]
    rss = {
        slot: slope(hours, [sample["rss_mb"].get(slot, 0.0) for sample in steady])
        for slot in (steady[0]["rss_mb"] if steady else ())
    }
    names = ("file_mb", "records", "control_ms", "remember_p50_ms", "recall_p50_ms")
    ratios = {name: _mean(last, name) / max(_mean(first, name), 1e-9) for name in names}
    # Other work on the machine slows everything down: only what is beyond that is growth.
    busier = max(1.0, ratios["control_ms"])
    if minutes >= 10:  # shorter runs are still filling up
        for slot in rss:
            before, after = (
                max(sample["rss_mb"].get(slot, 0.0) for sample in part) for part in (first, last)
            )
            if after > PEAK_GROWTH * before:
                wrong.append(f"{slot} had {before:.1f} MB at most and then {after:.1f}")
        if ratios["file_mb"] > FILE_GROWTH * max(1.0, ratios["records"]):
            wrong.append(f"the file grew by {ratios['file_mb']:.2f} from the first third to the last")
        for name in ("remember_p50_ms", "recall_p50_ms"):
            if ratios[name] > LATENCY_GROWTH * busier:
                wrong.append(f"{name} grew by {ratios[name]:.2f} from the first third to the last")
    return {
        "run": "soak",
        "ok": not wrong,
        "wrong": wrong[:20],
        "minutes": minutes,
        "calls": sum(sample["calls"] for sample in samples),
        "records": samples[-1]["records"] if samples else 0,
        "control_ms": {"first_third": _mean(first, "control_ms"), "last_third": _mean(last, "control_ms")},
        "rss_slope_mb_per_hour": rss,
        "rss_mb_at_the_end": samples[-1]["rss_mb"] if samples else {},
        "last_third_over_first_third": ratios,
        "file_over_payload": {
            "first_third": _mean(first, "file_mb") / max(_mean(first, "payload_mb"), 1e-9),
            "last_third": _mean(last, "file_mb") / max(_mean(last, "payload_mb"), 1e-9),
        },
        **{
            f"{what}_{share}_ms": {"first_third": _mean(first, name), "last_third": _mean(last, name)}
            for what in ("remember", "recall")
            for share in ("p50", "p99")
            for name in [f"{what}_{share}_ms"]
        },
        "samples": samples,
    }


def _mean(samples: list[dict[str, Any]], name: str) -> float:
    return sum(sample[name] for sample in samples) / len(samples) if samples else 0.0
