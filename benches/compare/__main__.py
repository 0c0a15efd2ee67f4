"""`python -m compare run`: a whole run into a JSON file; `page`: that file as a page of docs."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path

from .command import add_shared, write_page
from .engines import ENGINES
from .page import page
from .plan import Plan
from .quality import gates
from .steps import STEPS, run
from .suite import Suite


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    top = argparse.ArgumentParser(prog="python -m compare", description=__doc__)
    does = top.add_subparsers(dest="does", required=True)
    whole = does.add_parser("run", help="every engine at every size; 1 if something failed or was not exact")
    whole.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    whole.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    whole.add_argument("--eval", default="", help="folder of evaluation data; empty: no quality gates")
    step = does.add_parser("step", help="one step of one engine in this process, its rows on stdout")
    step.add_argument("step", choices=[*STEPS, "corpus", "quality"])
    step.add_argument("--engine", required=True, choices=list(ENGINES))
    add_shared(does, whole, step)
    return top


def main() -> int:
    """Does it."""
    given = parser().parse_args()
    if given.does == "page":
        write_page(page, given.figures, given.page)
        return 0
    if given.does == "step":
        plan = Plan(given.work, given.size, given.questions)
        if given.step == "corpus":
            plan.make(given.extra)
            return 0
        if given.step == "quality":
            rows = gates(given.eval)
        else:
            rows = run(given.step, given.engine, plan, given.folder, given.passes, given.budget)
        for row in rows:
            print(json.dumps(row), flush=True)
        return 0
    lacking = sorted(
        {p for name in given.engines for p in ENGINES[name].packages if importlib.util.find_spec(p) is None}
    )
    if lacking:
        print(f"not installed: {', '.join(lacking)}. Run: pip install --group compare", file=sys.stderr)
        return 2
    evaluation = Path(given.eval).resolve() if given.eval else None
    suite = Suite(
        given.json,
        given.work.resolve(),
        given.engines,
        given.questions,
        given.rounds,
        given.passes,
        given.budget,
        evaluation,
    )
    fine = suite.run(given.sizes)
    if given.page is not None:
        write_page(page, given.json, given.page)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
