"""The figures of a benchmark run as a page: times, recall beside them, the sync floor beside durable ones."""

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

HEAD = """# Benchmarks

10,000 records of 40 to 120 words with 384 dimensions, seeded; release build; everything through Python,
on the machine named below. `make bench` prints this page, `make bench-docs` writes it.

Times are medians with the fastest and the slowest beside them. `recall@10` is measured against exact
scores in float64 over every document. The sync floor is the median of appending 4 KiB and syncing, taken
in the same run: what any durable write costs on this disk.

Lines that begin with `store` come in pairs: Otolith, and SQLite of the standard library in WAL mode with
`synchronous=FULL`, which stores the same rows (JSON, vector, an index of keys and one of directories) in the
same seconds. They hold {size:,} records to begin with; `BENCH_SIZE=100000 make bench` sets that. A target is
what this project asks of itself, and whether it was reached in this run.
"""


def scaled(seconds: float) -> str:
    """A time in the unit that reads best."""
    for unit, factor in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def row(benchmark: dict[str, Any]) -> str:
    """One line of the table."""
    stats = benchmark["stats"]
    extra = dict(benchmark["extra_info"])
    target = extra.pop("target", "")
    if target:
        target += ": yes" if extra.pop("reached") else ": **no**"
    beside = []
    for name, value in extra.items():
        words = name.replace("recall_at_10", "recall@10").replace("_ms", " (ms)").replace("_", " ")
        beside.append(f"{words} {value:,}" if isinstance(value, int) else f"{words} {value:g}")
    name = benchmark["name"].removeprefix("test_").replace("_", " ")
    times = f"{scaled(stats['median'])} | {scaled(stats['min'])} | {scaled(stats['max'])}"
    return f"| {name} | {times} | {', '.join(beside)} | {target} |"


def page(run: dict[str, Any]) -> str:
    """The whole page."""
    cpu = run["machine_info"]["cpu"].get("brand_raw", platform.processor())
    machine = (
        f"{cpu}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, numpy {version('numpy')}, otolith {version('otolith')}."
    )
    size = int(os.environ.get("BENCH_SIZE", "10000"))
    columns = "| what | median | fastest | slowest | beside it | target |"
    lines = [HEAD.format(size=size), machine, "", columns, "|---|---|---|---|---|---|"]
    lines += [row(benchmark) for benchmark in sorted(run["benchmarks"], key=lambda b: b["fullname"])]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Reads the run named first, prints the page or writes it to the file named second."""
    text = page(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
