"""`otolith init`."""

from pathlib import Path

import click

from otolith import config, env
from otolith.cli._command import PathText
from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._open import is_made, settings_of


@make("init", ["otolith init", "otolith init ~/team-memory"])
@click.argument("directory", metavar="[DIR]", required=False, type=PathText())
@click.pass_obj
def command(invocation: Invocation, directory: str | None) -> None:
    """Make a home: the directory that holds a memory.

    DIR is the home itself. Without it, it is the one of --home or OTOLITH_HOME, else .otolith in the working
    directory, which is then found from everywhere below. A home that is there already is left as it is.
    """
    if directory is not None and invocation.home is not None:
        raise click.UsageError("give DIR or --home, not both")
    if directory is None and invocation.home is None and env.read(env.HOME) is None:
        directory = ".otolith"
    invocation.home = directory if directory is not None else invocation.home
    from otolith import Memory

    settings = settings_of(invocation)
    existed = is_made(settings)
    with Memory.open(settings.home, config=settings, embedder=None):
        pass
    if invocation.json:
        invocation.object("init", {"home": str(settings.home), "created": not existed})
        return
    invocation.data(str(settings.home))
    invocation.note("it was there already" if existed else "made; next: otolith remember TEXT")
    found = settings.home.name == ".otolith" and settings.home.parent == Path.cwd()
    if found and not existed and settings.home != config.user_home():
        invocation.note(
            f"to let its {config.FILE_NAME} name an embedding server: otolith trust {settings.home}"
        )
