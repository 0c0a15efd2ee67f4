"""SIGKILL of random processes at random moments: nothing acknowledged is lost, nothing is half there."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from .figures import spread
from .fleet import Fleet
from .writer import maintain, read

WRITERS = 4
CHECK_EVERY = 100
ALL_AT_ONCE = 0.02
KEEPER, KEEPER_SHARE = "keeper", 0.02
"""Its calls are long: killed as often as the others, it would never end one."""


def run(count: int, seed: int, pause: tuple[float, float] = (0.02, 0.1)) -> dict[str, Any]:
    """Kills `count` processes and tells what was seen.

    Args:
        count: Kills, those of a whole fleet counted one by one.
        seed: Of everything random but the moments at which the processes are.
        pause: Shortest and longest time between two kills.
    """
    rng = random.Random(seed)
    root = Path(tempfile.mkdtemp(prefix="otolith-kills-"))
    fleet = Fleet(root, seed)
    for number in range(WRITERS):
        fleet.start(f"w{number}")
    fleet.start("r0", read)
    fleet.start(KEEPER, maintain)
    kills = together = 0
    next_check = CHECK_EVERY
    opens_after_all: list[float] = []
    sizes: list[int] = []
    began = time.monotonic()
    try:
        while kills < count and not fleet.model.wrong:
            time.sleep(rng.uniform(*pause))
            _await_work(fleet)
            everybody = sorted(fleet.members)
            checking = kills >= next_check
            victims = everybody
            if not checking and rng.random() >= ALL_AT_ONCE:
                victims = rng.sample([one for one in everybody if one != KEEPER], rng.choice([1, 1, 1, 2]))
                if rng.random() < KEEPER_SHARE:
                    victims.append(KEEPER)
            fleet.kill(victims)
            kills += len(victims)
            if len(victims) == len(everybody):
                together += 1
            if checking:
                next_check = kills + CHECK_EVERY
                opens_after_all.append(fleet.check()["open_ms"])
                sizes.append((fleet.home / "episodes.redb").stat().st_size)
            for slot in victims:
                fleet.respawn(slot)
        fleet.kill(sorted(fleet.members))
        kills += len(fleet.members)
        opens_after_all.append(fleet.check()["open_ms"])
        sizes.append((fleet.home / "episodes.redb").stat().st_size)
    finally:
        for member in fleet.members.values():
            member.child.kill()
    seconds = time.monotonic() - began
    result = _figures(fleet, kills, together, seconds, opens_after_all, sizes)
    if result["ok"]:
        shutil.rmtree(root)
    else:
        result["kept"] = str(root)
    return result


def _await_work(fleet: Fleet) -> None:
    """Until most are past opening: on a busy machine hardly anything else would be hit."""
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        fleet.collect()
        if 2 * sum(member.at_work for member in fleet.members.values()) > len(fleet.members):
            return
        time.sleep(0.002)


def _figures(
    fleet: Fleet, kills: int, together: int, seconds: float, opens: list[float], sizes: list[int]
) -> dict[str, Any]:
    model, lines = fleet.model, fleet.lines
    wrong = list(model.wrong)
    if fleet.ends:
        wrong.append(f"processes ended by themselves: {fleet.ends}")
    if refused := lines.get("refused"):
        wrong.append(f"{len(refused)} calls were refused: {refused[0]['text']}")
    return {
        "run": "kills",
        "ok": not wrong,
        "wrong": wrong[:20],
        "seed": fleet.seed,
        "seconds": seconds,
        "kills": kills,
        "of_all_at_once": together,
        "acknowledged_operations": model.acknowledged,
        "acknowledged_records": model.records_acknowledged,
        "in_flight_at_a_kill": model.unknown,
        "reads_before_a_writer_repaired": len(lines.get("unrepaired", ())),
        "full_checks": fleet.checks,
        "checks_at_start": sum(member.job.generation for member in fleet.members.values()),
        "reads": len(lines.get("read", [])),
        "records_read": sum(line["records"] for line in lines.get("read", [])),
        "write_ms": spread([line["ms"] for line in lines.get("ack", [])]),
        "read_ms": spread([line["ms"] for line in lines.get("read", [])]),
        "open_ms": spread([line["open_ms"] for line in lines.get("open", [])]),
        "start_to_ready_ms": spread([line["ready_ms"] for line in lines.get("open", [])]),
        "open_after_all_were_killed_ms": spread(opens),
        "largest_file_bytes": max(sizes, default=0),
        "maintenance_ms": {
            what: spread([line["ms"] for line in lines.get("maintained", []) if line["what"] == what])
            for what in sorted({line["what"] for line in lines.get("maintained", [])})
        },
    }
