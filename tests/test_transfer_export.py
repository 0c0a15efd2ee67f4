"""Our own format: everything comes back exactly, and damage is refused before anything changes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from otolith import FormatTooNew, InvalidInput, Memory, StoreCorrupt, StoreError


def fill(memory: Memory) -> None:
    memory.remember(
        "all fields",
        key="k1",
        body='body\r\nwith\ttabs and "quotes" \u2028 and 中文',
        title="t",
        tags=["a", "b"],
        metadata={"f": 0.1, "i": 2**53 + 1, "none": None, "text": "ü"},
        scope="team/app",
        origin="web",
        occurred_at=datetime(2026, 4, 8, 23, 30, 0, 123456, tzinfo=timezone(timedelta(hours=8))),
    )
    memory.remember_many(f"note {n}" for n in range(20))
    memory.update(next(memory.episodes()), title="changed later")


def exported(memory: Memory, path: Path) -> bytes:
    memory.export(path)
    return path.read_bytes()


def test_everything_comes_back_exactly(home: Path, tmp_path: Path) -> None:
    with Memory.open(home, embedder="hash:64") as first, Memory.open(tmp_path / "other") as second:
        fill(first)
        first.remember("!!!")  # a refused vector moves too
        report = first.export(tmp_path / "a.jsonl")
        assert report.records == 22
        assert report.path == str(tmp_path / "a.jsonl")
        assert report.bytes == (tmp_path / "a.jsonl").stat().st_size
        done = second.import_(tmp_path / "a.jsonl")
        assert (done.read, done.created, done.replaced, done.unchanged, done.failed) == (22, 22, 0, 0, ())
        assert done.vectors == report.vectors
        assert list(second.episodes()) == list(first.episodes())
        assert exported(second, tmp_path / "b.jsonl") == (tmp_path / "a.jsonl").read_bytes()
        again = second.import_(tmp_path / "a.jsonl")
        assert (again.created, again.replaced, again.unchanged) == (0, 0, 22)
        ours, theirs = first.coverage(), second.coverage()
        assert (ours.total, ours.vectorized, ours.refused) == (
            theirs.total,
            theirs.vectorized,
            theirs.refused,
        )
    with Memory.open(tmp_path / "other") as again_open:
        assert again_open.status().embedder == "hash:64"
        assert again_open.recall("note 7").legs["vector"].ran


def test_the_file_is_what_the_docs_say(memory: Memory, tmp_path: Path) -> None:
    fill(memory)
    report = memory.export(tmp_path / "a.jsonl")
    raw = (tmp_path / "a.jsonl").read_bytes()
    head, *records, end = [json.loads(line) for line in raw.decode().split("\n")[:-1]]
    assert (head["otolith"], head["format"], head["records"]) == ("export", 1, 21)
    assert records[0]["summary"] == "all fields"
    body = raw[: raw.rstrip(b"\n").rfind(b"\n") + 1]
    assert end == {
        "otolith": "end",
        "records": 21,
        "vectors": 0,
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    assert report.sha256 == end["sha256"]
    assert (tmp_path / "a.jsonl").stat().st_mode & 0o777 == 0o600


def test_without_vectors(home: Path, tmp_path: Path) -> None:
    with Memory.open(home, embedder="hash:64") as first:
        fill(first)
        assert first.export(tmp_path / "a.jsonl", vectors=False).vectors == 0
    with Memory.open(tmp_path / "other") as second:
        second.import_(tmp_path / "a.jsonl")
        assert second.coverage().vectorized == 0
        assert len(second) == 21


def test_import_brings_back_what_was_changed_and_forgotten(memory: Memory, tmp_path: Path) -> None:
    fill(memory)
    before = exported(memory, tmp_path / "a.jsonl")
    one, two, *_ = memory.episodes()
    memory.forget(one)
    memory.update(two, summary="changed")
    report = memory.import_(tmp_path / "a.jsonl")
    assert (report.created, report.replaced, report.unchanged) == (1, 1, 19)
    assert exported(memory, tmp_path / "b.jsonl") == before


def test_streams(memory: Memory, tmp_path: Path) -> None:
    fill(memory)
    whole = exported(memory, tmp_path / "a.jsonl")
    binary, text = io.BytesIO(), io.StringIO()
    memory.export(binary)
    memory.export(text)
    assert binary.getvalue() == whole
    assert text.getvalue().encode() == whole
    for number, stream in enumerate((io.BytesIO(whole), io.StringIO(whole.decode()))):
        with Memory.open(tmp_path / f"other{number}") as other:
            assert other.import_(stream).created == 21


def test_a_pipe_can_be_imported(memory: Memory, home: Path, tmp_path: Path) -> None:
    fill(memory)
    whole = exported(memory, tmp_path / "a.jsonl")
    code = (
        "import sys; from otolith import Memory\n"
        "with Memory.open(sys.argv[1]) as m: print(m.import_('-').created)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "other")], input=whole, capture_output=True, check=True
    )
    assert out.stdout.strip() == b"21"
    code = "import sys; from otolith import Memory\nwith Memory.open(sys.argv[1]) as m: m.export('-')"
    out = subprocess.run([sys.executable, "-c", code, str(home)], capture_output=True, check=True)
    assert out.stdout == whole


@pytest.mark.parametrize("keep", [0.99, 0.5, 0.1])
def test_a_cut_off_file_is_refused_untouched(memory: Memory, tmp_path: Path, keep: float) -> None:
    fill(memory)
    whole = exported(memory, tmp_path / "a.jsonl")
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(whole[: int(len(whole) * keep)])
    with Memory.open(tmp_path / "other") as other:
        with pytest.raises(StoreCorrupt, match="partial") as caught:
            other.import_(cut)
        assert caught.value.path == str(cut)
        assert len(other) == 0
        report = other.import_(cut, partial=True)
        assert 0 < report.created == len(other) < 22
        assert report.failed


def test_every_altered_byte_is_noticed(memory: Memory, tmp_path: Path) -> None:
    fill(memory)
    whole = exported(memory, tmp_path / "a.jsonl")
    with Memory.open(tmp_path / "other") as other:
        for at in range(0, len(whole), 97):
            altered = bytearray(whole)
            altered[at] ^= 1
            with pytest.raises((StoreCorrupt, InvalidInput, FormatTooNew)):
                other.import_(io.BytesIO(bytes(altered)))
        assert len(other) == 0


def test_lines_taken_out_put_in_or_added_are_noticed(memory: Memory, tmp_path: Path) -> None:
    fill(memory)
    lines = exported(memory, tmp_path / "a.jsonl").split(b"\n")[:-1]
    other = Memory.open(tmp_path / "other")
    for wrong in (
        lines[:5] + lines[6:],
        lines[:5] + lines[4:],
        [*lines, lines[3]],
        [*lines, lines[-1]],
        lines[1:],
    ):
        with pytest.raises((StoreCorrupt, InvalidInput)):
            other.import_(io.BytesIO(b"\n".join(wrong) + b"\n"))
    assert len(other) == 0
    other.close()


def test_partial_takes_what_is_whole(memory: Memory, tmp_path: Path) -> None:
    fill(memory)
    lines = exported(memory, tmp_path / "a.jsonl").split(b"\n")
    lines[3] = b'{"broken'
    lines[5] = lines[5].replace(b'"summary"', b'"summery"')
    with Memory.open(tmp_path / "other") as other:
        report = other.import_(io.BytesIO(b"\n".join(lines)), partial=True)
        assert [number for number, _ in report.failed] == [4, 6]
        assert report.created == 19


def test_what_is_no_export(memory: Memory, tmp_path: Path) -> None:
    for content in (
        b"",
        b"\n",
        b'{"text": "hello"}\n',
        b"hello\n",
        b"[1]\n",
        b'{"otolith":"export"}\n',
        b"\x00" * 99,
    ):
        with pytest.raises(InvalidInput, match="src"):
            memory.import_(io.BytesIO(content))


def test_newer_formats_are_refused_whole(memory: Memory, tmp_path: Path) -> None:
    fill(memory)
    whole = exported(memory, tmp_path / "a.jsonl")
    head, rest = whole.split(b"\n", 1)
    newer = head.replace(b'"format":1', b'"format":2') + b"\n" + rest
    with pytest.raises(FormatTooNew) as caught:
        memory.import_(io.BytesIO(newer))
    assert (caught.value.found, caught.value.supported) == (2, 1)
    lines = whole.split(b"\n")
    lines[2] = lines[2].replace(b'"schema_version":1', b'"schema_version":999')
    with Memory.open(tmp_path / "other") as other:
        with pytest.raises(FormatTooNew):
            other.import_(io.BytesIO(b"\n".join(lines)))
        assert len(other) == 0


def test_a_key_that_another_record_has_is_reported(memory: Memory, tmp_path: Path) -> None:
    fill(memory)
    exported(memory, tmp_path / "a.jsonl")
    with Memory.open(tmp_path / "other") as other:
        mine = other.remember("mine", key="k1", scope="team/app")
        report = other.import_(tmp_path / "a.jsonl")
        assert (report.created, len(report.failed)) == (20, 1)
        assert report.failed[0][0] == 2
        assert other.get(mine.id).summary == "mine"


def test_a_failed_export_leaves_the_old_file(memory: Memory, tmp_path: Path) -> None:
    fill(memory)
    target = tmp_path / "a.jsonl"
    target.write_text("old")
    target.chmod(0o640)
    memory.close()
    with pytest.raises(StoreError):
        memory.export(target)
    assert target.read_text() == "old"
    assert sorted(one.name for one in tmp_path.iterdir() if "a.jsonl" in one.name) == ["a.jsonl"]


def test_export_keeps_mode_and_link(memory: Memory, tmp_path: Path) -> None:
    target = tmp_path / "real.jsonl"
    target.write_text("old")
    target.chmod(0o640)
    (tmp_path / "link").symlink_to(target)
    memory.export(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert target.read_bytes().startswith(b'{"otolith":"export"')


def test_places_that_cannot_be_used(memory: Memory, tmp_path: Path) -> None:
    for bad in (tmp_path, tmp_path / "no" / "such" / "place"):
        with pytest.raises(StoreError) as caught:
            memory.export(bad)
        assert str(bad) in str(caught.value)
        with pytest.raises(StoreError):
            memory.import_(bad)
    for bad in ("", "a\0b", 42):
        with pytest.raises(InvalidInput):
            memory.export(bad)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            memory.import_(bad)  # type: ignore[arg-type]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk(memory: Memory) -> None:
    fill(memory)
    with pytest.raises(StoreError, match="/dev/full"):
        memory.export("/dev/full")


def test_a_scoped_handle_exports_its_scope(home: Path, tmp_path: Path, memory: Memory) -> None:
    fill(memory)
    with Memory.open(home, scope="team") as team:
        assert team.export(tmp_path / "a.jsonl").records == 1


def test_progress(memory: Memory, tmp_path: Path) -> None:
    memory.remember_many(f"note {n}" for n in range(1200))
    memory.export(tmp_path / "a.jsonl")
    calls: list[tuple[int, int | None]] = []
    with Memory.open(tmp_path / "other") as other:
        other.import_(tmp_path / "a.jsonl", progress=lambda done, total: calls.append((done, total)))
    assert calls == [(500, 1200), (1000, 1200), (1200, 1200)]
