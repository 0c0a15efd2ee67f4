"""The disk a home lies on."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["Disk", "disk_of"]

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|gpfs|ncpfs|ocfs2|beegfs|glusterfs|davfs"
    r"|fuse\.(sshfs|s3fs|rclone|gcsfuse|glusterfs|davfs\d?|curlftpfs|blobfuse\d?|juicefs|ceph-fuse)"
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Disk(NamedTuple):
    """See the module.

    Attributes:
        file_system: Its kind, such as ext4; None if the system does not say.
        network: Whether it lies on another machine, as far as its kind tells.
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
    kind = _kind(directory)
    return Disk(kind, kind is not None and _NETWORK.fullmatch(kind) is not None, usage.free, usage.total)


def _kind(directory: Path) -> str | None:
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return kind_in(mounts, os.path.realpath(directory))


def kind_in(mounts: str, directory: str) -> str | None:
    """The kind of the file system that a directory lies on.

    Args:
        mounts: Text of `/proc/self/mountinfo`: of mounts on one place the last counts.
        directory: An absolute path without links.
    """
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if len(fields) < 5 or not kinds[0]:
            continue
        point = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[4])
        inside = point == "/" or directory == point or directory.startswith(f"{point}/")
        if inside and (best is None or len(point) >= best[0]):
            best = (len(point), kinds[0])
    return None if best is None else best[1]
