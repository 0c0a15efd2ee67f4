"""`otolith list`."""

from typing import Any

import click

from otolith.cli._command import command as make
from otolith.cli._fields import filter_options, make_filter
from otolith.cli._invocation import Invocation
from otolith.cli._open import open_existing
from otolith.cli._show import one_line


@make("list", ["otolith list", "otolith list -n 5 --tag http", "otolith list --oldest-first --json"])
@click.option("-n", "limit", type=click.IntRange(min=0), help="How many at most. [default: all]")
@filter_options()
@click.option("--oldest-first", is_flag=True, help="The first stored first.")
@click.pass_obj
def command(invocation: Invocation, /, limit: int | None, oldest_first: bool, **filters: Any) -> None:
    """List records in the order they were stored, the last stored first: time it happened, id, text.

    With --json each line is one object.
    """
    chosen = make_filter(filters)
    listed = 0
    with open_existing(invocation) as memory:
        for episode in memory.episodes(chosen, newest_first=not oldest_first, limit=limit):
            listed += 1
            if invocation.json:
                invocation.object("list", episode.to_dict())
                continue
            text = f"{episode.title}: {episode.summary}" if episode.title else episode.summary
            invocation.data(one_line(f"{episode.occurred_at:%Y-%m-%d %H:%M}", episode.id, text=text))
    if not listed:
        why = "is there" if chosen is None else "fits the filters"
        invocation.note(f"no record {'was asked for (-n 0)' if limit == 0 else why}")
