"""Hybrid memory: vectors come after the text is safe, and no failure of an embedder fails anything else."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedding_server import (
    DIM,
    Answer,
    DrippingServer,
    EmbeddingServer,
    embeddings,
    error,
    free_port,
    good,
    vector,
)
from otolith import EmbedderError, EmbedderUnavailable, Filter, InvalidInput, Memory
from otolith._backoff import Backoff
from otolith.maintenance import doctor


@pytest.fixture
def configured(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> EmbeddingServer:
    monkeypatch.setenv("OTOLITH_EMBEDDER", "openai:toy")
    monkeypatch.setenv("OTOLITH_EMBEDDER_URL", server.url)
    return server


def test_the_setting_makes_a_memory_hybrid(home: Path, configured: EmbeddingServer) -> None:
    with Memory.open(home) as memory:
        memory.remember("the token expired")
        memory.remember("lunch was noodles")
        coverage = memory.coverage()
        assert (coverage.total, coverage.vectorized, coverage.pending, coverage.dim) == (2, 2, 0, DIM)
        report = memory.recall("token", explain=True)
        assert report.legs["vector"].ran
        assert report.legs["lexical"].ran
        assert report[0].text == "the token expired"
        assert report[0].parts["cosine"] > 0.2
        status = memory.status()
        assert (status.embedder, status.home_dim) == ("openai:toy", DIM)
        assert status.fingerprint == status.home_embedder
        assert (status.fingerprint or "").startswith("openai:toy|prompt=none|text=v")
        assert "OTOLITH_EMBEDDER" in status.embedder_source
        assert status.notices == ()


def test_meaning_finds_what_words_do_not(home: Path) -> None:
    axes = {"dog": [1.0, 0.1, 0.0], "puppy": [0.9, 0.0, 0.1], "tax": [0.0, 1.0, 0.2]}

    def embed(texts: list[str]) -> list[list[float]]:
        return [next(row for word, row in axes.items() if word in text) for text in texts]

    with Memory.open(home, embedder=embed) as memory:
        memory.remember_many(["a dog barked", "the tax is due"])
        report = memory.recall("puppy")
        assert report[0].text == "a dog barked"
        assert memory.recall("puppy", legs=["lexical"]).why_empty()


def test_filters_hold_for_vectors_too(home: Path, configured: EmbeddingServer) -> None:
    with Memory.open(home) as memory:
        memory.remember("token one", tags=["a"])
        kept = memory.remember("token two", tags=["b"])
        report = memory.recall("token one", filter=Filter(tags=("b",)))
        assert [hit.id for hit in report] == [kept.id]


def test_one_event_behind_eighty_mails_is_found(home: Path) -> None:
    """A pool that was cut before the filter held mails only."""
    with Memory.open(home, embedder="hash:64") as memory:
        memory.remember_many([{"summary": f"quarterly review mail {n}", "tags": ["mail"]} for n in range(80)])
        event = memory.remember("review", tags=["event"])
        report = memory.recall("quarterly review mail", 1, filter=Filter(tags=("event",)))
        assert [hit.id for hit in report] == [event.id]
        assert report.legs["vector"].ran


def test_a_server_that_is_down_fails_no_write(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTOLITH_EMBEDDER", "openai:toy")
    monkeypatch.setenv("OTOLITH_EMBEDDER_URL", f"http://127.0.0.1:{free_port()}/v1")
    with Memory.open(home) as memory, caplog.at_level(logging.WARNING, logger="otolith"):
        for number in range(3):
            memory.remember(f"note {number}")
        report = memory.remember_many(["more", "and more"])
        assert (report.written, report.vectors_attached, report.vectors_pending) == (5 - 3, 0, 2)
        memory.update(next(memory.episodes()), title="changed")
        found = memory.recall("note")
        assert len(found) == 3
        assert not found.legs["vector"].ran
        assert memory.coverage().pending == 5
        notices = memory.status().notices
    assert any("cannot be reached" in one and "times" in one for one in notices)
    assert len([one for one in caplog.records if "cannot be reached" in one.message]) == 1


def test_the_failed_question_says_why(home: Path, configured: EmbeddingServer) -> None:
    with Memory.open(home) as memory:
        memory.remember("the token expired")
        configured.play = lambda request: error(500, "model crashed")
        report = memory.recall("what about the token")
        assert report[0].text == "the token expired"
        assert not report.legs["vector"].ran
        assert "model crashed" in (report.legs["vector"].reason or "")
        configured.play = good
        assert memory.recall("what about the token").legs["vector"].ran


def test_a_server_that_hangs_costs_a_write_two_seconds_once(home: Path, configured: EmbeddingServer) -> None:
    configured.play = lambda request: Answer(wait=20)
    with Memory.open(home) as memory:
        start = time.monotonic()
        memory.remember("first")
        first = time.monotonic() - start
        memory.remember("second")
        both = time.monotonic() - start
        assert 1.5 < first < 4
        assert both - first < 0.5
        assert memory.coverage().pending == 2
        assert "left alone" in (memory.recall("first").legs["vector"].reason or "") or memory.recall("first")
        configured.play = good
        assert memory.embed_pending().embedded == 2
        assert memory.recall("first").legs["vector"].ran


def test_a_server_that_drips_costs_a_write_two_seconds(home: Path) -> None:
    with (
        DrippingServer(b"HTTP/1.1 200 OK\r\n", b"X-More: a\r\n") as dripping,
        Memory.open(home, embedder="openai:toy", config={"embedder_url": dripping.url}) as memory,
    ):
        start = time.monotonic()
        episode = memory.remember("kept all the same")
        assert 1.5 < time.monotonic() - start < 3.5
        assert memory.get(episode.id).summary == "kept all the same"
        assert memory.coverage().pending == 1


class Panic(BaseException):
    """What a panic of native code looks like."""


def test_a_panic_in_the_embedder_loses_no_id(home: Path) -> None:
    def panics(texts: list[str]) -> Any:
        raise Panic("index out of range")

    with Memory.open(home, embedder=panics) as memory:
        episode = memory.remember("the text is safe")
        report = memory.remember_many(["so is this"])
        assert report.written == 1
        assert memory.update(episode, title="and this").title == "and this"
        assert memory.recall("safe")[0].id == episode.id
        assert memory.coverage().pending == 2
        assert isinstance(memory.embed_pending().error, EmbedderError)
        assert any("Panic" in one for one in memory.status().notices)


def test_an_interrupt_goes_through(home: Path) -> None:
    def interrupted(texts: list[str]) -> Any:
        raise KeyboardInterrupt

    with Memory.open(home, embedder=interrupted) as memory:
        with pytest.raises(KeyboardInterrupt):
            memory.remember("stored before the embedder was asked")
        assert len(memory) == 1


class Whole:
    """An embedder whose attributes may fail."""

    def __init__(self, **broken: Any) -> None:
        self.broken = broken

    def _of(self, name: str, value: Any) -> Any:
        given = self.broken.get(name, value)
        if isinstance(given, BaseException):
            raise given
        return given

    @property
    def dim(self) -> Any:
        return self._of("dim", 2)

    @property
    def fingerprint(self) -> Any:
        return self._of("fingerprint", "mine@1")

    def embed_documents(self, texts: Any) -> Any:
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text: str) -> Any:
        return [1.0, float(len(text))]


@pytest.mark.parametrize("name", ["dim", "fingerprint"])
@pytest.mark.parametrize("raised", [RuntimeError("no weights"), Panic("no weights")], ids=["error", "panic"])
def test_an_attribute_that_raises_is_named(home: Path, name: str, raised: BaseException) -> None:
    with pytest.raises(InvalidInput, match=f"{name}.*no weights") as caught:
        Memory.open(home, embedder=Whole(**{name: raised}))
    assert caught.value.field == "embedder"
    embedder = Whole()
    with Memory.open(home, embedder=embedder) as memory:
        memory.remember("first")
        embedder.broken[name] = raised  # from now on
        memory.remember("second")
        assert len(memory.recall("second")) >= 1
        assert memory.status().fingerprint == "mine@1"


@pytest.mark.parametrize("dim", ["2", 2.0, -3, True])
def test_a_width_that_is_no_number_is_not_believed(home: Path, dim: Any) -> None:
    with Memory.open(home, embedder=Whole(dim=dim)) as memory:
        memory.remember("first")
        assert memory.coverage().vectorized == 1


def test_later_leaves_the_embedder_alone(home: Path, configured: EmbeddingServer) -> None:
    with Memory.open(home) as memory:
        memory.remember("x", embed="later")
        memory.remember_many(["y", "z"], embed="later")
        assert configured.requests == []
        assert memory.coverage().pending == 3


def test_embed_pending_goes_on_where_it_stopped(home: Path, configured: EmbeddingServer) -> None:
    with Memory.open(home) as memory:
        memory.remember_many([f"note {n}" for n in range(50)], embed="later")
        answered = 0

        def two_batches(request: dict[str, Any]) -> Answer:
            nonlocal answered
            answered += 1
            return good(request) if answered <= 2 else error(401, "key expired")

        configured.play = two_batches
        calls: list[tuple[int, int | None]] = []
        stopped = memory.embed_pending(batch=10, progress=lambda done, total: calls.append((done, total)))
        assert (stopped.embedded, stopped.remaining) == (20, 30)
        assert isinstance(stopped.error, EmbedderUnavailable)
        assert "key expired" in str(stopped.error)
        assert calls == [(10, 50), (20, 50)]
        configured.play = good
        done = memory.embed_pending(batch=10)
        assert (done.embedded, done.remaining, done.error) == (30, 0, None)
        assert memory.embed_pending().embedded == 0
        assert len(configured.texts) == 50 + 10


def test_embed_pending_waits_for_a_busy_server(home: Path, configured: EmbeddingServer) -> None:
    with Memory.open(home) as memory:
        memory.remember_many([f"note {n}" for n in range(20)], embed="later")
        asked = 0

        def busy_twice(request: dict[str, Any]) -> Answer:
            nonlocal asked
            asked += 1
            return error(502, "starting") if asked in (2, 3) else good(request)

        configured.play = busy_twice
        calls: list[int] = []
        start = time.monotonic()
        report = memory.embed_pending(batch=10, patience=15, progress=lambda done, total: calls.append(done))
        assert time.monotonic() - start > 9  # twice five seconds
        assert (report.embedded, report.remaining, report.error) == (20, 0, None)
        assert calls == [10, 10, 10, 20]
        assert any("starting" in one for one in memory.status().notices)


@pytest.mark.parametrize(
    ("answer", "patience"),
    [
        (error(429, "quota", Retry_After="3600"), 60.0),
        (error(429, "quota", Retry_After="31"), 30.0),
        (error(502, "down"), 0.0),
        (error(401, "key"), 60.0),
    ],
)
def test_embed_pending_does_not_wait_in_vain(
    home: Path, configured: EmbeddingServer, answer: Answer, patience: float
) -> None:
    with Memory.open(home) as memory:
        memory.remember("x", embed="later")
        configured.play = lambda request: answer
        start = time.monotonic()
        report = memory.embed_pending(patience=patience)
        assert time.monotonic() - start < 2
        assert isinstance(report.error, EmbedderUnavailable)
        assert report.remaining == 1
        for wrong in (-1, float("nan"), True, "60"):
            with pytest.raises(InvalidInput, match="patience"):
                memory.embed_pending(patience=wrong)  # type: ignore[arg-type]


def test_pauses_double_and_end() -> None:
    busy = EmbedderUnavailable("busy", retry_after=0.0)
    backoff = Backoff(40.0)
    assert [backoff.pause(busy) for _ in range(6)] == [1.0, 2.0, 4.0, 8.0, 16.0, None]
    backoff.succeeded()
    assert backoff.pause(busy) == 1.0
    assert backoff.pause(EmbedderUnavailable("busy", retry_after=39.0)) == 39.0
    assert backoff.pause(busy) is None
    for useless in (EmbedderError("nonsense"), EmbedderUnavailable("not installed")):
        assert Backoff(60.0).pause(useless) is None


def test_embed_pending_may_be_interrupted(home: Path, configured: EmbeddingServer) -> None:
    def interrupt(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with Memory.open(home) as memory:
        memory.remember_many([f"note {n}" for n in range(20)], embed="later")
        with pytest.raises(KeyboardInterrupt):
            memory.embed_pending(batch=5, progress=interrupt)
        assert memory.coverage().vectorized == 5
        assert memory.embed_pending().embedded == 15


def test_a_changed_text_gets_a_new_vector(home: Path, configured: EmbeddingServer) -> None:
    with Memory.open(home) as memory:
        episode = memory.remember("about apples")
        memory.update(episode, summary="about submarines")
        assert memory.coverage().vectorized == 1
        assert memory.recall("submarines", legs=["vector"])[0].parts["cosine"] > 0.3
        configured.play = lambda request: error(401, "no")
        memory.update(episode, summary="about volcanoes")
        coverage = memory.coverage()
        assert (coverage.vectorized, coverage.pending + coverage.stale) == (0, 1)
        configured.play = good
        assert memory.embed_pending().embedded == 1


def test_a_vector_the_server_gets_wrong_is_refused_and_the_text_kept(
    home: Path, configured: EmbeddingServer
) -> None:
    def play(request: dict[str, Any]) -> Answer:
        rows = [vector(text) for text in request["input"]]
        for at, text in enumerate(request["input"]):
            if "zero" in text:
                rows[at] = [0.0] * DIM
        return embeddings(rows)

    configured.play = play
    with Memory.open(home) as memory:
        report = memory.remember_many(["fine one", "zero one", "fine two"])
        assert (report.vectors_attached, report.vectors_refused, report.vectors_pending) == (2, 1, 0)
        coverage = memory.coverage()
        assert (coverage.vectorized, coverage.refused, coverage.pending) == (2, 1, 0)
        assert any("all zeros" in one for one in memory.status().notices)
        assert memory.recall("zero", legs=["lexical"])[0].text == "zero one"
        assert memory.embed_pending().refused == 0  # it is recorded, not asked for again


def test_a_question_is_embedded_once(home: Path, configured: EmbeddingServer) -> None:
    with Memory.open(home) as memory:
        memory.remember("x")
        before = len(configured.requests)
        for _ in range(5):
            memory.recall("the same question")
        assert len(configured.requests) == before + 1
        assert memory.status().query_cache == {"size": 1, "capacity": 256, "hits": 4, "misses": 1}
        for number in range(300):
            memory.recall(f"question {number}")
        cache = memory.status().query_cache
        assert (cache["size"], cache["misses"]) == (256, 301)
        before = len(configured.requests)
        memory.recall("question 299")  # among the latest
        memory.recall("the same question")  # no longer
        assert len(configured.requests) == before + 1


def test_no_question_is_embedded_in_vain(home: Path, configured: EmbeddingServer) -> None:
    with Memory.open(home) as memory:
        memory.recall("an empty memory")
        memory.remember("x")
        before = len(configured.requests)
        memory.recall("words only", legs=["lexical"])
        memory.recall("nothing wanted", 0)
        memory.recall("vector given", vector=[1.0] * DIM)
        assert len(configured.requests) == before


def test_given_vectors_need_no_embedder(home: Path) -> None:
    with Memory.open(home, embedder=None) as memory:
        memory.remember("north", vector=[0.0, 1.0])
        memory.remember("east", vector=np.array([1.0, 0.0], dtype=np.float64))
        memory.remember_many([{"summary": "south", "vector": [0.0, -1.0]}])
        report = memory.recall(vector=[0.9, 0.1])
        assert report[0].text == "east"
        assert memory.coverage().vectorized == 3
        with pytest.raises(EmbedderError, match=r"OTOLITH_EMBEDDER|none"):
            memory.embed_pending()
    with Memory.open(home) as again:
        assert again.recall(vector=np.array([0.0, 1.0], dtype=np.float32))[0].text == "north"
        assert "given" in (again.recall("north").legs["vector"].reason or "")


@pytest.mark.parametrize("others", [3, 1500], ids=["in memory", "with an index on disk"])
def test_what_was_refused_before_there_was_an_embedder_waits_for_its_vector(home: Path, others: int) -> None:
    with Memory.open(home, embedder=None) as memory:
        memory.remember("nowhere", vector=[0.0, 0.0])
        memory.remember_many([f"note {n}" for n in range(others)])
        assert (memory.coverage().refused, memory.coverage().pending) == (1, others)
        assert memory.recall("note")
    with Memory.open(home, embedder="hash:32") as memory:
        memory.remember("first of all")
        assert (memory.coverage().refused, memory.coverage().pending) == (0, others + 1)
        assert memory.verify().ok
        assert memory.embed_pending().embedded == others + 1
        assert memory.coverage().ratio() == 1.0


def test_attach_says_why_a_vector_is_refused(home: Path) -> None:
    with Memory.open(home, embedder="hash:8") as memory:
        memory.remember("first")
        kinds: list[tuple[Any, str]] = [
            ([[0.0] * 8], "zero vector: it has no direction"),
            ([[float("nan")] * 8], "vector holds NaN or infinity"),
            ([[1.0] * 7], "wrong width: 7 dimensions, 8 expected"),
            ("too rude", "too rude"),
            ([], "the embedder gave no rows"),
        ]
        ids = [memory.remember(f"text {n}", embed="later").id for n in range(len(kinds))]
        todo = memory._engine.pending(ids=ids)
        rows = [(one.id, one.text_hash, given) for one, (given, _) in zip(todo, kinds, strict=True)]
        done = memory._engine.attach(rows)
        assert (done.attached, done.refused, done.outdated) == (0, 5, 0)
        assert done.reasons == [(id, reason) for id, (_, reason) in zip(ids, kinds, strict=True)]
        listed = [(one.id, one.reason) for one in memory.pending(refused=True)]
        assert listed == done.reasons
        assert (memory.coverage().refused, memory.coverage().dimension_mismatches) == (4, 1)
        with pytest.raises(InvalidInput, match="not this handle's"):
            memory._engine.attach(rows, embedder="another")
        late = memory.recall("x", vector=[1.0] * 8)
        assert late.legs["vector"].ran
        report = memory._engine.recall("x", vector=[1.0] * 8, vector_embedder="another")
        assert "changed while the question was asked" in str(report.legs["vector"].reason)


def test_auto_serves_the_embedder_of_the_home(home: Path) -> None:
    with Memory.open(home, embedder="hash:64") as memory:
        memory.remember("the token expired")
        assert memory.status().embedder_source == "argument"
    with Memory.open(home) as memory:
        assert memory.recall("token").legs["vector"].ran
        assert (memory.status().embedder, memory.status().embedder_source) == ("hash:64", "home")
        memory.remember("another")
        assert memory.coverage().vectorized == 2


def test_auto_asks_no_server_that_nobody_named(
    home: Path, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory.open(home, embedder="openai:toy", config={"embedder_url": server.url}) as memory:
        memory.remember("the token expired")
    with Memory.open(home) as memory:
        report = memory.recall("token")
        assert "OTOLITH_EMBEDDER_URL" in (report.legs["vector"].reason or "")
    monkeypatch.setenv("OTOLITH_EMBEDDER_URL", server.url)
    with Memory.open(home) as memory:
        assert memory.recall("token").legs["vector"].ran


def test_a_home_that_was_found_sends_nothing_anywhere(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory.open(".otolith", embedder="openai:toy", config={"embedder_url": server.url}) as memory:
        memory.remember("the token expired")
    monkeypatch.setenv("OTOLITH_EMBEDDER_URL", server.url)
    before = len(server.requests)
    with Memory.open() as found:
        report = found.recall("token")
        assert report[0].text == "the token expired"
        assert "otolith trust" in (report.legs["vector"].reason or "")
        found.remember("more")
    assert len(server.requests) == before


def test_auto_runs_no_code_a_home_names(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "planted.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\n"
        "def embed(texts): return [[1.0, 2.0] for _ in texts]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with Memory.open(home, embedder="python:planted:embed") as memory:
        memory.remember("x")
        assert memory.coverage().vectorized == 1
    (tmp_path / "planted.ran").unlink()
    import sys

    del sys.modules["planted"]
    with Memory.open(home) as memory:
        memory.recall("x")
        assert memory.status().embedder is None
        assert "python:planted:embed" in memory.status().embedder_source
    assert not (tmp_path / "planted.ran").exists()


def test_the_width_that_was_set_is_found_again(home: Path) -> None:
    with Memory.open(home, embedder="hash:64", config={"embedder_dim": 48}) as memory:
        memory.remember("the token expired")
        assert memory.coverage().dim == 48
    with Memory.open(home) as memory:
        assert memory.recall("the token expired").legs["vector"].ran
    with Memory.open(home, embedder="hash:64") as memory:
        assert not memory.recall("the token expired").legs["vector"].ran


def test_another_embedder_does_not_mix_in(home: Path) -> None:
    with Memory.open(home, embedder="hash:64") as memory:
        memory.remember("first")
    with Memory.open(home, embedder="hash:128") as memory:
        memory.remember("second")
        with pytest.raises(EmbedderError, match="hash:64"):
            memory.embed_pending()
        report = memory.recall("first")
        assert report[0].text == "first"
        assert not report.legs["vector"].ran
        assert any("hash:64" in one for one in memory.status().notices)
    with Memory.open(home, embedder="hash:64") as memory:
        assert memory.coverage().vectorized == 1
        assert memory.embed_pending().embedded == 1


def test_no_embedder_says_what_to_configure(memory: Memory) -> None:
    memory.remember("x")
    with pytest.raises(EmbedderError, match="OTOLITH_EMBEDDER"):
        memory.embed_pending()


def test_an_argument_that_cannot_be_had_raises_and_a_setting_does_not(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EmbedderUnavailable, match="no_such_module"):
        Memory.open(home, embedder="python:no_such_module:thing")
    monkeypatch.setenv("OTOLITH_EMBEDDER", "python:no_such_module:thing")
    with Memory.open(home) as memory:
        memory.remember("kept all the same")
        assert any("no_such_module" in one for one in memory.status().notices)
        assert "no_such_module" in (memory.recall("kept").legs["vector"].reason or "")


@pytest.mark.parametrize(
    "broken",
    [
        lambda texts: None,
        lambda texts: "vectors",
        lambda texts: 1 / 0,
        lambda texts: (_ for _ in ()).throw(RuntimeError("boom")),
    ],
    ids=["nothing", "text", "raises", "raises later"],
)
def test_a_broken_object_fails_no_write(home: Path, broken: Callable[[list[str]], Any]) -> None:
    with Memory.open(home, embedder=broken) as memory:
        memory.remember("kept")
        assert memory.recall("kept")[0].text == "kept"
        assert memory.coverage().pending == 1
        assert memory.status().notices


def test_a_long_record_gets_a_vector_for_each_part(home: Path, configured: EmbeddingServer) -> None:
    with Memory.open(home) as memory:
        memory.remember("start", body=" ".join(f"word{n}" for n in range(3000)) + " needle")
        assert len(configured.texts) > 2
        assert memory.coverage().vectorized == 1
        assert memory.recall("needle", legs=["vector"])


@pytest.mark.parametrize("spec", ["magic:1", "openai:", "hash:abc", "python:nothing", ""])
def test_an_embedder_of_no_known_form_makes_no_home(home: Path, spec: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Memory.open(home, embedder=spec)
    assert caught.value.field == "embedder"
    assert not home.exists()


@pytest.mark.parametrize(
    ("model", "texts", "told"),
    [
        ("all-minilm", ["数据库连接池太小", "the pool was too small"], True),
        ("bge-m3", ["数据库连接池太小", "the pool was too small"], False),
        ("all-minilm", ["the pool was too small " * 20, "猫"], False),
        ("all-minilm", [], False),
    ],
)
def test_a_model_that_cannot_read_what_is_stored_is_told(
    home: Path,
    configured: EmbeddingServer,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    texts: list[str],
    told: bool,
) -> None:
    monkeypatch.setenv("OTOLITH_EMBEDDER", f"openai:{model}")
    with Memory.open(home) as memory:
        memory.remember_many(texts)
        notices = [one for one in memory.status().notices if "Chinese, Japanese or Korean" in one]
        assert len(notices) == told
    found = [one for one in doctor.examine(home).findings if "Chinese, Japanese or Korean" in one.what]
    assert [(one.level, "many languages" in one.advice) for one in found] == [("warning", True)] * told


def test_a_home_keeps_the_prompts_it_was_made_with(
    home: Path, configured: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version that knew better what a model wants made all vectors of the home foreign."""
    monkeypatch.setenv("OTOLITH_EMBEDDER", "openai:snowflake-arctic-embed2")
    with monkeypatch.context() as earlier:
        earlier.setattr("otolith.embedders.model.prompt_for", lambda model: "none")
        with Memory.open(home) as memory:
            memory.remember("the token expired")
            mark = memory.status().fingerprint
    assert "|prompt=none|" in str(mark)
    for setting in ("openai:snowflake-arctic-embed2", "auto"):
        monkeypatch.setenv("OTOLITH_EMBEDDER", setting)
        with Memory.open(home) as memory:
            assert memory.status().fingerprint == mark
            assert memory.recall("token").legs["vector"].ran
            assert configured.texts[-1] == "token"
    monkeypatch.setenv("OTOLITH_EMBEDDER", "openai:snowflake-arctic-embed2")
    monkeypatch.setenv("OTOLITH_EMBEDDER_PROMPT", "query")  # somebody insists
    with Memory.open(home) as memory:
        assert "|prompt=query|" in str(memory.status().fingerprint)
        assert not memory.recall("token").legs["vector"].ran
    with Memory.open(home.parent / "new") as memory:
        memory.remember("x")
        memory.recall("token")
        assert configured.texts[-1] == "query: token"


@pytest.mark.parametrize(
    "mark", ["openai:m?dim=0|x", "hash:99999999|x", "openai:m?prompt=poem|x", "magic", "ollama:|", "st:/etc|"]
)
def test_whatever_a_home_names_it_opens(home: Path, mark: str) -> None:
    """The name of an embedder in a store may be of any making."""
    with Memory.open(home, embedder=None) as memory:
        memory._engine.use_embedder(mark)
        memory.remember("kept", vector=[1.0, 2.0])
    with Memory.open(home, config={"embedder_url": "http://127.0.0.1:9/v1"}) as memory:
        assert memory.status().home_embedder == mark
        assert memory.status().embedder is None
        assert memory.recall("kept")[0].text == "kept"
        assert memory.recall("kept").legs["vector"].reason


def test_a_server_that_says_when_is_left_alone_till_then(home: Path, configured: EmbeddingServer) -> None:
    """Every write asked a server again that had said: not within the hour."""
    with Memory.open(home) as memory:
        memory.remember("x")
        configured.play = lambda request: error(429, "quota", Retry_After="3600")
        memory.remember("first")
        asked = len(configured.requests)
        for number in range(5):
            memory.remember(f"note {number}")
            assert "left alone for" in str(memory.recall(f"q {number}").legs["vector"].reason)
        assert len(configured.requests) == asked
        assert memory.coverage().pending == 6


def test_a_leg_without_vectors_names_the_refusals(home: Path) -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        return [[float("nan"), 1.0] for _ in texts]

    with Memory.open(home, embedder=embed) as memory:
        memory.remember("a car")
        coverage = memory.coverage()
        assert (coverage.refused, coverage.pending) == (1, 0)
        reason = memory.recall("car").legs["vector"].reason
        assert reason is not None
        assert "1 cannot be searched and were refused" in reason
