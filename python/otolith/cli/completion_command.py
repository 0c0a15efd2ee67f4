"""`otolith completion`."""

import click

from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._root import PROGRAM, root

_COMPLETE_VARIABLE = "_OTOLITH_COMPLETE"


@make("completion", ["otolith completion bash", "otolith completion fish > otolith.fish"])
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_obj
def command(invocation: Invocation, shell: str) -> None:
    """Print a completion script for a shell.

    For bash, add to ~/.bashrc: eval "$(otolith completion bash)". For zsh the same in ~/.zshrc. For fish,
    write it to ~/.config/fish/completions/otolith.fish.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # Of the base class: the one for bash asks the bash of this machine for its version first.
    script = ShellComplete.source(kind(root, {}, PROGRAM, _COMPLETE_VARIABLE))
    if invocation.json:
        invocation.object("completion", {"shell": shell, "script": script})
    else:
        invocation.data(script.rstrip("\n"))
