"""Text on its way to a person: nothing in it may steer the terminal."""

import re
import unicodedata
from collections.abc import Iterable

# C0 without tab and newline, C1, the controls of writing direction, the separators of lines and paragraphs.
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


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


def best_line(text: str, terms: Iterable[str], width: int | None = None) -> str:
    """Returns the line that holds most of the terms, the first of equals; `…` stands for text around it.

    Args:
        text: Any text.
        terms: Words that were found in it.
        width: Columns there are; the place of the first term stays in view.
    """
    lines = [line.strip().replace("\t", " ") for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    wanted = {term.casefold() for term in terms if term.strip()}
    places = [[place for term in wanted if (place := _place(line.casefold(), term)) >= 0] for line in lines]
    best = max(range(len(lines)), key=lambda at: (len(places[at]), -at))
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


def _place(line: str, term: str) -> int:
    """Where a term stands in a line, -1 if it does not. Both are casefolded.

    Short words must be whole ones. A long one is found by its beginning too: the engine finds words by their
    stems.
    """
    if len(term) > 2 or not term.isascii():
        place = line.find(term)
        if place >= 0 or len(term) < 5 or not (term.isascii() and term.isalpha()):
            return place
        pattern = term[: max(4, len(term) - 4)]
    else:
        pattern = re.escape(term) + r"(?!\w)"
    found = re.search(r"(?<!\w)" + pattern, line)
    return found.start() if found else -1


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
