"""SIGSTOP in the lock, SIGTERM anywhere: others get a typed error in time, reads go on, nothing is lost."""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from .figures import spread
from .fleet import Fleet
from .journal import Follower
from .writer import Job, read, write

LOCK_TIMEOUT = 1.0
SLACK = 1.5
"""How much later than the deadline the typed error may come on a busy machine, in seconds."""
HOLDER = "holder"
WAITERS = ("w0", "w1")
READER = "r0"
TERM_SECONDS = 12.0


def _write_until_asked_to_end(job: Job, path: Path) -> None:
    """As a program does that tidies up: SIGTERM becomes SystemExit wherever it happens to be."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
    write(job, path)


def run(count: int, terms: int, seed: int) -> dict[str, Any]:
    """Stops holders and ends processes, and tells what was seen.

    Args:
        count: Times a process is stopped while it holds the lock; not each stop hits it there.
        terms: SIGTERMs, half of them to processes with a handler of their own.
        seed: Of everything random but the moments at which the processes are.
    """
    root = Path(tempfile.mkdtemp(prefix="otolith-stops-"))
    began = time.monotonic()
    stopping = _Stops(root / "stops", seed)
    stopping.run(count)
    terminating = _Terms(root / "terms", seed)
    terminating.run(terms)
    wrong = stopping.wrong + terminating.wrong
    result = {
        "run": "stops",
        "ok": not wrong,
        "wrong": wrong[:20],
        "seed": seed,
        "seconds": time.monotonic() - began,
        **stopping.figures(),
        **terminating.figures(),
    }
    if result["ok"]:
        shutil.rmtree(root)
    else:
        result["kept"] = str(root)
    return result


class _Stops:
    """One holder that writes large batches, two waiters and a reader whose lock timeout is one second."""

    def __init__(self, root: Path, seed: int) -> None:
        root.mkdir()
        self.rng = random.Random(f"{seed}/stops")
        self.fleet = Fleet(root, seed, LOCK_TIMEOUT)
        self.wrong: list[str] = []
        self.stops = self.held = self.unnamed = self.reads_refused = 0
        self.refused_ms: list[float] = []
        self.reads_ms: list[float] = []
        self.resumed_ms: list[float] = []

    def run(self, count: int) -> None:
        """Stops the holder until it was hit in the lock `count` times."""
        fleet = self.fleet
        fleet.start(HOLDER, slow=True)
        for slot in WAITERS:
            fleet.start(slot)
        fleet.start(READER, read)
        try:
            self._await_all()
            while self.held < count and not self.wrong and not fleet.model.wrong:
                time.sleep(self.rng.uniform(0.02, 0.08))
                self._one()
                fleet.collect()
                for slot, member in fleet.members.items():
                    if member.child.ended():
                        self.wrong.append(f"{slot} ended with {member.child.code}")
            fleet.kill(sorted(fleet.members))
            fleet.check()
        finally:
            for member in fleet.members.values():
                member.child.kill()
        self.wrong += fleet.model.wrong
        if fleet.ends:
            self.wrong.append(f"processes ended by themselves: {fleet.ends}")

    def _await_all(self) -> None:
        """Until everybody is at work: a holder that is stopped before that holds nothing."""
        paths = [(slot, self.fleet.members[slot].follower.path) for slot in (HOLDER, *WAITERS, READER)]
        deadline = time.monotonic() + 30
        while not all(_Watch(Follower(path)).worked() for _, path in paths):
            time.sleep(0.05)
            if time.monotonic() > deadline:
                self.wrong.append("not everybody was at work 30 s after the start")
                return

    def _await_lock(self, pid: int) -> None:
        """Until the holder note says that it has the lock: at random few stops would hit it there."""
        note = self.fleet.home / "holder"
        deadline = time.monotonic() + 0.5
        while not note.read_bytes().startswith(b"held %d " % pid) and time.monotonic() < deadline:
            pass
        time.sleep(self.rng.choice([0, 0, 0.0005, 0.002]))

    def _one(self) -> None:
        holder = self.fleet.members[HOLDER].child
        self._await_lock(holder.pid)
        holder.signal(signal.SIGSTOP)
        stopped = time.monotonic()
        self.stops += 1
        paths = {slot: self.fleet.members[slot].follower.path for slot in (*WAITERS, READER)}
        watched = {slot: _Watch(Follower.from_now(path)) for slot, path in paths.items()}
        try:
            deadline = stopped + 2 * (LOCK_TIMEOUT + SLACK)
            while not all(watched[slot].refused_after(stopped) for slot in WAITERS):
                # A waiter that goes on writing: the holder was not in the lock.
                if any(watched[slot].last("ack") > stopped + 0.02 for slot in WAITERS):
                    return
                if time.monotonic() > deadline:
                    break
                time.sleep(0.01)
            self.held += 1
            self._judge(watched, stopped, holder.pid)
        finally:
            holder.signal(signal.SIGCONT)
        resumed = time.monotonic()
        while not all(watched[slot].last("ack") > resumed for slot in WAITERS):
            time.sleep(0.005)
            if time.monotonic() > resumed + 20:
                self.wrong.append("20 s after SIGCONT the others still do not write")
                return
        self.resumed_ms.append((max(watched[slot].last("ack") for slot in WAITERS) - resumed) * 1e3)

    def _judge(self, watched: dict[str, _Watch], stopped: float, pid: int) -> None:
        for slot in WAITERS:
            refused = watched[slot].refused_after(stopped)
            if not refused:
                self.wrong.append(f"{slot} neither wrote nor was refused while the holder was stopped")
                continue
            for line in refused:
                self.refused_ms.append(line["ms"])
                if line["ms"] > (LOCK_TIMEOUT + SLACK) * 1e3:
                    self.wrong.append(f"{slot} was refused after {line['ms']:.0f} ms")
                if line["holder"] is None:
                    self.unnamed += 1
                elif line["holder"] != pid:
                    self.wrong.append(f"{slot} names {line['holder']}, stopped was {pid}: {line['text']}")
        watched[READER].last("read")
        for line in watched[READER].lines:
            if line.get("began", 0.0) < stopped:
                continue
            if line["is"] == "read":
                self.reads_ms.append(line["ms"])
            elif line["is"] == "refused":
                self.reads_refused += 1
                if line["ms"] > (LOCK_TIMEOUT + SLACK) * 1e3:
                    self.wrong.append(f"a read was refused after {line['ms']:.0f} ms")
        if not any(line.get("began", 0.0) >= stopped for line in watched[READER].lines):
            self.wrong.append("the reader had no answer at all while the holder was stopped")

    def figures(self) -> dict[str, Any]:
        """What the run showed."""
        return {
            "stops": self.stops,
            "stops_in_the_lock": self.held,
            "refused_ms": spread(self.refused_ms),
            "refused_without_a_name": self.unnamed,
            "reads_meanwhile_ms": spread(self.reads_ms),
            "reads_refused": self.reads_refused,
            "first_write_after_sigcont_ms": spread(self.resumed_ms),
            "stops_acknowledged": self.fleet.model.acknowledged,
        }


class _Watch:
    """What one process journals, from now on or all of it."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self.lines: list[dict[str, Any]] = []

    def worked(self) -> bool:
        """Whether a call has succeeded."""
        return max(self.last("ack"), self.last("read")) > 0

    def last(self, kind: str) -> float:
        """When the last line of a kind came; 0 without one."""
        self.lines += self._follower.new()
        return max((line["t"] for line in self.lines if line["is"] == kind), default=0.0)

    def refused_after(self, moment: float) -> list[dict[str, Any]]:
        """Refusals of calls that began, or ended, after a moment."""
        self.lines += self._follower.new()
        return [line for line in self.lines if line["is"] == "refused" and line["t"] > moment]


class _Terms:
    """Writers, half of which turn SIGTERM into SystemExit."""

    def __init__(self, root: Path, seed: int) -> None:
        root.mkdir()
        self.rng = random.Random(f"{seed}/terms")
        self.fleet = Fleet(root, seed)
        self.sent = {"default": 0, "handler": 0}
        self.wrong: list[str] = []
        self.ended_ms: list[float] = []

    def run(self, count: int) -> None:
        """Ends `count` processes one after the other; checks everything at the end and now and then."""
        fleet = self.fleet
        works = {"default": write, "handler": _write_until_asked_to_end}
        for kind, work in works.items():
            for number in range(2):
                fleet.start(f"{kind}{number}", work)
        try:
            for number in range(count):
                time.sleep(self.rng.uniform(0.02, 0.08))
                slot = self.rng.choice(sorted(fleet.members))
                self._end(slot)
                if self.wrong or fleet.model.wrong:
                    break
                if number % 100 == 99:
                    fleet.kill(sorted(fleet.members))
                    fleet.check()
                    for one in sorted(fleet.members):
                        fleet.respawn(one)
                else:
                    fleet.respawn(slot)
            fleet.kill(sorted(fleet.members))
            fleet.check()
        finally:
            for member in fleet.members.values():
                member.child.kill()
        self.wrong += fleet.model.wrong

    def _end(self, slot: str) -> None:
        kind = slot.rstrip("0123456789")
        child = self.fleet.members[slot].child
        sent = time.monotonic()
        child.signal(signal.SIGTERM)
        self.sent[kind] += 1
        if not child.wait(TERM_SECONDS):
            self.wrong.append(f"{slot} is still there {TERM_SECONDS:.0f} s after SIGTERM")
            child.kill()
        self.ended_ms.append((time.monotonic() - sent) * 1e3)
        self.fleet.collect(slot)
        child.close()
        # Before its own handler is there, the default one ends it.
        if child.code not in ((-signal.SIGTERM,) if kind == "default" else (0, -signal.SIGTERM)):
            self.wrong.append(f"{slot} ended with {child.code} on SIGTERM")

    def figures(self) -> dict[str, Any]:
        """What the run showed."""
        return {
            "sigterm_default": self.sent["default"],
            "sigterm_handler": self.sent["handler"],
            "sigterm_to_end_ms": spread(self.ended_ms),
            "sigterm_acknowledged": self.fleet.model.acknowledged,
            "sigterm_in_flight": self.fleet.model.unknown,
        }
