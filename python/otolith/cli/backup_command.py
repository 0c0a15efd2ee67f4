"""`otolith backup`."""

import click

from otolith.cli._command import PathText
from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._open import open_existing
from otolith.cli._progress import progress
from otolith.cli._text import counted


@make("backup", ["otolith backup memory-of-today"])
@click.argument("dest", metavar="DEST", type=PathText())
@click.pass_obj
def command(invocation: Invocation, dest: str) -> None:
    """Copy the home to DEST, a directory that is not there yet, and print its path.

    The copy is a home: `otolith --home DEST` works with it. Others may write meanwhile; it is as of one
    moment. It is opened and read through before it has its name. Nothing is ever replaced.
    """
    with open_existing(invocation) as memory, progress(invocation, "copying") as tell:
        report = memory.backup(dest, progress=tell)
    if invocation.json:
        invocation.object("backup", report.to_dict())
    else:
        invocation.data(report.path)
    invocation.note(
        f"copied {counted(report.records, 'record')}, {counted(report.vectors, 'vector')} and "
        f"{counted(report.files, 'file')}, {report.bytes} bytes, read back"
    )
    for path, reason in report.skipped:
        invocation.note(f"note: {path} was left out: it {reason}")
    for path in report.leftovers:
        invocation.note(f"note: {path} is an unfinished backup of a process that was killed; remove it")
