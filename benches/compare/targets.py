"""What this project asks of its lexical index, and whether a run reached it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .corpus import KINDS
from .figures import Figures
from .ours import NOT_PLAIN

# Times: at most this share of the rival's, by size; sizes between take the next smaller one's.
QUESTIONS = {
    ("selective", "tantivy", "p50"): {0: 0.35},
    ("common", "bm25s", "p50"): {0: 0.35},
    ("natural", "bm25s", "p50"): {0: 0.45, 100_000: 0.3},
    ("natural", "bm25s", "p95"): {0: 0.5},
}
QUALITY = {"SciFact nDCG@10": 0.685, "XQuAD-zh R@1": 0.93, "MemoryBank-zh R@5": 0.85}
# Documents a second of tantivy on the machine where the rates for building were set.
TANTIVY_BUILDS = 55_000
# The size at which everything but questions is judged.
JUDGED = 100_000


@dataclass(frozen=True)
class Line:
    """One thing asked for: the value that counts, what it was made from, and its limit."""

    what: str
    measured: str
    value: float
    limit: float
    unit: str = ""
    at_least: bool = False

    @property
    def reached(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def micros(value: float | None) -> str:
    """Microseconds, or milliseconds from ten thousand on."""
    if value is None:
        return ""
    return (
        f"{value / 1e3:,.3g} ms"
        if value >= 10_000
        else f"{value:,.3g} µs"
        if value < 1000
        else f"{value:,.0f} µs"
    )


def _questions(figures: Figures, n: int) -> Iterator[Line]:
    for (kind, rival, field), limits in QUESTIONS.items():
        ours = {"metric": "query", "engine": "otolith", "n": n, "kind": kind}
        theirs = {**ours, "engine": rival}
        ratio = figures.ratio(ours, theirs, field)
        if ratio is not None:
            limit = limits[max(size for size in limits if size <= n)]
            mine = figures.value("query", field, engine="otolith", n=n, kind=kind)
            other = figures.value("query", field, engine=rival, n=n, kind=kind)
            what = f"{kind}, {field}, {n:,} documents"
            yield Line(what, f"{micros(mine)}, {rival} {micros(other)}", ratio, limit, "x")


def _recall(figures: Figures, n: int) -> Iterator[Line]:
    if figures.all("missing", what=NOT_PLAIN):
        return  # other terms than the rivals': no ratio says anything
    ours = {"metric": "query", "engine": "otolith", "n": n, "kind": "natural"}
    for engine, name, limit in (("otolith", "the bare index", 3.0), ("tantivy", "tantivy", 1.0)):
        ratio = figures.ratio({**ours, "engine": "otolith-memory"}, {**ours, "engine": engine})
        if ratio is not None:
            mine = figures.value("query", "p50", engine="otolith-memory", n=n, kind="natural")
            other = figures.value("query", "p50", engine=engine, n=n, kind="natural")
            what = f"`Memory.recall` over {name}, natural, p50"
            yield Line(what, f"{micros(mine)}, {name} {micros(other)}", ratio, limit, "x")


def _levels(figures: Figures, n: int) -> Iterator[Line]:
    for level, limit in (("avx2", 1.4), ("portable", 4.5)):
        found = []
        for kind in KINDS:
            ours = {"metric": "query", "engine": "otolith", "n": n, "kind": kind}
            ratio = figures.ratio({**ours, "simd": level}, {**ours, "simd": "avx512"})
            if ratio is not None:
                found.append((ratio, kind))
        if found:
            worst = max(found)
            text = ", ".join(f"{kind} {ratio:.2f}" for ratio, kind in found)
            yield Line(f"{level} over AVX-512, worst kind", text, worst[0], limit, "x")


def _rest(figures: Figures, n: int) -> Iterator[Line]:
    def plain(
        what: str, value: float | None, limit: float, unit: str, *, at_least: bool = False
    ) -> Iterator[Line]:
        if value is not None:
            yield Line(what, "", value, limit, unit, at_least)

    for engine, name, least in (("otolith", "plain", 150_000), ("otolith-default", "default", 80_000)):
        rate = figures.value("build", "docs_per_s", engine=engine, n=n)
        yield from plain(f"build, {name} analyzer", rate, least, "docs/s", at_least=True)
        theirs = figures.value("build", "docs_per_s", engine="tantivy", n=n)
        if rate is not None and theirs is not None:
            share = round(least / TANTIVY_BUILDS, 2)
            what = f"build, {name} analyzer, over tantivy"
            yield Line(what, f"tantivy {theirs:,.0f} docs/s", rate / theirs, share, "x", at_least=True)
    for how, limit in (("warm", 3.0), ("cold", 40.0)):
        opened = figures.value(f"open {how}", "ms", engine="otolith", n=n)
        yield from plain(f"open and first answer, files {how}", opened, limit, "ms")
    for what in ("insert", "remove"):
        time = figures.value(what, "p50", engine="otolith", n=n)
        yield from plain(f"{what} one, in memory, p50", time, 40.0, "µs")
    found = []
    for kind in KINDS:
        at = {"engine": "otolith", "n": n, "kind": kind}
        ratio = figures.ratio({"metric": "pieces", **at}, {"metric": "whole", **at})
        if ratio is not None:
            found.append((ratio, kind))
    if found:
        text = ", ".join(f"{kind} {ratio:.2f}" for ratio, kind in found)
        yield Line("in pieces over in one, worst kind, p50", text, max(found)[0], 1.6, "x")
    size = figures.value("build", "disk_mb", engine="otolith", n=n)
    yield from plain("size on disk", size, 80.0, "MB")


def lines(figures: Figures) -> Iterator[Line]:
    """What was measured of what is asked for."""
    for n in figures.sizes():
        yield from _questions(figures, n)
    recall = figures.least("query", "recall", engine="otolith")
    if recall is not None:
        yield Line("recall@10 against exact BM25, least of all", "", recall, 1.0, "", at_least=True)
    for part in (_recall, _levels, _rest):
        yield from part(figures, JUDGED)
    for what, limit in QUALITY.items():
        value = figures.value("quality", "value", what=what)
        if value is not None:
            yield Line(f"words alone, {what}", "", value, limit, "", at_least=True)
