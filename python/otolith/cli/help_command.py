"""`otolith help`."""

from typing import TYPE_CHECKING, Any

import click

from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._root import PROGRAM, root
from otolith.cli._values import offered

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _offer(context: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    inner = _context(context.params.get("names") or ())
    found = inner.command
    return offered(found.list_commands(inner), incomplete) if isinstance(found, click.Group) else []


def _context(names: Any) -> click.Context:
    """A context for the command that the names lead to, as if it had been called."""
    context = click.Context(root, info_name=PROGRAM, **root.context_settings)
    for name in names:
        group = context.command
        found = group.get_command(context, name) if isinstance(group, click.Group) else None
        if found is None:
            known = group.list_commands(context) if isinstance(group, click.Group) else ["none"]
            raise click.UsageError(
                f"no command {name!r} in {context.command_path}; there are {', '.join(known)}"
            )
        context = click.Context(found, info_name=name, parent=context, **found.context_settings)
    return context


@make("help", ["otolith help", "otolith help recall", "otolith help config set"])
@click.argument("names", metavar="[COMMAND]...", nargs=-1, shell_complete=_offer)
@click.pass_obj
def command(invocation: Invocation, names: tuple[str, ...]) -> None:
    """Show the help of a command, as `otolith COMMAND --help` does."""
    context = _context(names)
    if invocation.json:
        invocation.object("help", {"command": context.command_path, "text": context.get_help()})
    else:
        invocation.data(context.get_help())
