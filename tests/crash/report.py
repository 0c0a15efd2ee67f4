"""Writes the figures of runs into a page, each between its markers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- figures: {} -->", "<!-- end -->"
CALLS = ("remember", "recall")


def kills(run: dict[str, Any]) -> list[str]:
    """What SIGKILL showed."""
    rows = [
        ("processes killed", f"{run['kills']:,}"),
        ("of them everybody at once", f"{run['of_all_at_once']:,} times"),
        ("acknowledged operations", f"{run['acknowledged_operations']:,}"),
        ("records in them", f"{run['acknowledged_records']:,}"),
        ("operations in flight at a kill", f"{run['in_flight_at_a_kill']:,}"),
        ("comparisons of a writer's records with what was acknowledged", f"{run['checks_at_start']:,}"),
        ("comparisons of the whole store", f"{run['full_checks']:,}"),
        ("records read meanwhile, each against its own checksum", f"{run['records_read']:,}"),
        ("lost, half there, wrong or twice", f"{len(run['wrong'])}"),
        ("write under fire, ms", _spread(run["write_ms"])),
        ("open, ms", _spread(run["open_ms"])),
        ("start of a process to its first call, ms", _spread(run["start_to_ready_ms"])),
        ("open after all were killed, ms", _spread(run["open_after_all_were_killed_ms"])),
    ]
    rows += [(f"`{what}` meanwhile, ms", _spread(one)) for what, one in run["maintenance_ms"].items()]
    return _table(("what", "figure"), rows)


def stops(run: dict[str, Any]) -> list[str]:
    """What SIGSTOP and SIGTERM showed."""
    return _table(
        ("what", "figure"),
        [
            ("SIGSTOPs", f"{run['stops']:,}"),
            ("of them in the write lock", f"{run['stops_in_the_lock']:,}"),
            ("`StoreLocked` with a lock timeout of 1 s, ms", _spread(run["refused_ms"])),
            ("of these without the holder's name", f"{run['refused_without_a_name']:,}"),
            ("reads meanwhile, ms", _spread(run["reads_meanwhile_ms"])),
            ("reads refused", f"{run['reads_refused']:,}"),
            ("first writes of all others after SIGCONT, ms", _spread(run["first_write_after_sigcont_ms"])),
            ("SIGTERMs, default action", f"{run['sigterm_default']:,}"),
            ("SIGTERMs, handler that raises `SystemExit`", f"{run['sigterm_handler']:,}"),
            ("SIGTERM to the end of the process, ms", _spread(run["sigterm_to_end_ms"])),
            ("acknowledged operations", f"{run['stops_acknowledged'] + run['sigterm_acknowledged']:,}"),
            ("lost, half there, wrong or twice", f"{len(run['wrong'])}"),
        ],
    )


def damage(run: dict[str, Any]) -> list[str]:
    """What damaged copies showed."""
    names = ["images", "no_effect", "told", "typed_error", "earlier_form"]
    names += ["aborts", "crashes", "hangs", "wrong"]
    lines = _table(
        ("damage", *(name.replace("_", " ") for name in names)),
        [(kind, *(f"{one[name]:,}" for name in names)) for kind, one in _with_sum(run["kinds"]).items()],
    )
    took = run["probe_ms"]
    lines += [
        "",
        f"A file of {run['file_bytes']:,} bytes with {run['records']:,} records; one image took"
        f" {took['p50']:.0f} ms in the median, {took['max']:.0f} at most.",
    ]
    if any(one["verify_asked_of_touched"] for one in run["kinds"].values()):
        lines += ["", *_verify_table(run)]
    return lines


def _verify_table(run: dict[str, Any]) -> list[str]:
    rows = [
        (
            kind,
            f"{one['verify_asked_of_touched']:,}",
            f"{one['verify_saw_of_touched']:,}",
            f"{one['verify_asked_of_others']:,}",
            f"{one['verify_saw_of_others']:,}",
            f"{one['repaired']:,}",
            f"{one['restored_whole']:,}",
        )
        for kind, one in _with_sum(run["kinds"]).items()
    ]
    head = ("damage", "answers changed", "`verify` saw", "answers the same", "`verify` saw")
    return _table((*head, "repaired", "with every record"), rows)


def soak(run: dict[str, Any]) -> list[str]:
    """What a long time showed."""
    measured = {f"`{what}` {share}, ms": f"{what}_{share}_ms" for what in CALLS for share in ("p50", "p99")}
    measured["a fixed piece of work and a sync, ms"] = "control_ms"
    measured["file over payload"] = "file_over_payload"
    rows = [
        (what, f"{run[name]['first_third']:.2f}", f"{run[name]['last_third']:.2f}")
        for what, name in measured.items()
    ]
    told = f"{run['minutes']:g} minutes, {run['calls']:,} calls, {run['records']:,} live records at the end."
    lines = [told, ""]
    lines += _table(("what", "first third", "last third"), rows)
    memory = [
        (slot, f"{run['rss_mb_at_the_end'].get(slot, 0.0):.1f}", f"{rise:+.2f}")
        for slot, rise in run["rss_slope_mb_per_hour"].items()
    ]
    return [*lines, "", *_table(("process", "MB at the end", "MB an hour"), memory)]


RENDER: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "kills": kills,
    "stops": stops,
    "damage": damage,
    "soak": soak,
}


def rendered(run: dict[str, Any]) -> str:
    """The figures of one run as Markdown."""
    told = f"Seed {run['seed']}, {run['seconds'] / 60:.1f} minutes, {run['machine']}."
    return "\n".join([told, "", *RENDER[run["run"]](run)])


def filled(page: str, run: dict[str, Any]) -> str:
    """The page with the figures of one run between its markers.

    Raises:
        ValueError: The page has no place for them, or the run found something.
    """
    if not run["ok"]:
        raise ValueError(f"the run {run['run']} found something, mend that first: {run['wrong'][:1]}")
    begin = BEGIN.format(run["run"])
    before, found, rest = page.partition(f"{begin}\n")
    _, ended, after = rest.partition(f"{END}\n")
    if not found or not ended:
        raise ValueError(f"the page has no `{begin}` with `{END}` after it")
    return f"{before}{begin}\n{rendered(run)}\n{END}\n{after}"


def run(page: Path, figures: list[Path]) -> int:
    """Writes the figures of each file into the page; 1 if that cannot be."""
    text = page.read_text(encoding="utf-8")
    for path in figures:
        try:
            text = filled(text, json.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
    page.write_text(text, encoding="utf-8")
    return 0


def _with_sum(kinds: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    names = next(iter(kinds.values()))
    return {**kinds, "all": {name: sum(one[name] for one in kinds.values()) for name in names}}


def _spread(one: dict[str, float]) -> str:
    return f"p50 {one['p50']:.1f}, p99 {one['p99']:.1f}, max {one['max']:.1f} (n = {one['n']:,})"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return [_row(head), "|---" * len(head) + "|", *(_row(row) for row in rows)]


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
