"""What is measured. Each step runs in a process of its own and yields rows of figures."""

from __future__ import annotations

import importlib
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from . import clock
from .corpus import SEED
from .engine import Engine
from .engines import ENGINES
from .ours import Index
from .plan import Kind, Plan, exact_for

Row = dict[str, Any]

DELTA = 1_000  # documents that are inserted one by one
PIECES = 5
# The level of instructions that is asked for, and the name under which the module tells the one it uses.
SIMD_VARIABLE, SIMD_ATTRIBUTE = "OTOLITH_SIMD", "simd_level"


@dataclass(frozen=True)
class Job:
    """One step of one engine at one size."""

    plan: Plan
    engine: type[Engine]
    folder: Path
    passes: int
    budget: float

    def started(self) -> Engine:
        """The engine with its code in memory."""
        self.folder.mkdir(parents=True, exist_ok=True)
        engine = self.engine(self.folder)
        engine.load_code()
        return engine

    def fill(self, engine: Engine) -> None:
        """Puts the documents in: opened where it can be, built where not."""
        if engine.persists():
            engine.open()
        else:
            engine.build(self.plan.files.batches(self.plan.n, engine.batch))

    def asked(self, engine: Engine, kind: Kind) -> tuple[dict[str, float], float]:
        """(times, recall) of one kind of question."""
        times, found = clock.questions(engine.ask, kind.texts(), self.passes, self.budget)
        return times, kind.recall(found)


def build(job: Job) -> Iterator[Row]:
    """Documents a second, the peak of memory, and the size on disk."""
    engine = job.started()
    before = clock.memory_mb()
    supply = clock.Supply(job.plan.files.batches(job.plan.n, engine.batch))
    start, cpu = time.perf_counter(), time.process_time()
    engine.build(supply)
    seconds = time.perf_counter() - start - supply.seconds
    cpu = time.process_time() - cpu - supply.cpu
    peak = clock.memory_mb("VmHWM") - before
    rates = {"docs_per_s": job.plan.n / seconds, "docs_per_cpu_s": job.plan.n / cpu}
    row: Row = {"metric": "build", **rates, "seconds": seconds, "peak_mb": peak}
    if engine.persists():
        start = time.perf_counter()
        engine.save()
        engine.close()
        row |= {"save_s": time.perf_counter() - start, "disk_mb": clock.disk_mb(job.folder)}
    yield row
    yield from ({"metric": "missing", "what": what} for what in engine.missing())


def query(job: Job) -> Iterator[Row]:
    """Every question, with recall beside the time."""
    seen = getattr(importlib.import_module("otolith._core"), SIMD_ATTRIBUTE, None)
    level = {"simd": os.environ[SIMD_VARIABLE]} if os.environ.get(SIMD_VARIABLE) else {}
    engine = job.started()
    before = clock.memory_mb()
    job.fill(engine)
    for name, kind in job.plan.kinds().items():
        times, recall = job.asked(engine, kind)
        yield {"metric": "query", "kind": name, "recall": recall, **level, **times}
    rss = clock.memory_mb() - before
    yield {"metric": "memory", "rss_mb": rss, **level, "simd_seen": seen and str(seen)}
    engine.close()


def _first_answer(job: Job, metric: str) -> Iterator[Row]:
    engine = job.started()
    text = job.plan.kinds()["natural"].questions[0].text
    if metric == "open cold" and not clock.drop_from_cache(job.folder):
        yield {"metric": "missing", "what": "dropping files from the page cache on this system"}
        return
    start = time.perf_counter()
    engine.open()
    found = engine.ask(text)
    yield {"metric": metric, "ms": (time.perf_counter() - start) * 1e3, "hits": len(found)}
    engine.close()


def open_warm(job: Job) -> Iterator[Row]:
    """Opening and one answer, the files in the page cache."""
    yield from _first_answer(job, "open warm")


def open_cold(job: Job) -> Iterator[Row]:
    """The same with the files on the disk only."""
    yield from _first_answer(job, "open cold")


def change(job: Job) -> Iterator[Row]:
    """Insertions one by one, the question after one, removals one by one."""
    engine, n = job.started(), job.plan.n
    job.fill(engine)
    news = job.plan.files.texts(n, n + 2 * DELTA)
    texts = job.plan.kinds()["natural"].texts()
    for text in texts[:20]:
        engine.ask(text)
    times = clock.each(lambda i: engine.insert(n + i, news[i]), DELTA, job.budget)
    last = int(times["count"]) - 1
    if n + last not in engine.ask(news[last]):
        raise RuntimeError("a document that was inserted is not found by its own text")
    yield {"metric": "insert", "survives": engine.survives, **times}
    after = []
    for i in range(50):
        engine.insert(n + DELTA + i, news[DELTA + i])
        start = time.perf_counter()
        engine.ask(texts[i % len(texts)])
        after.append(time.perf_counter() - start)
    yield {"metric": "question after insert", **clock.percentiles(after)}
    old = random.Random(SEED).sample(range(n), min(DELTA, n // 20))
    times = clock.each(lambda i: engine.remove(old[i]), len(old), job.budget)
    last = old[int(times["count"]) - 1]
    if last in engine.ask(job.plan.files.texts(last, last + 1)[0]):
        raise RuntimeError("a document that was removed is still found")
    yield {"metric": "remove", "survives": engine.survives, **times}
    engine.close()


def pieces(job: Job) -> Iterator[Row]:
    """Five fifths, a thousand documents one by one, a twentieth removed, beside one index of what is left."""
    n = job.plan.n
    texts = job.plan.files.texts(0, n + DELTA)
    dead = random.Random(SEED).sample(range(len(texts)), len(texts) // 20)
    kinds = job.plan.kinds()
    exact = exact_for(len(texts), {name: kind.questions for name, kind in kinds.items()}, dead)
    kinds = {
        name: Kind(kind.questions, [exact.answer(question.terms) for question in kind.questions])
        for name, kind in kinds.items()
    }
    del exact

    split, whole = Index(job.folder), Index(job.folder)
    edges = [n * i // PIECES for i in range(PIECES + 1)]
    for begin, end in pairwise(edges):
        split.index.insert_many([str(i) for i in range(begin, end)], texts[begin:end])
    for i in range(n, len(texts)):
        split.insert(i, texts[i])
    for i in dead:
        split.remove(i)
    alive = sorted(set(range(len(texts))).difference(dead))
    whole.index.insert_many([str(i) for i in alive], [texts[i] for i in alive])
    whole.compact()

    # Both in one process, in turns, so that they share the same seconds.
    for turn in range(3):
        for form, engine in (("pieces", split), ("whole", whole)):
            for name, kind in kinds.items():
                times, recall = job.asked(engine, kind)
                yield {"metric": form, "kind": name, "recall": recall, "turn": turn, **times}
    start = time.perf_counter()
    if split.compact():
        yield {"metric": "compact", "seconds": time.perf_counter() - start}
        for name, kind in kinds.items():
            times, recall = job.asked(split, kind)
            yield {"metric": "compacted", "kind": name, "recall": recall, **times}


STEPS: dict[str, Callable[[Job], Iterator[Row]]] = {
    "build": build,
    "query": query,
    "open-warm": open_warm,
    "open-cold": open_cold,
    "change": change,
    "pieces": pieces,
}


def run(step: str, engine: str, plan: Plan, folder: Path, passes: int, budget: float) -> Iterator[Row]:
    """The rows of one step."""
    clock.pin()
    yield from STEPS[step](Job(plan, ENGINES[engine], folder, passes, budget))
