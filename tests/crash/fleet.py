"""A home, the processes on it, and what the model knows of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .check import look_in_child
from .children import Child
from .journal import Follower
from .model import Model
from .writer import Job, read, write


@dataclass
class Member:
    """One slot: the process in it now, and its journal."""

    job: Job
    work: Callable[[Job, Path], None]
    child: Child
    follower: Follower
    at_work: bool = False
    """Whether it has opened the store."""


@dataclass
class Fleet:
    """Writers and readers on one home. Never opens the store itself: it forks."""

    root: Path
    seed: int
    lock_timeout: float = 30.0
    model: Model = field(default_factory=Model)
    members: dict[str, Member] = field(default_factory=dict)
    lines: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Lines that are measured, by kind."""
    ends: dict[int, int] = field(default_factory=dict)
    """Exit codes of processes that ended otherwise than by SIGKILL, and how often."""
    checks: int = 0
    forgotten: list[str] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """The directory of the memory."""
        return self.root / "home"

    def start(self, slot: str, work: Callable[[Job, Path], None] = write, **options: Any) -> None:
        """Puts a process in a slot."""
        job = Job(self.home, slot, 0, self.seed, time.monotonic(), self.lock_timeout, **options)
        self._launch(job, work)

    def respawn(self, slot: str) -> None:
        """The next process of a slot whose last is gone; it repeats a write with a key that had no answer."""
        last = self.members[slot]
        retry = None
        operation = self.model.died(slot)
        if operation is not None and operation.what == "keyed":
            retry = next(iter(operation.after))
        job = replace(last.job, generation=last.job.generation + 1, started=time.monotonic(), retry=retry)
        self._launch(job, last.work)

    def kill(self, slots: list[str]) -> None:
        """SIGKILL to all of them at once, then their journals are read to the end."""
        for slot in slots:
            self.members[slot].child.signal(9)
        for slot in slots:
            child = self.members[slot].child
            child.kill()
            self.collect(slot)
            child.close()
            if child.code != -9:
                self.ends[child.code or 0] = self.ends.get(child.code or 0, 0) + 1

    def collect(self, slot: str | None = None) -> None:
        """Reads what was journalled since the last time."""
        for name in [slot] if slot is not None else list(self.members):
            new = self.members[name].follower.new()
            self.model.apply(name, new)
            for line in new:
                self.members[name].at_work |= line["is"] == "open"
                if line["is"] == "intent":
                    self.forgotten += [one for one, state in line["after"].items() if state is None]
                elif line["is"] not in ("found", "wrong"):
                    self.lines.setdefault(line["is"], []).append({**line, "slot": name})
        del self.forgotten[:-200]

    def check(self) -> dict[str, Any]:
        """Compares the store with the model; nobody may be at work."""
        for slot in self.members:
            self.model.died(slot)
        gone = [name for name in self.forgotten if self.model.may.get(name, {None}) == {None}][-40:]
        seen = look_in_child(self.home, gone)
        self.checks += 1
        self.model.wrong += seen["wrong"]
        if seen["found"] is None:
            return seen
        own: dict[str, dict[str, str | None]] = {slot: {} for slot in self.members}
        shared: dict[str, str | None] = {}
        ids = {name: one["id"] for name, one in seen["found"].items()}
        for name, one in seen["found"].items():
            (shared if name.startswith("shared-") else own[one["actor"]])[name] = one["version"]
            if self.model.ids.get(name, one["id"]) != one["id"] and not name.startswith("shared-"):
                self.model.wrong.append(f"{name} is {one['id']}, acknowledged was {self.model.ids[name]}")
        for slot, states in own.items():
            self.model.settle(slot, states, f"check {self.checks}, {slot}")
        self.model.settle_shared(shared, ids)
        return seen

    def _launch(self, job: Job, work: Callable[[Job, Path], None]) -> None:
        path = self.root / f"{job.slot}-{job.generation}.log"
        child = Child.start(job.slot, lambda say: work(job, path))
        self.members[job.slot] = Member(job, work, child, Follower(path))


__all__ = ["Fleet", "Member", "read", "write"]
