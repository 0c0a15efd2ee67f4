"""`otolith compact`."""

import click

from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._open import open_existing
from otolith.cli._progress import progress
from otolith.cli._text import counted


@make("compact", ["otolith compact", "otolith compact --json"])
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Make the store as small as its content, without the bytes of what was forgotten.

    Others read all the time and write but for a moment. Prints each other file of the home that may still
    hold forgotten bytes, with its kind and size: previous versions, damaged stores, lost+found, backups,
    drafts, indexes of other settings, and what otolith did not make. Unfinished files that killed processes
    left are removed. Then many vectors get a graph, in some twenty seconds for 100,000; Ctrl-C keeps what is
    done.
    """
    with open_existing(invocation) as memory, progress(invocation, "compacting") as tell:
        report = memory.compact(progress=tell)
    if invocation.json:
        invocation.object("compact", report.to_dict())
    else:
        for keeper in report.keepers:
            invocation.data(f"{keeper.path} ({keeper.kind}, {keeper.bytes} bytes)")
    invocation.note(
        f"{report.before_bytes} bytes before, {report.after_bytes} now, {counted(report.records, 'record')}; "
        f"writers waited at most {report.blocked_us / 1000:.1f} ms"
    )
    for path in report.removed_drafts:
        invocation.note(f"removed {path}, left by a process that was killed")
    if report.keepers:
        invocation.note("what was forgotten may still be in the files listed; delete them if it must be gone")
    if report.changed_meanwhile:
        changed = counted(report.changed_meanwhile, "record")
        invocation.note(f"{changed} changed while it ran: compact again if their old text must be gone")
