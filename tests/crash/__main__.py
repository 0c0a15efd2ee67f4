"""`python -m crash RUN`: one run, its figures on stdout, its JSON in a file."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

# Linear algebra must not start threads: this process forks.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
for _name in [name for name in os.environ if name.startswith("OTOLITH_")]:
    del os.environ[_name]


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    top = argparse.ArgumentParser(prog="python -m crash", description=__doc__)
    runs = top.add_subparsers(dest="run", required=True)
    kills = runs.add_parser("kills", help="SIGKILL of random writers and readers")
    kills.add_argument("--count", type=int, default=2000)
    stops = runs.add_parser("stops", help="SIGSTOP of holders of the lock, SIGTERM at random")
    stops.add_argument("--count", type=int, default=60, help="times a holder is stopped in the lock")
    stops.add_argument("--terms", type=int, default=300, help="SIGTERMs")
    damage = runs.add_parser("damage", help="damaged copies of a store, each in a process of its own")
    damage.add_argument("--count", type=int, default=10_000)
    damage.add_argument("--records", type=int, default=250, help="records in the store")
    damage.add_argument("--verify-touched", type=float, default=1.0, help="share verified, with an effect")
    damage.add_argument("--verify-others", type=float, default=0.1, help="share verified, without one")
    soak = runs.add_parser("soak", help="six processes for a long time")
    soak.add_argument("--minutes", type=float, default=20)
    soak.add_argument("--every", type=float, default=10, help="seconds between two samples")
    for one in (kills, stops, damage, soak):
        one.add_argument("--seed", type=int, default=1)
        one.add_argument("--json", type=Path, help="file for the figures")
    report = runs.add_parser("report", help="writes the figures of the runs into docs/reliability.md")
    report.add_argument("page", type=Path)
    report.add_argument("figures", type=Path, nargs="+", help="files that --json wrote")
    return top


def main() -> int:
    """Does it; 1 if something was found."""
    options = vars(parser().parse_args())
    name, target = options.pop("run"), options.pop("json", None)
    module = importlib.import_module(f".{name}", "crash")
    if name == "report":
        return int(module.run(**options))
    load = os.getloadavg()[0]
    result = module.run(**options)
    result["machine"] = (
        f"{os.cpu_count()} cores (load {load:.1f} before the run), {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, otolith {version('otolith')}"
    )
    text = json.dumps(result, indent=2)
    print(text)
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + "\n", encoding="utf-8")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
