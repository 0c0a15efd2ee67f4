"""A backup is a home, complete, as of one moment, read back before it has its name. It replaces nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cli_process import Cli
from otolith import AsyncMemory, InvalidInput, Memory, StoreCorrupt, StoreError, config
from otolith.maintenance import backing_up


def fill(memory: Memory, home: Path) -> None:
    memory.remember_many(
        {"summary": f"note {number}", "scope": "team" if number % 2 else "", "key": str(number)}
        for number in range(50)
    )
    memory.forget(memory.remember("forgotten"))
    (home / "config.toml").write_text('embedder = "hash:64"\n')
    (home / "memory/bank").mkdir(parents=True)
    (home / "memory/MEMORY.md").write_text("# Facts\n")
    (home / "memory/bank/picture.png").write_bytes(bytes(range(256)))


def beside(dest: Path) -> list[str]:
    """What lies in the directory of a backup that is not the backup."""
    return sorted(one.name for one in dest.parent.iterdir() if one != dest)


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "today"


def test_a_backup_is_a_home(home: Path, dest: Path) -> None:
    with Memory.open(home, embedder="hash:64") as memory:
        fill(memory, home)
        told: list[tuple[int, int | None]] = []
        report = memory.backup(dest, progress=lambda done, total: told.append((done, total)))
        assert (report.path, report.records, report.vectors) == (str(dest), 50, 50)
        assert report.last_sequence == memory._engine.info()["last_sequence"]
        assert (report.files, report.skipped, report.leftovers) == (4, (), ())
        assert report.bytes == sum(file.stat().st_size for file in dest.rglob("*") if file.is_file())
        assert told
        for made in (dest, *dest.rglob("*")):
            assert made.stat().st_mode & 0o777 == (0o700 if made.is_dir() else 0o600), made
        for path in ("config.toml", ".gitignore", "memory/MEMORY.md", "memory/bank/picture.png"):
            assert (dest / path).read_bytes() == (home / path).read_bytes()
        assert beside(dest) == []
        with Memory.open(dest) as copy:
            assert list(copy.episodes()) == list(memory.episodes())
            assert copy.coverage() == memory.coverage()
            assert copy.recall("note 7")[0].episode.summary == "note 7"
            assert copy.remember("note 7 changed", key="7", scope="team").id == copy.recall("note 7")[0].id
            copy.remember("only in the copy")
        assert len(memory) == 50
    assert b"forgotten" not in (dest / "episodes.redb").read_bytes()


def test_it_is_as_of_one_moment_while_others_write(home: Path, dest: Path) -> None:
    code = (
        "import sys\n"
        "from otolith import Memory\n"
        "with Memory.open(sys.argv[1]) as memory:\n"
        "    number = 0\n"
        "    while True:\n"
        "        memory.remember_many(f'note {number} {half}' for half in range(2))\n"
        "        number += 1\n"
        "        print(number, flush=True)\n"
    )
    with Memory.open(home) as memory:
        memory.remember_many(f"start {number}" for number in range(3000))
        with subprocess.Popen(
            [sys.executable, "-c", code, str(home)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            reports = [memory.backup(dest.with_name(f"copy{number}")) for number in range(3)]
            writer.kill()
        assert [report.records for report in reports] == sorted(report.records for report in reports)
        for report in reports:
            with Memory.open(report.path, read_only=True) as copy:
                found = {one.summary for one in copy.episodes()}
                assert len(found) == report.records
                # Both records of a transaction or none.
                pairs = {one.rsplit(" ", 1)[0] for one in found if one.startswith("note")}
                assert found >= {f"{pair} {half}" for pair in pairs for half in range(2)}
                assert sorted(int(pair.split()[1]) for pair in pairs) == list(range(len(pairs)))


@pytest.mark.parametrize("there", ["file", "full", "link", "dangling"])
def test_what_is_there_is_never_replaced(memory: Memory, dest: Path, there: str) -> None:
    if there == "file":
        dest.write_text("mine")
    elif there == "full":
        (dest / "inner").mkdir(parents=True)
    else:
        dest.symlink_to(dest.parent if there == "link" else dest.parent / "nowhere")
    before = (dest.lstat().st_ino, beside(dest))
    with pytest.raises(StoreError, match="is there already, and a backup replaces nothing") as caught:
        memory.backup(dest)
    assert caught.value.path == str(dest)
    assert (dest.lstat().st_ino, beside(dest)) == before


def test_an_empty_directory_is_taken(memory: Memory, dest: Path) -> None:
    dest.mkdir()
    memory.remember("hello")
    assert memory.backup(dest).records == 1
    assert (dest / "episodes.redb").exists()
    with pytest.raises(StoreError, match="is there already"):
        memory.backup(dest)


@pytest.mark.parametrize("inner", ["backup", "memory/backup", "../home/backup"])
def test_not_within_the_home(memory: Memory, home: Path, tmp_path: Path, inner: str) -> None:
    with pytest.raises(InvalidInput, match="lies in the home itself"):
        memory.backup(home / inner)
    (tmp_path / "way").symlink_to(home)
    with pytest.raises(InvalidInput, match="lies in the home itself"):
        memory.backup(tmp_path / "way" / "backup")


@pytest.mark.parametrize("wrong", ["", " ", "a\0b", b"bytes", 7, None])
def test_what_is_no_path(memory: Memory, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="dest: "):
        memory.backup(wrong)


def test_a_directory_that_is_not_there(memory: Memory, dest: Path) -> None:
    with pytest.raises(StoreError, match="is no directory; make it first"):
        memory.backup(dest / "deep" / "deeper")
    (dest.parent / "file").write_text("")
    with pytest.raises(StoreError):
        memory.backup(dest.parent / "file" / "backup")
    assert not dest.exists()


def test_only_whole_homes(home: Path, dest: Path) -> None:
    with Memory._in_ram(config.resolve()) as memory, pytest.raises(InvalidInput, match="RAM"):
        memory.backup(dest)
    with Memory.open(home, scope="team") as memory, pytest.raises(InvalidInput, match="without scope"):
        memory.backup(dest)
    assert beside(dest) == []


def test_a_read_only_handle_can_make_one(home: Path, dest: Path) -> None:
    with Memory.open(home) as memory:
        memory.remember("hello")
    with Memory.open(home, read_only=True) as memory:
        assert memory.backup(dest).records == 1


def test_links_are_left_out_and_told(memory: Memory, home: Path, dest: Path, tmp_path: Path) -> None:
    """A home may come with a repository, and a link in it may lead to any file of this user."""
    (tmp_path / "secret").write_text("secret")
    fill(memory, home)
    (home / "config.toml").unlink()
    (home / "config.toml").symlink_to(tmp_path / "secret")
    (home / "memory/link.md").symlink_to(tmp_path / "secret")
    (home / "memory/folder").symlink_to(tmp_path)
    os.mkfifo(home / "memory/pipe")
    report = memory.backup(dest)
    assert dict(report.skipped) == {
        "config.toml": "is a symbolic link",
        "memory/link.md": "is a symbolic link",
        "memory/folder": "is a symbolic link",
        "memory/pipe": "is no ordinary file",
    }
    assert not any(file.read_bytes() == b"secret" for file in dest.rglob("*") if file.is_file())


def test_a_copy_that_does_not_read_back_gets_no_name(
    memory: Memory, home: Path, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember_many(f"note {number} MARKER{number:04d}" for number in range(50))
    copy_files = backing_up._copy_files

    def damaging(source: Path, draft: Path) -> Any:
        content = bytearray((draft / "episodes.redb").read_bytes())
        at = -1
        while (at := content.find(b"MARKER0020", at + 1)) >= 0:
            content[at + 3] ^= 1
        (draft / "episodes.redb").write_bytes(content)
        return copy_files(source, draft)

    monkeypatch.setattr(backing_up, "_copy_files", damaging)
    with pytest.raises(StoreCorrupt, match="cannot be read back"):
        memory.backup(dest)
    assert (dest.exists(), beside(dest)) == (False, [])


def test_a_disk_that_fills(memory: Memory, dest: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(small)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        memory.remember_many(f"{number} " + os.urandom(1000).hex() for number in range(2000))
        with pytest.raises(StoreError, match=r"make room|Free some|No space"):
            memory.backup(small / "backup")
        assert list(small.iterdir()) == []
        assert memory.backup(dest).records == 2000
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_files_that_do_not_fit(
    memory: Memory, home: Path, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(memory, home)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(StoreError, match=r"its disk is full: make room.*Nothing was kept") as caught:
        memory.backup(dest)
    assert caught.value.errno == 28
    assert (dest.exists(), beside(dest)) == (False, [])


def test_interrupted_it_leaves_nothing(memory: Memory, home: Path, dest: Path) -> None:
    fill(memory, home)

    def interrupt(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memory.backup(dest, progress=interrupt)
    assert (dest.exists(), beside(dest)) == (False, [])
    assert memory.backup(dest).records == 50


def test_killed_in_the_middle_the_next_one_says_so(memory: Memory, home: Path, dest: Path) -> None:
    fill(memory, home)
    code = (
        "import os, signal, sys\n"
        "from otolith import Memory\n"
        "def kill(done, total): os.kill(os.getpid(), signal.SIGKILL)\n"
        "with Memory.open(sys.argv[1]) as memory: memory.backup(sys.argv[2], progress=kill)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(home), str(dest)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not dest.exists()
    (left,) = beside(dest)
    assert left.startswith(".today.backup-")
    report = memory.backup(dest)
    assert report.leftovers == (str(dest.parent / left),)
    assert (dest.parent / left).exists()  # it may be the only copy of something
    assert memory.backup(dest.with_name("tomorrow")).leftovers == ()


def test_killed_at_any_moment_it_is_whole_or_not_there(home: Path, dest: Path) -> None:
    with Memory.open(home) as memory:
        memory.remember_many(f"note {number} " + "x" * 500 for number in range(2000))
    code = (
        "import sys\n"
        "from otolith import Memory\n"
        "with Memory.open(sys.argv[1]) as memory:\n"
        "    print(flush=True)\n"
        "    memory.backup(sys.argv[2])\n"
        "    print(flush=True)\n"
    )
    runs = int(os.environ.get("OTOLITH_TEST_KILLS", "8"))
    outcomes = set()
    for number in range(runs):
        target = dest.with_name(f"copy{number}")
        with subprocess.Popen(
            [sys.executable, "-c", code, str(home), str(target)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(number * 0.08 / runs)
            process.kill()
        outcomes.add(target.exists())
        if target.exists():
            with Memory.open(target, read_only=True) as copy:
                assert copy._engine.census()["records"] == 2000
    assert False in outcomes


def test_from_a_coroutine(home: Path, dest: Path) -> None:
    async def run() -> None:
        async with AsyncMemory.open(home) as memory:
            await memory.remember("hello")
            assert (await memory.backup(dest)).records == 1

    asyncio.run(run())


def test_on_the_command_line(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    cli("backup", "copy", code=1)
    assert not (cli.cwd / "copy").exists()
    identifier = cli("remember", "hello").out
    answer = cli("backup", "copy")
    assert answer.out == f"{cli.cwd / 'copy'}\n"
    assert "copied 1 record, 0 vectors and 1 file, " in answer.err
    assert cli("--home", str(cli.cwd / "copy"), "list", "--json").json["id"] == identifier.strip()
    answer = cli("backup", "copy", code=1)
    assert "is there already" in answer.err
    content = cli("backup", "other", "--json").json
    assert (content["schema"], content["records"]) == ("otolith.backup/1", 1)
    cli("backup", code=2)
