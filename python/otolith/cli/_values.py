"""Values of options: times, metadata, FIELD=VALUE."""

import json
import sys
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from otolith.cli._invocation import Invocation

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    _TimeType = click.ParamType[datetime]
    _TextType = click.ParamType[str]
    _LegsType = click.ParamType[list[str]]
else:
    _TimeType = _TextType = _LegsType = click.ParamType  # generic from click 8.4 on only


class TimeText(_TimeType):
    """A time in ISO form. Without an offset it is read in the zone of this machine, and that is said.

    Args:
        option: What to call it where it is only a part of the value of an option.
    """

    name = "time"

    def __init__(self, option: str | None = None) -> None:
        self._option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Returns an aware datetime."""
        if isinstance(value, datetime):
            return value
        text = str(value).strip()
        where = "" if self._option is None else f"{self._option}: "
        try:
            moment = datetime.fromisoformat(text)
            given = moment.utcoffset() is not None
            moment = moment if given else moment.astimezone()
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{where}{value!r} is no time; write it like 2026-01-31, 2026-01-31T15:00 or "
                "2026-01-31T15:00+01:00",
                param,
                ctx,
            )
        if not given and ctx is not None and isinstance(ctx.obj, Invocation):
            name = self._option or (param.opts[0] if param is not None else "time")
            # Remembered, not told at once: `-q` may still follow.
            ctx.meta.setdefault("otolith.notes", []).append(
                f"{name}: {text} is read in the zone of this machine, as {moment.isoformat()}"
            )
        return moment


class QueryText(_TextType):
    """A question; a blank one is no question."""

    name = "query"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuses a blank text."""
        text = str(value)
        if not text.strip():
            self.fail("the question is blank; to see what is there use `otolith list`", param, ctx)
        return text


LEGS = ("lexical", "vector")


class LegsText(_LegsType):
    """Names of legs, separated by commas."""

    name = "legs"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Refuses what is no leg."""
        if isinstance(value, list):
            return value
        names = [name.strip() for name in str(value).split(",")]
        for name in names:
            if name not in LEGS:
                self.fail(f"{name!r} is not one of {', '.join(LEGS)}", param, ctx)
        return names

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Offers the legs."""
        return offered(LEGS, incomplete)


def offered(names: Iterable[str], incomplete: str) -> "list[CompletionItem]":
    """Returns the names that complete what was typed so far."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def scalar(text: str) -> str | int | float | bool | None:
    """Returns a number, truth value or null if the text is exactly how it would be written, else the text.

    So `5` is a number, `1.10` and `007` stay text. In double quotes it is text in any case.
    """
    if text in ("true", "false", "null"):
        found: bool | None = json.loads(text)
        return found
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if str(number) == text and text not in ("nan", "inf", "-inf"):
            return number
    if len(text) >= 2 and text.startswith('"') and text.endswith('"'):
        try:
            unquoted = json.loads(text)
        except ValueError:
            return text
        return unquoted if isinstance(unquoted, str) else text
    return text


def pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    """Returns NAME=VALUE arguments as a mapping; only the first `=` separates."""
    found: dict[str, str] = {}
    for item in given:
        name, separator, value = item.partition("=")
        if not separator or not name.strip():
            raise click.UsageError(f"{option}: expected NAME=VALUE, found {item!r}")
        if name in found:
            raise click.UsageError(f"{option}: {name} is given twice")
        found[name.strip()] = value
    return found


def metadata(option: str, given: Iterable[str]) -> dict[str, str | int | float | bool | None]:
    """Returns K=V arguments as metadata."""
    return {name: scalar(value) for name, value in pairs(option, given).items()}


def read_text(name: str) -> str:
    """Returns the text of a file, or of stdin for `-`, without a byte order mark and line ends at its end.

    Raises:
        click.ClickException: It is not UTF-8.
    """
    if name == "-":
        if sys.stdin is None:
            raise click.UsageError("stdin is closed; give the text as an argument")
        content = sys.stdin.buffer.read()
    else:
        with open(name, "rb") as file:
            content = file.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = "stdin" if name == "-" else name
        raise click.ClickException(
            f"{where}: is not UTF-8 at byte {error.start}; convert it first, for instance with iconv"
        ) from None
    return text.rstrip("\r\n")
