"""From the options of a call to an open memory."""

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from otolith import config
from otolith.cli._invocation import Invocation
from otolith.exceptions import InvalidInput, NotFound

if TYPE_CHECKING:
    from otolith import Memory
    from otolith.config import Settings

_SHOWN_IDS = 10


def settings_of(invocation: Invocation, *, tell_ignored: bool = True) -> "Settings":
    """Resolves the settings of this call and tells what a home asked for and did not get."""
    settings = config.resolve(home=invocation.home)
    _log_to_stderr(invocation, settings)
    if settings.foreign_owner is not None:
        invocation.note(f"note: {settings.home} belongs to another user (uid {settings.foreign_owner})")
    ignored = settings.ignored_in_short()
    if tell_ignored and ignored is not None:
        invocation.note(ignored)
    meta = click.get_current_context().meta
    meta["otolith.color"] = settings.get("color")
    for note in meta.get("otolith.notes", ()):
        invocation.note(f"note: {note}")
    return settings


def is_made(settings: "Settings") -> bool:
    """Returns whether the home of this call holds a memory."""
    return (settings.home / "episodes.redb").exists()


def open_or_make(
    invocation: Invocation, settings: "Settings", rehearsal: "Callable[[Memory], object] | None" = None
) -> "Memory":
    """Opens the memory of this call; a home is made when there is none, and that is told.

    Args:
        invocation: The call.
        settings: Its settings.
        rehearsal: What the call is about to write. It is done in RAM first if a home would be made, so that a
            call that fails leaves none behind.
    """
    from otolith import Memory

    made = is_made(settings)
    if not made and rehearsal is not None:
        with Memory._in_ram(settings) as memory:
            rehearsal(memory)
    memory = Memory.open(settings.home, config=settings)
    if not made:
        invocation.note(f"made a new memory in {settings.home}")
    return memory


def open_existing(invocation: Invocation) -> "Memory":
    """Opens the memory of this call; none is made.

    Not read-only, also for commands that only read: the store opens its file for writing at the first write,
    or when it must be repaired after a crash, and a reader may do that.
    """
    from otolith import Memory

    settings = settings_of(invocation)
    return Memory.open(settings.home, create=False, config=settings)


def full_ids(memory: "Memory", given: Iterable[str]) -> list[str]:
    """Returns whole ids for ids that may be shortened; each only once, in their order.

    Raises:
        NotFound: Nothing starts like this.
        InvalidInput: Several do; the message lists them.
    """
    found: dict[str, None] = {}
    for start in given:
        if not start.strip():
            raise click.UsageError("an id is empty")
        candidates = memory.find(start)
        if not candidates:
            raise NotFound(
                f"no record {start}; list what is there with `otolith list`", what="episode", id=start
            )
        if len(candidates) > 1:
            some = ", ".join(candidates[:_SHOWN_IDS])
            more = ", …" if len(candidates) > _SHOWN_IDS else ""
            raise InvalidInput(
                f"{start} is the start of several ids; write more of it: {some}{more}", field="id"
            )
        found[candidates[0]] = None
    return list(found)


def short_ids(memory: "Memory", ids: list[str]) -> list[str]:
    """Returns ids as short as all of them may be typed: of one length, cut where a UUID has its hyphens."""
    for length in (8, 13, 18, 23):
        if all(len(memory.find(one[:length])) == 1 for one in ids):
            return [one[:length] for one in ids]
    return ids


class _Words(logging.Handler):
    """Tells what the library logs on stderr."""

    def __init__(self, invocation: Invocation) -> None:
        super().__init__()
        self._invocation = invocation

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.levelname.lower()}: {record.getMessage()}"
        if record.exc_info and self.level <= logging.DEBUG:
            text = f"{text}\n{logging.Formatter().formatException(record.exc_info)}"
        self._invocation.words(text)
        self._invocation.warned.append(record.getMessage())

    def handleError(self, record: logging.LogRecord) -> None:
        """A stderr that is gone is no reason to fail."""


def _log_to_stderr(invocation: Invocation, settings: "Settings") -> None:
    logger = logging.getLogger("otolith")
    for handler in [one for one in logger.handlers if isinstance(one, _Words)]:
        logger.removeHandler(handler)
    name = settings.get("log")
    level = logging.getLevelNamesMapping()[name.upper()]
    if invocation.quiet and level < logging.ERROR:
        level = logging.ERROR
    words = _Words(invocation)
    words.setLevel(level)
    logger.addHandler(words)
    logger.setLevel(level)
    logger.propagate = False
