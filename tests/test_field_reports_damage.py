"""What went wrong with memories elsewhere: crashes, damage, growth without bound."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_process import Cli
from effort import effort
from field_reports import bits, python, sample, stored_rows
from otolith import Filter, Memory


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


WRITER = """
import itertools, os, random, signal, sys
from otolith import Memory, StoreError
draw = random.Random(int(sys.argv[2]))
memory = Memory.open(sys.argv[1], embedder="hash:16")
for n in itertools.count():
    report = memory.remember_many([f"kill {n} of many {m}" for m in range(draw.choice([1, 1, 50]))])
    print(*report.ids, flush=True)
    if n % 5 == 4:
        memory.forget(memory.remember(f"gone {n}").id)
    if n % 7 == 6:
        memory.embed_pending()
        memory.export(sys.argv[1] + f"/../export{os.getpid()}")
        try:
            memory.compact()
        except StoreError as error:
            assert "being compacted or repaired already" in str(error), error
"""


@pytest.mark.parametrize(("how", "writers", "rounds"), [("SIGKILL", 4, (3, 50)), ("SIGTERM", 2, (3, 100))])
def test_writers_killed_together_lose_nothing_they_acknowledged(
    home: Path, how: str, writers: int, rounds: tuple[int, int]
) -> None:
    """Parallel writers that were killed left a malformed file, or an index that crashed later."""
    acknowledged: set[str] = set()
    draw = random.Random(how)
    for turn in range(effort(*rounds)):
        running = [python(WRITER, str(home), f"{turn}{number}") for number in range(writers)]
        for process in running:
            assert process.stdout is not None
            for _ in range(draw.randint(1, 12)):
                acknowledged |= set(process.stdout.readline().split())
        for process in running:
            process.send_signal(getattr(signal, how))
        for process in running:
            with process:
                assert process.stdout is not None
                lines = process.stdout.read().splitlines(keepends=True)
                assert process.stderr is not None
                assert process.stderr.read() == ""
            acknowledged |= {id for line in lines if line.endswith("\n") for id in line.split()}
        with Memory.open(home, embedder="hash:16") as memory:
            there = {one.id for one in memory.episodes()}
            assert acknowledged <= there
            assert memory.status().unreadable == 0
            memory.embed_pending()
            assert memory.coverage().ratio() == 1.0
            if turn % 5 == 0:
                assert {hit.id for hit in memory.recall("kill gone", 10**6)} == there
    with Memory.open(home, embedder="hash:16") as memory:
        assert memory.verify().ok


def test_flipped_bytes_never_become_wrong_text(home: Path) -> None:
    """A damaged file was served as if nothing had happened."""
    with Memory.open(home) as memory:
        ids = memory.remember_many([f"unique{n} of many" for n in range(40)]).ids
    texts = {id: f"unique{n} of many" for n, id in enumerate(ids)}
    file = home / "episodes.redb"
    good = file.read_bytes()
    code = (
        "import sys, json, otolith; texts = json.loads(sys.argv[2])\n"
        "for damaged in sys.argv[3:]:\n"
        "    open(sys.argv[1] + '/episodes.redb', 'wb').write(open(damaged, 'rb').read())\n"
        "    try:\n"
        "        with otolith.Memory.open(sys.argv[1]) as memory:\n"
        "            there = {one.id: one.summary for one in memory.episodes()}\n"
        "            hits = {hit.id: hit.text for hit in memory.recall('many', 99)}\n"
        "            missing = memory.status().unreadable\n"
        "    except otolith.OtolithError as error: continue\n"
        "    assert there.items() <= texts.items() and hits.items() <= texts.items()\n"
        "    assert len(there) + missing >= len(texts), (damaged, len(there), missing)"
    )
    draw = random.Random(5)
    filled = [place for place, byte in enumerate(good) if byte]
    paths = []
    for number in range(25):
        damaged = bytearray(good)
        damaged[draw.choice(filled)] ^= 1 << draw.randrange(8)
        paths.append(str(home.parent / f"damaged{number}"))
        Path(paths[-1]).write_bytes(damaged)
    process = python(code, str(home), json.dumps(texts), *paths)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == 0, told


def files(home: Path) -> dict[str, int]:
    return {str(file.relative_to(home)): file.stat().st_size for file in home.rglob("*") if file.is_file()}


def test_embedding_again_does_nothing_and_leaves_nothing_behind(home: Path) -> None:
    """The index was built again for ever, left temporary files, and an open handle stayed at the old one."""
    with Memory.open(home) as before, Memory.open(home, embedder="hash:16") as memory:
        memory.remember_many([f"note {n}" for n in range(300)], embed="later")
        assert before.coverage().pending == 300
        assert memory.embed_pending().embedded == 300
        names, written = files(home).keys(), (home / "episodes.redb").stat().st_mtime_ns
        for _ in range(3):
            report = memory.embed_pending()
            assert (report.embedded, report.remaining, report.error) == (0, 0, None)
        assert before.coverage().vectorized == 300
        assert files(home).keys() == names
        assert (home / "episodes.redb").stat().st_mtime_ns == written
        assert stored_rows(before) == stored_rows(memory)


BUILD = """
import os, resource, sys
from otolith import Memory, OtolithError
memory = Memory.open(sys.argv[1], embedder=None)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[2]), -1))
try:
    print(len(memory.recall("note", 5)), flush=True)
except (OtolithError, MemoryError) as error:
    print(type(error).__name__, flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_a_build_that_runs_out_of_memory_loses_nothing(home: Path) -> None:
    """A build of the index that ran out of memory left an empty database."""
    with Memory.open(home, embedder=None) as memory:
        rows = np.random.default_rng(1).standard_normal((4000, 256)).astype(np.float32)
        memory.remember_many([{"summary": f"note {n} " * 20, "vector": row} for n, row in enumerate(rows)])
    before = (home / "episodes.redb").read_bytes()
    outcomes = set()
    for room in (1 << 20, 4 << 20, 16 << 20, 1 << 30):
        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(home), str(room)], capture_output=True, text=True, check=False
        )
        outcomes.add((done.returncode, done.stdout.strip()))
        with Memory.open(home, embedder=None, read_only=True) as memory:
            assert len(memory) == 4000
    assert (0, "5") in outcomes
    assert len(outcomes) > 1, "the limit was never reached"
    assert len((home / "episodes.redb").read_bytes()) <= len(before)
    with Memory.open(home, embedder=None) as memory:
        assert len(memory.recall("note", 5000)) == memory.coverage().vectorized == 4000


def test_importing_ten_times_grows_nothing_and_leaves_the_source_alone(home: Path, tmp_path: Path) -> None:
    """A forced rebuild wrote 35 GB, and the recovery from it destroyed the sources."""
    source = tmp_path / "source.jsonl"
    with Memory.open(tmp_path / "other", embedder="hash:64") as memory:
        memory.remember_many(sample(3, 1000))
        memory.export(source)
    before = source.read_bytes()
    with Memory.open(home) as memory:
        sizes = []
        for _ in range(10):
            memory.import_(source)
            sizes.append((home / "episodes.redb").stat().st_size)
        assert len(memory) == 1000
        out = io.BytesIO()
        memory.export(out)
    assert out.getvalue() == source.read_bytes() == before
    assert max(sizes) <= 2 * sizes[0]


def test_a_file_does_not_grow_with_what_was_replaced_and_forgotten(home: Path, tmp_path: Path) -> None:
    """An index grew to 1.9 TB, for nothing that was deleted ever left it."""
    count, rounds = effort(200, 1000), effort(25, 50)

    def notes(turn: int) -> list[dict[str, Any]]:
        return [{"summary": f"note {n} in turn {turn} " * 5, "key": str(n)} for n in range(count)]

    with Memory.open(tmp_path / "fresh", embedder="hash:64") as memory:
        memory.remember_many(notes(0))
    fresh = (tmp_path / "fresh" / "episodes.redb").stat().st_size
    with Memory.open(home, embedder="hash:64") as memory:
        for turn in range(rounds):
            memory.remember_many(notes(2 * turn))
            memory.remember_many(notes(2 * turn + 1))
            if turn < rounds - 1:
                memory.forget_where(Filter(scope=""))
        assert len(memory) == memory.coverage().vectorized == len(stored_rows(memory)) == count
        grown = (home / "episodes.redb").stat().st_size
        memory.compact()
        # It keeps the last change of every record there ever was.
        compacted = (home / "episodes.redb").stat().st_size
        assert compacted <= 1.3 * fresh + rounds * count * 64
        assert len(memory.recall("note", 10**6)) == count
    # The feed keeps some 60 bytes a change until the file is compacted: five changes a note and turn.
    assert grown <= 3 * fresh + rounds * count * 5 * 64, (grown, fresh)


def test_what_a_repair_makes_can_be_opened_and_searched(cli: Cli) -> None:
    """The repair made an index that could not be loaded, from data that it then had changed."""
    with Memory.open(cli.home, embedder="hash:16") as memory:
        memory.remember_many(f"unique{n} of many" for n in range(200))
        texts = {one.id: one.summary for one in memory.episodes()}
    file = cli.home / "episodes.redb"
    good = file.read_bytes()
    filled = [place for place in range(4096, len(good)) if good[place]]
    draw = random.Random(42)
    repaired = 0
    for turn in range(effort(4, 40)):
        damaged = bytearray(good)
        for place in draw.sample(filled, 20):
            damaged[place] ^= 1 << draw.randrange(8)
        if turn % 3 == 2:
            start = draw.randrange(1, len(good) // 4096) * 4096
            damaged[start : start + 4096] = bytes(4096)
        file.write_bytes(damaged)
        answer = cli("verify", "--repair", code=None)
        kept = list(cli.home.glob("episodes.redb.damaged-*"))
        if kept:
            repaired += 1
            assert [one.read_bytes() for one in kept] == [damaged], "the source is as it was"
            kept[0].unlink()
        else:
            assert answer.code == 0, answer
        assert cli("verify").code == 0
        with Memory.open(cli.home, embedder="hash:16") as memory:
            there = {one.id: one.summary for one in memory.episodes()}
            assert there.items() <= texts.items()
            assert {hit.id for hit in memory.recall("many", 500)} == there.keys()
            assert memory.remember("after the repair").id in {hit.id for hit in memory.recall("repair")}
    assert repaired > 0


# -- the index on disk ------------------------------------------------------------------------------------


def indexed(home: Path, turns: int = 1) -> Memory:
    """A memory with an index on disk, after its notes were written so many times."""
    memory = Memory.open(home, embedder="hash:16")
    for turn in range(turns):
        notes = [{"summary": f"note {n} turn {turn % 2} about redis", "key": str(n)} for n in range(1500)]
        memory.remember_many(notes)
        memory.recall("redis")
    return memory


def index_bytes(home: Path) -> int:
    return sum(size for name, size in files(home).items() if name.startswith("index"))


def test_an_index_made_anew_ten_times_takes_no_more_place_and_leaves_the_store_alone(home: Path) -> None:
    """Ten rebuilds wrote 35 GB, and the recovery destroyed the sources."""
    with indexed(home) as memory:
        wanted = bits(memory.recall("note 77 redis", 50))
    store, size = (home / "episodes.redb").read_bytes(), index_bytes(home)
    assert size > 0
    for _ in range(10):
        for file in (home / "index").glob("*/*"):
            file.unlink()
        with Memory.open(home, embedder="hash:16") as memory:
            assert bits(memory.recall("note 77 redis", 50)) == wanted
        assert 0 < index_bytes(home) <= 2 * size
    assert (home / "episodes.redb").read_bytes() == store
    assert not [name for name in files(home) if name.endswith((".new", ".tmp"))]


def test_an_index_does_not_grow_with_what_was_replaced(home: Path, tmp_path: Path) -> None:
    """An index grew with every change, for nothing that was replaced ever left it."""
    with indexed(tmp_path / "fresh"):
        pass
    with indexed(home, effort(10, 50)) as memory:
        assert len(memory) == len(memory.recall("redis", 5000)) == memory.coverage().vectorized == 1500
        assert index_bytes(home) <= 3 * index_bytes(tmp_path / "fresh")
        memory.compact()
    assert index_bytes(home) <= 1.1 * index_bytes(tmp_path / "fresh")


def harmed(good: bytes, draw: random.Random, how: int) -> bytes:
    """Cut off, with flipped bits, or with a page of zeros."""
    place = draw.randrange(len(good))
    if how == 0:
        return good[:place]
    data = bytearray(good)
    if how == 1:
        for _ in range(20):
            data[draw.randrange(len(good))] ^= 1 << draw.randrange(8)
        return bytes(data)
    data[place : place + 4096] = bytes(len(data[place : place + 4096]))
    return bytes(data)


def test_an_index_broken_in_twenty_places_is_mended_from_the_store(home: Path) -> None:
    """The repair made an index that could not be loaded."""
    with indexed(home) as memory:
        wanted = bits(memory.recall("note 77 redis", 50))
    store, draw = (home / "episodes.redb").read_bytes(), random.Random(42)
    told = 0
    for turn in range(20):
        with Memory.open(home, embedder="hash:16") as memory:
            memory.recall("redis")
        file = draw.choice(sorted((home / "index").glob("*/[sm]*-*")))
        data = harmed(file.read_bytes(), draw, turn % 3)
        file.unlink()
        file.write_bytes(data)
        with Memory.open(home, embedder="hash:16") as memory:
            assert len(memory.recall("redis", 3)) == 3
            told += not memory.verify().ok
            assert bits(memory.recall("note 77 redis", 50)) == wanted, (turn, file.name)
            assert memory.verify().ok
    assert told > 0
    assert (home / "episodes.redb").read_bytes() == store


def test_verify_on_the_command_line_finds_a_broken_index(cli: Cli) -> None:
    """A check called a damaged index whole, and the answers from it were wrong."""
    indexed(cli.home).close()
    largest = max((cli.home / "index").glob("*/seg-*"), key=lambda file: file.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 0xFF
    largest.unlink()
    largest.write_bytes(data)
    assert "index" in cli("verify", code=1).out


# -- sources that are no files ----------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="files of POSIX")
@pytest.mark.parametrize("format", ["otolith", "jsonl"])
def test_no_source_makes_an_import_hang(cli: Cli, format: str) -> None:
    """Indexing hung at a pipe, and went round in a loop of links."""
    cli("init")
    loop = cli.root / "loop"
    loop.symlink_to(cli.root / "loop2")
    (cli.root / "loop2").symlink_to(loop)
    directory = cli.root / "directory"
    directory.mkdir()
    (directory / "again").symlink_to(directory)
    broken = cli.root / "broken"
    broken.symlink_to(cli.root / "nowhere")
    for source in (loop, directory, directory / "again" / "again", broken, Path("/proc/self/environ")):
        answer = cli("import", str(source), "--format", format, code=1)
        assert str(source) in answer.err, source
    assert cli("import", "/dev/null", "--format", format, code=None).code in (0, 1)
    fifo = cli.root / "fifo"
    os.mkfifo(fifo)
    for content in (b"", b"half a line"):
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(fifo.write_bytes, content)
            cli("import", str(fifo), "--format", format, code=None)
            writing.result(20)
    assert cli("list").out == ""
