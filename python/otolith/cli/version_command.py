"""`otolith version`."""

import platform

import click

from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation


@make("version", ["otolith version", "otolith version --json"])
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Print the version."""
    from otolith import __version__

    if invocation.json:
        invocation.object("version", {"version": __version__, "python": platform.python_version()})
    else:
        invocation.data(f"otolith {__version__}")
