"""What cannot be accepted has a typed error that names the thing, and changes nothing."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from otolith import InvalidInput, Memory, OtolithError, StoreCorrupt, StoreError

NAIVE = datetime(2026, 1, 1)

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
