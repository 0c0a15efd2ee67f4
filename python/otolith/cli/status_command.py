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
    for notice in status.notices:
        if notice not in invocation.warned:
            invocation.note(f"notice: {notice}")


def _rows(status: "Status", settings: "Settings") -> list[tuple[str, str]]:
    coverage = status.coverage
    vectors = f"{coverage.vectorized} of {coverage.total}"
    for name in ("pending", "stale", "refused", "dimension_mismatches"):
        count = getattr(coverage, name)
        if count:
            vectors += f", {count} {name.replace('_', ' ')}"
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
        rows.append(("made with", f"{status.home_embedder}, {status.home_dim} dimensions"))
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
