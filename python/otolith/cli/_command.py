"""Commands that know the shared options, show examples, and refuse arguments that swallowed others."""

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from otolith.cli._invocation import Invocation

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _TextType = click.ParamType[str]
else:
    _TextType = click.ParamType  # generic from click 8.4 on only

# On Windows `"C:\notes\" --tag x` arrives as the one argument `C:\notes" --tag x`.
_SWALLOWED = re.compile(r'"\s+-')


def _store(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value and isinstance(context.obj, Invocation):
            setattr(context.obj, name, value)

    return callback


def shared_options() -> list[click.Parameter]:
    """Returns the options that may stand before and after the name of a command."""
    return [
        click.Option(
            ["--home"],
            metavar="DIR",
            type=PathText(),
            expose_value=False,
            callback=_store("home"),
            help="Directory of the memory.",
        ),
        click.Option(
            ["--json"], is_flag=True, expose_value=False, callback=_store("json"), help="Answer with JSON."
        ),
        click.Option(
            ["-q", "--quiet"],
            is_flag=True,
            expose_value=False,
            callback=_store("quiet"),
            help="Tell only errors.",
        ),
    ]


class PathText(_TextType):
    """A path as it was typed; whether it exists is for the command to find out.

    Args:
        opened: Whether it is a path of this machine that will be opened, or only text about one.
    """

    name = "path"

    def __init__(self, *, opened: bool = True) -> None:
        self._opened = opened

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuses what no path can be, and what a backslash before a quote made of two arguments."""
        text = str(value)
        if _SWALLOWED.search(text):
            self.fail(
                f"{text!r} holds a quote and an option: a backslash before a closing quote swallowed "
                "what follows; "
                "leave out the last backslash",
                param,
                ctx,
            )
        if not text or "\0" in text:
            self.fail(f"{text!r} is no path", param, ctx)
        # The arguments were read as UTF-8; the system wants its own bytes back.
        return os.fsdecode(text.encode("utf-8", "surrogateescape")) if self._opened else text

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Leaves completion of paths to the shell."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class Shared(click.Command):
    """Adds the shared options, examples, and the look at swallowed options."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.params.extend(shared_options())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuses an option in the place of a value: `--title --json` would lose the second."""
        known: dict[str, click.Parameter] = {}
        for param in self.params:
            known.update(dict.fromkeys((*param.opts, *param.secondary_opts), param))
        position = 0
        while position < len(args) and args[position] != "--":
            found = known.get(args[position])
            takes_value = isinstance(found, click.Option) and not found.is_flag and not found.count
            if takes_value and position + 1 < len(args):
                following = args[position + 1]
                if following.startswith("-") and (following in known or following == "--help"):
                    raise click.UsageError(
                        f"{args[position]} needs a value and found the option {following}; if that is "
                        "the value "
                        f"write {args[position]}={following}",
                        ctx,
                    )
                position += 1
            position += 1
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            # The parser does not know whose arguments it reads, and the hint names the help to look at.
            error.ctx = error.ctx or ctx
            raise

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples as they are to be typed."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


class SharedGroup(Shared, click.Group):
    """A group with the shared options."""


def command(name: str, examples: Sequence[str], **attrs: Any) -> Callable[[Callable[..., Any]], Shared]:
    """Makes a function a command.

    Args:
        name: What people type.
        examples: Lines for the help; the tests run them.
        **attrs: Passed on to click.
    """
    return click.command(name, cls=Shared, examples=examples, **attrs)
