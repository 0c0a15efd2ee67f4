"""`otolith verify`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._open import is_made, settings_of
from otolith.cli._progress import progress
from otolith.cli._text import counted
from otolith.exceptions import OtolithError

if TYPE_CHECKING:
    from otolith import VerifyReport
    from otolith.config import Settings
    from otolith.records import Loss

_HELD_BACK = "held back"
_HELD_BACK_FILE = "records.jsonl"


@make("verify", ["otolith verify", "otolith verify --repair --json"])
@click.option("--repair", is_flag=True, help="Put a whole file in the place of a damaged one.")
@click.pass_obj
def command(invocation: Invocation, repair: bool) -> None:
    """Look for damage: every page and row of the store, every table against every other, then the index.

    One problem a line: kind, table, id, what is wrong. Exit code 1 if there is any. Writers wait meanwhile.
    Where the index has a graph over the vectors, the share of the ten nearest that it finds is told.

    With --repair a new file is made of all that can be read. The damaged one is kept beside it under a
    dated name, bytes that cannot be brought back lie in lost+found, and each thing that was lost, held
    back, or came back in an older form is listed. Nothing is deleted. Exit code 1 if there is any.
    """
    from otolith.maintenance import verify

    settings = settings_of(invocation)
    with progress(invocation, "repairing" if repair else "verifying") as tell:
        report = verify(
            settings.home, repair=repair, lock_timeout=settings.get("lock_timeout"), progress=tell
        )
        report = _with_index(invocation, settings, report)
    lost = report.repaired is not None and report.repaired.lost
    invocation.exit_code = 0 if report.ok and not lost else 1
    if invocation.json:
        invocation.object("verify", report.to_dict())
        return
    for problem in report.problems:
        _line(invocation, problem.kind, problem.table, problem.id, problem.detail)
    _tell(invocation, report)


def _with_index(invocation: Invocation, settings: "Settings", report: "VerifyReport") -> "VerifyReport":
    """The index is made from a whole store, so that it is looked at only then."""
    if not report.ok or not is_made(settings):
        return report
    from otolith import Memory

    try:
        with Memory.open(settings.home, embedder=None, create=False, config=settings) as memory:
            return memory._with_index(report)
    except OtolithError as error:
        invocation.note(f"the index was not compared: {error}")
        return report


def _line(invocation: Invocation, *columns: str) -> None:
    invocation.data("  ".join(" ".join(column.split()) or "-" for column in columns))


def _tell(invocation: Invocation, report: "VerifyReport") -> None:
    read = f"{counted(report.records, 'record')} and {counted(report.vectors, 'vector')}"
    done = report.repaired
    if done is None:
        found = f"found {counted(len(report.problems), 'problem')}" if report.problems else "all is whole"
        invocation.note(f"read {read} in {report.bytes} bytes: {found}")
        if report.graph_recall is not None:
            invocation.note(f"the graph over the vectors finds {report.graph_recall:.3f} of the ten nearest")
        if any(problem.kind != "index" for problem in report.problems):
            invocation.note("`otolith verify --repair` makes a whole file of what can be read")
        return
    groups: dict[str, int] = {}
    for loss in done.lost:
        group = _group(loss)
        groups[group] = groups.get(group, 0) + 1
        detail = loss.detail if loss.file is None else f"{loss.detail} ({loss.file})"
        _line(invocation, group, loss.table, loss.id, detail)
    back = f"{counted(done.restored, 'record')} and {counted(done.restored_vectors, 'vector')}"
    told = "".join(f", {count} {group}" for group, count in sorted(groups.items()))
    invocation.note(f"repaired: {back} are in the new file{told or ', nothing lost'}")
    invocation.note(f"the damaged file is kept as {done.kept_as}")
    if done.lost_found is not None:
        invocation.note(f"what could not be brought back is in {done.lost_found}")
    if _HELD_BACK in groups:
        held = shlex.quote(str(Path(str(done.lost_found), _HELD_BACK_FILE)))
        invocation.note(
            "records held back are whole and may have been forgotten; bring back what is wanted with "
            f"`otolith import --partial {held}`"
        )


def _group(loss: "Loss") -> str:
    """What became of it, in a word."""
    if loss.file == _HELD_BACK_FILE:
        return _HELD_BACK
    return "older" if loss.detail.startswith("came back") else "lost"
