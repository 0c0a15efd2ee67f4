"""`otolith show`."""

import click

from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._open import full_ids, open_existing
from otolith.cli._show import episode_lines


@make("show", ["otolith show ID", "otolith show ID --json"])
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.pass_obj
def command(invocation: Invocation, ids: tuple[str, ...]) -> None:
    """Show records in full.

    An ID may be shortened to its first characters as long as only one record starts like that.
    """
    with open_existing(invocation) as memory:
        episodes = [memory.get(one) for one in full_ids(memory, ids)]
    if invocation.json:
        invocation.object("show", {"episodes": [episode.to_dict() for episode in episodes]})
        return
    invocation.data("\n\n".join("\n".join(episode_lines(episode)) for episode in episodes))
