"""`otolith trust`."""

import click

from otolith import config, trusted
from otolith.cli._command import PathText
from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.exceptions import NotFound


@make("trust", ["otolith trust .", "otolith trust --list", "otolith trust . --remove"])
@click.argument("directory", metavar="[DIR]", required=False, type=PathText())
@click.option("--remove", is_flag=True, help="Trust DIR no longer.")
@click.option("--list", "list_", is_flag=True, help="Show what is trusted.")
@click.pass_obj
def command(invocation: Invocation, directory: str | None, remove: bool, list_: bool) -> None:
    """Trust the config.toml of the home DIR, or of .otolith in DIR.

    A home that is found by walking up from the working directory may have come with a cloned repository. Its
    config.toml may not load code or name a server until you looked at it and said this. When the file or
    the owner of the home changes later, it is not trusted any more until you say it again. A home you name
    with
    --home or OTOLITH_HOME is your own choice and needs no trust.
    """
    if list_:
        if directory is not None or remove:
            raise click.UsageError("--list stands alone")
    elif directory is None:
        raise click.UsageError("give DIR, or --list")
    elif remove:
        if not trusted.remove(directory):
            raise NotFound(
                f"{directory} was not trusted; see `otolith trust --list`", what="trust", id=directory
            )
        invocation.note(f"{directory} is not trusted any more")
    else:
        _add(invocation, directory)
    kept = [
        {"path": one.path, "current": trusted.why_not_now(one) is None, "reason": trusted.why_not_now(one)}
        for one in trusted.records()
    ]
    if invocation.json:
        invocation.object("trust", {"trusted": kept})
    elif list_:
        for one in kept:
            invocation.data(f"{one['path']}" + ("" if one["current"] else f"  ({one['reason']})"))


def _add(invocation: Invocation, directory: str) -> None:
    home = trusted.find_home(directory)
    file = home / config.FILE_NAME
    content = config.read_bytes(file)
    asked = config.settings_in(file, content)
    trusted.add(home, content)
    if not invocation.json:
        invocation.data(str(home))
    for name, shown in asked.items():
        invocation.note(f"followed from now on: {name} = {shown}")
    if not asked:
        invocation.note("it sets nothing now; a change needs trust again")
