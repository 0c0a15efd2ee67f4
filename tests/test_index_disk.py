"""The index on disk: it saves time, follows every process, and can be deleted or damaged without harm."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from otolith import Filter, Memory

WORDS = "token rollback pool schema harbour deploy owner_name ERR-4471 令牌 锁 café the".split()  # noqa: SIM905
SECRET = "zanzibarquux"


def fill(memory: Memory, count: int, tag: str = "t") -> None:
    texts = (
        {
            "summary": " ".join(WORDS[(n * k) % len(WORDS)] for k in (1, 3, 5, 7)) + f" number{n}",
            "tags": (tag,),
        }
        for n in range(count)
    )
    memory.remember_many(texts)


def answers(memory: Memory) -> list[object]:
    told: list[object] = []
    for query in ("token rollback", "令牌", "cafe number77", "err-4471"):
        for filter in (None, Filter(tags=("u",))):
            report = memory.recall(query, 12, filter=filter)
            told.append([(hit.id, hit.score, hit.relevance, hit.matched_terms) for hit in report])
            told.append((report.considered, report.filters))
    told.append([episode.id for episode in memory.episodes(limit=30)])
    return told


def files(home: Path, pattern: str = "*") -> list[Path]:
    return sorted(home.glob(f"index/*/{pattern}"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    with Memory.open(home, embedder="none") as memory:
        fill(memory, 2600)
        fill(memory, 300, "u")
        answers(memory)
    return home


def test_a_large_home_has_an_index_and_answers_from_it_as_from_the_store(home: Path) -> None:
    assert len(files(home, "manifest-*.json")) == 1
    assert files(home, "seg-*")
    with Memory.open(home, embedder="none") as memory:
        from_index = answers(memory)
        assert (memory.verify().problems, memory.status().notices) == ((), ())
    for path in files(home):
        path.unlink()
    with Memory.open(home, embedder="none", read_only=True) as memory:
        assert answers(memory) == from_index
    assert not files(home), "a reader writes nothing"
    with Memory.open(home, embedder="none") as memory:
        assert answers(memory) == from_index
    assert files(home, "seg-*")


def test_a_small_home_has_none(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "home", embedder="none") as memory:
        fill(memory, 200)
        answers(memory)
    assert not files(tmp_path / "home")


def test_two_processes_follow_each_other_over_segments(home: Path) -> None:
    with Memory.open(home, embedder="none") as one, Memory.open(home, embedder="none") as two:
        for number in range(4):
            fill(one if number % 2 else two, 700, f"round {number}")
            doomed = list(one.episodes(Filter(tags=(f"round {number}",)), limit=50))
            one.forget(*[episode.id for episode in doomed])
            assert answers(one) == answers(two)
        assert one.verify().ok
        assert two.verify().ok
    assert len(files(home, "manifest-*.json")) == 1


def test_what_was_forgotten_is_in_no_file_of_the_index_after_a_compaction(home: Path) -> None:
    with Memory.open(home, embedder="none") as memory:
        secret = memory.remember(f"the {SECRET} is in the harbour")
        fill(memory, 1200, "later")
        answers(memory)
        assert any(SECRET.encode() in path.read_bytes() for path in files(home))
        memory.forget(secret.id)
        other = home / "index" / "1-plain-1-w1"
        other.mkdir()
        (other / "seg-0000000000000000").write_bytes(SECRET.encode())
        report = memory.compact()
        assert [(keeper.kind, keeper.path) for keeper in report.keepers] == [
            ("index", "index/1-plain-1-w1/seg-0000000000000000")
        ]
        holding = [
            path for path in home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
        ]
        assert holding == [other / "seg-0000000000000000"]
        assert not list(memory.recall(SECRET))
        assert memory.verify().ok


def test_a_damaged_index_is_told_and_built_anew_by_verify(home: Path) -> None:
    with Memory.open(home, embedder="none") as memory:
        right = answers(memory)
    largest = max(files(home, "seg-*"), key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 0xFF
    beside = largest.with_name("beside")
    beside.write_bytes(data)
    beside.replace(largest)
    with Memory.open(home, embedder="none") as memory:
        report = memory.verify()
        assert not report.ok
        assert [problem.kind for problem in report.problems] == ["index"]
        assert "built anew" in report.problems[0].detail
        assert answers(memory) == right
        assert memory.verify().ok
    with Memory.open(home, embedder="none") as memory:
        assert answers(memory) == right


def place_of(data: bytes, section: str) -> tuple[int, int]:
    """Where a section begins and how long it is, by the table at the end of a file: docs/index.md."""
    (count,) = struct.unpack_from("<I", data, len(data) - 52)
    (table,) = struct.unpack_from("<Q", data, len(data) - 48)
    for row in range(table, table + 32 * count, 32):
        if data[row : row + 8].rstrip(b"\0") == section.encode():
            start, length = struct.unpack_from("<QQ", data, row + 8)
            return start, length
    raise LookupError(section)


def test_damage_of_a_filter_column_gives_no_record_of_another_scope(home: Path) -> None:
    with Memory.open(home, embedder="none") as memory:
        memory.remember_many(
            {"summary": f"record {n} pool", "scope": f"team/{'abc'[n % 3]}"} for n in range(1200)
        )
        memory.recall("pool")
    changed = 0
    for file in files(home, "seg-*"):
        data = bytearray(file.read_bytes())
        if b"c.scop.o" not in data:
            continue  # not every segment has this array
        start, length = place_of(data, "c.scop.o")
        changed += 1
        data[next(at for at in range(start, start + length) if data[at] == 3)] ^= 1
        beside = file.with_name("beside")
        beside.write_bytes(data)
        beside.replace(file)
    assert changed > 0
    with Memory.open(home, embedder="none", scope="team/b") as memory:
        assert {hit.episode.scope for hit in memory.recall("pool", 2000)} == {"team/b"}
        assert {episode.scope for episode in memory.episodes()} == {"team/b"}
        assert memory.count() == 400
        assert any("built anew" in notice for notice in memory.status().notices)


@pytest.mark.skipif(sys.platform == "win32", reason="files of POSIX")
@pytest.mark.parametrize("pattern", ["seg-*", "manifest-*"])
def test_a_pipe_in_the_place_of_an_index_file_stops_nobody(home: Path, pattern: str) -> None:
    with Memory.open(home, embedder="none") as memory:
        right = answers(memory)
    for file in files(home, pattern):
        file.unlink()
        os.mkfifo(file)
    with Memory.open(home, embedder="none") as memory:
        assert answers(memory) == right


CHILD = """
import sys
from otolith import Memory
home, seed = sys.argv[1], int(sys.argv[2])
words = "token rollback pool schema harbour deploy".split()
print("ready", flush=True)
with Memory.open(home, embedder="none") as memory:
    number = 0
    while True:
        memory.remember_many(
            {"summary": f"{words[(number + k) % 6]} {words[(k * seed) % 6]} child{seed} n{number}"}
            for k in range(150)
        )
        memory.recall("token pool", 5)
        number += 1
        if number % 9 == 8:
            memory.compact()
"""


def test_processes_that_are_killed_at_any_moment_leave_a_whole_index(tmp_path: Path) -> None:
    home = tmp_path / "home"
    Memory.open(home, embedder="none").close()
    for seed in range(1, 9):
        children = [
            subprocess.Popen(
                [sys.executable, "-c", CHILD, str(home), str(seed * 10 + n)], stdout=subprocess.PIPE
            )
            for n in range(2)
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
        time.sleep(0.4 + 0.17 * seed)
        for child in children:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            assert child.stdout is not None
            child.stdout.close()
        with Memory.open(home, embedder="none") as memory:
            answers(memory)
            assert memory.verify().problems == ()
            assert memory.status().notices == ()
