"""`otolith forget`."""

import dataclasses
import difflib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._open import full_ids, open_existing
from otolith.cli._text import counted
from otolith.cli._values import TimeText, scalar

if TYPE_CHECKING:
    from otolith import Filter

_LISTS = ("ids", "not_ids", "kinds", "tags")


@make(
    "forget",
    [
        "otolith forget ID",
        "otolith forget --where tags=http --where outcome=failure --dry-run",
        "otolith forget --where scope=scratch --where metadata.draft=true --yes",
    ],
)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option(
    "--where",
    multiple=True,
    metavar="FIELD=VALUE",
    help="All that match; may be repeated, and all must hold. Fields as in --json (tags, key, ...), "
    "metadata.NAME for metadata, since and until for times.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be forgotten.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def command(
    invocation: Invocation, ids: tuple[str, ...], where: tuple[str, ...], dry_run: bool, yes: bool
) -> None:
    """Delete records and print their ids. There is no undo.

    --where asks first; away from a terminal it needs --yes.
    """
    if bool(ids) == bool(where):
        raise click.UsageError(
            "give ids, or --where FIELD=VALUE" if not ids else "give ids or --where, not both"
        )
    if where:
        forgotten = _forget_where(invocation, parse_where(where), dry_run=dry_run, yes=yes)
    else:
        forgotten = _forget_ids(invocation, ids, dry_run=dry_run)
    if forgotten is None:
        invocation.exit_code = 1
        return
    if invocation.json:
        content = {"forgotten": 0 if dry_run else len(forgotten), "ids": list(forgotten), "dry_run": dry_run}
        invocation.object("forget", content)
        return
    for one in forgotten:
        invocation.data(one)
    invocation.note(f"{'would forget' if dry_run else 'forgot'} {counted(len(forgotten), 'record')}")


def _forget_ids(invocation: Invocation, ids: Sequence[str], *, dry_run: bool) -> Sequence[str]:
    with open_existing(invocation) as memory:
        found = full_ids(memory, ids)
        if not dry_run:
            memory.forget(*found)
        return found


def _forget_where(
    invocation: Invocation, chosen: "Filter", *, dry_run: bool, yes: bool
) -> Sequence[str] | None:
    with open_existing(invocation) as memory:
        if dry_run or yes:
            return memory.forget_where(chosen, dry_run=dry_run).ids
        matching = memory.forget_where(chosen, dry_run=True).ids
        if not matching:
            return ()
        question = f"forget {counted(len(matching), 'record')}"
        if sys.stdin is None or not sys.stdin.isatty():
            invocation.error(
                f"would {question}, and nobody is there to ask; add --yes or --dry-run", kind="Refused"
            )
            return None
        if not _agreed(f"{question}?"):
            invocation.note("nothing was forgotten")
            return None
        # Those that were agreed to, as far as they still match.
        return memory.forget_where(dataclasses.replace(chosen, ids=tuple(matching))).ids


def _agreed(question: str) -> bool:
    """Asks on the terminal. Not by click, which takes an interrupt and the end of input for the same."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        sys.stderr.write("\n")
    return answer.strip().lower() in ("y", "yes")


def parse_where(given: Sequence[str]) -> "Filter":
    """Returns the filter that FIELD=VALUE arguments ask for."""
    from otolith import Filter

    known = [one.name for one in dataclasses.fields(Filter)]
    fields: dict[str, Any] = {}
    for item in given:
        name, separator, text = item.partition("=")
        name = name.strip()
        if not separator or not name:
            raise click.UsageError(f"--where: expected FIELD=VALUE, found {item!r}")
        if name.startswith("metadata."):
            entry = name.removeprefix("metadata.")
            if entry in fields.setdefault("metadata", {}):
                raise click.UsageError(f"--where: {name} is given twice")
            fields["metadata"][entry] = scalar(text)
            continue
        if name not in known or name == "metadata":
            close = ["metadata.NAME"] if name == "metadata" else difflib.get_close_matches(name, known, n=1)
            advice = (
                f"did you mean {close[0]}?" if close else f"there are {', '.join(known)} and metadata.NAME"
            )
            raise click.UsageError(f"--where: there is no field {name!r}; {advice}")
        if name in _LISTS:
            fields[name] = (*fields.get(name, ()), text)
            continue
        if name in fields:
            raise click.UsageError(f"--where: {name} is given twice, and both cannot hold")
        if name == "below":
            if text not in ("true", "false"):
                raise click.UsageError("--where: below is true or false")
            fields[name] = text == "true"
        elif name in ("since", "until"):
            fields[name] = TimeText(f"--where {name}").convert(text, None, click.get_current_context())
        else:
            fields[name] = text
    return Filter(**fields)
