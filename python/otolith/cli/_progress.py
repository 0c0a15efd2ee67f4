"""How far a long call is, on a terminal only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from otolith.cli._invocation import Invocation

Progress = Callable[[int, int | None], None]


@contextmanager
def progress(invocation: Invocation, what: str) -> Iterator[Progress | None]:
    """Gives a function to tell progress to; None when nobody looks: no terminal, `-q` or `--json`."""
    if invocation.quiet or invocation.json or not sys.stderr.isatty():
        yield None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars
    except ImportError:
        yield _counter(what)
        sys.stderr.write("\n")
        return
    colorless = True if click.get_current_context().meta.get("otolith.color") == "never" else None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True, no_color=colorless), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _counter(what: str) -> Progress:
    def tell(done: int, total: int | None) -> None:
        of = f" of {total}" if total is not None else ""
        sys.stderr.write(f"\r{what} {done}{of}")
        sys.stderr.flush()

    return tell
