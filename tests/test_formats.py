"""Files of every version that was ever written are opened as they were meant, for ever.

tests/data/homes/make.py made them; none is ever made again.
"""

from __future__ import annotations

import base64
import io
import json
import lzma
import re
from pathlib import Path
from types import GetSetDescriptorType
from typing import Any

import numpy as np
import pytest
from cli_process import Cli
from otolith import Episode, Filter, FormatTooNew, InvalidInput, Memory, StoreCorrupt, maintenance

ROOT = Path(__file__).parent.parent
HOMES = Path(__file__).parent / "data" / "homes"
FORMATS = sorted(one.name for one in HOMES.glob("format-*"))
PRESENT = max(int(one.removeprefix("format-")) for one in FORMATS)
STRANGE = {one.name.removesuffix(".redb.xz") for one in (HOMES / "strange").iterdir()}
FIELDS = {name for name in dir(Episode) if isinstance(getattr(Episode, name), GetSetDescriptorType)}
NOTHING_CHANGED = "Nothing was changed"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def unpack(name: Path, home: Path) -> bytes:
    home.mkdir()
    content = lzma.decompress(name.read_bytes())
    (home / "episodes.redb").write_bytes(content)
    return content


def read(export: bytes) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in export.split(b"\n")[1:-2]]
    return {line["id"]: line for line in lines}


def expected(format: str) -> dict[str, dict[str, Any]]:
    return read((HOMES / format / "expected.jsonl").read_bytes())


def held(memory: Memory) -> dict[str, dict[str, Any]]:
    out = io.BytesIO()
    memory.export(out)
    return read(out.getvalue())


def holds_what_was_written(memory: Memory, format: str, more: int = 0) -> None:
    """Every field and every bit of every vector; a later version may know of further fields."""
    wanted, there = expected(format), held(memory)
    assert len(there) == len(wanted) + more
    for id, one in wanted.items():
        assert one.items() <= there[id].items(), id
        if one["status"] == "active":
            # The fields as an Episode has them, by way of its own reader.
            plain = {name: value for name, value in one.items() if name != "vectors"}
            assert memory.get(id) == Episode.from_json(json.dumps(plain))


@pytest.mark.parametrize("format", FORMATS)
def test_the_homes_hold_what_makes_them_worth_keeping(format: str) -> None:
    """A fixture without a field would let that field change unnoticed."""
    records = list(expected(format).values())
    fields = {name for one in records for name in one}
    assert fields >= FIELDS >= {"id", "summary", "schema_version"}
    for field, values in {
        "outcome": {"success", "failure", "blocked", "cancelled"},
        "source": {"task", "conversation", "document", "import"},
        "origin": {"user", "assistant", "tool", "web", "import"},
        "trust": {"trusted", "untrusted"},
        "status": {"active", "quarantined"},
    }.items():
        assert {one.get(field) for one in records} >= values
    vectors = [vector for one in records for vector in one.get("vectors", ())]
    assert len({(vector["embedder"], vector["dim"]) for vector in vectors}) == 2
    assert any("refused" in vector for vector in vectors)
    sizes = {len(base64.b64decode(one["f32"])) // 4 // one["dim"] for one in vectors if "f32" in one}
    assert sizes >= {1, 2}, "a record of several chunks"
    assert any("later_list" in one for one in records)
    assert any("vectors" not in one for one in records)


@pytest.mark.parametrize("format", FORMATS)
def test_a_home_is_read_without_a_byte_being_written(format: str, home: Path) -> None:
    content = unpack(HOMES / format / "clean.redb.xz", home)
    (home / "config.toml").write_bytes((HOMES / format / "config.toml").read_bytes())
    with Memory.open(home, read_only=True) as memory:
        holds_what_was_written(memory, format)
        assert memory.recall("deploy ERR-4471", legs=["lexical"])[0].episode.key == "all-fields"
        assert len(memory.recall("redis", 50, legs=["vector"])) == memory.coverage().vectorized > 30
        assert memory.count(Filter(key="gone")) == memory.count(Filter(tags=("gone",))) == 0
        assert memory.count(Filter(working_dir="/srv/app", below=True)) == 2
        assert memory.count(Filter(working_dir="/srv/gone", below=True)) == 0
        assert memory.count(Filter(scope="team")) == 2
        assert dict(memory.status().foreign_vectors) == {"other:model": 5}
        assert memory.status().unreadable == 0
    assert (home / "episodes.redb").read_bytes() == content
    assert sorted(one.name for one in home.iterdir()) == ["config.toml", "episodes.redb"]


@pytest.mark.parametrize("state", ["clean", "killed"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_home_is_written_on_and_its_records_stay_as_they_were(format: str, state: str, home: Path) -> None:
    unpack(HOMES / format / f"{state}.redb.xz", home)
    more = int(state == "killed")
    with Memory.open(home) as memory:
        holds_what_was_written(memory, format, more)
        if more:
            assert next(memory.episodes(Filter(key="last"))).summary == "written just before the end"
        key = memory.remember("!!! written over", key="all-fields", scope="other")
        assert key.id in expected(format), "the table of keys leads to the old record"
        assert memory.forget(key) == 1
        new = memory.remember("a record of this version")
        assert memory.recall("record of this version", 1)[0].id == new.id
    with Memory.open(home) as memory:
        there = held(memory)
        wanted = expected(format)
        assert wanted.pop(key.id)
        assert all(one.items() <= there[id].items() for id, one in wanted.items())
        assert memory.status().format_version == PRESENT


@pytest.mark.parametrize("format", FORMATS)
def test_a_record_is_exported_in_the_bytes_it_always_had(format: str, home: Path) -> None:
    """From the rows that its version wrote, and from those that this version makes of them."""
    unpack(HOMES / format / "clean.redb.xz", home)
    [_, *wanted, _, _] = (HOMES / format / "expected.jsonl").read_bytes().split(b"\n")
    with Memory.open(home, embedder=None) as memory:
        for rewrite in (lambda: None, memory.compact, lambda: memory.remember("x")):
            rewrite()
            out = io.BytesIO()
            memory.export(out)
            [_, *lines, _, _] = out.getvalue().split(b"\n")
            assert [line for line in lines if b'"summary":"x"' not in line] == wanted


@pytest.mark.parametrize("state", ["clean", "killed"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_home_is_verified_backed_up_compacted_and_repaired(
    format: str, state: str, home: Path, tmp_path: Path
) -> None:
    content = unpack(HOMES / format / f"{state}.redb.xz", home)
    more = int(state == "killed")
    with Memory.open(home) as memory:
        assert memory.verify().ok
        memory.backup(tmp_path / "copy")
        memory.compact()
        assert memory.status().format_version == PRESENT
        holds_what_was_written(memory, format, more)
        assert memory.verify().ok
    with Memory.open(tmp_path / "copy") as memory:
        holds_what_was_written(memory, format, more)
    # Without its header, every row has to be found by itself.
    (home / "episodes.redb").write_bytes(bytes(4096) + content[4096:])
    report = maintenance.verify(home, repair=True)
    assert report.repaired is not None
    assert report.repaired.lost == ()
    with Memory.open(home) as memory:
        holds_what_was_written(memory, format, more)


@pytest.mark.parametrize("format", FORMATS)
def test_a_change_keeps_the_fields_of_a_later_version(format: str, home: Path) -> None:
    unpack(HOMES / format / "clean.redb.xz", home)
    [id] = [id for id, one in expected(format).items() if "later_list" in one]
    with Memory.open(home, embedder=None) as memory:
        memory.update(id, title="changed by this version")
        after = held(memory)[id]
    before = expected(format)[id]
    assert after["title"] == "changed by this version"
    assert {name for name in before if after[name] != before[name]} <= {"title", "updated_at"}


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_is_taken_in_and_given_back(format: str, home: Path) -> None:
    with Memory.open(home) as memory:
        report = memory.import_(HOMES / format / "expected.jsonl")
        assert report.failed == ()
        assert report.created == len(expected(format))
        holds_what_was_written(memory, format)
    with Memory.open(home) as memory:
        [own] = [one for one in expected(format).values() if one["summary"].endswith("of its own")]
        row = np.frombuffer(base64.b64decode(own["vectors"][0]["f32"]), "<f4")
        assert memory.recall(vector=row, k=1)[0].id == own["id"]


# -- versions that never were, or are still to come -------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [("store-0", StoreCorrupt, "format 0"), ("store-999", FormatTooNew, "upgrade otolith")],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_of_an_unknown_version_is_left_alone(
    cli: Cli, name: str, error: type[Exception], told: str, read_only: bool
) -> None:
    content = unpack(HOMES / "strange" / f"{name}.redb.xz", cli.home)
    with pytest.raises(error, match=told) as caught:
        Memory.open(cli.home, read_only=read_only)
    assert str(cli.home) in str(caught.value)
    assert NOTHING_CHANGED in str(caught.value)
    for command in (["status"], ["list"], ["recall", "record"], ["remember", "x"], ["export"]):
        answer = cli(*command, code=1)
        assert answer.out == ""
        assert told in answer.err
        assert NOTHING_CHANGED in answer.err
        assert "Traceback" not in answer.err
    assert (cli.home / "episodes.redb").read_bytes() == content


def test_a_store_that_only_a_newer_version_may_write_is_read(cli: Cli) -> None:
    unpack(HOMES / "strange" / "store-999-readable.redb.xz", cli.home)
    content = (cli.home / "episodes.redb").read_bytes()
    with Memory.open(cli.home) as memory:
        assert memory.status().format_version == 999
        assert len(memory.recall("record")) == 2
        for write in (lambda: memory.remember("x"), lambda: memory.forget(next(memory.episodes()))):
            with pytest.raises(FormatTooNew) as caught:
                write()
            assert (caught.value.found, caught.value.supported) == (999, PRESENT)
        assert len(memory) == 2
    assert "record of another version" in cli("list").out
    for words in (("remember", "x"), ("compact",), ("backup", "copy")):
        assert "upgrade otolith" in cli(*words, code=1).err
    assert (cli.home / "episodes.redb").read_bytes() == content


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("record-0", StoreCorrupt, "schema_version 0, which no version of otolith wrote"),
        ("record-999", FormatTooNew, "upgrade otolith"),
        ("value-0", StoreCorrupt, "the bytes are not what was written"),
        ("value-255", FormatTooNew, "upgrade otolith"),
    ],
)
def test_a_record_of_an_unknown_version_is_told_and_stays(
    cli: Cli, name: str, error: type[Exception], told: str
) -> None:
    unpack(HOMES / "strange" / f"{name}.redb.xz", cli.home)
    with Memory.open(cli.home) as memory:
        [known] = memory.recall("record")
        assert known.text == "a record as any other"
        [notice] = [one for one in memory.status().notices if told in one]
        id = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", notice)[0]
        assert memory.status().unreadable == 1
        for call in (lambda: memory.get(id), lambda: memory.update(id, title="x")):
            with pytest.raises(error, match=told):
                call()
        memory.remember("written beside it")
        memory.forget(known.id)
        assert memory.status().unreadable == 1
    answer = cli("show", id, code=1)
    assert told in answer.err
    assert id in answer.err
    assert told in cli("status").err
    assert told in cli("update", id, "--title", "x", code=1).err


@pytest.mark.parametrize(("number", "error"), [(0, InvalidInput), (999, FormatTooNew)])
@pytest.mark.parametrize("partial", [False, True])
def test_an_export_of_an_unknown_version_is_refused(
    cli: Cli, number: int, error: type[Exception], partial: bool
) -> None:
    export = (HOMES / "format-1" / "expected.jsonl").read_bytes()
    strange = cli.root / "strange.jsonl"
    strange.write_bytes(export.replace(b'"format":1', b'"format":%d' % number, 1))
    with Memory.open(cli.home) as memory:
        with pytest.raises(error, match=r"strange.jsonl.* format"):
            memory.import_(strange, partial=partial)
        assert len(memory) == 0
    answer = cli("import", str(strange), *(["--partial"] if partial else []), code=1)
    assert ("upgrade otolith" in answer.err) == (number == 999)
    assert "strange.jsonl" in answer.err


def test_every_strange_home_is_tried() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert all(f'"{name}' in text or f'"{name}.redb.xz"' in text for name in STRANGE)


# -- the page that describes them -------------------------------------------------------------------------


def rows_of(page: str, heading: str) -> dict[str, str]:
    """First cell -> line of the first table below a heading."""
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `([^`]+)` (\|.*)$", section, re.MULTILINE))


def test_the_page_names_every_table_and_every_key_of_meta() -> None:
    page = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    code = (ROOT / "rust" / "core" / "src" / "store" / "tables.rs").read_text(encoding="utf-8")
    tables = set(re.findall(r'= TableDefinition::new\("(\w+)"\)', code))
    assert len(tables) >= 7
    assert rows_of(page, "Tables").keys() == tables
    names = set(re.findall(r'const META_\w+: &str = "(\w+)";', code))
    assert rows_of(page, "The table `meta`").keys() == names
    for words, name in (("Format version", "FORMAT_VERSION"), ("oldest reader", "OLDEST_READER")):
        [number] = re.findall(rf"{name}: u32 = (\d+);", code)
        assert f"{words} {number}" in page


def test_the_page_names_every_field_of_a_record() -> None:
    page = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    section = page.split("\n## A record\n")[1].split("\n## ")[0]
    for field in FIELDS:
        assert f"`{field}`" in section, field


def test_the_page_names_every_file_that_a_home_gets(home: Path) -> None:
    page = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    named = rows_of(page, "Files of a home")
    with Memory.open(home) as memory:
        memory.remember("x")
        memory.compact()
        memory.verify()
        for file in home.rglob("*"):
            name = str(file.relative_to(home)) + ("/" if file.is_dir() else "")
            assert name in named, name
