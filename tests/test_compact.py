"""`compact` makes the store small and leaves forgotten bytes in no file of the home but those it names."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_process import Cli
from otolith import AsyncMemory, InvalidInput, Keeper, Memory, StoreError
from otolith.maintenance.compacting import keepers

SECRET = b"SECRET-4471"


def files_with(home: Path, needle: bytes) -> set[str]:
    return {
        file.relative_to(home).as_posix()
        for file in home.rglob("*")
        if file.is_file() and not file.is_symlink() and needle in file.read_bytes()
    }


def fill(memory: Memory, count: int = 400) -> None:
    memory.remember_many(
        {"summary": f"{number} " + "x" * 1500, "tags": [str(number % 2)]} for number in range(count)
    )


def test_forgotten_bytes_are_gone_and_the_rest_is_there(home: Path) -> None:
    with Memory.open(home, embedder="hash:64") as memory:
        fill(memory)
        kept = memory.remember("kept", key="k")
        gone = memory.remember(SECRET.decode(), body=SECRET.decode(), key="gone")
        memory.forget(gone)
        memory.forget_where({"tags": ["1"]})
        before = list(memory.episodes())
        coverage = memory.coverage()
        size = (home / "episodes.redb").stat().st_size
        told: list[tuple[int, int | None]] = []
        report = memory.compact(progress=lambda done, total: told.append((done, total)))
        assert report.before_bytes == size
        assert report.after_bytes == (home / "episodes.redb").stat().st_size < size
        assert (report.records, report.keepers, report.removed_drafts) == (201, (), ())
        assert report.blocked_us > 0
        assert told
        assert files_with(home, SECRET) == set()
        assert list(memory.episodes()) == before
        assert memory.coverage() == coverage
        assert memory.get(kept.id) == kept
        assert memory.recall("kept")[0].id == kept.id
        again = memory.remember("kept again", key="k")
        assert again.id == kept.id
    with Memory.open(home, embedder="hash:64") as memory:
        assert len(memory) == 201


@pytest.mark.parametrize(("count", "width"), [(5_000, 384), (300, 4096), (40, 8)])
def test_a_file_is_not_longer_than_what_is_in_it(home: Path, count: int, width: int) -> None:
    with Memory.open(home, embedder=None) as memory:
        rows = np.random.default_rng(1).normal(size=(count, width)).astype(np.float32)
        memory.remember_many({"summary": f"note {i}", "vector": row} for i, row in enumerate(rows))
        before = (home / "episodes.redb").stat().st_size
        report = memory.compact()
        after = (home / "episodes.redb").stat()
    assert report.after_bytes == after.st_size <= before
    # redb keeps some hundred kilobytes of its own.
    assert after.st_size <= 1.25 * after.st_blocks * 512 + 2**20


def test_every_file_that_still_has_them_is_named(home: Path, tmp_path: Path) -> None:
    """The promise: in no file of the home but the named keepers."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(SECRET)
    with Memory.open(home) as memory:
        memory.forget(memory.remember(SECRET.decode()))
        for path in (
            "memory/MEMORY.md.bak",
            "memory/bank/entities/ada.md.prev",
            "episodes.redb.damaged-2026-01-02-030405",
            "episodes.redb.bak",
            "lost+found/2026-01-02-1/episodes-7",
            "old/episodes.redb",
            "old/memory/MEMORY.md",
            "export.jsonl",
            f".episodes.redb.{os.getpid()}-1.new",
        ):
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_bytes(SECRET)
        (home / "memory/MEMORY.md").write_bytes(b"# Facts\n")
        (home / "link").symlink_to(elsewhere)
        report = memory.compact()
    named = [keeper.path for keeper in report.keepers]
    having = files_with(home, SECRET)
    assert having
    assert all(any(path == name or path.startswith(f"{name}/") for name in named) for path in having)
    assert {(keeper.path, keeper.kind) for keeper in report.keepers} == {
        ("memory/MEMORY.md.bak", "previous"),
        ("memory/bank/entities/ada.md.prev", "previous"),
        ("episodes.redb.damaged-2026-01-02-030405", "damaged"),
        ("episodes.redb.bak", "previous"),
        ("lost+found/2026-01-02-1/episodes-7", "lost+found"),
        ("old", "backup"),
        ("export.jsonl", "other"),
        (f".episodes.redb.{os.getpid()}-1.new", "draft"),
    }
    assert Keeper("old", "backup", 2 * len(SECRET)) in report.keepers


def test_a_home_of_our_own_making_has_no_keepers(home: Path) -> None:
    with Memory.open(home) as memory:
        memory.remember("hello")
        memory.compact()
        assert keepers(home) == ()
    (home / "config.toml").write_text("")
    (home / "memory").mkdir()
    (home / "memory/MEMORY.md").write_text("# Facts\n")
    assert keepers(home) == ()
    assert keepers(home / "nowhere") == ()


def test_an_index_that_compaction_makes_holds_nothing_that_was_forgotten(home: Path) -> None:
    """A home that was written by processes that never asked has none before."""
    with Memory.open(home) as memory:
        memory.forget(memory.remember(SECRET.decode()))
        memory.remember_many({"summary": f"note {n}", "key": str(n)} for n in range(1_500))
    assert not (home / "index").exists()
    with Memory.open(home) as memory:
        report = memory.compact()
    assert list(home.glob("index/*/seg-*"))
    assert report.keepers == ()
    assert files_with(home, SECRET) == set()


def test_drafts_of_killed_processes_are_removed_after_a_minute(home: Path) -> None:
    # By age and not by process number: in a container every process is number 1.
    with Memory.open(home) as memory:
        memory.remember("hello")
        old, fresh, own = (
            home / f".episodes.redb.{pid}-{number}-0.new"
            for pid, number in ((1, 1), (1, 2), (os.getpid(), 3))
        )
        for draft in (old, fresh, own):
            draft.write_bytes(SECRET)
        for draft in (old, own):
            os.utime(draft, (time.time() - 120,) * 2)
        report = memory.compact()
        assert report.removed_drafts == tuple(sorted((str(old), str(own))))
        assert {keeper.path for keeper in report.keepers} == {fresh.name}
        assert not old.exists()


def test_where_there_is_nothing_to_compact(home: Path) -> None:
    from otolith import config

    with Memory._in_ram(config.resolve()) as memory, pytest.raises(InvalidInput, match="RAM"):
        memory.compact()
    Memory.open(home).close()
    with Memory.open(home, read_only=True) as memory, pytest.raises(StoreError):
        memory.compact()
    with Memory.open(home) as memory:
        with pytest.raises(InvalidInput, match="progress"):
            memory.compact(progress=3)  # type: ignore[arg-type]
        assert memory.compact().records == 0


def test_what_a_progress_function_raises_stops_it_and_nothing_is_left(home: Path) -> None:
    def stop(done: int, total: int | None) -> None:
        raise RuntimeError("enough")

    with Memory.open(home) as memory:
        fill(memory)
        before = (home / "episodes.redb").stat().st_ino
        with pytest.raises(RuntimeError, match="enough"):
            memory.compact(progress=stop)
        assert (home / "episodes.redb").stat().st_ino == before
        assert keepers(home) == ()
        assert memory.compact().records == 400


def test_others_go_on_in_the_new_file(home: Path) -> None:
    code = (
        "import sys\n"
        "from otolith import Memory\n"
        "with Memory.open(sys.argv[1]) as memory:\n"
        "    for number in range(150):\n"
        "        memory.remember(f'note {number} of {sys.argv[2]}', key=f'{sys.argv[2]}-{number}')\n"
        "        print(number, flush=True)\n"
    )
    with Memory.open(home) as memory, Memory.open(home) as reader:
        memory.remember("first")
        assert len(reader) == 1
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(home), str(name)], stdout=subprocess.PIPE, text=True
            )
            for name in range(3)
        ]
        swaps = 0
        while any(writer.poll() is None for writer in writers):
            memory.compact()
            swaps += 1
        for writer in writers:
            out, _ = writer.communicate()
            assert writer.returncode == 0
            assert out.split() == [str(number) for number in range(150)]
        assert swaps >= 2
        assert len(reader) == len(memory) == 451


def test_from_a_coroutine(home: Path) -> None:
    async def run() -> None:
        async with AsyncMemory.open(home) as memory:
            await memory.remember("hello")
            assert (await memory.compact()).records == 1

    asyncio.run(run())


def test_on_the_command_line(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    cli("compact", code=1)
    assert not cli.home.exists()
    cli("remember", "hello")
    answer = cli("compact")
    assert answer.out == ""
    assert "1 record; writers waited at most" in answer.err
    (cli.home / "memory").mkdir()
    (cli.home / "memory/MEMORY.md.bak").write_text("earlier")
    answer = cli("compact")
    assert answer.out == "memory/MEMORY.md.bak (previous, 7 bytes)\n"
    assert "delete them if it must be gone" in answer.err
    content = cli("compact", "--json").json
    assert content["schema"] == "otolith.compact/1"
    assert content["keepers"] == [{"path": "memory/MEMORY.md.bak", "kind": "previous", "bytes": 7}]
