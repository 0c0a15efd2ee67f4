"""`otolith export`."""

import sys

import click

from otolith.cli._command import PathText
from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._open import open_existing
from otolith.cli._text import counted


@make("export", ["otolith export memory.jsonl", "otolith export --no-vectors | gzip > memory.jsonl.gz"])
@click.argument("file", metavar="[FILE]", required=False, type=PathText())
@click.option(
    "--vectors/--no-vectors", default=True, show_default=True, help="Whether vectors go with the text."
)
@click.pass_obj
def command(invocation: Invocation, file: str | None, vectors: bool) -> None:
    """Write all records and Markdown files as JSON lines to FILE, or to stdout without FILE or for -.

    The first line says what it is, the last one has a checksum; `otolith import` restores all of it
    exactly. FILE appears only when it is complete. It may not be a file of the memory itself.
    """
    to_stdout = file is None or file == "-"
    target = file if file is not None and not to_stdout else sys.stdout.buffer
    with open_existing(invocation) as memory:
        sys.stdout.flush()
        report = memory.export(target, vectors=vectors)
    if invocation.json and not to_stdout:
        invocation.object("export", report.to_dict())
    files = f", {counted(report.files, 'file')}" if report.files else ""
    invocation.note(
        f"wrote {counted(report.records, 'record')}, {report.vectors} with vectors{files}, "
        f"{report.bytes} bytes"
    )
    for path, reason in report.skipped:
        invocation.note(f"note: {path} was left out: it {reason}")
