"""`otolith update`."""

from typing import Any

import click

from otolith.cli._command import command as make
from otolith.cli._fields import TRUST, record_fields, record_options
from otolith.cli._invocation import Invocation
from otolith.cli._open import full_ids, open_existing
from otolith.cli._values import TimeText

_EMPTY: dict[str, Any] = {"key_decisions": [], "files_modified": [], "tags": [], "metadata": {}}
_CLEARABLE = click.Choice(
    [
        "key",
        "body",
        "title",
        "outcome",
        "actor",
        "agent_id",
        "task_id",
        "session_id",
        "user_id",
        "working_dir",
        "key_decisions",
        "files_modified",
        "tags",
        "metadata",
    ]
)


@make(
    "update",
    [
        'otolith update ID --title "Backing off" --outcome success',
        "otolith update ID --clear tags --clear actor",
    ],
)
@click.argument("id", metavar="ID")
@click.option("--summary", help="The text itself.")
@record_options()
@click.option("--trust", type=TRUST, help="Trust may be lowered here, never raised.")
@click.option(
    "--clear", multiple=True, type=_CLEARABLE, metavar="FIELD", help="Empty a field; may be repeated."
)
@click.option(
    "--expect",
    type=TimeText(),
    metavar="TIME",
    help="Only if it was last changed then (`updated` in `otolith show`); else exit 1.",
)
@click.pass_obj
def command(invocation: Invocation, /, id: str, clear: tuple[str, ...], expect: Any, **options: Any) -> None:
    """Change fields of a record; the others stay. Prints the id.

    A list (--tag, --file, --decision) or --meta replaces the whole list.
    """
    fields = record_fields(options)
    both = sorted(set(clear) & set(fields))
    if both:
        raise click.UsageError(f"{', '.join(both)}: set and cleared at once")
    fields.update({name: _EMPTY.get(name) for name in clear})
    if not fields:
        raise click.UsageError("nothing to change; give a field, for instance --title")
    with open_existing(invocation) as memory:
        episode = memory.update(full_ids(memory, [id])[0], expect=expect, **fields)
    if invocation.json:
        invocation.object("update", {"id": episode.id, "episode": episode.to_dict()})
    else:
        invocation.data(episode.id)
