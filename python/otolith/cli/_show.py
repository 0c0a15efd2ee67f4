"""Records as people read them."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from otolith.cli._text import best_line, columns, first_line, terminal_width

if TYPE_CHECKING:
    from otolith import Episode, Explanation, Hit

_LABELS = (
    ("key", "key"),
    ("title", "title"),
    ("outcome", "outcome"),
    ("source", "source"),
    ("actor", "actor"),
    ("agent_id", "agent"),
    ("task_id", "task"),
    ("session_id", "session"),
    ("user_id", "user"),
    ("working_dir", "dir"),
    ("scope", "scope"),
    ("importance", "importance"),
    ("origin", "origin"),
    ("trust", "trust"),
    ("status", "status"),
)


def episode_lines(episode: "Episode") -> list[str]:
    """Returns all fields of a record that have content, then its text."""
    lines = [
        f"id          {episode.id}",
        f"occurred    {episode.occurred_at.isoformat()}",
        f"created     {episode.created_at.isoformat()}",
        f"updated     {episode.updated_at.isoformat()}",
    ]
    for name, label in _LABELS:
        value = getattr(episode, name)
        if value not in (None, ""):
            lines.append(_field(label, value))
    for name, label in (("tags", "tags"), ("key_decisions", "decision"), ("files_modified", "file")):
        values = getattr(episode, name)
        if name == "tags" and values:
            lines.append(_field(label, ", ".join(values)))
        elif values:
            lines.extend(_field(label, value) for value in values)
    lines.extend(_field("meta", f"{name}={value}") for name, value in sorted(episode.metadata.items()))
    lines.extend(["", *_indented(episode.summary)])
    if episode.body:
        lines.extend(["", *_indented(episode.body)])
    return lines


def _field(label: str, value: object) -> str:
    """Returns one line, whatever the value holds: stored text must not look like a field beside its own."""
    shown = str(value).replace("\\", "\\\\") if "\n" in str(value) else str(value)
    return f"{label:<11} " + shown.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")


def one_line(*columns_before: str, text: str) -> str:
    """Returns columns and the first line of a text, cut to the terminal if stdout is one."""
    head = "  ".join(columns_before) + "  "
    width = terminal_width(sys.stdout)
    return head + first_line(text, None if width is None else max(20, width - columns(head)))


def hit_line(
    *columns_before: str, hit: "Hit", spans: Callable[[str], list[tuple[int, int]]]
) -> tuple[str, str]:
    """Returns the columns, and the title and the line of a hit that answers best, cut to the terminal if any.

    Args:
        *columns_before: What comes before the title.
        hit: The hit.
        spans: Finds the places in a text that were asked for.
    """
    episode = hit.episode
    title = f"{first_line(episode.title)}: " if episode.title else ""
    head = "  ".join(columns_before) + "  "
    width = terminal_width(sys.stdout)
    if width is not None:
        width = max(20, width - columns(head))
        if columns(title) > width // 2:
            title = first_line(title, width // 2).removesuffix(" ") + " "
        width -= columns(title)
    text = episode.summary if not episode.body else f"{episode.summary}\n{episode.body}"
    return head, title + best_line(text, spans(text), width)


def full_text(episode: "Episode") -> list[str]:
    """Returns title, summary and body whole, indented, a blank line between them."""
    parts = [_indented(part) for part in (episode.title, episode.summary, episode.body) if part]
    return [line for at, part in enumerate(parts) for line in (*([""] if at else []), *part)]


def explanation_lines(explanation: "Explanation", depth: int = 2) -> list[str]:
    """Returns a score as a tree, one node a line."""
    lines = [f"{'':>{depth * 2}}{explanation.value:.4f}  {explanation.description}"]
    for detail in explanation.details:
        lines.extend(explanation_lines(detail, depth + 1))
    return lines


def _indented(text: str) -> list[str]:
    return [f"    {line}".rstrip() for line in text.splitlines()]
