"""Diagnosis of a home: what is set, what is there, what is wrong, and what to do about it.

Works also when the home cannot be opened or the settings cannot be read: then that is the first finding.
"""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from otolith import config
from otolith._core import FORMAT_VERSION, SCHEMA_VERSION, __version__, holder
from otolith._vectors import GIVEN, QUERY_SECONDS, is_told, of_another_model
from otolith.exceptions import EmbedderError, OtolithError
from otolith.records import Keeper, Status, _Counts

from .compacting import STORE, keepers
from .disk import Disk, disk_of
from .processes import is_stopped

if TYPE_CHECKING:
    from otolith.config import Settings
    from otolith.memory import Memory

__all__ = ["Diagnosis", "Finding", "examine"]

_LONG_HELD = 60.0
_FULL = 64 << 20
_NEARLY_FULL = 512 << 20
# A store that was just filled takes up to 1.4 times its content, a young one a few MiB more.
_LOOSE, _SMALL = 2.5, 32 << 20
# Numbers of vectors, at a byte each, from which on a segment has a graph.
_UNGRAPHED = 8 << 20
_TOLD_ROWS = 20
_QUESTION = "Is the embedder there?"


@dataclass(frozen=True, slots=True)
class Finding(_Counts):
    """Something to know or to do.

    Attributes:
        level: `error`: something does not work or is lost; `warning`: it may come to that; `note`: worth
            knowing.
        what: What was found.
        advice: What to do about it.
    """

    level: Literal["error", "warning", "note"]
    what: str
    advice: str


@dataclass(frozen=True, slots=True)
class Diagnosis(_Counts):
    """What `otolith doctor` found.

    Attributes:
        versions: Of the package, the formats it writes, Python and the system.
        home: The directory, None if it could not be found out.
        home_source: How it was chosen.
        settings: Name, value (secrets masked) and source of each setting.
        holder: `pid`, `command`, `since` and `exclusive` of who holds the write lock now.
        status: As `Memory.status` gives it; None if the home cannot be opened.
        census: How many records and vectors there are, their bytes, and what cannot be read.
        disk: File system, free and total bytes.
        keepers: Files that may still hold bytes of forgotten records.
        embedder: What the embedder answered; None if it was not asked.
        findings: In the order of their weight.
    """

    versions: Mapping[str, Any]
    home: str | None
    home_source: str | None
    settings: tuple[Mapping[str, Any], ...]
    holder: Mapping[str, Any] | None
    status: Status | None
    census: Mapping[str, Any] | None
    disk: Mapping[str, Any] | None
    keepers: tuple[Keeper, ...]
    embedder: str | None
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.level != "error" for finding in self.findings)


def examine(home: str | os.PathLike[str] | None = None, *, online: bool = False) -> Diagnosis:
    """Looks at a home and everything around it.

    Changes nothing but what every opening does: a store whose last writer was killed is made ready again.

    Args:
        home: As for `Memory.open`.
        online: Whether the embedder is asked; otherwise nothing is sent anywhere.
    """
    from otolith.memory import Memory

    findings: list[Finding] = []
    place: Path | None = None
    source: str | None = None
    settings: Settings | None = None
    try:
        place, chosen = config.choose_home(home)
        source = config.HOME_SOURCES[chosen]
        settings = config.resolve(home=home)
    except OtolithError as error:
        findings.append(_of_error(error))
    else:
        findings += _of_settings(settings)
    there = place is not None and os.path.lexists(place / STORE)
    status, census, answer = None, None, None
    if settings is not None and there:
        try:
            with Memory.open(settings.home, create=False, config=settings) as memory:
                status = memory.status()
                census = memory._engine.census()
                findings += _of_store(memory, status, census)
                if online:
                    answer, found = _asked(memory)
                    findings += found
        except OtolithError as error:
            findings.append(_of_error(error))
    elif settings is not None:
        findings.append(
            Finding(
                "warning",
                f"{settings.home}: there is no memory",
                "make one with `otolith init`, or look whether --home and OTOLITH_HOME are right",
            )
        )
    held = None if place is None else holder(place)
    disk = None
    kept: tuple[Keeper, ...] = ()
    if place is not None and place.is_dir():
        # A directory that is no home has nothing of ours in it.
        if os.path.lexists(place / STORE):
            kept = keepers(place)
            findings += _of_access(place)
        findings += _of_holder(held)
        findings += _of_keepers(place, kept)
        try:
            disk = disk_of(place)
        except OSError as error:
            findings.append(Finding("warning", f"{place}: {error.strerror}", "look at the disk"))
        else:
            findings += _of_disk(place, disk, status)
    order = {"error": 0, "warning": 1, "note": 2}
    return Diagnosis(
        versions=_versions(),
        home=None if place is None else str(place),
        home_source=source,
        settings=() if settings is None else tuple(_settings(settings)),
        holder=held,
        status=status,
        census=census,
        disk=None if disk is None else disk._asdict(),
        keepers=kept,
        embedder=answer,
        findings=tuple(sorted(findings, key=lambda finding: order[finding.level])),
    )


def _versions() -> dict[str, Any]:
    return {
        "otolith": __version__,
        "format": FORMAT_VERSION,
        "schema": SCHEMA_VERSION,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def _settings(settings: Settings) -> Iterator[dict[str, Any]]:
    for name in config.SETTINGS:
        yield {"name": name, "value": settings.shown(name), "source": settings.source(name)}


def _of_error(error: OtolithError) -> Finding:
    what, _, advice = str(error).partition("; ")
    return Finding("error", what, advice or "mend that first, then ask again")


def _of_settings(settings: Settings) -> Iterator[Finding]:
    for one in settings.ignored:
        what, _, advice = one.reason.partition("; ")
        yield Finding("warning", f"{one.name} = {one.value} is ignored: {what}", advice)
    if settings.foreign_owner is not None:
        yield Finding(
            "warning",
            f"{settings.home}: belongs to another user (uid {settings.foreign_owner})",
            "name a home of your own with --home or OTOLITH_HOME unless you mean this one",
        )


def _of_store(memory: Memory, status: Status, census: Mapping[str, Any]) -> Iterator[Finding]:
    lost = census["unreadable"]
    advice = "see all with `otolith verify`, which can repair and keeps the damaged file"
    for told in lost[:_TOLD_ROWS]:
        yield Finding("error", told, advice)
    if len(lost) > _TOLD_ROWS:
        yield Finding("error", f"{len(lost) - _TOLD_ROWS} more rows cannot be read", advice)
    if status.unreadable and not lost:
        yield Finding("error", f"{status.unreadable} records cannot be read", advice)
    coverage = status.coverage
    waiting = coverage.pending + coverage.stale
    is_other = status.home_embedder not in (None, status.fingerprint)
    if waiting and status.embedder is not None and not is_other:
        yield Finding("note", f"{waiting} records wait for their vector", "make them with `otolith embed`")
    if coverage.refused:
        yield Finding(
            "note",
            f"the vectors of {coverage.refused} records were refused; they are found by words only",
            "shorten or complete their text if they should be found by meaning",
        )
    if coverage.dimension_mismatches:
        yield Finding(
            "warning",
            f"{coverage.dimension_mismatches} records were given vectors of another width",
            "make them anew with `otolith reindex`",
        )
    alone = status.indexed_vectors - status.graph_vectors
    if (status.home_dim or 0) * alone >= _UNGRAPHED:
        yield Finding(
            "note",
            f"{alone} vectors have no graph yet and are compared one by one with every question",
            "a process that stays open builds it, or `otolith compact`",
        )
    for mark, count in status.foreign_vectors.items():
        if is_told(mark, status.notices):
            continue
        what, _, advice = of_another_model(mark, count).partition("; ")
        yield Finding("note" if mark.startswith(GIVEN) else "warning", what, advice)
    unread = memory._vectors.unread_script(memory._engine)
    if unread is not None:
        what, _, advice = unread.partition("; ")
        yield Finding("warning", what, advice)
    size, payload = status.file_bytes or 0, census["payload_bytes"]
    if size > _SMALL and size > _LOOSE * payload:
        yield Finding(
            "note",
            f"the store has {size} bytes for about {payload} of content",
            "make it smaller with `otolith compact`",
        )
    of_index = [notice for notice in status.notices if " index " in notice]
    for notice in dict.fromkeys((*of_index, *memory._vectors.notices())):
        what, _, rest = notice.partition("; ")
        yield Finding("warning", what, rest or "see `otolith status`")


def _asked(memory: Memory) -> tuple[str | None, list[Finding]]:
    """Asks the embedder one question, also when there is nothing yet to compare its vector with."""
    from otolith.embedders.base import query_vector

    embedder = memory._vectors.embedder
    if embedder is None:
        return None, []
    try:
        vector = query_vector(embedder, _QUESTION, timeout=QUERY_SECONDS)
    except EmbedderError as error:
        what, _, advice = str(error).partition("; ")
        told = Finding("error", f"embedder: {what}", advice or "look at embedder and embedder_url")
        return "does not answer", [told]
    return f"answers with {len(vector)} dimension{'' if len(vector) == 1 else 's'}", []


def _of_access(home: Path) -> Iterator[Finding]:
    if not os.access(home, os.W_OK | os.X_OK):
        yield Finding(
            "warning",
            f"{home}: this user may not write there",
            "change its owner or mode if anything is to be remembered there",
        )
    if not hasattr(os, "getuid"):
        return
    found = home.stat()
    if found.st_uid != os.getuid():
        yield Finding(
            "warning",
            f"{home}: belongs to uid {found.st_uid}, and this is uid {os.getuid()}",
            "work as that user, or give the directory to this one",
        )
    if found.st_mode & 0o077:
        yield Finding(
            "warning",
            f"{home}: others may look into it (mode {stat.S_IMODE(found.st_mode):o})",
            f"keep it to yourself with `chmod 700 {home}`",
        )
    open_files = []
    for name in (STORE, "config.toml"):
        try:
            mode = (home / name).lstat().st_mode
        except OSError:
            continue
        if stat.S_ISLNK(mode):
            yield Finding("warning", f"{home / name}: is a symbolic link", "put the file itself in its place")
        elif mode & 0o077 and found.st_mode & 0o011:
            open_files.append(str(home / name))
    if open_files:
        yield Finding(
            "warning",
            f"others may read {', '.join(open_files)}",
            f"keep them to yourself with `chmod 600 {' '.join(open_files)}`",
        )


def _of_holder(held: Mapping[str, Any] | None) -> Iterator[Finding]:
    if held is None:
        return
    who = f"process {held['pid']} ({held['command']})"
    if is_stopped(held["pid"]):
        yield Finding(
            "error",
            f"{who} holds the write lock and is stopped: nobody can write",
            f"let it go on with `kill -CONT {held['pid']}`, or end it",
        )
        return
    if held["exclusive"]:
        yield Finding(
            "note",
            f"{who} keeps the memory to itself (store.mode = exclusive): nobody else can open it",
            "close it there before it is used here",
        )
        return
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(held["since"])).total_seconds()
    except ValueError:
        return
    if seconds > _LONG_HELD:
        yield Finding(
            "warning",
            f"{who} has held the write lock for {seconds:.0f} seconds",
            "wait for it, or end it; what it has not finished is undone",
        )


def _of_keepers(home: Path, kept: tuple[Keeper, ...]) -> Iterator[Finding]:
    for one in kept:
        where = home / one.path
        if one.kind == "draft":
            yield Finding(
                "note",
                f"{where}: is being built, or was left by a process that was killed",
                "`otolith compact` removes it when it is older than a minute and nobody works on it",
            )
        elif one.kind in ("damaged", "lost+found"):
            yield Finding(
                "warning",
                f"{where}: was kept by a repair",
                "`otolith import --partial` brings back what is wanted of it"
                if one.path.endswith("/records.jsonl")
                else "delete it when nothing in it is missed; it may hold what was forgotten",
            )
        elif one.kind not in ("previous", "index"):
            yield Finding(
                "note",
                f"{where}: may hold what was forgotten ({one.kind}, {one.bytes} bytes)",
                "move it out of the home or delete it if that matters",
            )
    previous = [one for one in kept if one.kind == "previous"]
    if previous:
        yield Finding(
            "note",
            f"{len(previous)} previous versions of files are kept, the first {home / previous[0].path}",
            "delete them if something in them is to be forgotten",
        )


def _of_disk(home: Path, disk: Disk, status: Status | None) -> Iterator[Finding]:
    if disk.network:
        yield Finding(
            "error",
            f"{home}: lies on a network file system ({disk.file_system}), where locks and syncs cannot be "
            "relied on",
            "keep the memory on a local disk and move it with `otolith backup`",
        )
    store = 0 if status is None or status.file_bytes is None else status.file_bytes
    if disk.free < _FULL:
        yield Finding(
            "error", f"{home}: its disk is full, {disk.free} bytes are free", "make room before writing more"
        )
    elif disk.free < max(_NEARLY_FULL, store):
        yield Finding(
            "warning",
            f"{home}: its disk is nearly full, {disk.free} bytes are free",
            "make room; compact and backup need as much as the store has",
        )
