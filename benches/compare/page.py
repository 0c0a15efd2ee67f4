"""A run as a page of docs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .corpus import KINDS
from .engines import ENGINES
from .figures import Figures
from .ours import NOT_PLAIN
from .suite import wrong
from .targets import Line, lines, micros

HEAD = """# The lexical index beside its rivals

`make bench-compare` writes this page: release build, one run, every step of every engine in a process of its
own on one CPU with one thread, everything as the Python caller sees it. Documents and questions are seeded:
{questions} questions of each kind to documents of 40 to 120 words.

- **selective**: two or three rare words of one document. **common**: four of the most frequent words.
  **natural**: three frequent words, three of one document, and a rare one of it.
- A question's time is the median of up to {passes} passes, percentiles are over questions. The engines take
  turns in {rounds} rounds; shown is the median of the rounds, a ratio is the median of the rounds' ratios. A
  slow engine is asked fewer questions, twenty at least.
- **recall@10** counts a document whose exact BM25 score (float64, k1 1.2, b .75, over every document) is at
  least that of the tenth best; shown is the least of the rounds. tantivy keeps lengths in a byte; FTS5 has
  another idf, next to 0 for words in half of the documents; `Memory.recall` has other constants and searches
  the date of a record too{stems}: they score below 1 without being wrong by their own rules.
- Rivals do what their documents show: tantivy keeps positions, parses the question and reads numbers from a
  fast field; bm25s gets split words, and its compiler is warm before questions are timed, not where it is
  opened; FTS5 gets the words joined by OR.

"""
SIZES = 'COMPARE_SIZES="10000 100000 1000000" make bench-compare'


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Markdown."""
    head = list(head)
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *map(list, rows))] + [""]


def number(value: float, unit: str = "") -> str:
    """With three digits, and its unit; a ratio has none."""
    text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{text} {unit}".strip() if unit != "x" else text


def judged(line: Line) -> list[str]:
    """A line asked for, and whether it was reached."""
    sign = ">=" if line.at_least else "<="
    reached = "yes" if line.reached else "**no**"
    return [
        line.what,
        line.measured,
        number(line.value, line.unit),
        f"{sign} {number(line.limit, line.unit)}",
        reached,
    ]


def _engines(figures: Figures, metric: str, n: int) -> list[str]:
    return [name for name in ENGINES if figures.all(metric, engine=name, n=n)]


def _questions(figures: Figures, n: int) -> Iterator[list[str]]:
    for name in _engines(figures, "query", n):
        cells = []
        for kind in KINDS:
            at = {"engine": name, "n": n, "kind": kind}
            p50, p95 = (figures.value("query", field, **at) for field in ("p50", "p95"))
            recall = figures.least("query", "recall", **at)
            cells.append("" if recall is None else f"{micros(p50)} / {micros(p95)} ({recall:.3f})")
        yield [ENGINES[name].title, *cells]


def _cell(value: float | None) -> str:
    return "" if value is None else number(value, "")


def _builds(figures: Figures, n: int) -> Iterator[list[str]]:
    for name in _engines(figures, "build", n):
        at = {"engine": name, "n": n}
        yield [
            ENGINES[name].title,
            _cell(figures.value("build", "docs_per_s", **at)),
            _cell(figures.value("build", "docs_per_cpu_s", **at)),
            _cell(figures.value("build", "peak_mb", **at)),
            _cell(figures.value("memory", "rss_mb", **at)),
            _cell(figures.value("build", "disk_mb", **at)),
            _cell(figures.value("open warm", "ms", **at)),
            _cell(figures.value("open cold", "ms", **at)),
        ]


def _changes(figures: Figures, n: int) -> Iterator[list[str]]:
    for name in _engines(figures, "insert", n):
        cells = []
        for metric in ("insert", "question after insert", "remove"):
            p50, p99 = (figures.value(metric, field, engine=name, n=n) for field in ("p50", "p99"))
            cells.append(f"{micros(p50)} / {micros(p99)}" if p50 is not None else "")
        yield [ENGINES[name].title, *cells, ENGINES[name].survives]


def _pieces(figures: Figures, n: int) -> Iterator[list[str]]:
    forms = {"pieces": "in pieces", "whole": "in one", "compacted": "after `compact`"}
    for metric, title in forms.items():
        if figures.all(metric, n=n):
            cells = []
            for kind in KINDS:
                p50, p95 = (figures.value(metric, field, n=n, kind=kind) for field in ("p50", "p95"))
                recall = figures.least(metric, "recall", n=n, kind=kind)
                cells.append("" if recall is None else f"{micros(p50)} / {micros(p95)} ({recall:.3f})")
            yield [title, *cells]


def _levels(figures: Figures, n: int) -> Iterator[list[str]]:
    for level in ("avx512", "avx2", "portable"):
        if figures.all("query", n=n, simd=level):
            values = (figures.value("query", "p50", n=n, simd=level, kind=kind) for kind in KINDS)
            yield [level, *map(micros, values)]


def _size(figures: Figures, n: int) -> Iterator[str]:
    kinds = [f"{kind}" for kind in KINDS]
    yield from (f"## {n:,} documents", "", "Questions, p50 / p95 (recall@10):", "")
    yield from table(["engine", *kinds], _questions(figures, n))
    yield from (
        "Building with one thread from texts in memory, by the clock and by the time of the processor alone; "
        "peak of memory above that before; memory with the index open and asked; opening and one natural "
        "question in a fresh process, files in the page cache and dropped from it:",
        "",
    )
    head = ["engine", "docs/s", "docs/s of CPU", "peak MB", "asked MB", "disk MB", "warm ms", "cold ms"]
    yield from table(head, _builds(figures, n))
    if changes := list(_changes(figures, n)):
        yield from ("One document at a time, p50 / p99, and what an insertion that returned survives:", "")
        yield from table(["engine", "insert", "question after an insert", "remove", "survives"], changes)
    if pieces := list(_pieces(figures, n)):
        yield from (
            "Otolith in five pieces with a thousand documents inserted one by one and a twentieth of all "
            "removed, beside one index of what is left; recall against exact BM25 over what is left:",
            "",
        )
        yield from table(["", *kinds], pieces)
    if levels := list(_levels(figures, n)):
        yield from ("Otolith with fewer instructions, p50:", "")
        yield from table(["level", *kinds], levels)


def page(run: dict[str, Any]) -> str:
    """The whole page."""
    figures, machine = Figures(run["rows"]), run["machine"]
    absent = list(dict.fromkeys(row["what"] for row in run["rows"] if row["metric"] == "missing"))
    stems = ", by stems and without stop words" if NOT_PLAIN in absent else ""
    versions = ", ".join(f"{name} {found}" for name, found in machine["versions"].items())
    out = [
        HEAD.format(stems=stems, **{key: run[key] for key in ("questions", "passes", "rounds")}).rstrip(),
        "",
    ]
    out += [
        f"{machine['cpu']}, {machine['cores']} cores, load {run['load'][0]} to {run['load'][1]} meanwhile, "
        f"{machine['system']}, Python {machine['python']}, {versions}; {run['date']}. "
        f"Other sizes: `{SIZES}`.",
        "",
        "## What is asked of it",
        "",
    ]
    out += table(["what", "measured", "value", "asked for", "reached"], map(judged, lines(figures)))
    for n in figures.sizes():
        out += _size(figures, n)
    if absent:
        out += ["## Not there yet", "", *(f"- {what}" for what in absent), ""]
    if found := wrong(run["rows"]):
        out += ["## Wrong", "", *(f"- {what}" for what in found), ""]
    return "\n".join(out).rstrip() + "\n"
