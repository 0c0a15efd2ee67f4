"""What is measured. Each step runs in a process of its own and yields rows of figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from compare import clock
from compare.corpus import SEED

from . import gold
from .engine import Engine
from .engines import ENGINES
from .ours import SCANNED, Index, Recall
from .sets import Asked, Documents, Sentences, recall
from .table import table_mb

Row = dict[str, Any]

DELTA = 1_000  # documents that are inserted one by one
SHARES = (0.001, 0.01, 0.1, 0.5)  # of all documents, that a filter leaves
DEAD = 0.3  # of all documents, that are removed
HYBRID = 500  # questions before memory is read


@dataclass(frozen=True)
class Job:
    """One step of one engine over one set."""

    data: Documents | Sentences
    engine: type[Engine]
    folder: Path
    passes: int
    budget: float

    def started(self) -> Engine:
        """The engine with its code in memory."""
        self.folder.mkdir(parents=True, exist_ok=True)
        engine = self.engine(self.folder, self.data.width)
        engine.load_code()
        return engine

    def opened(self) -> Engine:
        """The engine with the documents in it."""
        engine = self.started()
        engine.open()
        return engine

    def timed(self, ask: Callable[[Asked], list[int]]) -> tuple[dict[str, float], list[list[int]]]:
        """(times, answers) of the questions."""
        return clock.questions(ask, self.data.asked(), self.passes, self.budget)


def _documents(job: Job) -> Documents:
    if not isinstance(job.data, Documents):
        raise ValueError("this step needs seeded documents")
    return job.data


def build(job: Job) -> Iterator[Row]:
    """Rows a second, by the clock and by the processor's, ready to be asked; the size on disk."""
    engine = job.started()
    supply = list(job.data.batches(texts=engine.both))
    before = clock.memory_mb()
    start, cpu = time.perf_counter(), time.process_time()
    engine.build(supply)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = clock.memory_mb("VmHWM") - before
    engine.save()
    engine.close()
    yield {
        "metric": "build",
        "rows_per_s": job.data.n / seconds,
        "rows_per_cpu_s": job.data.n / cpu,
        "peak_mb": peak,
        "disk_mb": clock.disk_mb(job.folder),
    }


def query(job: Job) -> Iterator[Row]:
    """Every question, for each length of the walk, with recall beside the time."""
    engine = job.opened()
    answers = job.data.answers(both=engine.both)
    for ef in engine.walks(job.data.n):
        engine.effort(ef)
        times, found = job.timed(engine.ask)
        yield {"metric": "query", "ef": ef, "recall": recall(answers, found), **times}
    engine.close()


def _private_mb() -> float:
    """Memory with no file behind it; 0 where the system does not tell."""
    told = Path("/proc/self/smaps_rollup")
    if not told.exists():
        return 0.0
    lines = (line.split() for line in told.read_text().splitlines())
    return next((int(line[1]) / 1024 for line in lines if line[0] == "Anonymous:"), 0.0)


def memory(job: Job) -> Iterator[Row]:
    """What a process holds after 500 questions, above what it held with its code loaded."""
    engine = job.started()
    asked = job.data.asked()
    before, private = clock.memory_mb(), _private_mb()
    engine.open()
    for i in range(HYBRID):
        engine.ask(asked[i % len(asked)])
    yield {
        "metric": "memory",
        "rss_mb": clock.memory_mb() - before,
        "private_mb": _private_mb() - private,
    }
    engine.close()


def first(job: Job) -> Iterator[Row]:
    """Opening and one answer, the files in the page cache."""
    engine = job.started()
    asked = job.data.asked()[0]
    start = time.perf_counter()
    engine.open()
    found = engine.ask(asked)
    yield {"metric": "open", "ms": (time.perf_counter() - start) * 1e3, "hits": len(found)}
    engine.close()


def change(job: Job) -> Iterator[Row]:
    """Insertions one by one."""
    engine, data = job.opened(), _documents(job)
    if 64 in engine.efs:
        engine.effort(64)
    news = data.rows(data.n, data.n + DELTA)
    times = clock.each(lambda i: engine.insert(data.n + i, news[i]), DELTA, job.budget)
    last = int(times["count"]) - 1
    if data.n + last not in engine.ask(Asked("", news[last])):
        raise RuntimeError("a row that was inserted is not found by itself")
    yield {"metric": "insert", **times}
    engine.close()


def filtered(job: Job) -> Iterator[Row]:
    """Questions among a share of all documents: by a set of their ids made once, and by a list each time."""
    engine, data = job.opened(), _documents(job)
    if not isinstance(engine, Index):
        raise ValueError("only our index is asked among ids")
    rows = data.rows(0, data.n)
    order = np.random.default_rng([SEED, 9]).permutation(data.n)
    for share in SHARES:
        chosen = order[: max(gold.K, round(share * data.n))]
        allowed = np.zeros(data.n, dtype=bool)
        allowed[chosen] = True
        ids = [str(i) for i in sorted(chosen.tolist())]
        answers = gold.nearest(rows, data.vectors, allowed)
        start = time.perf_counter()
        subset = engine.subset(ids)
        prepared = {"prepare_ms": (time.perf_counter() - start) * 1e3}
        for metric, among, more in (("filtered", subset, prepared), ("listed", ids, {})):
            times, found = job.timed(lambda asked, among=among: engine.ask_among(asked, among))
            if any(not allowed[number] for one in found for number in one):
                raise RuntimeError("a document was found that the filter leaves out")
            yield {"metric": metric, "share": share, "recall": recall(answers, found), **times, **more}


def tombstones(job: Job) -> Iterator[Row]:
    """Questions with three tenths removed, beside those with none, in turns."""
    whole, holed, data = job.opened(), job.opened(), _documents(job)
    if not isinstance(holed, Index):
        raise ValueError("only our index is asked with documents removed")
    alive = np.ones(data.n, dtype=bool)
    alive[np.random.default_rng([SEED, 10]).permutation(data.n)[: round(DEAD * data.n)]] = False
    for number in np.flatnonzero(~alive).tolist():
        holed.remove(number)
    of_alive = gold.nearest(data.rows(0, data.n), data.vectors, alive)
    for turn in range(3):
        for metric, engine, answers in (
            ("whole", whole, data.answers(both=False)),
            ("dead", holed, of_alive),
        ):
            times, found = job.timed(engine.ask)
            yield {"metric": metric, "turn": turn, "recall": recall(answers, found), **times}
    if any(not alive[number] for asked in data.asked() for number in holed.ask(asked)):
        raise RuntimeError("a document that was removed is still found")


def disk(job: Job) -> Iterator[Row]:
    """What a home takes, by what is in it, as upkeep leaves it and compacted, beside one table of SQLite."""
    engine = job.opened()
    if not isinstance(engine, Recall):
        raise ValueError("only a home is measured on the disk")
    # A graph is built without a word to the directory for some seconds.
    engine.settle(30 if job.data.n * job.data.width > SCANNED else 3)
    for state in ("as written", "compacted"):
        if state == "compacted":
            engine.compact()
        store, whole = clock.disk_mb(engine.home / "episodes.redb"), clock.disk_mb(engine.home)
        index = clock.disk_mb(engine.home / "index")
        yield {"metric": "disk", "state": state, "mb": whole, "store_mb": store, "index_mb": index}
    engine.close()
    yield {"metric": "table", "mb": table_mb(job.folder / "table", job.data.batches(texts=True))}


STEPS: dict[str, Callable[[Job], Iterator[Row]]] = {
    "build": build,
    "query": query,
    "memory": memory,
    "open": first,
    "change": change,
    "filtered": filtered,
    "tombstones": tombstones,
    "disk": disk,
}


def run(
    step: str, engine: str, data: Documents | Sentences, folder: Path, passes: int, budget: float
) -> Iterator[Row]:
    """The rows of one step."""
    clock.pin()
    for row in STEPS[step](Job(data, ENGINES[engine], folder, passes, budget)):
        yield {"width": data.width, **row}
