"""What went wrong with memories elsewhere: locks, lost writes, stale views."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cli_process import Cli
from effort import effort
from field_reports import python
from otolith import Memory, OtolithError, StoreError, StoreLocked


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_a_handle_that_stays_open_is_in_nobodys_way(cli: Cli) -> None:
    """A process that watched kept the lock, so every other search failed."""
    code = (
        "import sys; from otolith import Memory\n"
        "memory = Memory.open(sys.argv[1], embedder=None); memory.remember('held open')\n"
        "print(len(memory), flush=True)\n"
        "for line in sys.stdin: print(len(memory), memory.recall(line)[0].text, flush=True)"
    )
    with python(code, str(cli.home)) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == "1\n"
            assert "held open" in cli("recall", "held").out
            written = cli("remember", "from elsewhere").out.strip()
            for command in (["status"], ["list"], ["show", written]):
                cli(*command)
            holder.stdin.write("elsewhere\n")
            holder.stdin.flush()
            assert holder.stdout.readline() == "2 from elsewhere\n"
        finally:
            holder.kill()


def test_an_open_handle_never_shows_an_old_state(home: Path) -> None:
    """A process kept a stale view after another had changed or deleted what it knew."""
    handles = [Memory.open(home, embedder="hash:16") for _ in range(2)]
    writer, reader = handles
    with Memory.open(home, read_only=True) as watcher:
        for turn in range(10):
            one = writer.remember(f"stale view {turn}")
            assert one.id in {hit.id for hit in watcher.recall("stale view", 50)}
            reader.update(one.id, summary=f"changed {turn}")
            for memory in (writer, watcher):
                assert memory.get(one.id).summary == f"changed {turn}"
                assert not memory.recall("stale", legs=["lexical"])
                assert one.id in {hit.id for hit in memory.recall("changed", 50)}
        assert writer.forget(one.id) == 1
        assert one.id not in {hit.id for hit in reader.recall("changed", 50)}
    for memory in handles:
        memory.close()


def test_a_lock_that_is_held_is_an_error_with_a_name_and_reading_goes_on(
    cli: Cli, locked_home: tuple[Path, int]
) -> None:
    """A second process failed to open the file at all, and was started again every two seconds."""
    home, pid = locked_home
    assert home == cli.home
    env = {"OTOLITH_LOCK_TIMEOUT": "0.3"}
    assert cli("recall", "first", "--json", env=env).json["hits"][0]["episode"]["summary"] == "first"
    assert cli("status", "--json", env=env).json["records"] >= 1
    assert "first" in cli("list", env=env).out
    cli("export", str(cli.root / "export"), env=env)
    cli("backup", str(cli.root / "backup"), env=env)
    env["OTOLITH_EMBEDDER"] = "hash:8"
    for command in (["remember", "new"], ["forget", "--where", "scope=", "--yes"], ["embed"], ["compact"]):
        answer = cli(*command, code=1, env=env)
        assert f"process {pid} " in answer.err, command
        assert answer.out == ""
        told = cli(*command, "--json", code=1, env=env).error
        assert told["error"] == "StoreLocked"
        assert str(pid) in told["message"]
    with Memory.open(home, read_only=True) as memory:
        assert {one.summary for one in memory.episodes()} & {"new"} == set()


def test_every_command_names_who_has_the_home_to_itself(cli: Cli) -> None:
    """A second process failed with a trace of calls, or with words that named nobody."""
    env = {"OTOLITH_LOCK_TIMEOUT": "0.1", "OTOLITH_EMBEDDER": "hash:8"}
    copy, lines = str(cli.root / "copy"), str(cli.root / "lines")
    commands = [["recall", "held"], ["remember", "new"], ["backup", copy], ["export", lines]]
    commands += [[name] for name in ("status", "list", "embed", "compact", "verify")]
    with Memory.open(cli.home, embedder=None, config={"store.mode": "exclusive"}) as memory:
        memory.remember("held")
        for command in commands:
            answer = cli(*command, "--json", code=1, env=env)
            assert answer.error["error"] == "StoreLocked", command
            assert f"process {os.getpid()} " in answer.error["message"], command
            assert answer.out == "", command
        assert f"process {os.getpid()} " in cli("doctor", code=1, env=env).out
        assert [one.summary for one in memory.episodes()] == ["held"]


def test_processes_that_start_at_once_on_no_home_lose_nothing(cli: Cli) -> None:
    """Parallel use ended in busy errors and lost notes."""
    each = effort(30, 100)
    code = (
        "import sys; from otolith import Memory\n"
        "memory = Memory.open(sys.argv[1], embedder=None)\n"
        "for n in range(int(sys.argv[3])): memory.remember(f'process {sys.argv[2]} note {n}')"
    )
    running = [python(code, str(cli.home), str(number), str(each)) for number in range(8)]
    for process in running:
        assert process.communicate(timeout=100)[1] == ""
        assert process.returncode == 0
    with Memory.open(cli.home) as memory:
        assert len(memory) == len(memory.recall("process note", 1000)) == 8 * each


def test_sixteen_threads_write_and_ask_on_one_hybrid_handle(home: Path) -> None:
    """The store said it was locked when threads shared it."""
    end = time.monotonic() + effort(2, 30)
    with Memory.open(home, embedder="hash:16") as memory:

        def work(number: int) -> int:
            for turn in range(100_000):
                one = memory.remember(f"t{number}n{turn} is a note")
                assert memory.recall(f"t{number}n{turn}", 1, legs=["lexical"])[0].id == one.id
                if time.monotonic() > end:
                    return turn + 1
            raise AssertionError("no clock")

        with ThreadPoolExecutor(16) as pool:
            done = list(pool.map(work, range(16)))
        assert min(done) > 0
        assert len(memory) == memory.coverage().vectorized == sum(done)


def test_each_failure_to_open_has_its_own_words(cli: Cli) -> None:
    """Every failure to open was called a lock, with the advice to delete the file."""
    cli("remember", "kept")
    file = cli.home / "episodes.redb"
    good = file.read_bytes()
    messages = {cli("recall", "kept", "--home", str(cli.root / "nowhere"), code=1).err}
    for damage in (b"no store at all" * 999, good[: len(good) // 2], good[:16] + b"\xff" * 90 + good[106:]):
        file.write_bytes(damage)
        answer = cli("recall", "kept", code=1)
        messages.add(answer.err)
        assert "Nothing was changed" in answer.err
        assert file.read_bytes() == damage
    assert len(messages) == 4
    assert not any(word in told for told in messages for word in ("locked", "delete", "remove"))
    file.write_bytes(good)
    assert "kept" in cli("recall", "kept").out


def test_every_other_failure_to_open_has_words_of_its_own_too(
    home: Path, small: Path, locked_home: tuple[Path, int]
) -> None:
    """A full disk, missing rights and a held lock were one and the same message."""
    (small / "filler").write_bytes(b"x" * (1 << 20))
    nobody = 65534
    failed: dict[str, OtolithError] = {}
    with pytest.raises(StoreError) as caught:
        Memory.open(small / "home")
    failed["space"] = caught.value
    with pytest.raises(StoreLocked) as locked, Memory.open(home, config={"lock_timeout": 0.2}) as memory:
        memory.remember("never")
    failed["lock"] = locked.value
    os.seteuid(nobody)  # of the whole process, which does nothing else meanwhile
    try:
        with pytest.raises(OtolithError) as refused:
            Memory.open(home, read_only=True)
    finally:
        os.seteuid(0)
    failed["rights"] = refused.value
    messages = {name: str(error) for name, error in failed.items()}
    assert "no space" in messages["space"]
    assert f"process {locked_home[1]}" in messages["lock"]
    assert "ermission" in messages["rights"]
    assert [name for name, text in messages.items() if "locked" in text] == ["lock"]
    assert not any(word in text for text in messages.values() for word in ("delete", "remove"))
