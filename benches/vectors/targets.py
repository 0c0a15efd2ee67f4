"""What this project asks of search by vectors and by both legs, and whether a run reached it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compare.figures import Figures
from compare.targets import Line, micros

from .curves import middle, ratio, times

SMALL, LARGE, WIDTH, WIDE = 10_000, 100_000, 384, 1536
# At most this share of the time of faiss without a filter, by the share of documents that the filter leaves.
FILTERED = {0.001: 0.1, 0.01: 0.15, 0.1: 0.6, 0.5: 0.7}
# At most this share of the time of the pair put together by hand: (the index, the memory).
BOTH = {SMALL: (0.35, 0.6), LARGE: (0.3, 0.5)}
PAIR, OPENED = "bm25s+usearch", "tantivy+usearch"
OURS = (("otolith-both", "HybridIndex"), ("otolith-memory", "Memory.recall"))


def _at(n: int, width: int = WIDTH, engine: str = "otolith", **more: Any) -> dict[str, Any]:
    return {"engine": engine, "n": n, "width": width, "set": None, **more}


def _default(figures: Figures, n: int, width: int = WIDTH) -> dict[int, float]:
    """p50 with default settings, round by round."""
    return {row["round"]: row["p50"] for row in figures.all("query", **_at(n, width, ef=None))}


def _against(
    what: str, ours: dict[int, float], theirs: dict[int, float], rival: str, limit: float
) -> Iterator[Line]:
    """A ratio of times; a recall that ours never reached is no ratio, and not reached."""
    if not theirs:
        return
    found = ratio(ours, theirs)
    told = f"{micros(middle(ours)) or 'never'}, {rival} {micros(middle(theirs))}"
    yield Line(what, told, float("inf") if found is None else found, limit, "x")


def _recall(what: str, value: float | None, least: float, told: str = "") -> Iterator[Line]:
    if value is not None:
        yield Line(what, told, value, least, "", at_least=True)


def _small(figures: Figures) -> Iterator[Line]:
    ours = _default(figures, SMALL)
    if not ours:
        return
    found = figures.least("query", "recall", **_at(SMALL, ef=None))
    yield from _recall("10,000 x 384, default settings, recall", found, 0.999)
    faiss = times(figures, 0.99, **_at(SMALL, engine="faiss"))
    yield from _against("10,000 x 384, p50, over faiss at .99", ours, faiss, "faiss", 0.75)
    every = times(figures, 0.0, **_at(SMALL, engine="numpy"))
    yield from _against("10,000 x 384, p50, over numpy with every row", ours, every, "numpy", 0.45)


def _large(figures: Figures) -> Iterator[Line]:
    if not figures.all("query", **_at(LARGE)):
        return
    for recall in (0.97, 0.98, 0.99):
        ours, faiss, usearch = (
            times(figures, recall, **_at(LARGE, engine=name)) for name in ("otolith", "faiss", "usearch-bf16")
        )
        rival = f"usearch-bf16 {micros(middle(usearch)) or 'never'}, faiss"
        what = f"100,000 x 384, p50 at recall {recall}, over faiss"
        yield from _against(what, ours, faiss, rival, 0.4)
    found = figures.least("query", "recall", **_at(LARGE, ef=None))
    yield from _recall("100,000 x 384, default settings, recall", found, 0.985)


def _wide(figures: Figures) -> Iterator[Line]:
    ours, faiss = (times(figures, 0.99, **_at(SMALL, WIDE, name)) for name in ("otolith", "faiss"))
    yield from _against("10,000 x 1536, p50 at recall 0.99, over faiss", ours, faiss, "faiss", 0.6)


def _sentences(figures: Figures) -> Iterator[Line]:
    at = {"set": "sentences", "engine": "otolith-graph", "ef": None}
    found = figures.least("query", "recall", **at)
    faiss = figures.least("query", "recall", **{**at, "engine": "faiss", "ef": 128})
    told = "" if faiss is None else f"faiss at ef 128: {faiss:.3f}"
    yield from _recall("sentences, a graph over all, default settings, recall", found, 0.99, told)


def _filtered(figures: Figures) -> Iterator[Line]:
    faiss = times(figures, 0.98, **_at(LARGE, engine="faiss"))
    for share, limit in FILTERED.items():
        at = _at(LARGE, share=share)
        left = f"100,000 x 384, a filter by a set of ids leaves {share:.1%}"
        yield from _recall(f"{left}, recall", figures.least("filtered", "recall", **at), 0.97)
        ours = {row["round"]: row["p50"] for row in figures.all("filtered", **at)}
        if ours:
            what = f"{left}, p50 over faiss without a filter at .98"
            yield from _against(what, ours, faiss, "faiss", limit)


def _changed(figures: Figures) -> Iterator[Line]:
    at = _at(LARGE)
    whole, dead = (figures.least(metric, "recall", **at) for metric in ("whole", "dead"))
    if whole is not None and dead is not None:
        told = f"{whole:.4f} to {dead:.4f}"
        yield Line("100,000 x 384, 30 % removed, loss of recall", told, max(0.0, whole - dead), 0.005)
        found = figures.ratio({"metric": "dead", **at}, {"metric": "whole", **at})
        before, after = (figures.value(metric, "p50", **at) for metric in ("whole", "dead"))
        if found is not None:
            told = f"{micros(after)}, before {micros(before)}"
            yield Line("100,000 x 384, 30 % removed, p50 over before", told, found, 1.8, "x")
    ours, usearch, faiss = (
        figures.value("build", "rows_per_cpu_s", **_at(LARGE, engine=name))
        for name in ("otolith", "usearch-bf16", "faiss")
    )
    if ours is not None and usearch is not None:
        told = f"{ours:,.0f} rows/s, usearch-bf16 {usearch:,.0f}"
        told += "" if faiss is None else f", faiss {faiss:,.0f}"
        what = "100,000 x 384, build, rows a second of CPU over usearch-bf16"
        yield Line(what, told, ours / usearch, 2.0, "x", at_least=True)
    insert = figures.value("insert", "p50", **at)
    if insert is not None:
        rival = micros(figures.value("insert", "p50", **_at(LARGE, engine="usearch-bf16")))
        yield Line("100,000 x 384, insert one, p50", rival and f"usearch-bf16 {rival}", insert, 10.0, "µs")


def _both(figures: Figures) -> Iterator[Line]:
    for n, limits in BOTH.items():
        theirs = times(figures, 0.0, **_at(n, engine=PAIR))
        for (engine, name), limit in zip(OURS, limits, strict=True):
            at = _at(n, engine=engine)
            ours = times(figures, 0.0, **at)
            if not ours:
                continue
            what = f"both legs, {name}, {n:,} documents"
            yield from _against(f"{what}, p50 over {PAIR}", ours, theirs, PAIR, limit)
            if engine == "otolith-both":
                found, rival = (
                    figures.least("query", "recall", **{**at, "engine": one}) for one in (engine, PAIR)
                )
                told = "" if rival is None else f"{PAIR}: {rival:.3f}"
                yield from _recall(f"{what}, recall", found, 0.985, told)


def _home(figures: Figures) -> Iterator[Line]:
    for engine, name in OURS:
        for metric, field, what, limit in (
            ("open", "ms", "open and first answer, files warm, ms", 0.1),
            ("memory", "rss_mb", "memory after 500 questions, mapped pages with it, MB", 1.3),
            ("memory", "private_mb", "memory after 500 questions, without mapped pages, MB", 0.3),
        ):
            ours, theirs = (
                figures.value(metric, field, **_at(LARGE, engine=one)) for one in (engine, OPENED)
            )
            if ours is not None and theirs:
                told = f"{ours:.3g}, {OPENED} {theirs:.3g}"
                yield Line(f"both legs, {name}, 100,000: {what}", told, ours / theirs, limit, "x")
    at = _at(LARGE, engine="otolith-memory")
    table = figures.value("table", "mb", **at)
    for state in ("as written", "compacted"):
        home, store, index = (
            figures.value("disk", field, state=state, **at) for field in ("mb", "store_mb", "index_mb")
        )
        if table and home is not None and store is not None and index is not None:
            told = f"{home:,.0f} MB (store {store:,.0f}, index {index:,.0f}), SQLite {table:,.0f} MB"
            yield Line(f"home of 100,000 x 384, {state}, over one table", told, home / table, 2.0, "x")


def lines(figures: Figures) -> Iterator[Line]:
    """What was measured of what is asked for."""
    for part in (_small, _large, _wide, _sentences, _filtered, _changed, _both, _home):
        yield from part(figures)
