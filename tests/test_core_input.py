"""What the compiled classes refuse, and how they say it: by the name of the field or argument."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from otolith import (
    Conflict,
    Episode,
    HybridIndex,
    IndexParams,
    InvalidInput,
    NotFound,
    ReadOnly,
    StoreError,
    _core,  # noqa: TID251
)

Engine = _core.Engine


@pytest.fixture
def engine() -> Iterator[_core.Engine]:
    opened = Engine.open(None)
    yield opened
    opened.close()


def put(engine: _core.Engine, summary: str = "a memory", **fields: Any) -> Episode:
    episode = engine.put({"summary": summary, **fields}).episode
    assert episode is not None
    return episode


SAMPLE = put(Engine.open(None))


class Odd(Mapping[str, Any]):
    """A mapping that is no dict."""

    def __getitem__(self, name: str) -> Any:
        return {"summary": "odd"}[name]

    def __iter__(self) -> Iterator[str]:
        return iter(["summary"])

    def __len__(self) -> int:
        return 1


class Bad:
    """A number that fails in its own way."""

    def __float__(self) -> float:
        raise ZeroDivisionError

    __index__ = __float__


FIELDS_REFUSED: list[tuple[str, Any]] = [
    ("summary", None),
    ("summary", b"bytes"),
    ("summary", "\udc80"),
    ("body", 1),
    ("key", ["k"]),
    ("source", None),
    ("outcome", "ok"),
    ("outcome", 1),
    ("tags", "one"),
    ("tags", ["a", None]),
    ("tags", {"a"}),
    ("metadata", [("a", 1)]),
    ("metadata", {1: 2}),
    ("metadata.a", {"a": [1]}),
    ("metadata.a", {"a": 2**63}),
    ("metadata.a", {"a": -(2**63) - 1}),
    ("metadata.a", {"a": math.inf}),
    ("metadata.a", {"a": "\ud800"}),
    ("metadata.a", {"a": np.int64(1)}),
    ("scope", "/a"),
    ("scope", None),
    ("importance", True),
    ("importance", "0.5"),
    ("importance", None),
    ("importance", 10**400),
    ("origin", "root"),
    ("trust", 1),
    ("working_dir", "relative"),
    ("colour", "red"),
    ("status", "active"),
    ("id", SAMPLE.id),
]


@pytest.mark.parametrize(("field", "value"), FIELDS_REFUSED, ids=lambda one: ascii(one)[:30])
def test_a_wrong_field_is_named(engine: _core.Engine, field: str, value: Any) -> None:
    fields = {"summary": "fine", field.split(".")[0]: value}
    with pytest.raises(InvalidInput) as caught:
        engine.put(fields)
    assert caught.value.field == field
    assert str(caught.value).startswith(field)
    episode = put(engine)
    with pytest.raises(InvalidInput):
        engine.update(episode.id, {field.split(".")[0]: value})
    assert engine.get(episode.id) == episode
    if field != "id":
        outcomes = engine.put_many([fields, {"summary": "good"}])
        assert isinstance(outcomes[0].error, InvalidInput)
        assert outcomes[0].episode is None
        assert outcomes[1].episode is not None


FILTERS_REFUSED: list[tuple[str, Any]] = [
    ("filter", [1]),
    ("filter", "scope"),
    ("ids", {"ids": ["x"]}),
    ("ids", {"ids": SAMPLE.id}),
    ("kinds", {"kinds": ["table"]}),
    ("tags", {"tags": "a"}),
    ("below", {"below": 1}),
    ("since", {"since": datetime(2024, 1, 1)}),
    ("until", {"until": 5}),
    ("metadata.a", {"metadata": {"a": []}}),
    ("user_id", {"user_id": 5}),
    ("user_id", {"user_id": "\ud800"}),
    ("working_dir", {"working_dir": "a/b"}),
    ("colour", {"colour": "red"}),
    ("colour", {"colour": None}),
]


@pytest.mark.parametrize(("field", "value"), FILTERS_REFUSED, ids=lambda one: ascii(one)[:30])
def test_a_wrong_filter_is_named(engine: _core.Engine, field: str, value: Any) -> None:
    put(engine)
    calls: list[Callable[[], Any]] = [
        lambda: engine.recall("memory", filter=value),
        lambda: engine.count(value),
        lambda: engine.page(value),
        lambda: engine.forget_where(value),
    ]
    for call in calls:
        with pytest.raises(InvalidInput) as caught:
            call()
        assert caught.value.field == field
    assert engine.count() == 1


ARGUMENTS_REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("k", {"k": -1}),
    ("k", {"k": -(10**30)}),
    ("k", {"k": 1.0}),
    ("k", {"k": True}),
    ("k", {"k": "5"}),
    ("query", {"query": 5}),
    ("query", {"query": "\ud800"}),
    ("fusion", {"fusion": "magic"}),
    ("fusion", {"fusion": 1}),
    ("weights", {"weights": {"graph": 1}}),
    ("weights", {"weights": {"lexical": 0, "vector": 0}}),
    ("weights", {"weights": {"lexical": -1}}),
    ("weights", {"weights": {"lexical": math.nan}}),
    ("weights.vector", {"weights": {"vector": "much"}}),
    ("weights", {"weights": [1, 2]}),
    ("vector", {"vector": "1,2"}),
    ("vector", {"vector": [0.0, 0.0]}),
    ("vector", {"vector": [math.nan, 1.0]}),
    ("vector", {"vector": []}),
]
RECALL_REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("legs", {"legs": ["graph"]}),
    ("legs", {"legs": "vector"}),
    ("min_relevance", {"min_relevance": 1.1}),
    ("min_relevance", {"min_relevance": math.nan}),
    ("min_relevance", {"min_relevance": "low"}),
    ("vector_reason", {"vector_reason": 5}),
]


@pytest.mark.parametrize(
    ("field", "given"), ARGUMENTS_REFUSED + RECALL_REFUSED, ids=lambda one: ascii(one)[:30]
)
def test_a_wrong_argument_of_a_question_is_named(
    engine: _core.Engine, field: str, given: dict[str, Any]
) -> None:
    engine.put({"summary": "a memory"}, vector=[1.0, 0.0])
    index = HybridIndex()
    index.insert("a", "a memory", [1.0, 0.0])
    arguments = {"query": "memory", **given}
    with pytest.raises(InvalidInput) as caught:
        engine.recall(**arguments)
    assert caught.value.field == field
    if (field, given) in ARGUMENTS_REFUSED:
        with pytest.raises(InvalidInput) as caught:
            index.search(**arguments)
        assert caught.value.field == field


def test_other_arguments_are_named(engine: _core.Engine, tmp_path: Path) -> None:
    episode = put(engine)
    refused: list[tuple[str, Callable[[], Any]]] = [
        ("id", lambda: engine.get("nonsense")),
        ("id", lambda: engine.get(5)),  # type: ignore[arg-type]
        ("ids", lambda: engine.forget(episode.id)),
        ("ids", lambda: engine.forget(["x"])),
        ("limit", lambda: engine.find("0", limit=-1)),
        ("limit", lambda: engine.page(None, limit=-1)),
        ("after", lambda: engine.page(None, after="x")),
        ("filter", lambda: engine.forget_where(None)),  # type: ignore[arg-type]
        ("expect", lambda: engine.update(episode.id, {}, expect=datetime(2024, 1, 1))),
        ("fields", lambda: engine.put([1])),  # type: ignore[arg-type]
        ("fields", lambda: engine.put({1: 2})),  # type: ignore[dict-item]
        ("records", lambda: engine.put_many({"summary": "x"})),  # type: ignore[arg-type]
        ("vectors", lambda: engine.put_many([{"summary": "x"}], vectors=[])),
        ("episodes", lambda: engine.restore(["x"])),  # type: ignore[list-item]
        ("rows", lambda: engine.attach([(episode.id,)])),  # type: ignore[list-item]
        ("text_hash", lambda: engine.attach([(episode.id, b"short", [[1.0]])])),
        ("embedder", lambda: engine.pending()),
        ("home", lambda: Engine.open(5)),  # type: ignore[arg-type]
        ("scope", lambda: Engine.open(None, scope="a//b")),
        ("origin", lambda: Engine.open(None, origin="root")),
        ("mode", lambda: Engine.open(None, mode="alone")),
        ("durability", lambda: Engine.open(None, durability="often")),
        ("network", lambda: Engine.open(None, network="maybe")),
        ("lock_timeout", lambda: Engine.open(None, lock_timeout=-1)),
        ("lock_timeout", lambda: Engine.open(None, lock_timeout=math.nan)),
        ("k1", lambda: IndexParams(k1=-1)),
        ("b", lambda: IndexParams(b=math.nan)),
        ("analyzer", lambda: IndexParams(analyzer="fancy")),  # type: ignore[arg-type]
        ("dim", lambda: HybridIndex(0)),
        ("dim", lambda: HybridIndex(8193)),
        ("params", lambda: HybridIndex(params={})),  # type: ignore[arg-type]
        ("ids[1]", lambda: HybridIndex().insert_many(["a", ""], ["x", "y"])),
        ("texts", lambda: HybridIndex().insert_many(["a", "b"], ["x"])),
        ("ids", lambda: HybridIndex().insert_many(["a", "\ud800"], ["x", "y"])),
        ("ids", lambda: HybridIndex().search("x", ids="a")),
    ]
    for field, call in refused:
        with pytest.raises(InvalidInput) as caught:
            call()
        assert caught.value.field == field
    with pytest.raises(ZeroDivisionError):
        engine.recall("x", min_relevance=Bad())  # type: ignore[arg-type]
    assert Engine.open(None, lock_timeout=math.inf).put(Odd()).created


def test_errors_carry_what_a_program_wants(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "home", scope="a")
    first = put(engine, key="one")
    second = put(engine, "two", key="two")
    missing = first.replace(id="01900000-0000-7000-8000-000000000000").id
    with pytest.raises(NotFound) as not_found:
        engine.get(missing)
    assert (not_found.value.what, not_found.value.id) == ("episode", missing)
    with pytest.raises(Conflict) as conflict:
        engine.update(first.id, {"title": "t"}, expect=datetime(2000, 1, 1, tzinfo=UTC))
    assert first.id in conflict.value.what
    with pytest.raises(Conflict):
        engine.put({"summary": "x", "key": "one"}, id=second.id)
    engine.close()
    engine.close()
    for call in (lambda: engine.get(first.id), engine.info, lambda: put(engine)):
        with pytest.raises(StoreError) as closed:
            call()
        assert closed.value.path == str(tmp_path / "home" / "episodes.redb")
    reader = Engine.open(tmp_path / "home", read_only=True)
    assert reader.count() == 2
    with pytest.raises(ReadOnly):
        put(reader)
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError) as stopped:
        Engine.open(tmp_path / "file")
    assert stopped.value.errno in (17, 20)
    for error in (not_found.value, conflict.value, stopped.value):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
