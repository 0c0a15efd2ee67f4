"""What went wrong with memories elsewhere: orphaned vectors, other widths, another model."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import LONG
from embedding_server import Answer, EmbeddingServer, embeddings, good, vector
from field_reports import QUESTIONS, Model, bits, sample, stored_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from otolith import (
    Conflict,
    EmbedderError,
    Filter,
    HybridIndex,
    Memory,
    _core,  # noqa: TID251
)


def test_vectors_are_those_of_the_records_that_are_there(home: Path) -> None:
    """Most vectors were orphans of records long deleted, and came back in answers."""
    with Memory.open(home, embedder="hash:32") as memory:
        for turn in range(6):
            memory.remember_many([{"summary": f"note {n} turn {turn}", "key": str(n)} for n in range(200)])
            memory.remember_many([{"summary": f"note {n} again {turn}", "key": str(n)} for n in range(200)])
            assert (len(memory), memory.coverage().vectorized) == (200, 200)
            if turn < 5:
                memory.forget_where(Filter(scope=""))
                assert memory.coverage().total == 0
        every = [hit.id for hit in memory.recall("note", 500)]
        gone, kept = every[:100], set(every[100:])
        assert memory.forget(*gone) == 100
        assert memory.coverage().vectorized == len(stored_rows(memory)) == 100
        for legs in (["lexical"], ["vector"], None):
            assert {hit.id for hit in memory.recall("note again", 500, legs=legs)} == kept
        assert len(memory.recall("note", 10)) == 10
        old = stored_rows(memory)
        back = memory.remember("a wholly other zebra", id=gone[0])
        assert memory.recall("wholly other zebra", 1, legs=["vector"])[0].id == back.id
        assert stored_rows(memory).items() > old.items()


def test_writing_a_key_again_leaves_nothing_of_the_old_text(home: Path) -> None:
    """A replaced text was still found until a restart, and its length was counted twice."""
    with Memory.open(home, embedder="hash:32") as memory:
        for text in ("alpha one", "beta two three", "gamma final"):
            memory.remember(text, key="k")
        with Memory.open(home) as again:
            for handle in (memory, again):
                for word in ("alpha", "two"):
                    assert not handle.recall(word, legs=["lexical"])
                assert [hit.text for hit in handle.recall("gamma")] == ["gamma final"]
    often, once = HybridIndex(), HybridIndex()
    for text in ("a b c", "d e f g h", "gamma x y"):
        often.insert("1", text)
    once.insert("1", "gamma x y")
    for index in (often, once):
        index.insert("2", "gamma z")
    assert often.search("gamma") == once.search("gamma")


@pytest.mark.parametrize("dim", [1, 3, 7, 384, 1537])
def test_stored_vectors_keep_their_bits(home: Path, dim: int) -> None:
    """Vectors came back with the bytes of a shared buffer, wrong in length and content."""
    rows = np.random.default_rng(dim).standard_normal((1000, dim))
    with Memory.open(home) as memory:
        odd = [rows[0].astype(np.float32)[::-1], np.asfortranarray(rows)[1], list(rows[2]), rows[3]]
        made = memory.remember_many([{"summary": "n", "vector": row} for row in [*odd, *rows[4:]]])
        assert (made.vectors_attached, made.vectors_refused) == (1000, 0)
        before = stored_rows(memory)
        memory.compact()
        assert stored_rows(memory) == before
    given = [rows[0][::-1], *rows[1:]]
    with Memory.open(home) as memory:
        assert stored_rows(memory) == before
        for id, row in zip(made.ids, given, strict=True):
            kept = np.frombuffer(before[str(id)], "<f4")
            np.testing.assert_allclose(kept, row / np.linalg.norm(row), atol=1e-6)
        out = io.BytesIO()
        memory.export(out)
    with Memory.open(home.parent / "copy") as copy:
        copy.import_(io.BytesIO(out.getvalue()))
        assert stored_rows(copy) == before


@pytest.mark.parametrize("dim", [8, 256, 384, 512, 768, 1024, 1536, 3072, 4096])
def test_any_width_is_covered_without_a_setting(home: Path, dim: int) -> None:
    """Vectors of a width other than the built-in one were thrown away silently."""
    with Memory.open(home, embedder=Model(dim, f"model:{dim}")) as memory:
        memory.remember_many([f"note {n}" for n in range(5)])
        assert (memory.coverage().ratio(), memory.coverage().dim) == (1.0, dim)
        assert memory.recall("note 3", legs=["vector"]).legs["vector"].ran


@pytest.mark.parametrize("dim", [24, 32])
def test_another_model_loses_no_word_and_no_vector(home: Path, dim: int) -> None:
    """After a change of model the process did not start, or dropped what was written."""
    with Memory.open(home, embedder=Model(24, "old")) as memory:
        memory.remember_many([f"old note {n}" for n in range(10)])
    with Memory.open(home, embedder=Model(dim, "new")) as memory:
        report = memory.recall("old note", 50)
        assert len(report) == 10
        assert "old" in str(report.legs["vector"].reason)
        assert "new" in str(report.legs["vector"].reason)
        assert memory.remember_many([f"later note {n}" for n in range(10)]).written == 10
        assert len(memory.recall("later", 50)) == 10
        status = memory.status()
        assert dict(status.foreign_vectors) == {"old": 10}
        assert status.coverage.pending == 20
        assert any("old" in notice for notice in status.notices)
        with pytest.raises(EmbedderError):
            memory.embed_pending()
    with Memory.open(home, embedder=Model(24, "old")) as memory:
        assert memory.coverage().vectorized == 10
        assert memory.embed_pending().embedded == 10
        assert memory.recall("old note").legs["vector"].ran


def test_a_home_of_another_model_is_repaired_by_moving_its_words(home: Path) -> None:
    """The only way out of a change of model was to drop everything."""
    with Memory.open(home, embedder=Model(384, "old")) as memory:
        memory.remember_many([f"note {n}" for n in range(10)])
        out = io.BytesIO()
        memory.export(out, vectors=False)
    with Memory.open(home.parent / "new", embedder=Model(768, "new")) as memory:
        memory.import_(io.BytesIO(out.getvalue()))
        memory.embed_pending()
        assert (memory.coverage().ratio(), memory.coverage().dim) == (1.0, 768)
        assert memory.recall("note 3").legs["vector"].ran


def test_a_home_of_another_model_is_repaired_by_reindex(home: Path) -> None:
    """The process did not start with 768 numbers where 384 were before."""
    with Memory.open(home, embedder=Model(384, "old")) as memory:
        memory.remember_many([f"note {n}" for n in range(10)])
    with Memory.open(home, embedder=Model(768, "new")) as memory:
        assert len(memory.recall("note", 20)) == 10
        assert "10 vectors of another model, old" in str(memory.status().notices)
        added = memory.remember_many([f"after the switch {n}" for n in range(10)])
        assert (added.written, added.vectors_pending) == (10, 10)
        assert len(memory.recall("switch", 20, legs=["lexical"])) == 10
        assert memory.reindex().embedded == 20
        assert (memory.coverage().ratio(), memory.coverage().dim) == (1.0, 768)
        assert memory.recall("note 3", legs=["vector"]).legs["vector"].ran


@pytest.mark.parametrize("dims", [range(1, 8193, 8 if LONG else 101), [2, 8191, 8192]], ids=["some", "ends"])
def test_any_width_up_to_the_widest_is_searched(dims: Sequence[int]) -> None:
    """A width nobody had tried did not fit the file or the index."""
    draw = np.random.default_rng(1)
    for dim in dims:
        rows = draw.standard_normal((3, dim)) + 2 * np.sign(draw.standard_normal((3, 1)))
        engine = _core.Engine.open(None)
        ids = [engine.put({"summary": f"row {n}"}, vector=row).episode.id for n, row in enumerate(rows)]
        assert (engine.coverage().vectorized, engine.coverage().dim) == (3, dim)
        best = {engine.recall(None, 1, vector=row)[0].parts["cosine"] for row in rows}
        assert min(best) > 0.999
        kept = engine.stored_vectors(ids[0])[0][2][0]
        np.testing.assert_allclose(kept, rows[0] / np.linalg.norm(rows[0]), atol=1e-6)
        engine.close()
    for dim in (0, 8193):
        engine = _core.Engine.open(None)
        assert "1 to 8192" in str(engine.put({"summary": "x"}, vector=np.ones(dim)).vector_refused)
        assert engine.coverage().refused == 1
        engine.close()


def test_another_model_under_the_same_name_spoils_nothing(home: Path, server: EmbeddingServer) -> None:
    """A server got another model: vectors were dropped for good, and questions failed."""
    settings = {"embedder_url": server.url}

    def opened() -> Memory:
        return Memory.open(home, embedder="openai:toy", config=settings)

    def wider(request: dict[str, Any]) -> Answer:
        return embeddings([vector(text, 128) for text in request["input"]])

    with opened() as memory:
        memory.remember("before the change")
        server.play = wider
        memory.remember("after it")  # the same handle, which knows the width
        assert "128 dimensions, expected 64" in str(memory.recall("change").legs["vector"].reason)
    with opened() as memory:  # another, which does not
        assert memory.remember_many(["later one", "later two"]).vectors_pending == 2
        report = memory.recall("change later")
        assert len(report) == 3
        assert "another model under the same name" in str(report.legs["vector"].reason)
        assert "another model" in str(memory.embed_pending().error)
        coverage = memory.coverage()
        assert (coverage.vectorized, coverage.pending, coverage.refused) == (1, 3, 0)
        assert any("another model" in notice for notice in memory.status().notices)
    server.play = good
    with opened() as memory:
        assert memory.embed_pending().embedded == 3
        assert memory.coverage().ratio() == 1.0


def test_one_row_of_another_width_is_that_rows_own_fault(home: Path, server: EmbeddingServer) -> None:
    """One odd answer among good ones stopped the whole batch."""
    server.play = lambda request: embeddings(
        [vector(text, 65 if "odd" in text else 64) for text in request["input"]]
    )
    with Memory.open(home, embedder="openai:toy", config={"embedder_url": server.url}) as memory:
        report = memory.remember_many(["one", "odd", "two"])
        assert (report.vectors_attached, report.vectors_refused, report.vectors_pending) == (2, 1, 0)


def test_ten_thousand_documents_without_vectors_take_no_place() -> None:
    """A cap on vectors was used up by documents that had none."""
    index = HybridIndex(2)
    index.insert_many([str(n) for n in range(10_500)], [f"text {n}" for n in range(10_500)])
    assert index.add_embedding("10499", [1.0, 0.0])
    assert [hit.id for hit in index.search(None, [1.0, 0.0], 1)] == ["10499"]
    rows = np.random.default_rng(0).standard_normal((10_500, 2))
    assert all(index.add_embedding(str(n), row) for n, row in enumerate(rows))
    assert index.vector_coverage().vectorized == 10_500


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "key", "id", "update", "forget", "where"]), st.integers(0, 2**16)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=12, deadline=None)
@given(steps=STEPS)
def test_any_history_with_vectors_answers_like_a_memory_built_afresh(
    steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The index was out of step with its records after updates and deletions."""
    home = tmp_path_factory.mktemp("history")
    handles = [Memory.open(home / "old", embedder=None) for _ in range(2)]
    for place, (action, seed) in enumerate(steps):
        memory = handles[place % 2]
        draw = random.Random(seed)
        ids = [one.id for one in memory.episodes()]
        record = sample(seed, 1)[0]
        row = np.random.default_rng(seed).standard_normal(4) if draw.random() < 0.6 else None
        try:
            if action == "where":
                memory.forget_where(Filter(user_id="u1"))
            elif action == "forget":
                memory.forget(*ids[:2])
            elif action == "update" and ids:
                memory.update(draw.choice(ids), summary=record["summary"], tags=["moved"])
            elif action == "id" and ids:
                memory.remember(vector=row, id=draw.choice(ids), **record)
            else:
                name = draw.choice("abc") if action == "key" else None
                memory.remember(vector=row, key=name, **record)
        except Conflict:
            assert action == "id"
    out = io.BytesIO()
    handles[0].export(out)
    with Memory.open(home / "new", embedder=None) as fresh, Memory.open(home / "old", embedder=None) as again:
        fresh.import_(io.BytesIO(out.getvalue()))
        vector = np.ones(4) if fresh.coverage().vectorized else None
        for question in QUESTIONS:
            answers = [
                bits(memory.recall(question, 50, vector=vector)) for memory in (fresh, again, *handles)
            ]
            assert answers[1:] == answers[:1] * 3
        assert fresh.coverage() == again.coverage() == handles[0].coverage() == handles[1].coverage()
    for memory in handles:
        memory.close()
