"""A small run of one of the comparisons in `benches`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BENCHES = Path(__file__).parent.parent / "benches"


def ran(module: str, place: Path, options: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Runs a comparison in a process of its own.

    Args:
        module: `compare` or `vectors`.
        place: An empty folder for what it works with and writes.
        options: Options by name, with their values.

    Returns:
        The figures, and under `page` the page.
    """
    files = {"work": [str(place)], "json": [str(place / "figures.json")], "page": [str(place / "page.md")]}
    command = [part for name, values in {**options, **files}.items() for part in (f"--{name}", *values)]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", module, "run", *command],
        env={**os.environ, "PYTHONPATH": str(BENCHES)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads((place / "figures.json").read_text(encoding="utf-8"))
    figures["page"] = (place / "page.md").read_text(encoding="utf-8")
    return figures
