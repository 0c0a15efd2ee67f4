"""What the commands of the comparisons share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Figures = dict[str, Any]


def add_shared(does: Any, whole: argparse.ArgumentParser, step: argparse.ArgumentParser) -> None:
    """Adds `page` to the commands, and to a run and a step what both are told.

    Args:
        does: The subparsers.
        whole: The command `run`.
        step: The command `step`.
    """
    whole.add_argument("--rounds", type=int, default=3, help="how often every engine is asked, in turns")
    whole.add_argument("--json", type=Path, required=True, help="file for the figures")
    whole.add_argument("--page", type=Path, help="file for the page")
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


def write_page(page: Callable[[Figures], str], figures: Path, target: Path) -> None:
    """Writes the page of a run.

    Args:
        page: What makes it.
        figures: The JSON file of the run.
        target: The file for it.
    """
    target.write_text(page(json.loads(figures.read_text(encoding="utf-8"))), encoding="utf-8")
