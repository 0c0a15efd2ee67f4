"""Our own format: everything comes back exactly, and damage is refused before anything changes."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import logging
import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from otolith import Conflict, Filter, FormatTooNew, InvalidInput, Memory, ReadOnly, StoreCorrupt, StoreError
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
    assert (head["kinds"], head["files"]) == (["episode", "file"], 0)
    assert end == {
        "otolith": "end",
        "records": 21,
        "vectors": 0,
        "files": 0,
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


def write_files(home: Path) -> None:
    for path, content in {
        "memory/MEMORY.md": b"# Facts\r\n- \xef\xbb\xbf\n",
        "memory/2026-04-08.md": "记录\n".encode(),
        "memory/bank/entities/ada.md": b"",
        "memory/bank/raw.MD": bytes(range(256)),
    }.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(content)


def files_of(home: Path) -> dict[str, bytes]:
    return {
        file.relative_to(home).as_posix(): file.read_bytes()
        for file in (home / "memory").rglob("*")
        if file.is_file()
    }


def resealed(lines: list[bytes], **end: Any) -> bytes:
    """An export of these lines, the last of them with its checksum and counts right."""
    body = b"".join(line + b"\n" for line in lines[:-1])
    last = {**json.loads(lines[-1]), "sha256": hashlib.sha256(body).hexdigest(), **end}
    return body + json.dumps(last).encode() + b"\n"


def test_markdown_files_come_back_exactly(memory: Memory, home: Path, tmp_path: Path) -> None:
    fill(memory)
    write_files(home)
    report = memory.export(tmp_path / "a.jsonl")
    assert (report.records, report.files, report.skipped) == (21, 4, ())
    head = json.loads((tmp_path / "a.jsonl").read_bytes().split(b"\n")[0])
    assert (head["records"], head["files"]) == (21, 4)
    with Memory.open(tmp_path / "other") as other:
        done = other.import_(tmp_path / "a.jsonl")
        assert (done.created, done.files, done.files_unchanged, done.failed) == (21, 4, 0, ())
        assert files_of(tmp_path / "other") == files_of(home)
        for made in (tmp_path / "other" / "memory").rglob("*"):
            assert made.stat().st_mode & 0o777 == (0o700 if made.is_dir() else 0o600), made
        assert exported(other, tmp_path / "b.jsonl") == (tmp_path / "a.jsonl").read_bytes()
        again = other.import_(tmp_path / "a.jsonl")
        assert (again.created, again.unchanged, again.files, again.files_unchanged) == (0, 21, 0, 4)


def test_a_file_that_is_there_and_different_is_kept_and_told(
    memory: Memory, home: Path, tmp_path: Path
) -> None:
    write_files(home)
    memory.export(tmp_path / "a.jsonl")
    (home / "memory/MEMORY.md").write_text("newer")
    (home / "memory/2026-04-08.md").unlink()
    report = memory.import_(tmp_path / "a.jsonl")
    assert (report.files, report.files_unchanged) == (1, 2)
    ((line, error),) = report.failed
    assert line == 3
    assert isinstance(error, Conflict)
    assert error.what == str(home / "memory/MEMORY.md")
    assert (home / "memory/MEMORY.md").read_text() == "newer"


def test_links_and_other_things_are_not_exported_and_told(
    memory: Memory, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home may come with a repository, and a link in it may lead to any file of this user."""
    secret = tmp_path / "secret.md"
    secret.write_text("a secret")
    write_files(home)
    (home / "memory/link.md").symlink_to(secret)
    (home / "memory/folder").symlink_to(tmp_path)
    (home / "memory/MEMORY.md.bak").write_text("earlier")
    os.mkfifo(home / "memory/pipe.md")
    (home / "memory/a\\b.md").write_text("x")
    (home / os.fsdecode(b"memory/\xff.md")).write_text("x")
    monkeypatch.setattr("otolith.transfer.files.LARGEST", 100)
    report = memory.export(tmp_path / "a.jsonl")
    assert report.files == 3
    assert dict(report.skipped) == {
        "memory/link.md": "is a symbolic link",
        "memory/folder": "is a symbolic link",
        "memory/MEMORY.md.bak": "is no Markdown file",
        "memory/pipe.md": "is no ordinary file",
        "memory/a\\b.md": "holds a character that not every system takes",
        os.fsdecode(b"memory/\xff.md"): "is not UTF-8",
        "memory/bank/raw.MD": "is larger than 0 MiB",
    }
    assert b"a secret" not in base64_contents(tmp_path / "a.jsonl")
    end = json.loads((tmp_path / "a.jsonl").read_bytes().split(b"\n")[-2])
    assert end["files"] == 3
    with Memory.open(tmp_path / "other") as other:
        assert other.import_(tmp_path / "a.jsonl").files == 3


def base64_contents(file: Path) -> bytes:
    lines = (json.loads(line) for line in file.read_bytes().splitlines())
    return b"".join(base64.b64decode(line["data"]) for line in lines if line.get("kind") == "file")


def test_a_link_in_the_place_of_the_directory_is_not_followed(
    memory: Memory, home: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.md").write_text("a secret")
    (home / "memory").symlink_to(elsewhere)
    report = memory.export(tmp_path / "a.jsonl")
    assert (report.files, report.skipped) == (0, (("memory", "is a symbolic link"),))
    with Memory.open(tmp_path / "full") as full:
        write_files(tmp_path / "full")
        full.export(tmp_path / "b.jsonl")
    done = memory.import_(tmp_path / "b.jsonl")
    assert (done.files, len(done.failed)) == (0, 4)
    assert all("is a link or no directory" in str(error) for _, error in done.failed)
    assert [file.name for file in elsewhere.iterdir()] == ["a.md"]
    (home / "memory").unlink()
    (home / "memory/bank").mkdir(parents=True)
    (home / "memory/MEMORY.md").symlink_to(elsewhere / "new.md")
    (home / "memory/bank/entities").symlink_to(elsewhere)
    done = memory.import_(tmp_path / "b.jsonl")
    assert (done.files, len(done.failed)) == (2, 2)
    assert [file.name for file in elsewhere.iterdir()] == ["a.md"]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/x.md",
        "memory/../config.md",
        "memory/./a.md",
        "memory//a.md",
        "memory/a.md/",
        "../memory/a.md",
        "config.toml",
        "memory.md",
        "memory/a.txt",
        "memory/a\0.md",
        "memory/a\n.md",
        "memory\\a.md",
        "memory/c:a.md",
        "memory/\ud800.md",
        "memory/" + "a" * 260 + ".md",
        "memory/" + "a/" * 600 + "a.md",
        "",
        None,
        7,
        ["memory/a.md"],
    ],
)
def test_paths_that_lead_elsewhere_are_refused(
    memory: Memory, home: Path, tmp_path: Path, path: object
) -> None:
    fill(memory)
    lines = exported(memory, tmp_path / "a.jsonl").split(b"\n")[:-1]
    bad = json.dumps({"kind": "file", "path": path, "data": "eA=="}).encode()
    whole = resealed([*lines[:-1], bad, lines[-1]], files=1)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreCorrupt, match="line 23: path: "):
        memory.import_(io.BytesIO(whole))
    report = memory.import_(io.BytesIO(whole), partial=True)
    assert [line for line, _ in report.failed] == [23]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("data", [None, 5, "?", "eA", "eA==\n", [1]])
def test_what_is_not_base64_is_refused(memory: Memory, tmp_path: Path, data: object) -> None:
    lines = exported(memory, tmp_path / "a.jsonl").split(b"\n")[:-1]
    bad = json.dumps({"kind": "file", "path": "memory/a.md", "data": data}).encode()
    with pytest.raises(StoreCorrupt, match="line 2: data: is not base64"):
        memory.import_(io.BytesIO(resealed([lines[0], bad, lines[1]], files=1)))


def test_the_count_of_files_is_checked(memory: Memory, home: Path, tmp_path: Path) -> None:
    write_files(home)
    lines = exported(memory, tmp_path / "a.jsonl").split(b"\n")[:-1]
    with pytest.raises(StoreCorrupt, match="has 3 files, its last line says 4"):
        memory.import_(io.BytesIO(resealed([lines[0], *lines[2:]])))


def test_an_export_without_kinds_still_imports(memory: Memory, tmp_path: Path) -> None:
    """The form before there were files in it."""
    fill(memory)
    lines = exported(memory, tmp_path / "a.jsonl").split(b"\n")[:-1]
    head, end = json.loads(lines[0]), json.loads(lines[-1])
    del head["kinds"], head["files"], end["files"]
    whole = resealed([json.dumps(head).encode(), *lines[1:-1], json.dumps(end).encode()])
    with Memory.open(tmp_path / "other") as other:
        assert other.import_(io.BytesIO(whole)).created == 21


def test_kinds_of_lines_of_a_later_version_are_refused_whole(memory: Memory, tmp_path: Path) -> None:
    fill(memory)
    lines = exported(memory, tmp_path / "a.jsonl").split(b"\n")[:-1]
    head = json.loads(lines[0])
    head["kinds"].append("link")
    link = json.dumps({"kind": "link", "from": "a", "to": "b"}).encode()
    whole = resealed([json.dumps(head).encode(), *lines[1:-1], link, lines[-1]])
    with Memory.open(tmp_path / "other") as other:
        with pytest.raises(FormatTooNew, match="holds link, of which this version knows nothing"):
            other.import_(io.BytesIO(whole))
        assert len(other) == 0
        report = other.import_(io.BytesIO(whole), partial=True)
        assert report.created == 21
        ((line, error),) = report.failed
        assert line == 23
        assert "'link'" in str(error)


def test_files_belong_to_the_whole_home(memory: Memory, home: Path, tmp_path: Path) -> None:
    write_files(home)
    memory.export(tmp_path / "a.jsonl")
    with Memory.open(home, scope="team") as scoped:
        assert scoped.export(tmp_path / "b.jsonl").files == 0
        assert len(scoped.import_(tmp_path / "a.jsonl").failed) == 4
    with Memory.open(home, read_only=True) as reader, pytest.raises(ReadOnly):
        reader.import_(tmp_path / "a.jsonl")


def test_an_import_that_is_run_again_writes_nothing(home: Path, tmp_path: Path) -> None:
    """Vectors were written anew each time, and every index of every process read them again."""
    with Memory.open(home, embedder="hash:64") as memory:
        fill(memory)
        memory.remember("!!!")  # a refused vector too
        memory.export(tmp_path / "a.jsonl")
        before = memory._engine.info()["last_sequence"]
        assert memory.import_(tmp_path / "a.jsonl").unchanged == 22
        assert memory._engine.info()["last_sequence"] == before


def test_an_import_goes_on_where_a_kill_stopped_it(home: Path, tmp_path: Path) -> None:
    with Memory.open(home, embedder="hash:64") as memory:
        memory.remember_many(f"note {number}" for number in range(3000))
        write_files(home)
        whole = exported(memory, tmp_path / "a.jsonl")
    code = (
        "import os, signal, sys\n"
        "from otolith import Memory\n"
        "def tell(done, total):\n"
        "    if done >= 1000: os.kill(os.getpid(), signal.SIGKILL)\n"
        "with Memory.open(sys.argv[1]) as memory: memory.import_(sys.argv[2], progress=tell)\n"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "other"), str(tmp_path / "a.jsonl")]
    assert subprocess.run(arguments, check=False).returncode == -signal.SIGKILL
    with Memory.open(tmp_path / "other") as other:
        assert 1000 <= len(other) < 3000
        report = other.import_(tmp_path / "a.jsonl")
        assert report.created + report.unchanged == 3000
        assert report.unchanged >= 1000
        assert exported(other, tmp_path / "b.jsonl") == whole
