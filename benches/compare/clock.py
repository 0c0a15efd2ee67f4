"""Time, memory and disk, as the caller of one process sees them."""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

Asked = TypeVar("Asked")

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS"),
    "1",
)


def pin() -> None:
    """Keeps this process on one CPU, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def percentiles(seconds: Iterable[float]) -> dict[str, float]:
    """In microseconds. p10 is what a quiet moment of a busy machine gives."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {f"p{q}": ordered[min(last, q * len(ordered) // 100)] * 1e6 for q in (10, 50, 95, 99)}


def questions(
    ask: Callable[[Asked], list[int]], asked: Sequence[Asked], passes: int, budget: float
) -> tuple[dict[str, float], list[list[int]]]:
    """The time of each question as the median of its passes, percentiles over questions, and the answers.

    After `budget` seconds no more is asked, but twenty questions at least are.
    """
    for question in asked[:10]:
        ask(question)
    times: list[list[float]] = [[] for _ in asked]
    answers: list[list[int]] = []
    begin = time.perf_counter()
    for turn in range(passes):
        for i, question in enumerate(asked):
            if time.perf_counter() - begin > budget and (turn or i >= 20):
                break
            start = time.perf_counter()
            found = ask(question)
            times[i].append(time.perf_counter() - start)
            if turn == 0:
                answers.append(found)
    medians = [statistics.median(own) for own in times if own]
    return {**percentiles(medians), "asked": len(medians)}, answers


def each(act: Callable[[int], Any], count: int, budget: float) -> dict[str, float]:
    """The time of `act(i)`, called once each; after `budget` seconds no more, but twenty at least."""
    times = []
    begin = time.perf_counter()
    for i in range(count):
        start = time.perf_counter()
        act(i)
        times.append(time.perf_counter() - start)
        if time.perf_counter() - begin > budget and i >= 19:
            break
    return {**percentiles(times), "count": len(times)}


class Supply:
    """Batches whose making is not counted: `seconds` is the time spent in them, `cpu` the processor's."""

    def __init__(self, batches: Iterable[list[str]]) -> None:
        self._batches = iter(batches)
        self.seconds = self.cpu = 0.0

    def __iter__(self) -> Iterator[list[str]]:
        while True:
            start, cpu = time.perf_counter(), time.process_time()
            batch = next(self._batches, None)
            self.seconds += time.perf_counter() - start
            self.cpu += time.process_time() - cpu
            if batch is None:
                return
            yield batch


def memory_mb(which: str = "VmRSS") -> float:
    """Resident memory of this process; `VmHWM` is its peak. 0 where there is no /proc."""
    status = Path("/proc/self/status")
    found = re.search(rf"{which}:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) / 1024 if found else 0.0


def files(path: Path) -> list[Path]:
    """Every file at or below a path."""
    return [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]


def disk_mb(path: Path) -> float:
    """What they take on the disk."""
    return sum(p.stat().st_blocks * 512 for p in files(path)) / 1e6


def drop_from_cache(path: Path) -> bool:
    """Puts the files out of the page cache: the next reader waits for the disk. False where it cannot be."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for file in files(path):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    return True
