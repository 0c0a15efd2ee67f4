"""Text on its way to a person: nothing in it may steer the terminal."""

import re
import unicodedata

# C0 without tab and newline, C1, the controls of writing direction, the separators of lines and paragraphs.
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


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
