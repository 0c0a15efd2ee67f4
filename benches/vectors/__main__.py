"""`python -m vectors run`: a whole run into a JSON file; `page`: that file as a page of docs."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from compare.command import add_shared, write_page

from .engines import ENGINES
from .page import page
from .sets import Documents, Sentences
from .steps import STEPS, run
from .suite import BOTH, VECTORS, Suite


def _wide(text: str) -> tuple[int, int]:
    n, _, width = text.partition("x")
    return int(n), int(width)


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    top = argparse.ArgumentParser(prog="python -m vectors", description=__doc__)
    does = top.add_subparsers(dest="does", required=True)
    whole = does.add_parser("run", help="every engine at every size; 1 if a step failed")
    whole.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000], help="of 384, both legs")
    whole.add_argument(
        "--wide", type=_wide, nargs="*", default=[(10_000, 1536)], help="rows x width, vectors alone"
    )
    every = [*VECTORS, *BOTH]
    whole.add_argument("--engines", nargs="+", default=every, choices=every)
    whole.add_argument("--fresh", action="store_true", help="build rivals that an earlier run left, too")
    whole.add_argument("--eval", default="", help="folder with scifact/; empty: no sentences")
    step = does.add_parser("step", help="one step of one engine in this process, its rows on stdout")
    step.add_argument("step", choices=[*STEPS, "data"])
    step.add_argument("--engine", required=True, choices=list(ENGINES))
    step.add_argument("--set", choices=["documents", "sentences"], required=True)
    step.add_argument("--width", type=int, required=True)
    step.add_argument("--legs", choices=["vectors", "both"], default="vectors")
    add_shared(does, whole, step)
    return top


def step(given: argparse.Namespace) -> None:
    """One step; its rows on stdout."""
    data: Documents | Sentences
    if given.set == "documents":
        data = Documents(given.work, given.size, given.width, given.questions)
        if given.step == "data":
            data.make(given.extra, both=given.legs == "both")
            return
    else:
        data = Sentences(given.work)
        if given.step == "data":
            data.make(given.eval)
            return
    more = {"set": "sentences", "n": data.n} if given.set == "sentences" else {}
    for row in run(given.step, given.engine, data, given.folder, given.passes, given.budget):
        print(json.dumps({**more, **row}), flush=True)


def lacking(names: list[str]) -> list[str]:
    """Packages of these engines that are not installed."""
    found = set()
    for package in {package for name in names for package in ENGINES[name].packages}:
        try:
            version(package)
        except PackageNotFoundError:
            found.add(package)
    return sorted(found)


def main() -> int:
    """Does it."""
    given = parser().parse_args()
    if given.does == "page":
        write_page(page, given.figures, given.page)
        return 0
    if given.does == "step":
        step(given)
        return 0
    if missing := lacking(given.engines):
        print(f"not installed: {', '.join(missing)}. Run: pip install --group compare", file=sys.stderr)
        return 2
    suite = Suite(
        given.json,
        given.work.resolve(),
        given.engines,
        given.questions,
        given.rounds,
        given.passes,
        given.budget,
        Path(given.eval).resolve() if given.eval else None,
        fresh=given.fresh,
    )
    fine = suite.run(given.sizes, given.wide)
    if given.page is not None:
        write_page(page, given.json, given.page)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
