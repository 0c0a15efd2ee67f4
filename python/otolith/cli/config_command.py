"""`otolith config`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from otolith import config, trusted
from otolith.cli._command import SharedGroup
from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._open import settings_of
from otolith.cli._values import offered, read_text
from otolith.config import MASK, SETTINGS, Settings
from otolith.exceptions import InvalidInput

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

command = SharedGroup(
    name="config",
    help="Show and set settings.\n\nThe first of these wins: flag, environment, config.toml of the home, "
    "config.toml of the user, default.",
    examples=("otolith config show", "otolith config get embedder", "otolith config set embedder none"),
    no_args_is_help=True,
)


def _offer(context: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    names = SETTINGS if context.info_name == "set" else ("home", *SETTINGS)
    return offered(names, incomplete)


def _content(settings: Settings, names: Iterable[str]) -> dict[str, Any]:
    return {
        "home": str(settings.home),
        "home_source": settings.home_source,
        "trusted": settings.trusted,
        "settings": [
            {"name": name, "value": _plain(settings, name), "source": settings.source(name)} for name in names
        ],
        "ignored": [{"name": one.name, "value": one.value, "reason": one.reason} for one in settings.ignored],
    }


def _plain(settings: Settings, name: str) -> str | float | None:
    value = config.as_text(settings.shown(name))
    return value if value is None or isinstance(value, float) else str(value)


@make("show", ["otolith config show", "otolith config show --json"])
@click.pass_obj
def show(invocation: Invocation) -> None:
    """Show every setting, its value and where that came from, and what is ignored of an untrusted home."""
    settings = settings_of(invocation, tell_ignored=False)
    if invocation.json:
        invocation.object("config", _content(settings, settings.names()))
        return
    width = max(len(name) for name in settings.names())
    for name in settings.names():
        value = _plain(settings, name)
        invocation.data(f"{name:<{width}} {'-' if value is None else value}  ({settings.source(name)})")
    for one in settings.ignored:
        invocation.data(f"{'ignored':<{width}} {one.name} = {one.value}")
    if settings.ignored:
        invocation.data(f"{'trusted':<{width}} no: {settings.ignored[0].reason}")
    elif not settings.trusted and settings.home_file.exists():
        invocation.data(f"{'trusted':<{width}} no; nothing in {settings.home_file} needs it")


@make("get", ["otolith config get embedder", "otolith config get lock_timeout --json"])
@click.argument("name", shell_complete=_offer)
@click.pass_obj
def get(invocation: Invocation, name: str) -> None:
    """Print the value of a setting; exit 1 if it has none."""
    settings = settings_of(invocation)
    value = _plain(settings, name)
    if invocation.json:
        invocation.object("config", _content(settings, [name]))
    elif value is not None:
        invocation.data(str(value))
    if value is None:
        invocation.exit_code = 1


@make(
    "set",
    [
        "otolith config set lock_timeout 10",
        "otolith config set embedder_url http://127.0.0.1:8080/v1 --user",
        "otolith config set lock_timeout --unset",
    ],
)
@click.argument("name", shell_complete=_offer)
@click.argument("value", required=False)
@click.option("--user", is_flag=True, help="In the config.toml of the user instead of the home's.")
@click.option("--unset", is_flag=True, help="Remove the setting.")
@click.pass_obj
def set_(invocation: Invocation, name: str, value: str | None, user: bool, unset: bool) -> None:
    """Set a setting in config.toml; the rest of the file stays, comments too.

    VALUE - reads it from stdin, so that a key is neither in the history of the shell nor in the list of
    processes.
    """
    if unset == (value is not None):
        raise click.UsageError("give VALUE or --unset")
    if value == "-":
        value = read_text("-").strip()
    settings = settings_of(invocation, tell_ignored=False)
    setting = SETTINGS.get(name)
    if setting is not None and setting.secret and not user and not unset:
        raise InvalidInput(
            f"{name}: a secret does not belong in {settings.home_file}, which may be shared; add --user "
            "or set "
            f"{setting.variable}",
            field=name,
        )
    file = settings.user_file if user else settings.home_file
    if not user and not settings.home.is_dir():
        raise InvalidInput(
            f"no memory in {settings.home}; make it with `otolith init`, or add --user", field="home"
        )
    # Only trust that was there before is renewed: setting one thing must not let the rest of a cloned file
    # in.
    renew = not user and settings.home_source == "found" and settings.trusted
    if name == "analyzer.synonyms" and value is not None:
        # Whether a key is one word is for the engine to say, before a file holds what no home opens with.
        from otolith import Memory

        Memory._in_ram(config.resolve(home=invocation.home, flags={name: value})).close()
    written = config.write(file, name, value, follow=user)
    if renew:
        trusted.add(settings.home, config.read_bytes(file))
    after = config.resolve(home=invocation.home)
    if invocation.json:
        invocation.object("config", {**_content(after, [name]), "file": str(file)})
        return
    shown = MASK if SETTINGS[name].secret and written is not None else config.as_text(written)
    shown = "-" if shown is None else shown
    invocation.data(f"{name} = {shown}")
    invocation.note(f"in {file}")
    if after.source(name).startswith(str(file)) or written is None:
        return
    why = next(
        (one.reason for one in after.ignored if one.name == name), f"{after.source(name)} gives another value"
    )
    invocation.note(f"note: it has no effect now: {why}")


for _one in (show, get, set_):
    command.add_command(_one)
