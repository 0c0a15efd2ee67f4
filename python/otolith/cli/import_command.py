"""`otolith import`."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import click

from otolith.cli._command import PathText
from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._open import is_made, open_or_make, settings_of
from otolith.cli._progress import progress
from otolith.cli._text import counted
from otolith.cli._values import pairs

if TYPE_CHECKING:
    from otolith import ImportReport
    from otolith.cli._progress import Progress
    from otolith.config import Settings

# How many lines with the same message are told one by one.
_TOLD_EACH = 3
# What is counted, by the kind of its place.
_PART = {int: "line", str: "part"}


@make(
    "import",
    [
        "otolith import memory.jsonl",
        "otolith import notes.jsonl --format jsonl --map summary=text --map occurred_at=time --key uid",
        "otolith import notes.jsonl --format jsonl --map summary=text --zone Asia/Shanghai",
        "otolith import conversations.json --format locomo",
    ],
)
@click.argument("file", metavar="FILE", type=PathText())
@click.option(
    "--format",
    "format_",
    type=click.Choice(["otolith", "jsonl", "locomo"]),
    default="otolith",
    show_default=True,
    help="otolith: what `otolith export` wrote. jsonl: JSON lines of somebody else. locomo: LoCoMo JSON.",
)
@click.option(
    "--map",
    "mapping",
    multiple=True,
    metavar="FIELD=PATH",
    help="Where a field is in a line of jsonl; FIELD= leaves it out.",
)
@click.option("--key", metavar="PATH", help="What makes a line of jsonl the same when it comes again.")
@click.option(
    "--zone",
    metavar="ZONE",
    help="Zone of times without an offset, and of dates: a name such as Asia/Shanghai, or local. For locomo "
    "UTC if not given.",
)
@click.option("--partial", is_flag=True, help="Take what is whole of an export that is damaged.")
@click.pass_obj
def command(
    invocation: Invocation,
    file: str,
    format_: Literal["otolith", "jsonl", "locomo"],
    mapping: tuple[str, ...],
    key: str | None,
    zone: str | None,
    partial: bool,
) -> None:
    """Read records from FILE, or from stdin for -.

    Lines that cannot be read are told on stderr as FILE:LINE: message (for locomo, FILE:PATH: message), a
    message that many lines share only once with their number; the rest is imported, and the exit code is 1.
    PATH is a name or a dotted path such as message.text. Importing again adds nothing when lines have an id
    or --key, and goes on where an import was stopped. A home is made only if there is something to import.
    From locomo come the turns of conversations, each under its session; what else is there is counted.
    """
    if format_ != "jsonl" and (mapping or key):
        raise click.UsageError("--map and --key are for --format jsonl")
    if format_ == "otolith" and zone:
        raise click.UsageError("--zone is for --format jsonl and locomo")
    fields = pairs("--map", mapping) or None
    if file == "-" and sys.stdin is None:
        raise click.UsageError("stdin is closed; give a file")
    settings = settings_of(invocation)
    source = sys.stdin.buffer if file == "-" else file
    how: dict[str, Any] = {"format": format_, "mapping": fields, "key": key, "zone": zone, "partial": partial}
    with progress(invocation, "importing") as tell:
        if is_made(settings):
            with open_or_make(invocation, settings) as memory:
                report = memory.import_(source, progress=tell, **how)
        else:
            report = _into_new_home(invocation, settings, source, tell, how)
    if report.failed:
        invocation.exit_code = 1
    if invocation.json:
        failed = [
            {"line" if isinstance(place, int) else "path": place, "message": str(error)}
            for place, error in report.failed
        ]
        invocation.object("import", {**report.to_dict(), "failed": failed})
    name = "stdin" if file == "-" else file
    for told in failures(name, report):
        invocation.words(told)
    invocation.note(
        f"read {counted(report.read, 'record')}: {report.created} new, {report.replaced} replaced, "
        f"{report.unchanged} unchanged, {len(report.failed)} failed"
    )
    if report.files or report.files_unchanged:
        invocation.note(f"wrote {counted(report.files, 'file')}, {report.files_unchanged} unchanged")
    if format_ == "locomo" and report.ignored:
        left = ", ".join(f"{field} ({count})" for field, count in report.ignored.items())
        invocation.note(f"note: only turns are imported; left out: {left}")
        return
    for field, lines in report.ignored.items():
        invocation.note(
            f"note: {field} is no field here and was left out of {counted(lines, 'line')}; keep it with "
            f"--map FIELD={field}"
        )


def _into_new_home(
    invocation: Invocation, settings: "Settings", source: Any, tell: "Progress | None", how: dict[str, Any]
) -> "ImportReport":
    """Imports where no home is yet. Looks at the file first: one of no use leaves no home behind."""
    from otolith import Memory

    with (
        Memory._in_ram(settings) as trial,
        trial._looked_at(source, **how) as (stream, useful),
    ):
        if not useful:
            invocation.note(f"nothing can be imported, and no memory was made in {settings.home}")
            return trial.import_(stream, **how)
        with open_or_make(invocation, settings) as memory:
            return memory.import_(stream, progress=tell, **how)


def failures(name: str, report: "ImportReport") -> Iterator[str]:
    """Yields what to tell about lines that failed: a message that many share is told once.

    Args:
        name: What was read.
        report: What became of it.
    """
    alike: dict[str, list[tuple[int, int | str, str]]] = {}
    for ordinal, (place, error) in enumerate(report.failed):
        text = " ".join(str(error).split())
        alike.setdefault(text.partition("; ")[0], []).append((ordinal, place, text))
    shown: list[tuple[int, str]] = []
    for group in alike.values():
        ordinal, first, text = group[0]
        if len(group) > 1 and len(group) == report.read:
            told = f"{name}:{first}: {text} (and so in all {counted(report.read, _PART[type(first)])})"
            shown.append((ordinal, told))
        elif len(group) > _TOLD_EACH:
            more = counted(len(group) - 1, f"more {_PART[type(first)]}")
            last = "" if isinstance(first, str) else "line "
            shown.append((ordinal, f"{name}:{first}: {text} (and so in {more}, up to {last}{group[-1][1]})"))
        else:
            shown.extend((at, f"{name}:{place}: {text}") for at, place, text in group)
    yield from (text for _, text in sorted(shown))
