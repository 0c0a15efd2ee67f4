"""`otolith list`."""

from typing import Any

import click

from otolith.cli._command import command as make
from otolith.cli._fields import filter_options, make_filter
from otolith.cli._invocation import Invocation
from otolith.cli._open import open_existing, short_ids
from otolith.cli._show import one_line

_SHORTENED = 100


@make("list", ["otolith list", "otolith list -n 5 --tag http", "otolith list --oldest-first --json"])
@click.option("-n", "limit", type=click.IntRange(min=0), help="How many at most. [default: all]")
@filter_options()
@click.option("--oldest-first", is_flag=True, help="In the order they were stored, oldest first.")
@click.pass_obj
def command(invocation: Invocation, /, limit: int | None, oldest_first: bool, **filters: Any) -> None:
    """List memories, the last stored first: time, id, text.

    With --json each line is one object.
    """
    chosen = make_filter(filters)
    with open_existing(invocation) as memory:
        shorten = limit is not None and limit <= _SHORTENED
        for episode in memory.episodes(chosen, newest_first=not oldest_first, limit=limit):
            if invocation.json:
                invocation.object("list", episode.to_dict())
                continue
            shown = short_ids(memory, [episode.id])[0] if shorten else episode.id
            text = f"{episode.title}: {episode.summary}" if episode.title else episode.summary
            invocation.data(one_line(f"{episode.occurred_at:%Y-%m-%d %H:%M}", shown, text=text))
