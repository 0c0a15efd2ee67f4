"""An export never takes the place of what the memory consists of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from otolith import InvalidInput, Memory, maintenance

OWN = (
    "episodes.redb",
    "EPISODES.redb",
    "holder",
    "config.toml",
    ".gitignore",
    "locks/maintenance",
    "locks/new",
    "lost+found/2026-01-01-000000-1/records.jsonl",
    "lost+found/new",
    "lost+found",
    "memory/MEMORY.md",
    "memory/new.md",
    "memory/deep/er.jsonl",
    "index/new",
    "episodes.redb.damaged-2026-01-01-000000",
    "episodes.redb.damaged-2027-01-01-000000",
    ".episodes.redb.1-2-3.new",
    ".hidden",
    "notes.txt",
    "backup/episodes.redb",
)


@pytest.fixture
def full(home: Path) -> Path:
    """A home with a file of every kind."""
    with Memory.open(home, embedder=None) as memory:
        memory.remember("one")
    for name in OWN:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name in ("EPISODES.redb", "lost+found", ".hidden") or "new" in name or "2027" in name:
            continue
        if name == "backup/episodes.redb":
            path.write_bytes((home / "episodes.redb").read_bytes())
        elif not path.exists():
            path.write_text("own")
    (home / "config.toml").write_text("lock_timeout = 5\n")
    (home / "memory" / "deep").mkdir(exist_ok=True)
    (home / "index").mkdir(exist_ok=True)
    return home


def state(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file() and path.name != "holder"
    }


@pytest.mark.parametrize("name", OWN)
def test_what_a_home_consists_of_is_no_destination(full: Path, name: str) -> None:
    with Memory.open(full, embedder=None) as memory:
        before = state(full)
        if (full / name).is_dir():
            with pytest.raises(Exception, match="directory"):
                memory.export(full / name)
        else:
            with pytest.raises(InvalidInput, match="choose another place") as caught:
                memory.export(full / name)
            assert caught.value.field == "dest"
        assert state(full) == before
        memory.remember("two")
    assert maintenance.verify(full).records == 2


@pytest.mark.parametrize("name", ["episodes.redb", "config.toml", "lost+found/new", "memory/MEMORY.md"])
def test_other_names_of_it_are_none_either(full: Path, tmp_path: Path, name: str) -> None:
    other = tmp_path / "other"
    other.symlink_to(full)
    link = tmp_path / "link"
    link.symlink_to(full / name)
    names: list[Path | str] = [other / name, link, f"{full}/memory/../{name}", os.path.relpath(full / name)]
    if (full / name).exists():
        hard = tmp_path / "hard"
        hard.hardlink_to(full / name)
        inside = full / "plain.jsonl"
        inside.hardlink_to(full / name)
        names += [hard, inside]
    with Memory.open(full, embedder=None) as memory:
        before = state(full)
        for one in names:
            with pytest.raises(InvalidInput, match="choose another place"):
                memory.export(one)
        if (full / name).exists():
            for mode in ("r+b", "ab"):
                with (
                    (full / name).open(mode) as stream,
                    pytest.raises(InvalidInput, match="the open file is"),
                ):
                    memory.export(stream)
        assert state(full) == before


def test_a_store_of_another_home_is_none(full: Path, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "second", embedder=None) as second:
        second.remember("x")
    target = tmp_path / "second" / "episodes.redb"
    with Memory.open(full, embedder=None) as memory, pytest.raises(InvalidInput, match="is a store"):
        memory.export(target)
    assert maintenance.verify(tmp_path / "second").records == 1


def test_a_plain_new_name_in_the_home_is_one_and_so_is_an_earlier_export(full: Path) -> None:
    (full / "exports").mkdir()
    with Memory.open(full, embedder=None) as memory:
        for target in (full / "memory.jsonl", full / "exports" / "all.jsonl"):
            for _ in range(2):
                assert memory.export(target).records == 1
            assert target.read_bytes().startswith(b'{"otolith":"export"')


def test_what_a_shell_appends_to_is_looked_at(full: Path) -> None:
    before = state(full)
    for command in (["export"], ["export", "-"], ["export", str(full / "episodes.redb")]):
        with (full / "episodes.redb").open("ab") as stream:
            done = subprocess.run(
                [sys.executable, "-m", "otolith", "--home", str(full), *command],
                stdout=stream,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 1
        assert "of the home that is exported" in done.stderr
        assert "hint: choose another place" in done.stderr
    assert state(full) == before
