"""The table of commands. The file of a command is imported when it is used."""

from importlib import import_module

import click

from otolith.cli._command import SharedGroup

PROGRAM = "otolith"

# Name, one line for the list of commands; in the order of a first day. Here and not in the files, so that
# `otolith --help` and completion import none of them.
COMMANDS = {
    "init": "Make a home.",
    "remember": "Store one record and print its id.",
    "recall": "Ask; the best records first.",
    "show": "Show records in full.",
    "list": "List records, the last stored first.",
    "update": "Change fields of a record.",
    "forget": "Delete records.",
    "import": "Read records from a file.",
    "export": "Write all records and files as JSON lines.",
    "backup": "Copy the home while it is in use.",
    "embed": "Make the vectors that are missing.",
    "reindex": "Make all vectors anew with another model.",
    "status": "Say what is there and how it is doing.",
    "verify": "Look for damage, and repair it.",
    "doctor": "Look at everything and say what to do.",
    "compact": "Make the store small, without forgotten bytes.",
    "eval": "Measure recall on questions with known answers.",
    "config": "Show and set settings.",
    "trust": "Trust the config.toml of a home.",
    "completion": "Print a completion script for a shell.",
    "help": "Show the help of a command.",
    "version": "Print the version.",
}

EXAMPLES = (
    "otolith init",
    'otolith remember "Retries doubled the load, so the client now backs off" --tag http',
    'otolith recall "why does the client back off?"',
)


class _Root(SharedGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        # `import`, `list` and the like cannot or should not be names of modules.
        module = import_module(f"otolith.cli.{cmd_name}_command")
        found = module.command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            advice = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"no such command {args[0]!r}{advice}", ctx)
        return super().resolve_command(ctx, args)


def _print_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from otolith.cli.version_command import command

        context.invoke(command)
        context.exit()


root = _Root(
    name=PROGRAM,
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Print the version.",
        )
    ],
    examples=EXAMPLES,
    help=(
        "Long-term memory for software agents, in one directory.\n\n"
        "Data goes to stdout, words and progress to stderr. Exit codes: 0 done (also with zero hits), 1 "
        "the answer "
        "is no or it failed, 2 wrong usage."
    ),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
