"""What cannot be accepted has a typed error that names the thing, and changes nothing."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from otolith import InvalidInput, Memory, OtolithError, StoreCorrupt, StoreError

NAIVE = datetime(2026, 1, 1)
LOST = (RuntimeError("no such zone"), 5, timedelta(days=2))

WRITES: list[tuple[str, dict[str, Any]]] = [
    ("summary", {"summary": ""}),
    ("summary", {"summary": " \n\t"}),
    ("summary", {"summary": 42}),
    ("summary", {"summary": "a\0b"}),
    ("summary", {"summary": "lone \ud800 surrogate"}),
    ("body", {"summary": "x", "body": "\udcff"}),
    ("tags", {"summary": "x", "tags": ["ok", "\ud800"]}),
    ("tags", {"summary": "x", "tags": [1]}),
    ("tags", {"summary": "x", "tags": 5}),
    ("title", {"summary": "x", "title": 5}),
    ("metadata", {"summary": "x", "metadata": {"a": {"nested": 1}}}),
    ("metadata", {"summary": "x", "metadata": {"a": float("nan")}}),
    ("metadata", {"summary": "x", "metadata": {"a": 2**64}}),
    ("metadata", {"summary": "x", "metadata": {"\ud800": 1}}),
    ("metadata", {"summary": "x", "metadata": [1]}),
    ("importance", {"summary": "x", "importance": 1.5}),
    ("importance", {"summary": "x", "importance": float("nan")}),
    ("importance", {"summary": "x", "importance": "high"}),
    ("outcome", {"summary": "x", "outcome": "ok"}),
    ("source", {"summary": "x", "source": "slack"}),
    ("origin", {"summary": "x", "origin": "root"}),
    ("trust", {"summary": "x", "origin": "web", "trust": "trusted"}),
    ("occurred_at", {"summary": "x", "occurred_at": NAIVE}),
    ("occurred_at", {"summary": "x", "occurred_at": "yesterday"}),
    ("occurred_at", {"summary": "x", "occurred_at": 12}),
    ("working_dir", {"summary": "x", "working_dir": ""}),
    ("working_dir", {"summary": "x", "working_dir": 5}),
    ("scope", {"summary": "x", "scope": "a//b"}),
    ("key", {"summary": "x", "key": " "}),
    ("id", {"summary": "x", "id": "42"}),
    ("id", {"summary": "x", "id": "550e8400-e29b-41d4-a716-446655440000"}),
    ("created_at", {"summary": "x", "created_at": NAIVE}),
    ("status", {"summary": "x", "status": "active"}),
    ("colour", {"summary": "x", "colour": "red"}),
]


@pytest.mark.parametrize(("field", "given"), WRITES, ids=lambda one: str(one)[:40])
def test_a_wrong_record_is_refused_by_name(memory: Memory, field: str, given: dict[str, Any]) -> None:
    arguments = dict(given)
    with pytest.raises(InvalidInput) as caught:
        memory.remember(arguments.pop("summary"), **arguments)
    assert caught.value.field.startswith(field)
    assert isinstance(caught.value, ValueError)
    report = memory.remember_many([dict(given), "good"])
    assert [(place, type(error)) for place, error in report.failed] == [(0, InvalidInput)]
    assert report.failed[0][1].field.startswith(field)
    assert [one.summary for one in memory.episodes()] == ["good"]


def test_unknown_fields_list_the_known(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="session_id"):
        memory.remember("x", sesion_id="s")
    with pytest.raises(InvalidInput, match="session_id"):
        memory.count({"sesion_id": "s"})


def test_a_record_over_16_mib_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="16777216"):
        memory.remember("x", body="y" * (17 << 20))
    assert len(memory) == 0


FILTERS: list[tuple[str, dict[str, Any]]] = [
    ("colour", {"colour": "red"}),
    ("since", {"since": NAIVE}),
    ("until", {"until": "soon"}),
    ("kinds", {"kinds": ["dream"]}),
    ("outcome", {"outcome": "ok"}),
    ("tags", {"tags": [1]}),
    ("below", {"below": True}),
    ("below", {"working_dir": "/x", "below": "yes"}),
    ("metadata", {"metadata": "x"}),
    ("metadata", {"metadata": {"a": []}}),
    ("ids", {"ids": ["42"]}),
    ("user_id", {"user_id": 7}),
    ("actor", {"actor": "\ud800"}),
]


@pytest.mark.parametrize(("field", "given"), FILTERS, ids=lambda one: str(one)[:40])
def test_a_wrong_filter_is_refused_by_name(memory: Memory, field: str, given: dict[str, Any]) -> None:
    memory.remember("x")
    for call in (
        lambda: memory.recall("x", filter=given),
        lambda: memory.count(given),
        lambda: list(memory.episodes(given)),
        lambda: memory.forget_where(given),
    ):
        with pytest.raises(InvalidInput) as caught:
            call()
        assert caught.value.field.startswith(field.removesuffix("s"))
    assert len(memory) == 1


def test_filter_must_be_a_filter(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="Filter"):
        memory.count("tags=a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("k", {"k": -1}),
        ("fusion", {"fusion": "magic"}),
        ("legs", {"legs": ["smell"]}),
        ("min_relevance", {"min_relevance": float("nan")}),
        ("weights", {"weights": {"smell": 1.0}}),
    ],
)
def test_wrong_arguments_of_recall(memory: Memory, field: str, arguments: dict[str, Any]) -> None:
    memory.remember("x")
    with pytest.raises(InvalidInput) as caught:
        memory.recall("x", **arguments)
    assert caught.value.field.startswith(field)


def test_arguments_of_the_other_calls(memory: Memory) -> None:
    for call in (
        lambda: memory.remember("x", embed="never"),  # type: ignore[arg-type]
        lambda: memory.remember_many(["x"], batch=0),
        lambda: memory.embed_pending(batch=0),
        lambda: memory.episodes(limit=-1),
        lambda: memory.recall_many("x"),
        lambda: memory.get(42),  # type: ignore[arg-type]
        lambda: memory.get("42"),
        lambda: memory.forget(["a"]),  # type: ignore[arg-type]
        lambda: memory.import_("x", format="xml"),  # type: ignore[arg-type]
        lambda: memory.import_("x", key="id"),
        lambda: Memory.open(""),
        lambda: Memory.open(42),  # type: ignore[arg-type]
        lambda: Memory.open(embedder=42),  # type: ignore[arg-type]
        lambda: Memory.open(embedder="magic:1"),
        lambda: Memory.open(scope="a//b"),
        lambda: Memory.open(origin="root"),  # type: ignore[arg-type]
        lambda: Memory.open(config={"no such": 1}),
    ):
        with pytest.raises(InvalidInput):
            call()
    assert len(memory) == 0


class Odd:
    """A value whose `repr` fails, so that no message can hold it."""

    def __repr__(self) -> str:
        raise RuntimeError("no text of me")


class LostZone(tzinfo):
    def __init__(self, offset: Any) -> None:
        self.offset = offset

    def utcoffset(self, moment: Any) -> Any:
        if isinstance(self.offset, Exception):
            raise self.offset
        return self.offset


BOOLS = (1, 0, "yes", None, np.array(True), Odd())
CALLS: list[tuple[str, Callable[[Memory, Any], object], tuple[Any, ...]]] = [
    ("legs", lambda memory, odd: memory.recall("x", legs=odd), (5, 0.5, b"ab", {"lexical": 1}, Odd())),
    ("queries", lambda memory, odd: memory.recall_many(odd), (5, None, b"ab", {"a": 1}, np.array(3), Odd())),
    ("episodes", lambda memory, odd: memory.remember_many(odd), (5, None, "x", b"x", {"summary": "x"})),
    ("episodes", lambda memory, odd: memory.remember_many(odd), (np.array(3), Odd())),
    (
        "batch",
        lambda memory, odd: memory.remember_many(["x"], batch=odd),
        (2**70, 10**5000, 1.0, True, Odd()),
    ),
    ("batch", lambda memory, odd: memory.embed_pending(batch=odd), (2**70, Odd())),
    ("progress", lambda memory, odd: memory.remember_many(["x"], progress=odd), (5, "x")),
    ("progress", lambda memory, odd: memory.embed_pending(progress=odd), (5, "x")),
    ("progress", lambda memory, odd: memory.import_(io.BytesIO(b""), progress=odd), (5, "x")),
    ("embed", lambda memory, odd: memory.remember("x", embed=odd), (5, np.array([1, 2]), Odd())),
    ("explain", lambda memory, odd: memory.recall("x", explain=odd), BOOLS),
    ("explain", lambda memory, odd: memory.recall_many(["x"], explain=odd), BOOLS),
    ("newest_first", lambda memory, odd: memory.episodes(newest_first=odd), BOOLS),
    ("limit", lambda memory, odd: memory.episodes(limit=odd), (True, 1.0, Odd())),
    ("dry_run", lambda memory, odd: memory.forget_where({"scope": ""}, dry_run=odd), BOOLS),
    ("vectors", lambda memory, odd: memory.export(io.BytesIO(), vectors=odd), BOOLS),
    ("partial", lambda memory, odd: memory.import_(io.BytesIO(), partial=odd), BOOLS),
    ("format", lambda memory, odd: memory.import_(io.BytesIO(), format=odd), (5, np.array([1, 2]), Odd())),
    ("read_only", lambda memory, odd: Memory.open("other", read_only=odd), BOOLS),
    ("create", lambda memory, odd: Memory.open("other", create=odd), BOOLS),
    ("embedder", lambda memory, odd: Memory.open("other", embedder=odd), (5, np.array([1, 2]), Odd())),
    ("ids", lambda memory, odd: memory.count({"ids": odd}), (5, np.array(3), {"a": 1}, Odd())),
    ("not_ids", lambda memory, odd: memory.count({"not_ids": odd}), (5, np.array(3))),
    ("tags", lambda memory, odd: memory.count({"tags": odd}), (5, np.array(3), {"a": 1}, Odd())),
    ("below", lambda memory, odd: memory.count({"below": odd}), (1, 10**5000, Odd())),
    ("", lambda memory, odd: memory.count({odd: 1}), (5, 10**5000)),
    (
        "mapping",
        lambda memory, odd: memory.import_(io.BytesIO(b"{}"), format="jsonl", mapping=odd),
        (["a"], [("a", "b")], "summary", 5, {5: "x"}, {None: "x"}, {"summary": 5}, {"summary": Odd()}),
    ),
    ("occurred_at", lambda memory, odd: memory.remember("x", occurred_at=odd), (5, Odd(), [])),
    *(
        (field, call, tuple(datetime(2026, 1, 1, tzinfo=LostZone(offset)) for offset in LOST))
        for field, call in (
            ("occurred_at", lambda memory, odd: memory.remember("x", occurred_at=odd)),
            ("since", lambda memory, odd: memory.count({"since": odd})),
            ("expect", lambda memory, odd: memory.update("x", expect=odd, summary="y")),
        )
    ),
]


@pytest.mark.parametrize(("field", "call", "odd_ones"), CALLS, ids=lambda one: one if one else None)
def test_wrong_types_name_the_argument(
    memory: Memory, field: str, call: Callable[[Memory, Any], object], odd_ones: tuple[Any, ...]
) -> None:
    for odd in odd_ones:
        with pytest.raises(InvalidInput) as caught:
            call(memory, odd)
        assert caught.value.field.startswith(field.removesuffix("s"))
        assert len(str(caught.value)) < 500
    assert len(memory) == 0
    assert not Path("other").exists()


def test_an_iterator_of_records_may_be_anything_that_iterates(memory: Memory) -> None:
    records = (f"note {number}" for number in range(3))
    assert memory.remember_many(records).written == 3
    assert memory.remember_many({"a": 1}.keys()).written == 1
    assert len(memory.recall_many(("note", "a"), legs=("lexical",))) == 2
    assert memory.count({"ids": [one.id for one in memory.episodes(limit=2)]}) == 2
    assert memory.count({"ids": next(memory.episodes())}) == 1


def test_what_an_iterator_raises_is_its_own_matter(memory: Memory) -> None:
    def broken() -> Iterator[str]:
        yield "first"
        raise RuntimeError("the supply broke")

    with pytest.raises(RuntimeError, match="the supply broke"):
        memory.remember_many(broken(), batch=1)
    assert len(memory) == 1


def test_the_offset_of_a_zone_is_asked_once(memory: Memory) -> None:
    class Once(tzinfo):
        asked = 0

        def utcoffset(self, moment: Any) -> timedelta:
            self.asked += 1
            if self.asked > 2:
                raise RuntimeError("asked too often")
            return timedelta(hours=8)

    given = datetime(2026, 4, 8, 9, 14, tzinfo=Once())
    kept = memory.remember("x", occurred_at=given)
    assert kept.occurred_at == datetime(2026, 4, 8, 1, 14, tzinfo=UTC)
    assert kept.occurred_at.utcoffset() == timedelta(hours=8)


GONE = """
import os, sys, tempfile
from otolith import InvalidInput, Memory
gone = tempfile.mkdtemp(); os.chdir(gone); os.rmdir(gone)
with Memory.open(sys.argv[1]) as memory:
    memory.remember("an absolute home needs no working directory")
    calls = {
        "home": lambda: Memory.open("relative"),
        "working_dir": lambda: memory.remember("x", working_dir="relative"),
        "working_dir ": lambda: memory.count({"working_dir": "."}),
    }
    for field, call in calls.items():
        try:
            call()
        except InvalidInput as error:
            assert error.field == field.strip() and "working directory" in str(error), (field, error)
        else:
            raise AssertionError(field)
    os.environ["OTOLITH_HOME"] = "relative"
    try:
        Memory.open()
    except InvalidInput as error:
        assert error.field == "home", error
    assert len(memory) == 1
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a directory in use cannot be removed there")
def test_a_working_directory_that_is_gone(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GONE, str(home)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_directory_where_the_file_should_be(home: Path) -> None:
    (home / "episodes.redb").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"episodes\.redb"):
        Memory.open(home)
    assert (home / "episodes.redb").is_dir()


def test_a_file_where_the_home_should_be(home: Path) -> None:
    home.write_text("hello")
    with pytest.raises(StoreError):
        Memory.open(home)
    assert home.read_text() == "hello"


def test_a_file_that_is_not_a_store(home: Path) -> None:
    home.mkdir()
    content = b"these are no pages of a store" * 500
    (home / "episodes.redb").write_bytes(content)
    with pytest.raises(StoreCorrupt) as caught:
        Memory.open(home)
    assert "episodes.redb" in str(caught.value)
    assert (home / "episodes.redb").read_bytes() == content


def test_vectors_that_cannot_be_used_are_refused_and_the_text_kept(home: Path) -> None:
    good = [1.0] * 8
    with Memory.open(home, embedder=None) as memory:
        memory.remember("good one", vector=good)
        for number, bad in enumerate(([0.0] * 8, [float("nan")] * 8, [float("inf")] * 8, [1.0] * 7, [])):
            memory.remember(f"text number {number}", vector=bad)
        coverage = memory.coverage()
        assert coverage.total == 6
        assert coverage.vectorized == 1
        assert coverage.refused + coverage.dimension_mismatches + coverage.pending == 5
        assert len(memory.recall("text number", legs=["lexical"])) == 5
        assert memory.status().notices
        report = memory.remember_many([{"summary": "again", "vector": [0.0] * 8}])
        assert (report.written, report.vectors_refused) == (1, 1)


def test_a_query_vector_of_the_wrong_width(home: Path) -> None:
    from otolith import DimensionMismatch

    with Memory.open(home, embedder=None) as memory:
        memory.remember("x", vector=[1.0] * 8)
        with pytest.raises(DimensionMismatch) as caught:
            memory.recall("x", vector=[1.0] * 7)
        assert (caught.value.expected, caught.value.found) == (8, 7)
        for bad in ([0.0] * 8, [float("nan")] * 8):
            with pytest.raises(OtolithError):
                memory.recall("x", vector=bad)
