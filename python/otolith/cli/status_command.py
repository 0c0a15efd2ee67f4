"""`otolith status`."""

from typing import TYPE_CHECKING

import click

from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._open import settings_of
from otolith.cli._text import counted
from otolith.config import HOME_SOURCES

if TYPE_CHECKING:
    from otolith import Status
    from otolith.config import Settings


@make("status", ["otolith status", "otolith status --json"])
@click.pass_obj
def command(invocation: Invocation) -> None:
    """Say what is there and how it is doing."""
    from otolith import Memory

    settings = settings_of(invocation, tell_ignored=False)
    with Memory.open(settings.home, create=False, config=settings) as memory:
        status = memory.status()
    ignored = [{"name": one.name, "value": one.value, "reason": one.reason} for one in settings.ignored]
    if invocation.json:
        chosen = {"home_source": settings.home_source, "trusted": settings.trusted, "ignored": ignored}
        invocation.object("status", {**status.to_dict(), **chosen})
        return
    for name, value in _rows(status, settings):
        invocation.data(f"{name:<11} {value}".rstrip())
    from otolith._vectors import is_told, of_another_model

    # The same with the number of vectors, which has a line of its own.
    twice = {
        of_another_model(mark, count)
        for mark, count in status.foreign_vectors.items()
        if is_told(mark, status.notices)
    }
    for notice in status.notices:
        if notice not in invocation.warned and notice not in twice:
            invocation.note(f"notice: {notice}")


def graphed(status: "Status") -> str:
    """Returns how many vectors have a graph, and who says what it finds; nothing when none has."""
    if not status.graph_vectors:
        return ""
    alone = status.indexed_vectors - status.graph_vectors
    others = f", {alone} compared one by one" if alone else ""
    return f"; a graph over {status.graph_vectors}{others} (`otolith verify` measures what it finds)"


def _rows(status: "Status", settings: "Settings") -> list[tuple[str, str]]:
    coverage = status.coverage
    vectors = f"{coverage.vectorized} of {coverage.total}"
    for name in ("pending", "stale", "refused", "dimension_mismatches"):
        count = getattr(coverage, name)
        if count:
            vectors += f", {count} {name.replace('_', ' ')}"
    # An embedder that the home is not of makes none for it; what to do then is said by a warning.
    is_other = status.home_embedder not in (None, status.fingerprint)
    if status.embedder is not None and not is_other and coverage.pending + coverage.stale:
        vectors += " (make them with `otolith embed`)"
    vectors += graphed(status)
    rows = [("home", f"{status.home} ({HOME_SOURCES[settings.home_source]})")]
    if settings.home_file.exists():
        trust = "trusted" if settings.trusted else "not trusted; `otolith config show` says what is ignored"
        rows.append(("config", trust))
    rows.extend([("records", str(status.records)), ("vectors", vectors)])
    for mark, count in status.foreign_vectors.items():
        rows.append(("", f"{counted(count, 'vector')} of another model: {mark.partition('|')[0]}"))
    rows.append(("embedder", f"{status.embedder or 'none'} ({status.embedder_source})"))
    for looked_at in status.embedder_tried if status.embedder is None else ():
        rows.append(("", looked_at))
    if status.home_embedder is not None:
        rows.append(("made with", f"{status.home_embedder}, {counted(status.home_dim or 0, 'dimension')}"))
    rows.append(
        (
            "store",
            f"format {status.format_version}, {status.file_bytes} bytes, "
            f"made {status.created:%Y-%m-%d %H:%M:%S %z}",
        )
    )
    rows.append(("analyzer", str(status.analyzer)))
    if status.unreadable:
        rows.append(("unreadable", counted(status.unreadable, "row")))
    return rows
