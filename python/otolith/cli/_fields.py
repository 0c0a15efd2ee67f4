"""Options that several commands share: the fields of a record, filters, and how vectors are made."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from otolith.cli._command import PathText
from otolith.cli._values import TimeText, metadata, read_text

if TYPE_CHECKING:
    from otolith import Filter

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

OUTCOMES = click.Choice(["success", "failure", "blocked", "cancelled"])
SOURCES = click.Choice(["task", "conversation", "document", "import"])
ORIGINS = click.Choice(["user", "assistant", "tool", "web", "import"])
TRUST = click.Choice(["trusted", "untrusted"])

# Options whose name differs from the field they set.
_FIELD_OF = {
    "session": "session_id",
    "agent": "agent_id",
    "task": "task_id",
    "user": "user_id",
    "dir": "working_dir",
    "decision": "key_decisions",
    "file": "files_modified",
    "tag": "tags",
    "meta": "metadata",
    "at": "occurred_at",
}


def _decorate(options: list[Decorator]) -> Decorator:
    def apply(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


def embedding_options() -> Decorator:
    """Returns the options of what makes many vectors."""
    return _decorate(
        [
            click.option(
                "--batch", type=click.IntRange(min=1), default=64, show_default=True, help="Texts at a time."
            ),
            click.option(
                "--patience",
                type=click.FloatRange(min=0, max=86_400),
                default=60.0,
                show_default=True,
                metavar="SECONDS",
                help="How long to wait in a row for a busy embedder.",
            ),
        ]
    )


def record_options() -> Decorator:
    """Returns the options for the fields of a record."""
    return _decorate(
        [
            click.option("--title", help="Short name; searched with more weight."),
            click.option(
                "--body-file", type=PathText(), metavar="FILE", help="Longer text, from a file; - is stdin."
            ),
            click.option("--outcome", type=OUTCOMES, help="How the task ended."),
            click.option("--source", type=SOURCES, help="Where the record comes from."),
            click.option("--actor", help="Who said or did it; searched."),
            click.option("--session", help="Id of the session."),
            click.option("--agent", help="Id of the agent."),
            click.option("--task", help="Id of the task."),
            click.option("--user", help="Id of the user."),
            click.option("--dir", type=PathText(opened=False), metavar="DIR", help="Directory it is about."),
            click.option("--decision", multiple=True, help="A decision that was made; may be repeated."),
            click.option(
                "--file",
                multiple=True,
                type=PathText(opened=False),
                help="A file that was changed; may be repeated.",
            ),
            click.option("--tag", multiple=True, help="A tag; may be repeated."),
            click.option(
                "--meta",
                multiple=True,
                metavar="K=V",
                help="An entry of metadata; may be repeated. Numbers, true, false and null are taken as "
                'such, "5" is text.',
            ),
            click.option("--scope", help="Scope such as team/project."),
            click.option(
                "--at",
                type=TimeText(),
                help="When it happened, in ISO form. Without an offset: in the zone of this machine.",
            ),
            click.option("--importance", type=click.FloatRange(0, 1), help="From 0 to 1."),
            click.option(
                "--origin", type=ORIGINS, help="Who wrote it; tool, web and import are not trusted."
            ),
            click.option("--key", help="Writing the same key again replaces the record."),
        ]
    )


def record_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that were given, under the names of the record."""
    fields: dict[str, Any] = {}
    for option, value in given.items():
        if value is None or value == ():
            continue
        if option == "body_file":
            fields["body"] = read_text(value)
        elif option == "meta":
            fields["metadata"] = metadata("--meta", value)
        else:
            fields[_FIELD_OF.get(option, option)] = value
    return fields


def filter_options() -> Decorator:
    """Returns the options that choose records."""
    return _decorate(
        [
            click.option(
                "--since",
                type=TimeText(),
                help="Happened then or later. A date is its first moment; without an offset: the zone "
                "of this machine.",
            ),
            click.option("--until", type=TimeText(), help="Happened before then."),
            click.option("--key", help="Only the record with this key."),
            click.option("--scope", help="This scope and everything below it."),
            click.option("--session", help="Only this session."),
            click.option("--agent", help="Only this agent."),
            click.option("--task", help="Only this task."),
            click.option("--user", help="Only this user."),
            click.option("--dir", type=PathText(opened=False), metavar="DIR", help="Only this directory."),
            click.option("--below", is_flag=True, help="With --dir: everything below it too."),
            click.option(
                "--tag", multiple=True, help="Only with this tag; may be repeated, all must be there."
            ),
            click.option("--outcome", type=OUTCOMES, help="Only this outcome."),
            click.option("--source", type=SOURCES, help="Only from there."),
            click.option("--actor", help="Only this actor."),
            click.option("--origin", type=ORIGINS, help="Only this origin."),
            click.option("--trust", type=TRUST, help="Only trusted, or only untrusted ones."),
            click.option(
                "--meta", multiple=True, metavar="K=V", help="Only with this metadata; may be repeated."
            ),
        ]
    )


def make_filter(given: Mapping[str, Any]) -> "Filter | None":
    """Returns the filter that the options of `filter_options` ask for, None if they ask for nothing."""
    if given["below"] and not given["dir"]:
        raise click.UsageError("--below needs --dir")
    fields = record_fields({name: value for name, value in given.items() if value is not False})
    if not fields:
        return None
    from otolith import Filter

    return Filter(**fields)
