"""`otolith import`."""

import sys
from typing import Literal

import click

from otolith.cli._command import PathText
from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._open import open_or_make
from otolith.cli._progress import progress
from otolith.cli._values import pairs


@make(
    "import",
    [
        "otolith import memory.jsonl",
        "otolith import notes.jsonl --format jsonl --map summary=text --map occurred_at=time --key uid",
    ],
)
@click.argument("file", metavar="FILE", type=PathText())
@click.option(
    "--format",
    "format_",
    type=click.Choice(["otolith", "jsonl"]),
    default="otolith",
    show_default=True,
    help="otolith: what `otolith export` wrote. jsonl: JSON lines of somebody else.",
)
@click.option(
    "--map",
    "mapping",
    multiple=True,
    metavar="FIELD=PATH",
    help="Where a field is in a line of jsonl; FIELD= leaves it out.",
)
@click.option("--key", metavar="PATH", help="What makes a line of jsonl the same when it comes again.")
@click.option("--partial", is_flag=True, help="Take what is whole of an export that is damaged.")
@click.pass_obj
def command(
    invocation: Invocation,
    file: str,
    format_: Literal["otolith", "jsonl"],
    mapping: tuple[str, ...],
    key: str | None,
    partial: bool,
) -> None:
    """Read memories from FILE, or from stdin for -.

    Lines that cannot be read are told on stderr as FILE:LINE: message, the rest is imported, and the exit
    code is 1. PATH is a name or a dotted path such as message.text. Importing again adds nothing when lines
    have an id or
    --key.
    """
    if format_ == "otolith" and (mapping or key):
        raise click.UsageError("--map and --key are for --format jsonl")
    fields = pairs("--map", mapping) or None
    if file == "-" and sys.stdin is None:
        raise click.UsageError("stdin is closed; give a file")
    with open_or_make(invocation) as memory, progress(invocation, "importing") as tell:
        source = sys.stdin.buffer if file == "-" else file
        report = memory.import_(
            source, format=format_, mapping=fields, key=key, partial=partial, progress=tell
        )
    name = "stdin" if file == "-" else file
    if report.failed:
        invocation.exit_code = 1
    if invocation.json:
        failed = [{"line": line, "message": str(error)} for line, error in report.failed]
        invocation.object("import", {**report.to_dict(), "failed": failed})
    for line, error in report.failed:
        invocation.words(f"{name}:{line}: {' '.join(str(error).split())}")
    invocation.note(
        f"read {report.read}: {report.created} new, {report.replaced} replaced, {report.unchanged} "
        "unchanged, "
        f"{len(report.failed)} failed"
    )
    for field, lines in report.ignored.items():
        invocation.note(
            f"note: {field} is no field here and was left out of {lines} lines; map it with --map"
        )
