"""Our own format: everything comes back exactly, and damage is refused before anything changes."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import logging
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from otolith import Filter, FormatTooNew, InvalidInput, Memory, StoreCorrupt, StoreError
from otolith.transfer import import_export


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


def test_import_brings_back_what_was_forgotten_and_keeps_what_is_newer(
    memory: Memory, tmp_path: Path
) -> None:
    fill(memory)
    exported(memory, tmp_path / "a.jsonl")
    one, two, *_ = memory.episodes()
    memory.forget(one)
    changed = memory.update(two, summary="changed")
    report = memory.import_(tmp_path / "a.jsonl")
    assert (report.created, report.replaced, report.unchanged) == (1, 0, 20)
    assert memory.get(one.id) == one
    assert memory.get(two.id) == changed


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


def with_vectors(whole: bytes, line: int, stored: Any) -> bytes:
    """The export with other vectors in one line, its checksum right."""
    lines = whole.split(b"\n")[:-1]
    record = json.loads(lines[line - 1])
    record["vectors"] = stored
    lines[line - 1] = json.dumps(record).encode()
    return sealed(lines)


def sealed(lines: list[bytes]) -> bytes:
    body = b"\n".join(lines[:-1]) + b"\n"
    end = json.loads(lines[-1]) | {"sha256": hashlib.sha256(body).hexdigest()}
    return body + json.dumps(end).encode() + b"\n"


F32 = base64.b64encode(np.ones(2, dtype="<f4").tobytes()).decode()


@pytest.mark.parametrize(
    "one",
    [
        {"embedder": "x", "dim": 9000, "refused": "too wide"},
        {"embedder": "x", "dim": 8193, "f32": base64.b64encode(bytes(8193 * 4)).decode()},
        {"embedder": "x", "dim": 0, "refused": "no width"},
        {"embedder": "", "dim": 2, "f32": F32},
        {"embedder": "  ", "dim": 2, "f32": F32},
        {"embedder": "x\ud800", "dim": 2, "f32": F32},
        {"embedder": 5, "dim": 2, "f32": F32},
        {"embedder": "x", "dim": True, "refused": "no width"},
        {"embedder": "x", "dim": 2.0, "f32": F32},
        {"embedder": "x", "dim": 2, "refused": "half a character \ud800"},
        {"embedder": "x", "dim": 2, "refused": 5},
        {"embedder": "x", "dim": 2, "refused": None},
        {"embedder": "", "dim": False, "refused": "x"},
        {"embedder": "x", "dim": 2},
    ],
    ids=lambda one: str(one)[:60],
)
def test_vectors_the_store_would_not_take_are_refused_before_anything_is_written(
    memory: Memory, tmp_path: Path, one: dict[str, Any]
) -> None:
    fill(memory)
    content = with_vectors(exported(memory, tmp_path / "a.jsonl"), 9, [one])
    with Memory.open(tmp_path / "other") as other:
        with pytest.raises(StoreCorrupt, match="line 9"):
            other.import_(io.BytesIO(content))
        assert len(other) == 0
        report = other.import_(io.BytesIO(content), partial=True)
        assert [number for number, _ in report.failed] == [9]
        assert report.created == len(other) == 20


@pytest.mark.parametrize(
    "home_embedder", [["x", 9000], ["", 2], ["x\ud800", 2], ["x", True], ["x", 10**30], ["x", -1], ["x"], 5]
)
def test_an_embedder_the_store_would_not_take_is_refused_before_anything_is_written(
    memory: Memory, tmp_path: Path, home_embedder: Any
) -> None:
    fill(memory)
    lines = exported(memory, tmp_path / "a.jsonl").split(b"\n")[:-1]
    lines[0] = json.dumps(json.loads(lines[0]) | {"home_embedder": home_embedder}).encode()
    with Memory.open(tmp_path / "other") as other:
        with pytest.raises(StoreCorrupt, match="line 1"):
            other.import_(io.BytesIO(sealed(lines)))
        assert len(other) == 0
        report = other.import_(io.BytesIO(sealed(lines)), partial=True)
        assert [number for number, _ in report.failed] == [1]
        assert report.created == 21


class Refusing:
    """An engine that takes no vectors of one record."""

    def __init__(self, engine: Any, id: str) -> None:
        self._engine, self._id = engine, id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def restore_vectors(self, embedder: str, dim: int, rows: Any) -> Any:
        if any(id == self._id for id, _ in rows):
            raise InvalidInput("rows: no", field="rows")
        return self._engine.restore_vectors(embedder, dim, rows)


def test_vectors_the_store_refuses_all_the_same_are_told_by_line(home: Path, tmp_path: Path) -> None:
    with Memory.open(home, embedder="hash:64") as first:
        first.remember_many(f"note {number}" for number in range(5))
        first.export(tmp_path / "a.jsonl")
        third = list(first.episodes(newest_first=False))[2]
    with Memory.open(tmp_path / "other") as other:
        engine: Any = Refusing(other._engine, third.id)
        report = import_export(engine, tmp_path / "a.jsonl", partial=False, progress=None)
        assert [number for number, _ in report.failed] == [4]
        assert (report.created, report.vectors, len(other)) == (5, 4, 5)


def test_an_older_vector_is_not_given_to_a_newer_text(home: Path, tmp_path: Path) -> None:
    with Memory.open(home, embedder="hash:64") as memory:
        episode = memory.remember("apples and pears")
        memory.export(tmp_path / "a.jsonl")
        memory.update(episode, summary="a submarine")
        before = memory.recall("a submarine", legs=["vector"])[0].parts["cosine"]
        memory.import_(tmp_path / "a.jsonl")
        assert memory.get(episode.id).summary == "a submarine"
        assert memory.recall("a submarine", legs=["vector"])[0].parts["cosine"] == before
    with Memory.open(home, embedder="hash:64") as again:
        assert again.recall("a submarine", legs=["vector"])[0].parts["cosine"] == before


def test_records_that_cannot_be_read_are_counted_and_said_once(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Memory.open(home, embedder=None) as memory:
        memory.remember_many(f"record number {number} MARKER{number:04d}" for number in range(50))
    content = bytearray((home / "episodes.redb").read_bytes())
    at = -1
    while (at := content.find(b"MARKER0020", at + 1)) >= 0:
        content[at + 3] ^= 1
    (home / "episodes.redb").write_bytes(content)
    for call in (
        lambda memory: memory.recall("record"),
        lambda memory: list(memory.episodes()),
        lambda memory: memory.count({"tags": "a"}),
        lambda memory: memory.forget_where({"scope": ""}, dry_run=True),
        lambda memory: memory.export(io.BytesIO()),
    ):
        caplog.clear()
        with Memory.open(home, embedder=None) as memory, caplog.at_level(logging.WARNING, logger="otolith"):
            call(memory)
            call(memory)
            assert [one.levelname for one in caplog.records if "cannot be read" in one.message] == ["WARNING"]
            report = memory.export(io.BytesIO())
            assert (report.records, report.unreadable) == (49, 1)
            assert report.to_dict()["unreadable"] == 1


class Endless:
    """A device that never ends, nor ends a line."""

    def __init__(self, start: bytes = b"", seekable: bool = True) -> None:
        self.start, self._seekable = start, seekable
        self.read_bytes = 0

    def seekable(self) -> bool:
        return self._seekable

    def tell(self) -> int:
        return self.read_bytes

    def seek(self, place: int) -> int:
        self.read_bytes = place
        return place

    def read(self, size: int) -> bytes:
        assert self.read_bytes < 1 << 30, "read for ever"
        given = self.start[self.read_bytes :][:size] or bytes(size)
        self.read_bytes += len(given)
        return given

    def readline(self, size: int) -> bytes:
        left = self.start[self.read_bytes :]
        end = left.find(b"\n") + 1
        return self.read(min(size, end) if end else size)


@pytest.mark.parametrize("seekable", [True, False])
@pytest.mark.parametrize("format", ["otolith", "jsonl"])
def test_what_never_ends_is_given_up(memory: Memory, format: Any, seekable: bool) -> None:
    with pytest.raises(InvalidInput, match="src"):
        memory.import_(Endless(seekable=seekable), format=format)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="line 2 has no end"):
        memory.import_(Endless(b'{"summary": "x"}\n', seekable), format="jsonl")  # type: ignore[arg-type]


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs /dev/zero")
@pytest.mark.parametrize("format", ["otolith", "jsonl"])
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full"])
def test_a_device_that_never_ends_is_given_up(memory: Memory, format: Any, device: str) -> None:
    with pytest.raises(InvalidInput, match="src"):
        memory.import_(device, format=format)


class Stream:
    """An open file that gives or raises one thing."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def readline(self, size: int = -1) -> Any:
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given

    read = readline

    def write(self, data: bytes) -> Any:
        raise self.given


@pytest.mark.parametrize("format", ["otolith", "jsonl"])
@pytest.mark.parametrize("given", ["text\n", None, 5, bytearray(b"x")], ids=repr)
def test_a_stream_must_give_bytes(memory: Memory, format: Any, given: Any) -> None:
    with pytest.raises(InvalidInput, match="binary") as caught:
        memory.import_(Stream(given), format=format)  # type: ignore[arg-type]
    assert caught.value.field == "src"


@pytest.mark.parametrize("raised", [ValueError("closed"), RuntimeError("gone"), OSError(5, "no such luck")])
def test_a_stream_that_fails_is_named(memory: Memory, raised: Exception) -> None:
    for format in ("otolith", "jsonl"):
        with pytest.raises(StoreError, match=str(raised.args[-1])):
            memory.import_(Stream(raised), format=format)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match=str(raised.args[-1])):
        memory.export(Stream(raised))  # type: ignore[arg-type]


def test_closed_and_text_files(memory: Memory, tmp_path: Path) -> None:
    fill(memory)
    exported(memory, tmp_path / "a.jsonl")
    for opened in (io.BytesIO(), io.StringIO(), (tmp_path / "a.jsonl").open("rb")):
        opened.close()
        with pytest.raises(StoreError, match="closed"):
            memory.import_(opened)
    with (tmp_path / "a.jsonl").open(encoding="utf-8") as text, Memory.open(tmp_path / "other") as other:
        assert other.import_(text).created == 21
    with (tmp_path / "b.jsonl").open("w", encoding="utf-8") as text:
        assert memory.export(text).records == 21
    assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()


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


def test_records_that_are_not_served_are_exported_too(memory: Memory, home: Path, tmp_path: Path) -> None:
    memory.remember("served", vector=[1.0, 0.0])
    memory.remember("held back")
    lines = exported(memory, tmp_path / "whole.jsonl").splitlines()
    lines = [
        line.replace(b'"status":"active"', b'"status":"quarantined"') if b"held" in line else line
        for line in lines
    ]
    (tmp_path / "held.jsonl").write_bytes(sealed(lines))
    with Memory.open(tmp_path / "other") as other:
        assert other.import_(tmp_path / "held.jsonl").created == 2
        assert (len(other), other.count(Filter(status="quarantined"))) == (1, 1)
        again = exported(other, tmp_path / "again.jsonl").splitlines()
        assert again[:-1] == (tmp_path / "held.jsonl").read_bytes().splitlines()[:-1]
