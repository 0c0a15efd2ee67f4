"""What every command shares: the options before it, and the two streams it writes to."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from otolith.cli._text import BOLD, PLAIN, STEERING, printable
from otolith.exceptions import OtolithError


@dataclass(slots=True)
class Invocation:
    """One call of the command line.

    Data goes to stdout, words and progress to stderr.

    Attributes:
        home: The home as given by `--home`.
        json: Whether data and errors are JSON objects.
        quiet: Whether only data and errors are told.
        exit_code: What the process will return if nothing else fails.
        command: Name of the command, once it ran.
        warned: What was told as a warning already, so that nothing is said twice.
    """

    home: str | None = None
    json: bool = False
    quiet: bool = False
    exit_code: int = 0
    command: str | None = None
    warned: list[str] = field(default_factory=list)

    def data(self, text: str, bold: Sequence[tuple[int, int]] = ()) -> None:
        """Writes one piece of text as data. Control characters are made visible.

        Args:
            text: What is written.
            bold: Places (start, end) of the text that stand out, in order; for a terminal only.
        """
        shown, at = [], 0
        for start, end in bold:
            shown += [printable(text[at:start]), BOLD, printable(text[start:end]), PLAIN]
            at = end
        sys.stdout.write("".join(shown) + printable(text[at:]) + "\n")

    def object(self, command: str, content: Mapping[str, Any]) -> None:
        """Writes one JSON object on a line, labelled with the schema of the command."""
        sys.stdout.write(dumps({"schema": f"otolith.{command}/1", **content}, sys.stdout) + "\n")

    def words(self, text: str) -> None:
        """Tells something on stderr."""
        sys.stderr.write(printable(text) + "\n")

    def note(self, text: str) -> None:
        """Tells something on stderr unless `-q` was given."""
        if not self.quiet:
            self.words(text)

    def failure(self, error: OtolithError) -> None:
        """Tells about an error of the library, with its attributes when JSON was asked for."""
        details = {name: value for name, value in vars(error).items() if not name.startswith("_")}
        self.error(str(error), kind=type(error).__name__, details=details)

    def error(self, message: str, *, kind: str, details: Mapping[str, Any] | None = None) -> None:
        """Tells about an error.

        Args:
            message: What happened; after the first "; " the next step.
            kind: Name of the error.
            details: What a program may want to look at.
        """
        what, _, hint = message.partition("; ")
        if self.json:
            content = {
                "error": kind,
                "message": what,
                "hint": hint or None,
                "details": dict(details or {}),
            }
            sys.stderr.write(dumps({"schema": "otolith.error/1", **content}, sys.stderr) + "\n")
            return
        self.words("error: " + " ".join(what.split()))
        if hint:
            self.words("hint: " + " ".join(hint.split()))


def dumps(content: Mapping[str, Any], stream: Any) -> str:
    """Returns JSON in one line; escaped to ASCII unless the stream can say every character."""
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    text = json.dumps(content, ensure_ascii=encoding != "utf8", default=_plain, allow_nan=False)
    # What would steer a terminal or be taken for a line end can only stand inside strings.
    return STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return str(value)
