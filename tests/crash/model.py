"""What must be in the store after everything the journals say.

Every record has one writer at a time, but for a few keys that all write. A record is in one of the states its
`may` holds: a version, or None for not there. What was acknowledged leaves one state; what was in flight when
its writer died leaves two, and an operation of several records stays tied together: all of it or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

State = str | None


@dataclass
class Operation:
    """One announced change: for each record the state it leaves."""

    number: int
    what: str
    started: float
    after: dict[str, State]


@dataclass
class SharedKey:
    """A key that everybody writes: a register, checked for order in time."""

    writes: list[tuple[float, float, str]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def allowed(self) -> set[State]:
        """Versions no acknowledged write of which began after they had ended."""
        told = [started for started, ended, _ in self.writes if ended < math.inf]
        newest = max(told, default=-math.inf)
        versions: set[State] = {version for _, ended, version in self.writes if ended >= newest}
        return versions if told else versions | {None}


@dataclass
class Model:
    """The states every record may be in."""

    may: dict[str, set[State]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    owner: dict[str, str] = field(default_factory=dict)
    in_flight: dict[str, Operation] = field(default_factory=dict)
    tied: dict[str, list[tuple[Operation, dict[str, State]]]] = field(default_factory=dict)
    shared: dict[str, SharedKey] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    acknowledged: int = 0
    records_acknowledged: int = 0
    unknown: int = 0

    def apply(self, slot: str, lines: Iterable[dict[str, Any]]) -> None:
        """Takes in what a process journalled."""
        for line in lines:
            kind = line["is"]
            if kind == "intent":
                self.in_flight[slot] = Operation(line["n"], line["what"], line["t"], line["after"])
            elif kind == "ack":
                self._acknowledge(slot, line)
            elif kind == "refused":
                # Typed as not done: as if it had never been announced.
                self.in_flight.pop(slot, None)
            elif kind == "found":
                self.settle(slot, line["states"], f"{slot} after its start")
            elif kind == "wrong":
                self.wrong.append(f"{slot}: {line['text']}")

    def died(self, slot: str) -> Operation | None:
        """The process of a slot is gone: what it had announced may have happened or not."""
        operation = self.in_flight.pop(slot, None)
        if operation is None:
            return None
        self.unknown += 1
        before: dict[str, State] = {}
        for name, state in operation.after.items():
            if name.startswith("shared-"):
                register = self.shared.setdefault(name, SharedKey())
                register.writes.append((operation.started, math.inf, str(state)))
                continue
            known = self.may.setdefault(name, {None})
            self.owner[name] = slot
            if len(known) == 1:
                before[name] = next(iter(known))
            known.add(state)
        self.tied.setdefault(slot, []).append((operation, before))
        return operation

    def settle(self, slot: str, found: Mapping[str, State], where: str) -> None:
        """Compares the records of a writer with what is there, and goes on from that."""
        for name, version in found.items():
            if version not in self.may.get(name, {None}):
                allowed = sorted(map(str, self.may.get(name, {None})))
                self.wrong.append(f"{where}: {name} is {version}, may be {allowed}")
        for name, owner in self.owner.items():
            if owner != slot or name in found:
                continue
            if None not in self.may[name]:
                self.wrong.append(f"{where}: {name} is lost, may be {sorted(map(str, self.may[name]))}")
        for operation, before in self.tied.pop(slot, ()):
            done = {found.get(name) == state for name, state in operation.after.items() if name in before}
            undone = {found.get(name) == before[name] for name in operation.after if name in before}
            if done and done != {True} and undone != {True}:
                self.wrong.append(f"{where}: operation {operation.number} ({operation.what}) is half there")
        for name in [name for name, owner in self.owner.items() if owner == slot]:
            version = found.get(name)
            if version is None:
                del self.may[name], self.owner[name]
                self.ids.pop(name, None)
            else:
                self.may[name] = {version}

    def settle_shared(self, found: Mapping[str, State], ids: Mapping[str, str]) -> None:
        """The same for the keys that everybody writes, when nobody is at work."""
        for name, register in self.shared.items():
            allowed = register.allowed()
            version = found.get(name)
            if version not in allowed:
                self.wrong.append(f"shared key {name} is {version}, may be {sorted(map(str, allowed))}")
            if len(register.ids) > 1 or (register.ids and ids.get(name) not in register.ids):
                self.wrong.append(f"shared key {name} has {ids.get(name)}, acknowledged were {register.ids}")
            register.writes = [] if version is None else [(-math.inf, -1.0, version)]

    def live(self) -> dict[str, State]:
        """Name and version of every record that is known to be there."""
        return {name: next(iter(may)) for name, may in self.may.items() if len(may) == 1 and None not in may}

    def _acknowledge(self, slot: str, line: dict[str, Any]) -> None:
        operation = self.in_flight.pop(slot)
        self.acknowledged += 1
        self.records_acknowledged += len(operation.after)
        for name, state in operation.after.items():
            if name.startswith("shared-"):
                register = self.shared.setdefault(name, SharedKey())
                register.writes.append((operation.started, line["t"], str(state)))
                register.ids.update(line["ids"].values())
                continue
            self.may[name] = {state}
            self.owner[name] = slot
        for name, one in line.get("ids", {}).items():
            if self.ids.setdefault(name, one) != one:
                self.wrong.append(f"{slot}: {name} had the id {self.ids[name]} and got {one}")
