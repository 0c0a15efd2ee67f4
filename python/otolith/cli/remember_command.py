"""`otolith remember`."""

import sys
from typing import Any

import click

from otolith.cli._command import command as make
from otolith.cli._fields import record_fields, record_options
from otolith.cli._invocation import Invocation
from otolith.cli._open import open_or_make, settings_of
from otolith.cli._values import read_text


@make(
    "remember",
    [
        'otolith remember "Retries doubled the load, so the client now backs off" --tag http --outcome '
        "success",
        'git log -1 --format=%B | otolith remember - --title "last commit" --key last-commit',
    ],
)
@click.argument("text", metavar="[TEXT | -]", required=False)
@record_options()
@click.option("--id", help="An id of Otolith's own; writing it again replaces the record.")
@click.pass_obj
def command(invocation: Invocation, /, text: str | None, **options: Any) -> None:
    """Store one record and print its id.

    TEXT is what to remember, a sentence or a page; - or no TEXT reads it from stdin, without the line ends at
    its end. The home is made when there is none. The call returns when the record is safely on disk; if its
    vector cannot be made soon, `otolith embed` makes it later.
    """
    if text in (None, "-") and options["body_file"] == "-":
        raise click.UsageError("TEXT and --body-file cannot both come from stdin")
    if text is None and sys.stdin is not None and sys.stdin.isatty():
        invocation.note("reading the text from the terminal; Ctrl-D on a new line ends it")
    summary = read_text("-") if text is None or text == "-" else text
    fields = record_fields(options)
    settings = settings_of(invocation)
    with open_or_make(invocation, settings, lambda trial: trial.remember(summary, **fields)) as memory:
        episode = memory.remember(summary, **fields)
    if invocation.json:
        invocation.object("remember", {"id": episode.id, "episode": episode.to_dict()})
    else:
        invocation.data(episode.id)
