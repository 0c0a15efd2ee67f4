"""The disk a home lies on."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from otolith._core import file_system
from otolith.exceptions import StoreError

__all__ = ["Disk", "disk_of"]


class Disk(NamedTuple):
    """See the module.

    Attributes:
        file_system: Its kind, such as ext4; None if the system does not say.
        network: Whether other machines may reach it, as far as its kind tells.
        free: Bytes this user may still write.
        total: Bytes it has.
    """

    file_system: str | None
    network: bool
    free: int
    total: int


def disk_of(directory: Path) -> Disk:
    """The disk of a directory that is there.

    Raises:
        OSError: It cannot be asked.
    """
    import shutil

    usage = shutil.disk_usage(directory)
    try:
        told = file_system(directory)
    except StoreError:
        told = {"name": None, "network": False}
    return Disk(told["name"], told["network"], usage.free, usage.total)
