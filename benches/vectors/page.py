"""A run as a page of docs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compare.figures import Figures
from compare.page import judged, number, table
from compare.targets import micros

from .curves import at, middle, points, times
from .engines import ENGINES
from .suite import wrong
from .targets import lines

HEAD = """# Search by vectors and by both legs beside rivals

`make bench-vectors` writes this page: release build, one run, every step of every engine in a process of
its own on one CPU with one thread, everything as the Python caller sees it. Documents are those of
[benchmarks-lexical.md](benchmarks-lexical.md), each with a seeded unit vector; {questions} questions, each
with a vector near that of one document and, for both legs, natural words of it.

- A question's time is the median of up to {passes} passes, percentiles are over questions. The engines take
  turns in {rounds} rounds; shown is the median of the rounds, a ratio is the median of the rounds' ratios.
  A slow engine is asked fewer questions, twenty at least.
- **recall@10** counts a row whose exact cosine (float64, over every row) is at least that of the tenth
  best; shown is the least of the rounds. For both legs it is that of the weighted fusion of `HybridIndex`
  ([retrieval.md](retrieval.md)) over exact BM25 and cosine of every document. The pairs fuse by other
  rules, and `Memory.recall` has other constants and searches the date of a record too: they score below 1
  without being wrong by their own rules.
- **Time at a recall** lies between the two lengths of the walk (`ef`) that find less and more: straight in
  the logarithms of time and `ef`. An engine that finds more at its shortest walk is given the time of that.
- Graphs have 16 links and are built with 200 candidates. faiss, hnswlib and usearch f32 keep rows of f32;
  files are read, not mapped, by all three. The pairs take the 50 best of each leg (`ef` 64) and add up the
  scores of each, divided by its best, in a dict.
- Memory is above that of the process with the code loaded. Without mapped pages it is what has no file
  behind it.

"""


def _at(group: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**group, **more}


def _engines(figures: Figures, metric: str, group: dict[str, Any], *, both: bool) -> list[str]:
    return [
        name
        for name, engine in ENGINES.items()
        if engine.both == both and figures.all(metric, **_at(group, engine=name))
    ]


def _walks(figures: Figures, group: dict[str, Any]) -> Iterator[list[str]]:
    for name in _engines(figures, "query", group, both=False):
        where = _at(group, engine=name)
        efs = list(dict.fromkeys(row["ef"] for row in figures.all("query", **where)))
        for ef in sorted(efs, key=lambda ef: ef or 0):
            p50, p95 = (figures.value("query", field, **where, ef=ef) for field in ("p50", "p95"))
            recall = figures.least("query", "recall", **where, ef=ef)
            shown = "" if recall is None else f"{recall:.4f}"
            yield [ENGINES[name].title, "default" if ef is None else str(ef), micros(p50), micros(p95), shown]


def _equal(figures: Figures, group: dict[str, Any]) -> Iterator[list[str]]:
    wanted = (0.95, 0.97, 0.98, 0.99, 0.995)
    for name in _engines(figures, "query", group, both=False):
        where = _at(group, engine=name)
        found = points(figures, **where)
        cells = []
        for recall in wanted:
            time = middle(times(figures, recall, **where))
            # Of an engine that finds more with its shortest walk, at most that time.
            least = all(line and at(line[:1], recall) is not None for line in found.values())
            cells.append("" if time is None else f"{'at most ' if least else ''}{micros(time)}")
        yield [ENGINES[name].title, *cells]


def _builds(figures: Figures, group: dict[str, Any], *, both: bool) -> Iterator[list[str]]:
    for name in _engines(figures, "build", group, both=both):
        where = _at(group, engine=name)
        values = (
            figures.value("build", field, **where)
            for field in ("rows_per_s", "rows_per_cpu_s", "peak_mb", "disk_mb")
        )
        earlier = any(row.get("kept") for row in figures.all("build", **where))
        insert = figures.value("insert", "p50", **where)
        yield [
            f"{ENGINES[name].title}{', built in an earlier run' if earlier else ''}",
            *("" if value is None else number(value) for value in values),
            micros(insert),
        ]


def _filtered(figures: Figures, group: dict[str, Any]) -> Iterator[list[str]]:
    for share in dict.fromkeys(row["share"] for row in figures.all("filtered", **group)):
        where = _at(group, share=share)
        ways = [(metric, field) for metric in ("filtered", "listed") for field in ("p50", "p95")]
        prepared = figures.value("filtered", "prepare_ms", **where)
        yield [
            f"{share:.1%}",
            *(micros(figures.value(metric, field, **where)) for metric, field in ways),
            f"{figures.least('filtered', 'recall', **where):.4f}",
            "" if prepared is None else number(prepared),
        ]


def _both(figures: Figures, group: dict[str, Any]) -> Iterator[list[str]]:
    for name in _engines(figures, "query", group, both=True):
        where = _at(group, engine=name)
        p50, p95 = (figures.value("query", field, **where) for field in ("p50", "p95"))
        recall = figures.least("query", "recall", **where)
        opened = figures.value("open", "ms", **where)
        memory = (figures.value("memory", field, **where) for field in ("rss_mb", "private_mb"))
        yield [
            ENGINES[name].title,
            micros(p50),
            micros(p95),
            "" if recall is None else f"{recall:.4f}",
            *("" if value is None else number(value) for value in (opened, *memory)),
        ]


def _group(figures: Figures, title: str, group: dict[str, Any]) -> Iterator[str]:
    yield from (f"## {title}", "", "By vectors alone:", "")
    yield from table(["engine", "ef", "p50", "p95", "recall@10"], _walks(figures, group))
    yield from ("p50 at a recall:", "")
    yield from table(["engine", ".95", ".97", ".98", ".99", ".995"], _equal(figures, group))
    yield from (
        "Building with one thread from rows in memory, by the clock and by the time of the processor alone; "
        "peak of memory above that before; size on disk; inserting one row more, p50:",
        "",
    )
    head = ["engine", "rows/s", "rows/s of CPU", "peak MB", "disk MB", "insert"]
    builds = [*_builds(figures, group, both=False), *_builds(figures, group, both=True)]
    yield from table(head, builds)
    if filtered := list(_filtered(figures, group)):
        yield from (
            "Otolith among the documents of some ids, default settings: by a set that `HybridIndex.subset` "
            "made of them once, in the time told last, and by a list that is looked up with each question:",
            "",
        )
        head = ["left", "set p50", "set p95", "list p50", "list p95", "recall@10", "set made, ms"]
        yield from table(head, filtered)
    if both := list(_both(figures, group)):
        yield from (
            "By both legs; opening and one answer in a fresh process with the files in the page cache; "
            "memory after 500 questions:",
            "",
        )
        head = ["engine", "p50", "p95", "recall@10", "open ms", "MB", "MB without mapped pages"]
        yield from table(head, both)


def page(run: dict[str, Any]) -> str:
    """The whole page."""
    figures, machine = Figures(run["rows"]), run["machine"]
    versions = ", ".join(f"{name} {found}" for name, found in machine["versions"].items())
    out = [HEAD.format(**{key: run[key] for key in ("questions", "passes", "rounds")}).rstrip(), ""]
    out += [
        f"{machine['cpu']}, {machine['cores']} cores, load {run['load'][0]} to {run['load'][1]} meanwhile, "
        f"{machine['system']}, Python {machine['python']}, {versions}; {run['date']}.",
        "",
        "## What is asked of it",
        "",
    ]
    out += table(["what", "measured", "value", "asked for", "reached"], map(judged, lines(figures)))
    groups = {
        (row.get("set") or "", row["n"], row["width"]): None
        for row in run["rows"]
        if row["metric"] == "query"
    }
    for kind, n, width in sorted(groups):
        what = "sentences of SciFact, multilingual-e5-small" if kind else "documents"
        group = {"set": kind or None, "n": n, "width": width}
        out += _group(figures, f"{n:,} {what}, {width} wide", group)
    absent = list(dict.fromkeys(row["what"] for row in run["rows"] if row["metric"] == "missing"))
    if absent:
        out += ["## Not measured", "", *(f"- {what}" for what in absent), ""]
    if found := wrong(run["rows"]):
        out += ["## Wrong", "", *(f"- {what}" for what in found), ""]
    return "\n".join(out).rstrip() + "\n"
