"""Text on its way to a person: nothing in it may steer the terminal."""

import re
import unicodedata
from collections.abc import Iterable

# C0 without tab and newline, C1, the controls of writing direction, the separators of lines and paragraphs.
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


BOLD = "\x1b[1m"
PLAIN = "\x1b[22m"

# Columns of a line that are shown around the first word that was found.
_CONTEXT = 20


def printable(text: str) -> str:
    """Returns the text with control characters written as escapes."""
    return STEERING.sub(
        lambda found: f"\\x{ord(found[0]):02x}" if found[0] < "\u0100" else f"\\u{ord(found[0]):04x}", text
    )


def first_line(text: str, width: int | None = None) -> str:
    """Returns the first line that is not blank, cut to `width` columns if given."""
    line = next((line for line in text.splitlines() if line.strip()), "").strip().replace("\t", " ")
    if width is None or columns(line) <= width:
        return line
    kept, used = [], 0
    for char in line:
        used += columns(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept) + "…"


def counted(count: int, noun: str) -> str:
    """Returns a count with its noun: 1 record, 2 records."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def best_line(text: str, spans: Iterable[tuple[int, int]], width: int | None = None) -> str:
    """Returns the line that holds most of what was asked for, with `…` for text around it.

    Args:
        text: Any text.
        spans: The places (start, end) in it that were asked for, in order.
        width: Columns there are; the first of those places stays in view.
    """
    lines: list[str] = []
    places: list[list[int]] = []
    found = [(start, text[start:end].casefold()) for start, end in spans]
    words: list[set[str]] = []
    at = used = 0
    for raw in text.splitlines(keepends=True):
        begin, at = at, at + len(raw)
        here = used
        while used < len(found) and found[used][0] < at:
            used += 1
        if line := raw.strip():
            indent = raw.index(line[0])
            lines.append(line.replace("\t", " "))
            places.append([start - begin - indent for start, _ in found[here:used]])
            words.append({word for _, word in found[here:used]})
    if not lines:
        return ""
    best = max(range(len(lines)), key=lambda at: (len(words[at]), -at))
    line = lines[best]
    before, after = "… " if best else "", " …" if best + 1 < len(lines) else ""
    if width is None or columns(before + line + after) <= width:
        return before + line + after
    first = min(places[best], default=0)
    if first > _CONTEXT and columns(before + line[:first]) + _CONTEXT > width:
        cut = line.find(" ", first - _CONTEXT, first)
        line = line[cut + 1 if cut >= 0 else first :]
        before = "… "
    return first_line(before + line + after, width)


def columns(text: str) -> int:
    """Returns how many columns of a terminal the text takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def terminal_width(stream: object) -> int | None:
    """Returns the columns of the terminal behind a stream, None if there is none."""
    import shutil

    is_terminal = getattr(stream, "isatty", lambda: False)()
    return shutil.get_terminal_size((80, 24)).columns if is_terminal else None
