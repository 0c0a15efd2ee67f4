"""Disks that are full, directories that may not be written: a typed error, nothing lost, nothing made up."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from otolith import Memory, StoreError
from otolith._files import replace_file

NOBODY = 65534

# Everything is imported before the rights are given up: the interpreter may lie where nobody else may read.
AS_NOBODY = """
import os, sys
from otolith import Memory, OtolithError
with Memory.open(sys.argv[2]) as warm:
    warm.remember("x")
    warm.recall("x")
if os.geteuid() == 0:
    os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
try:
    with Memory.open(sys.argv[1], **eval(sys.argv[3])) as memory:
        eval(sys.argv[4])
except OtolithError as error:
    print(type(error).__name__, str(error), sep="|")
else:
    print("done")
""".replace("{nobody}", str(NOBODY))


def as_nobody(home: Path, spare: Path, call: str, options: str = "{}") -> list[str]:
    out = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(home), str(spare), options, call],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, out.stderr
    return out.stdout.strip().split("|")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that everybody may reach."""
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    return tmp_path


def test_no_permission_to_make_a_home(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o555)
    kind, message = as_nobody(closed / "home", place / "spare", "None")
    assert kind == "StoreError"
    assert str(closed) in message
    assert "ermission" in message
    assert list(closed.iterdir()) == []


def test_no_permission_to_read_a_home(place: Path) -> None:
    home = place / "home"
    with Memory.open(home) as memory:
        memory.remember("x")
    if os.geteuid() != 0:
        (home / "episodes.redb").chmod(0)
    _, message = as_nobody(home, place / "spare", "memory.recall('x')", "{'read_only': True}")
    assert str(home) in message
    assert "ermission" in message


def test_a_home_on_which_nothing_may_be_written_can_be_read(place: Path) -> None:
    home = place / "home"
    with Memory.open(home) as memory:
        memory.remember("still readable")
    before = (home / "episodes.redb").read_bytes()
    (home / "episodes.redb").chmod(0o444)
    home.chmod(0o555)
    try:
        call = "print(memory.recall('readable')[0].text)"
        assert as_nobody(home, place / "spare", call, "{'read_only': True}")[0].startswith("still readable")
        kind, message = as_nobody(home, place / "spare", "memory.remember('y')")
        assert kind in ("StoreError", "ReadOnly")
        assert str(home) in message
    finally:
        home.chmod(0o700)
    assert (home / "episodes.redb").read_bytes() == before


def test_a_full_disk_loses_nothing_that_was_acknowledged(small: Path) -> None:
    home = small / "home"
    kept: list[str] = []

    def fill(memory: Memory) -> None:
        for number in range(1000):
            kept.append(memory.remember(f"note {number}", body="word " * 2000).id)

    with Memory.open(home) as memory:
        with pytest.raises(StoreError) as caught:
            fill(memory)
        assert "episodes.redb" in str(caught.value)
        assert kept
        assert sorted(one.id for one in memory.episodes()) == sorted(kept)
        assert memory.recall("note", 3)
        subprocess.run(["mount", "-o", "remount,size=8m", str(small)], check=True)
        kept.append(memory.remember("there is room again").id)
    with Memory.open(home) as memory:
        assert sorted(one.id for one in memory.episodes()) == sorted(kept)
        assert memory.recall("room")[0].id == kept[-1]


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "make room"),
        (errno.EDQUOT, "make room"),
        (errno.EROFS, "another place"),
        (errno.EACCES, "write access"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_the_advice_fits_what_the_system_said(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: str
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    with Memory.open(home) as memory, monkeypatch.context() as patch:
        memory.remember("x")
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(StoreError, match=told) as caught:
            memory.export(tmp_path / "out.jsonl")
        assert caught.value.errno == number
        assert ("write access" in str(caught.value)) == (number == errno.EACCES)
        with pytest.raises(StoreError, match=told) as caught:
            replace_file(tmp_path / "config.toml", b"", mode=0o600)
        assert caught.value.errno == number
        assert ("write access" in str(caught.value)) == (number == errno.EACCES)
    assert not (tmp_path / "out.jsonl").exists()


def test_a_disk_without_room_for_a_home(small: Path) -> None:
    (small / "filler").write_bytes(b"x" * (1 << 20))
    with pytest.raises(StoreError, match="home"):
        Memory.open(small / "home")
