"""Damage is told, a repair brings back what is whole, and nothing that is there is ever harmed by it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import otolith
import pytest
from cli_process import Cli
from otolith import maintenance

HELD = 200


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def fill(home: Path, count: int = HELD) -> dict[str, str]:
    """A home with records of every shape, a tenth of them forgotten; what is there, by id."""
    with otolith.Memory.open(home, embedder="hash:8") as memory:
        records = [
            {
                "summary": f"note {n} " + "word " * (n % 50),
                "vector": [float(n % 7 + 1)] * 4 + [1.0, 2.0, 3.0, float(n)],
                **({"key": f"key {n}"} if n % 3 == 0 else {}),
                **({"working_dir": f"/work/{n % 5}"} if n % 4 == 0 else {}),
            }
            for n in range(count)
        ]
        report = memory.remember_many(records, batch=20)
        gone = [one for n, one in enumerate(report.ids) if n % 10 == 7 and one]
        memory.forget(*gone)
        return {episode.id: episode.summary for episode in memory.episodes()}


def contents(home: Path) -> dict[str, str]:
    with otolith.Memory.open(home, create=False) as memory:
        return {episode.id: episode.summary for episode in memory.episodes()}


def store(home: Path) -> Path:
    return home / "episodes.redb"


def damage(home: Path, at: int, length: int) -> bytes:
    """Overwrites part of the file; returns all of it as it is then."""
    data = bytearray(store(home).read_bytes())
    data[at : at + length] = bytes(255 - byte for byte in data[at : at + length])
    store(home).write_bytes(data)
    return bytes(data)


def flip(home: Path, at: int) -> None:
    data = bytearray(store(home).read_bytes())
    data[at] ^= 4
    store(home).write_bytes(data)


def test_a_whole_home_is_called_whole_and_counted(home: Path) -> None:
    there = fill(home)
    before = store(home).read_bytes()
    told: list[tuple[int, int | None]] = []
    report = maintenance.verify(home, progress=lambda done, total: told.append((done, total)))
    assert (report.ok, report.problems, report.repaired) == (True, (), None)
    assert (report.records, report.vectors, report.bytes) == (len(there), len(there), len(before))
    assert told[-1] == (len(before), len(before))
    repaired = maintenance.verify(home, repair=True)
    assert repaired.ok
    assert repaired.repaired is None
    assert store(home).read_bytes() == before
    assert not list(home.glob("*damaged*"))


def test_an_open_handle_checks_its_index_too_and_one_in_ram_its_rows(home: Path) -> None:
    fill(home)
    with otolith.Memory.open(home, embedder="hash:8") as memory:
        assert len(memory.recall("note")) > 0
        memory.remember("another")
        assert memory.verify().ok
    ram = otolith.Memory._in_ram(otolith.config.resolve(home=home))  # type: ignore[attr-defined]
    with ram:
        ram.remember("one", key="k", working_dir="/w")
        ram.recall("one")
        report = ram.verify()
        assert (report.ok, report.records, report.problems) == (True, 1, ())

    async def asked() -> otolith.VerifyReport:
        async with otolith.AsyncMemory.open(home) as other:
            return await other.verify()

    assert asyncio.run(asked()).ok


@pytest.mark.parametrize("part", [0, 64, 192, 4096, 0.3, 0.5, 0.7])
def test_flipped_bits_are_told_and_cost_nothing(home: Path, part: float) -> None:
    there = fill(home)
    size = store(home).stat().st_size
    flip(home, int(part if part >= 1 or part == 0 else part * size) + 2)
    damaged = store(home).read_bytes()
    report = maintenance.verify(home)
    assert store(home).read_bytes() == damaged
    repaired = maintenance.verify(home, repair=True)
    assert repaired.ok
    assert repaired.problems == report.problems
    if report.ok:
        return  # nobody uses that byte
    assert all(problem.kind and problem.detail for problem in report.problems)
    assert repaired.repaired is not None
    assert Path(repaired.repaired.kept_as).read_bytes() == damaged
    assert repaired.repaired.lost == ()
    assert contents(home) == there
    assert maintenance.verify(home).ok


def test_a_home_that_cannot_be_opened_is_repaired_by_the_command_line(cli: Cli) -> None:
    there = fill(cli.home)
    damaged = damage(cli.home, 0, 4096)
    with pytest.raises(otolith.StoreError):
        otolith.Memory.open(cli.home)
    answer = cli("verify", code=1)
    assert answer.out.startswith("file  -  header  ")
    assert "--repair" in answer.err
    asked = cli("verify", "--json", code=1).json
    assert asked["schema"] == "otolith.verify/1"
    assert asked["ok"] is False
    assert {problem["kind"] for problem in asked["problems"]} >= {"file"}
    done = cli("verify", "--repair")
    assert f"{len(there)} records" in done.err
    assert [path.read_bytes() for path in cli.home.glob("episodes.redb.damaged-*")] == [damaged]
    assert contents(cli.home) == there, "what was forgotten stays forgotten"
    whole = cli("verify", "--json").json
    assert (whole["ok"], whole["problems"], whole["repaired"]) == (True, [], None)
    assert cli("verify").out == ""


def test_what_is_lost_is_named_and_its_bytes_are_kept(home: Path) -> None:
    there = fill(home)
    data = store(home).read_bytes()
    victim = next(one for one, text in there.items() if text.startswith("note 11 "))
    spots = [at for at in range(len(data)) if data.startswith(b'"summary":"note 11 ', at)]
    assert spots
    for at in spots:
        damage(home, at + 11, 6)
    report = maintenance.verify(home, repair=True)
    assert report.repaired is not None
    lost = {loss.id: loss for loss in report.repaired.lost if loss.table == "episodes"}
    assert set(lost) == {victim}
    assert lost[victim].file is not None
    assert report.repaired.lost_found is not None
    assert victim in lost[victim].file
    kept = Path(report.repaired.lost_found, lost[victim].file).read_bytes()
    assert b'"created_at":"' in kept
    assert contents(home) == {one: text for one, text in there.items() if one != victim}
    assert any(problem.kind == "row" and problem.id == victim for problem in report.problems)


def test_handles_go_on_in_the_repaired_file(home: Path) -> None:
    there = fill(home)
    with otolith.Memory.open(home, embedder="hash:8") as memory:
        assert len(memory) == len(there)
        memory.remember("before")
        damage(home, store(home).stat().st_size // 2, 3000)
        report = maintenance.verify(home, repair=True)
        if report.repaired is not None:
            damaged = Path(report.repaired.kept_as).read_bytes()
            memory.remember("after")
            assert len(memory) == report.repaired.restored + 1
            assert memory.recall("after")[0].text == "after"
            assert memory.verify().ok
    if report.repaired is not None:
        assert Path(report.repaired.kept_as).read_bytes() == damaged
    assert maintenance.verify(home).ok


def test_a_writer_waits_while_it_is_verified_and_loses_nothing(home: Path) -> None:
    fill(home)
    written: list[str] = []
    stop = threading.Event()

    def write() -> None:
        with otolith.Memory.open(home, embedder=None) as memory:
            while not stop.is_set():
                written.append(memory.remember(f"live {len(written)}").id)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            assert maintenance.verify(home).ok
    finally:
        stop.set()
        writer.join()
    assert len(written) > 5
    assert set(written) <= set(contents(home))


def child(action: str, home: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "otolith.maintenance.child", action, str(home), "10"]
    # It ends when its stdin does.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def test_a_repair_that_is_killed_leaves_the_old_file_or_the_new_one(home: Path) -> None:
    there = fill(home)
    damaged = damage(home, 0, 4096)
    started = time.monotonic()
    process = child("repair", home)
    process.wait()
    process.communicate()
    whole_time = time.monotonic() - started
    assert contents(home) == there
    seen = set()
    # `OTOLITH_KILLS` for the long form.
    for _ in range(int(os.environ.get("OTOLITH_KILLS", "8"))):
        store(home).write_bytes(damaged)
        process = child("repair", home)
        time.sleep(random.uniform(0.2, 1.0) * whole_time)
        process.kill()
        process.communicate()
        is_old = store(home).read_bytes() == damaged
        seen.add(is_old)
        if not is_old:
            assert contents(home) == there
            continue
        report = maintenance.verify(home, repair=True)
        assert report.repaired is not None
        assert contents(home) == there


@pytest.fixture
def stopped_holder(home: Path) -> Iterator[int]:
    """A process that holds the write lock and does not go on."""
    code = f"""
import otolith, sys, time
memory = otolith.Memory.open({str(home)!r}, embedder=None)
print("ready", flush=True)
n = 0
while True:
    memory.remember_many([f"held {{n}} {{m}}" for m in range(2000)], batch=2000)
    n += 1
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        time.sleep(0.05)
        process.send_signal(signal.SIGSTOP)
        if (home / "holder").read_bytes().startswith(b"held "):
            break
        process.send_signal(signal.SIGCONT)
    yield process.pid
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_holder_that_is_stopped_is_named(home: Path, stopped_holder: int) -> None:
    with pytest.raises(otolith.StoreLocked) as caught:
        maintenance.verify(home, lock_timeout=0.4)
    assert caught.value.holder_pid == stopped_holder
    assert caught.value.waited_ms >= 400


def test_an_interrupt_ends_the_child_and_changes_nothing(home: Path) -> None:
    fill(home)
    damaged = damage(home, 0, 4096)

    def interrupt(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        maintenance.verify(home, repair=True, progress=interrupt)
    assert store(home).read_bytes() == damaged
    assert not list(home.glob("*damaged*"))
    assert maintenance.verify(home, repair=True).ok


STARTED = """echo '{"started": true}'"""


def interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, *, real: bool = True) -> None:
    """A script in the place of the interpreter that does something first."""
    script = tmp_path / "python"
    # Never written while it runs, and never run while it is open.
    beside = tmp_path / "python.new"
    beside.write_text(f"#!/bin/sh\n{before}\n" + (f'exec {sys.executable} "$@"\n' if real else ""))
    beside.chmod(0o700)
    beside.rename(script)
    monkeypatch.setattr(sys, "executable", str(script))


@pytest.mark.skipif(os.name == "nt", reason="a script stands for the interpreter")
def test_a_check_that_ends_its_process_is_a_problem_and_a_repair_goes_on(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = fill(home)
    before = store(home).read_bytes()
    interpreter(tmp_path, monkeypatch, f'case "$*" in *distrust*) ;; *) {STARTED}; kill -ABRT $$ ;; esac')
    report = maintenance.verify(home)
    assert [(problem.kind, "SIGABRT" in problem.detail) for problem in report.problems] == [("file", True)]
    assert not report.ok
    repaired = maintenance.verify(home, repair=True)
    assert repaired.ok
    assert repaired.repaired is not None
    assert Path(repaired.repaired.kept_as).read_bytes() == before
    assert contents(home) == there


def test_what_cannot_be_looked_at_is_an_error(home: Path, cli: Cli) -> None:
    with pytest.raises(otolith.StoreError, match="otolith init"):
        maintenance.verify(home)
    home.mkdir()
    store(home).write_bytes(b"")
    with pytest.raises(otolith.StoreError, match="empty"):
        maintenance.verify(home)
    with pytest.raises(otolith.InvalidInput):
        maintenance.verify(home, repair=1)  # type: ignore[arg-type]
    error = cli("verify", "--json", "--home", str(home), code=1).error
    assert error["error"] == "StoreError"
    store(home).write_bytes(b"text that is no store" * 1000)
    report = maintenance.verify(home)
    assert not report.ok
    assert json.loads(json.dumps(report.to_dict()))["ok"] is False


def test_a_read_only_handle_verifies_and_refuses_to_repair(home: Path) -> None:
    fill(home)
    with otolith.Memory.open(home, read_only=True) as memory:
        assert memory.verify().ok
        with pytest.raises(otolith.ReadOnly):
            memory.verify(repair=True)


def test_a_file_that_was_cut_off_gives_its_records_back_by_way_of_an_import(cli: Cli) -> None:
    # Nothing says how far the feed of such a file went, so a record in it may have been forgotten: nothing
    # comes back by itself, and nothing is lost either.
    with otolith.Memory.open(cli.home, embedder=None) as memory:
        there = {memory.remember(f"note {n} {'x' * 300}").id: f"note {n} {'x' * 300}" for n in range(300)}
        forgotten = list(there)[:30]
        memory.forget(*forgotten)
        memory.compact()  # a file without holes: what is cut off are rows
        memory.remember("the last")
    whole = store(cli.home).read_bytes()
    store(cli.home).write_bytes(whole[: len(whole) * 6 // 10])
    done = cli("verify", "--repair", code=1)
    assert contents(cli.home).keys() <= there.keys() - set(forgotten)
    told = re.search(r"otolith import --partial (\S+records\.jsonl)", done.err)
    assert told, done.err
    held = [line for line in done.out.splitlines() if line.startswith("held back  episodes  ")]
    assert len(held) > 50
    cli("import", "--partial", told[1])
    back = contents(cli.home)
    assert len(back) >= len(held)
    assert {id: text for id, text in back.items() if id in there} == {
        id: there[id] for id in back if id in there
    }
