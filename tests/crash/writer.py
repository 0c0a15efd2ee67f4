"""The processes that are killed: writers that announce what they do, and a reader that believes nothing."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otolith import Filter, Memory, NotFound, OtolithError, StoreError, StoreLocked

from .content import EMBEDDER, as_fields, fields_of, is_right, vector_of, word
from .journal import Journal

MOST = 120
"""Live records of a writer, so that the store stays small however long the run is."""
SHARED_KEYS = 8


@dataclass(frozen=True)
class Job:
    """What a process needs to know."""

    home: Path
    slot: str
    generation: int
    seed: int
    started: float
    lock_timeout: float = 30.0
    retry: str | None = None
    """A key whose write had no answer when the last process of this slot died."""
    slow: bool = False
    """Whether it writes in large batches only, so that it holds the lock most of the time."""


@dataclass
class Own:
    """A live record of this writer."""

    id: str
    version: str
    key: str | None
    tags: tuple[str, ...]


class Writer:
    """One writer; `run` never returns by itself."""

    def __init__(self, job: Job, journal: Journal) -> None:
        self.job = job
        self.journal = journal
        self.rng = random.Random(f"{job.seed}/{job.slot}/{job.generation}")
        self.own: dict[str, Own] = {}
        self.count = 0
        opening = time.monotonic()
        self.memory = Memory.open(job.home, embedder=EMBEDDER, config={"lock_timeout": job.lock_timeout})
        opened = time.monotonic()
        self._find_own()
        journal.note(
            **{"is": "open"},
            open_ms=(opened - opening) * 1e3,
            ready_ms=(time.monotonic() - job.started) * 1e3,
        )

    def run(self) -> None:
        """Writes until it is killed."""
        if self.job.retry is not None:
            self._keyed(self.job.retry)
        kinds: list[tuple[int, Callable[[], None]]] = [
            (22, self._remember),
            (10, self._keyed),
            (12, self._many),
            (14, self._update),
            (8, self._forget),
            (4, self._forget_where),
            (10, self._shared),
            (6, self._read_own),
        ]
        if self.job.slow:
            kinds = [(1, self._many), (1, self._forget_where)]
        weights = [weight for weight, _ in kinds]
        while True:
            work = self.rng.choices(kinds, weights)[0][1]
            if len(self.own) > MOST:
                work = self._forget_where
            work()

    # -- what it does -------------------------------------------------------------------------------------

    def _remember(self) -> None:
        name, version = self._name(), self._version()
        given = self.rng.random() < 0.5
        fields = fields_of(name, version, given=given, tags=(self._group(),))
        vector = vector_of(name, version) if given else None
        with self._announced("remember", {name: version}) as ids:
            ids[name] = self.memory.remember(**fields, actor=self.job.slot, vector=vector).id
        self._keep(name, version, fields, ids)

    def _keyed(self, retry: str | None = None) -> None:
        """Writes with a key and sometimes writes the same again, as one does who got no answer."""
        name = retry if retry is not None else self._name()
        fields = fields_of(name, "first", key=name)
        for _ in range(self.rng.choice([1, 2])):
            with self._announced("keyed", {name: "first"}) as ids:
                ids[name] = self.memory.remember(**fields, actor=self.job.slot).id
            self._keep(name, "first", fields, ids)

    def _many(self) -> None:
        group, size = self._group(), self.rng.randint(2, 200 if self.job.slow else 25)
        records: dict[str, dict[str, Any]] = {}
        for _ in range(size):
            name, given = self._name(), self.rng.random() < 0.5
            records[name] = fields_of(name, self._version(), given=given, tags=(group,))
        told = [
            {**fields, "actor": self.job.slot}
            | ({"vector": vector_of(name, self._of(fields))} if fields["metadata"]["given"] else {})
            for name, fields in records.items()
        ]
        after = {name: self._of(fields) for name, fields in records.items()}
        with self._announced("many", after) as ids:
            report = self.memory.remember_many(told, batch=size)
            if report.failed:
                raise report.failed[0][1]
            ids.update(zip(records, map(str, report.ids), strict=True))
        for name, fields in records.items():
            self._keep(name, self._of(fields), fields, ids)

    def _update(self) -> None:
        if not self.own:
            return
        name = self.rng.choice(sorted(self.own))
        own, version = self.own[name], self._version()
        fields = {"body": None, "working_dir": None, **fields_of(name, version, key=own.key, tags=own.tags)}
        with self._announced("update", {name: version}) as ids:
            ids[name] = self.memory.update(own.id, **fields).id
        own.version = version

    def _forget(self) -> None:
        if not self.own:
            return
        names = self.rng.sample(sorted(self.own), min(len(self.own), self.rng.randint(1, 4)))
        with self._announced("forget", dict.fromkeys(names)):
            gone = self.memory.forget(*(self.own[name].id for name in names))
            if gone != len(names):
                self._wrong(f"forget says {gone} for {names}")
        for name in names:
            del self.own[name]

    def _forget_where(self) -> None:
        tags = sorted({tag for own in self.own.values() for tag in own.tags})
        if not tags:
            return self._forget()
        tag = self.rng.choice(tags)
        names = sorted(name for name, own in self.own.items() if tag in own.tags)
        with self._announced("forget_where", dict.fromkeys(names)):
            gone = self.memory.forget_where(Filter(tags=(tag,), actor=self.job.slot))
            if sorted(gone.ids) != sorted(self.own[name].id for name in names):
                self._wrong(f"forget_where of {tag} forgot {gone.count}, not {len(names)}")
        for name in names:
            del self.own[name]

    def _shared(self) -> None:
        name, version = f"shared-{self.rng.randrange(SHARED_KEYS)}", self._version()
        fields = fields_of(name, version, key=name)
        with self._announced("shared", {name: version}) as ids:
            ids[name] = self.memory.remember(**fields).id

    def _read_own(self) -> None:
        """What was acknowledged can be read at once, by id and by its word."""
        if not self.own:
            return
        name = self.rng.choice(sorted(self.own))
        own = self.own[name]
        with self._reading():
            episode = self.memory.get(own.id)
            if not is_right(as_fields(episode)) or episode.metadata["version"] != own.version:
                self._wrong(f"get of {name} gave {episode!r}, not version {own.version}")
            hits = [hit.id for hit in self.memory.recall(word(name), legs=["lexical"])]
            if hits != [own.id]:
                self._wrong(f"recall of the word of {name} ({own.id}) gave {hits}")

    # -- how it tells -------------------------------------------------------------------------------------

    @contextmanager
    def _announced(self, what: str, after: Mapping[str, str | None]) -> Iterator[dict[str, str]]:
        self.count += 1
        number = self.job.generation * 1_000_000 + self.count
        self.journal.note(**{"is": "intent"}, n=number, what=what, after=after)
        started = time.monotonic()
        ids: dict[str, str] = {}
        try:
            yield ids
        except StoreLocked as error:
            self._refused(error, started)
            raise _Refused from None
        except NotFound as error:
            self._wrong(f"{what} of {sorted(after)[:3]}: {error}")
            raise
        except OtolithError as error:
            self._wrong(f"{what}: {type(error).__name__}: {error}")
            raise
        self.journal.note(
            **{"is": "ack"}, n=number, what=what, ms=(time.monotonic() - started) * 1e3, ids=ids
        )

    def _refused(self, error: StoreLocked, started: float) -> None:
        self.journal.note(
            **{"is": "refused"},
            began=started,
            ms=(time.monotonic() - started) * 1e3,
            holder=error.holder_pid,
            command=error.holder_command,
            since=error.holder_since,
            text=str(error),
        )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OtolithError as error:
            self._wrong(f"reading: {type(error).__name__}: {error}")

    def _wrong(self, text: str) -> None:
        self.journal.note(**{"is": "wrong"}, text=text)

    def _find_own(self) -> None:
        states: dict[str, str] = {}
        for episode in self.memory.episodes(Filter(actor=self.job.slot)):
            fields = as_fields(episode)
            if not is_right(fields):
                self._wrong(f"wrong content: {episode!r}")
                continue
            name, version = str(fields["metadata"]["name"]), str(fields["metadata"]["version"])
            if name in states:
                self._wrong(f"{name} is there twice")
            states[name] = version
            self.own[name] = Own(episode.id, version, episode.key, episode.tags)
        self.journal.note(**{"is": "found"}, states=states)

    def _keep(self, name: str, version: str, fields: dict[str, Any], ids: dict[str, str]) -> None:
        self.own[name] = Own(ids[name], version, fields.get("key"), tuple(fields["tags"]))

    def _name(self) -> str:
        self.count += 1
        return f"{self.job.slot}-{self.job.generation}-{self.count}"

    def _version(self) -> str:
        self.count += 1
        return f"v{self.job.slot}.{self.job.generation}.{self.count}"

    def _group(self) -> str:
        return f"group-{self.job.slot}-{self.rng.randrange(6)}"

    @staticmethod
    def _of(fields: dict[str, Any]) -> str:
        return str(fields["metadata"]["version"])


class _Refused(Exception):
    """The lock was not had in time; the writer goes on with the next thing."""


def write(job: Job, path: Path) -> None:
    """A writer's life."""
    journal = Journal(path)
    writer = Writer(job, journal)
    while True:
        try:
            writer.run()
        except _Refused:
            continue


def read(job: Job, path: Path) -> None:
    """A reader's life: lists, recalls and gets, and compares every record with its own checksum."""
    journal = Journal(path)
    rng = random.Random(f"{job.seed}/{job.slot}/{job.generation}")
    config = {"lock_timeout": job.lock_timeout}
    opening = time.monotonic()
    try:
        memory = Memory.open(job.home, embedder=EMBEDDER, read_only=job.generation % 2 == 1, config=config)
    except StoreError as error:
        # The last writer died and nobody has opened it writable since: a read-only handle may not repair.
        if "writable once" not in str(error):
            raise
        memory = Memory.open(job.home, embedder=EMBEDDER, config=config)
    with memory:
        journal.note(
            **{"is": "open"},
            open_ms=(time.monotonic() - opening) * 1e3,
            ready_ms=(time.monotonic() - job.started) * 1e3,
        )
        while True:
            began = time.monotonic()
            try:
                looked = _look(memory, rng, journal)
            except OtolithError as error:
                ms = (time.monotonic() - began) * 1e3
                kind = "refused" if isinstance(error, StoreLocked) else "wrong"
                if "writable once" in str(error):
                    # The file was compacted and its writers all died since: this reader opens it
                    # anew, and only a writer may repair it.
                    kind = "unrepaired"
                    time.sleep(0.01)
                journal.note(**{"is": kind}, began=began, ms=ms, text=str(error))
            else:
                journal.note(
                    **{"is": "read"}, began=began, ms=(time.monotonic() - began) * 1e3, records=looked
                )


def maintain(job: Job, path: Path) -> None:
    """A keeper's life: exports, and verifies, compacts and backs up where this version can."""
    journal = Journal(path)
    rng = random.Random(f"{job.seed}/{job.slot}/{job.generation}")
    calls = [what for what in ("export", "verify", "compact", "backup") if hasattr(Memory, what)]
    with Memory.open(job.home, embedder=EMBEDDER, config={"lock_timeout": job.lock_timeout}) as memory:
        journal.note(**{"is": "keeping"})
        while True:
            what, began = rng.choice(calls), time.monotonic()
            try:
                wrong = _maintain(memory, what, job.home.parent / f"backup-{job.generation}")
            except StoreLocked:
                continue  # by maintenance that was killed a moment ago
            except OtolithError as error:
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                journal.note(**{"is": "wrong"}, text=f"{what} beside writers: {wrong}")
            journal.note(**{"is": "maintained"}, what=what, ms=(time.monotonic() - began) * 1e3)


def _maintain(memory: Memory, what: str, copy: Path) -> str:
    if what == "export":
        with open(os.devnull, "wb") as nowhere:
            memory.export(nowhere)
        return ""
    if what != "backup":
        report = getattr(memory, what)()
        return "" if what == "compact" or report.ok else str(report.problems[:3])
    getattr(memory, what)(copy)
    try:
        with Memory.open(copy, embedder=EMBEDDER, read_only=True) as copied:
            wrong = [one.id for one in copied.episodes() if not is_right(as_fields(one))]
    finally:
        shutil.rmtree(copy)
    return f"the copy has wrong content in {wrong[:3]}" if wrong else ""


def _look(memory: Memory, rng: random.Random, journal: Journal) -> int:
    seen = list(memory.episodes(limit=rng.choice([10, 100, 1000])))
    hits = []
    if seen:
        chosen = rng.choice(seen)
        hits = [hit.episode for hit in memory.recall(word(str(chosen.metadata["name"])), 5)]
        hits += [hit.episode for hit in memory.recall(" ".join(chosen.summary.split()[1:3]), 10)]
        with suppress(NotFound):  # forgotten since
            hits.append(memory.get(chosen.id))
    for episode in [*seen, *hits]:
        if not is_right(as_fields(episode)):
            journal.note(**{"is": "wrong"}, text=f"a reader saw {episode!r}")
    return len(seen) + len(hits)
