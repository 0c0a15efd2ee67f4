"""`python -m compare run`: a whole run into a JSON file; `page`: that file as a page of docs."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path

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
    whole.add_argument("--rounds", type=int, default=3, help="how often every engine is asked, in turns")
    whole.add_argument("--json", type=Path, required=True, help="file for the figures")
    whole.add_argument("--page", type=Path, help="file for the page")
    whole.add_argument("--eval", default="", help="folder of evaluation data; empty: no quality gates")
    step = does.add_parser("step", help="one step of one engine in this process, its rows on stdout")
    step.add_argument("step", choices=[*STEPS, "corpus", "quality"])
    step.add_argument("--engine", required=True, choices=list(ENGINES))
    step.add_argument("--size", type=int, required=True)
    step.add_argument("--folder", type=Path, required=True)
    step.add_argument("--extra", type=int, default=0, help="documents beyond the size that are made as well")
    step.add_argument("--eval", type=Path)
    for one in (whole, step):
        one.add_argument("--work", type=Path, default=Path(".benchmarks/compare"))
        one.add_argument("--questions", type=int, default=500, help="of each kind")
        one.add_argument("--passes", type=int, default=7, help="how often each is asked within a round")
        one.add_argument("--budget", type=float, default=4.0, help="seconds for one kind in one round")
    shown = does.add_parser("page", help="the figures as Markdown")
    shown.add_argument("figures", type=Path)
    shown.add_argument("page", type=Path)
    return top


def write_page(figures: Path, target: Path) -> None:
    """The page of a run."""
    target.write_text(page(json.loads(figures.read_text(encoding="utf-8"))), encoding="utf-8")


def main() -> int:
    """Does it."""
    given = parser().parse_args()
    if given.does == "page":
        write_page(given.figures, given.page)
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
        write_page(given.json, given.page)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
