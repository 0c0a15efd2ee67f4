"""The compiled classes as values: what was put in comes out, compares, pickles and prints."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from otolith import (
    Coverage,
    Episode,
    FormatTooNew,
    HybridIndex,
    IndexParams,
    InvalidInput,
    Report,
    _core,  # noqa: TID251
)

Engine = _core.Engine

FULL: dict[str, Any] = {
    "key": "k",
    "summary": "the cache was moved to redis",
    "body": "because memcached lost keys",
    "title": "cache",
    "outcome": "success",
    "source": "conversation",
    "actor": "Ada",
    "agent_id": "agent",
    "task_id": "task",
    "session_id": "session",
    "user_id": "user",
    "working_dir": "/srv/app",
    "key_decisions": ("use redis", "drop memcached"),
    "files_modified": ("src/cache.py",),
    "tags": ("cache", "缓存"),
    "metadata": {"s": "text", "i": 2**63 - 1, "f": 0.1, "b": True, "n": None},
    "scope": "team/app",
    "occurred_at": datetime(2024, 2, 29, 23, 59, 59, 999_999, timezone(timedelta(hours=5, minutes=45))),
    "importance": 0.25,
    "origin": "user",
    "trust": "untrusted",
}


@pytest.fixture
def engine() -> Iterator[_core.Engine]:
    opened = Engine.open(None)
    yield opened
    opened.close()


def put(engine: _core.Engine, summary: str = "a memory", **fields: Any) -> Episode:
    episode = engine.put({"summary": summary, **fields}).episode
    assert episode is not None
    return episode


def test_every_field_comes_back_as_it_was_given(engine: _core.Engine) -> None:
    written = engine.put(MappingProxyType(FULL)).episode
    assert written is not None
    for episode in (written, engine.get(written.id)):
        for name, value in FULL.items():
            assert getattr(episode, name) == value, name
        assert episode.occurred_at.utcoffset() == timedelta(hours=5, minutes=45)
        assert type(episode.metadata["b"]) is bool
        assert (episode.status, episode.schema_version) == ("active", _core.SCHEMA_VERSION)
        assert episode.created_at == episode.updated_at
        assert episode.created_at.tzinfo is UTC


def test_a_record_is_a_value(engine: _core.Engine) -> None:
    episode = engine.put(FULL).episode
    assert episode is not None
    again = engine.get(episode.id)
    assert episode == again
    assert hash(episode) == hash(again)
    assert episode is not again
    other = episode.replace(summary="another")
    assert other != episode
    assert episode != "another"
    assert len({episode, again, other}) == 2
    with pytest.raises(AttributeError):
        episode.summary = "changed"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Episode()  # type: ignore[call-arg, unused-ignore]
    for copied in (pickle.loads(pickle.dumps(episode)), copy.copy(episode), copy.deepcopy(episode)):
        assert copied == episode
        assert copied.occurred_at.utcoffset() == episode.occurred_at.utcoffset()
    text = repr(episode)
    assert text.startswith(f"Episode(id='{episode.id}', key='k', summary='the cache was moved to redis'")
    assert "tags=('cache', '缓存')" in text


def test_plain_data_is_json_and_has_every_field(engine: _core.Engine) -> None:
    episode = engine.put(FULL).episode
    assert episode is not None
    plain = json.loads(json.dumps(episode.to_dict()))
    assert set(plain) == {name for name in dir(Episode) if inspect.isgetsetdescriptor(getattr(Episode, name))}
    assert plain["occurred_at"] == "2024-02-29T23:59:59.999999+05:45"
    assert datetime.fromisoformat(plain["created_at"]) == episode.created_at
    assert plain["tags"] == ["cache", "缓存"]
    assert Episode.from_json(episode.to_json()) == episode
    assert Episode.from_json(episode.to_json().encode()) == episode


def test_from_json_refuses_what_is_no_record(engine: _core.Engine) -> None:
    episode = put(engine)
    newer = {**json.loads(episode.to_json()), "schema_version": _core.SCHEMA_VERSION + 1}
    with pytest.raises(FormatTooNew) as caught:
        Episode.from_json(json.dumps(newer))
    assert (caught.value.found, caught.value.supported) == (_core.SCHEMA_VERSION + 1, _core.SCHEMA_VERSION)
    blank = {**json.loads(episode.to_json()), "summary": " "}
    for junk in ("", "{}", "[]", json.dumps(blank), b"\xff", "\ud800", 5):
        with pytest.raises(InvalidInput):
            Episode.from_json(junk)  # type: ignore[arg-type]


def test_replace_checks_like_a_write(engine: _core.Engine) -> None:
    episode = put(engine, body="long", tags=["a"])
    changed = episode.replace(
        body=None,
        tags=(),
        status="quarantined",
        updated_at=datetime(2030, 1, 1, tzinfo=UTC),
        working_dir="/a/../b",
    )
    assert (changed.body, changed.tags, changed.status) == (None, (), "quarantined")
    assert (changed.updated_at.year, changed.working_dir) == (2030, "/b")
    assert episode.body == "long"
    assert episode.replace() == episode
    for field, value in [
        ("summary", None),
        ("summary", "  "),
        ("importance", 2),
        ("id", "x"),
        ("status", "gone"),
        ("schema_version", 0),
        ("schema_version", 99),
        ("created_at", datetime(2030, 1, 1)),
        ("tags", "a"),
    ]:
        with pytest.raises(InvalidInput) as caught:
            episode.replace(**{field: value})
        assert caught.value.field == field
    with pytest.raises(TypeError, match=r"colour.*summary.*schema_version"):
        episode.replace(colour="red")
    with pytest.raises(InvalidInput, match="trust"):
        episode.replace(origin="web").replace(trust="trusted")


OFFSETS = st.integers(-86_399, 86_399).map(lambda s: timezone(timedelta(seconds=s)))


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=OFFSETS))
@example(datetime(1, 1, 1, tzinfo=UTC))
@example(datetime.max.replace(tzinfo=UTC))
@example(datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC))
@example(datetime(1900, 2, 28, 23, 59, tzinfo=timezone(-timedelta(hours=23, minutes=59, seconds=59))))
def test_times_are_exact(at: datetime) -> None:
    back = SAMPLE.replace(occurred_at=at).occurred_at
    assert back == at
    assert back.replace(tzinfo=None) == at.replace(tzinfo=None)
    assert back.utcoffset() == at.utcoffset()
    assert SAMPLE.replace(occurred_at=at.isoformat()).occurred_at == at


SAMPLE = put(Engine.open(None))


def test_times_at_the_edges() -> None:
    odd = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1, microseconds=250)))
    back = SAMPLE.replace(occurred_at=odd).occurred_at
    assert back == odd, "the moment is exact though the offset keeps only seconds"

    class Berlin(datetime):
        pass

    assert SAMPLE.replace(occurred_at=Berlin(2024, 1, 1, tzinfo=UTC)).occurred_at == datetime(
        2024, 1, 1, tzinfo=UTC
    )
    outside = [
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))),
        "0000-01-01T00:00:00Z",
    ]
    for value in (*outside, datetime(2024, 1, 1), "2024-01-01T00:00:00", "2024-01-01", "", 5, 1.5, None):
        with pytest.raises(InvalidInput) as caught:
            SAMPLE.replace(occurred_at=value)
        assert caught.value.field == "occurred_at"


# -- answers ------------------------------------------------------------------------------------------------


def report() -> Report:
    engine = Engine.open(None)
    for n in range(5):
        engine.put(
            {"summary": f"the cache of service {n}", "tags": ["a"] if n else []}, vector=[1.0, float(n)]
        )
    return engine.recall("cache service", vector=[1.0, 1.0], filter={"tags": ["a"]}, explain=True)


def test_a_report_is_a_sequence() -> None:
    answer = report()
    hits = list(answer)
    assert isinstance(answer, Sequence)
    assert len(answer) == 4
    assert answer
    assert not Engine.open(None).recall("nothing")
    assert [answer[0], answer[-1], answer[True]] == [hits[0], hits[3], hits[1]]
    assert answer[1:3] == tuple(hits[1:3])
    assert answer[::-1] == tuple(reversed(answer)) == tuple(hits[::-1])
    assert answer[10:] == ()
    assert hits[2] in answer
    assert "x" not in answer
    assert (answer.index(hits[2]), answer.index(hits[2], -2), answer.count(hits[2])) == (2, 2, 1)
    with pytest.raises(ValueError, match="not in"):
        answer.index(hits[0], 1)
    for wrong in (4, -5, 2**70):
        with pytest.raises(IndexError):
            answer[wrong]
    for name in ("0", 1.0, None):
        with pytest.raises(TypeError):
            answer[name]  # type: ignore[call-overload]
    match answer:
        case [first, *_]:
            assert first == hits[0]
        case _:
            pytest.fail("does not match as a sequence")


def test_answers_pickle_and_compare_by_value() -> None:
    answer = report()
    hit = answer[0]
    parts: list[Any] = [
        answer,
        hit,
        hit.explanation,
        answer.coverage,
        answer.analysis,
        answer.legs["vector"],
        *answer.filters,
    ]
    index = HybridIndex(params=IndexParams(k1=0.9, analyzer="plain"))
    parts += [
        IndexParams(k1=0.9),
        index.insert("a", "text", [1.0]),
        *index.search("text", [1.0], explain=True),
    ]
    for one in parts:
        for protocol in (2, pickle.HIGHEST_PROTOCOL):
            again = pickle.loads(pickle.dumps(one, protocol))
            assert type(again) is type(one)
            assert again == one
            assert hash(again) == hash(one)
            assert repr(again) == repr(one)
        assert one != object()
        assert repr(one).startswith(f"{type(one).__name__}(")
        name = next(
            name for name in dir(one) if not name.startswith("_") and not callable(getattr(one, name))
        )
        with pytest.raises(AttributeError):
            setattr(one, name, None)
    assert report() != answer
    assert json.loads(json.dumps(answer.to_dict()))["hits"][0]["episode"]["id"] == hit.id


def test_what_an_answer_says() -> None:
    answer = report()
    leg = answer.legs["lexical"]
    assert leg.to_dict() == {"ran": True, "reason": None, "candidates": 4, "method": None}
    assert [(one.name, one.left) for one in answer.filters] == [("tags", 4)]
    assert (answer.considered, answer.why_empty(), answer.analysis.text) == (4, "", "cache service")
    assert answer.analysis.terms == ("cache", "service")
    assert isinstance(answer.coverage, Coverage)
    assert (answer.coverage.ratio(), answer.coverage.bm25_only()) == (1.0, 0)
    hit = answer[0]
    assert (hit.kind, hit.text, hit.trust) == ("episode", hit.episode.summary, "trusted")
    assert hit.timestamp == hit.episode.occurred_at
    assert set(hit.parts) == {"bm25", "cosine", "lexical", "vector"}
    assert hit.explanation is not None
    assert hit.explanation.value == hit.score
    assert str(hit.explanation).count("\n") >= 4
    nothing = Engine.open(None).recall("x", vector_reason="asleep")
    assert nothing.legs["vector"].reason == "asleep"
    assert "no records" in nothing.why_empty()


def test_limits_of_k(engine: _core.Engine) -> None:
    for n in range(3):
        put(engine, f"memory {n}")
    assert [len(engine.recall("memory", k)) for k in (0, 2, 3, 10**30)] == [0, 2, 3, 3]
    assert [len(engine.recall(None, k)) for k in (0, 2, 10**30)] == [0, 2, 3]
    assert len(engine.recall("memory", np.int64(2))) == 2  # type: ignore[arg-type]
    assert len(engine.recall("memory", legs=[])) == 0
    assert len(engine.page(None, limit=10**30)[0]) == 3
    assert HybridIndex().search() == []


def test_the_embedder_of_a_handle_may_come_later(engine: _core.Engine) -> None:
    episode = put(engine)
    engine.use_embedder("toy/1")
    assert engine.embedder == "toy/1"
    (pending,) = engine.pending(ids=[episode.id])
    assert [one.id for one in engine.pending()] == [pending.id] == [episode.id]
    assert engine.wants_query_vector() == "no record has a vector yet; embed what is pending"
    done = engine.attach([(pending.id, pending.text_hash, np.ones((len(pending.chunks), 3), np.float32))])
    assert (done.attached, done.refused, done.outdated) == (1, 0, 0)
    assert engine.home_embedder() == ("toy/1", 3)
    assert engine.wants_query_vector() is None
    assert engine.recall(None, vector=[1, 1, 1])[0].id == episode.id
    engine.use_embedder("other/2")
    refused = engine.wants_query_vector()
    assert refused is not None
    assert "toy/1" in refused
    assert engine.coverage().vectorized == 0
    assert engine.foreign_vectors() == {"toy/1": 1}
    engine.use_embedder("toy/1")
    assert engine.coverage().vectorized == 1
