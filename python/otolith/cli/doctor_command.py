"""`otolith doctor`."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from otolith.cli._command import command as make
from otolith.cli._invocation import Invocation
from otolith.cli._open import settings_of
from otolith.cli._text import counted
from otolith.cli.status_command import graphed
from otolith.exceptions import OtolithError

if TYPE_CHECKING:
    from otolith.maintenance.doctor import Diagnosis


@make("doctor", ["otolith doctor", "otolith doctor --json"])
@click.option("--online", is_flag=True, help="Ask the embedder one question; else nothing is sent anywhere.")
@click.pass_obj
def command(invocation: Invocation, online: bool) -> None:
    """Look at everything and say what to do.

    Prints versions, every setting with its source, who holds the write lock, the store, its disk, and then
    what was found, one a line, as LEVEL: WHAT -> WHAT TO DO. Works also when the memory cannot be opened.
    Exit code 1 if anything found is an error. Changes nothing.
    """
    from otolith.maintenance.doctor import examine

    with suppress(OtolithError):  # it is the first finding
        settings_of(invocation, tell_ignored=False)
    diagnosis = examine(invocation.home, online=online)
    if not diagnosis.ok:
        invocation.exit_code = 1
    if invocation.json:
        invocation.object("doctor", {"ok": diagnosis.ok, **diagnosis.to_dict()})
        return
    for name, value in _rows(diagnosis):
        invocation.data(f"{name:<8} {value}".rstrip())
    for finding in diagnosis.findings:
        invocation.data(f"{finding.level}: {finding.what} -> {finding.advice}")
    if not diagnosis.findings:
        invocation.note("nothing to do")


def _rows(diagnosis: "Diagnosis") -> list[tuple[str, str]]:
    versions = diagnosis.versions
    rows = [
        (
            "version",
            f"otolith {versions['otolith']}, file format {versions['format']}, record schema "
            f"{versions['schema']}, Python {versions['python']}, {versions['system']}",
        ),
        ("home", f"{diagnosis.home or 'not known'} ({diagnosis.home_source or 'cannot be found out'})"),
    ]
    rows += [
        ("setting", f"{one['name']} = {_shown(one['value'])} ({one['source']})") for one in diagnosis.settings
    ]
    held = diagnosis.holder
    lock = "free" if held is None else f"process {held['pid']} ({held['command']}) since {held['since']}"
    rows.append(("lock", lock))
    status, census = diagnosis.status, diagnosis.census
    if status is not None and census is not None:
        rows += [
            (
                "store",
                f"format {status.format_version}, {counted(census['records'], 'record')}, "
                f"{counted(census['vectors'], 'vector')}, {status.file_bytes} bytes for about "
                f"{census['payload_bytes']} of content",
            ),
            ("vectors", f"{status.coverage.vectorized} of {status.coverage.total}{graphed(status)}"),
            ("embedder", f"{status.embedder or 'none'} ({status.embedder_source}){_asked(diagnosis)}"),
        ]
    if diagnosis.disk is not None:
        disk = diagnosis.disk
        kind = disk["file_system"] or "file system not known"
        rows.append(("disk", f"{kind}, {disk['free']} of {disk['total']} bytes free"))
    return rows


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)


def _asked(diagnosis: "Diagnosis") -> str:
    if diagnosis.embedder is not None:
        return f"; {diagnosis.embedder}"
    asked = diagnosis.status is not None and diagnosis.status.embedder is not None
    return "; not asked, --online asks it" if asked else ""
