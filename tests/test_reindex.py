"""Another model for an old memory: its vectors are searched until as many new ones are there."""

from __future__ import annotations

import io
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_process import Cli
from effort import effort
from embedding_server import EmbeddingServer, error, good
from field_reports import Model, python
from otolith import (
    EmbedderError,
    EmbedderUnavailable,
    InvalidInput,
    Memory,
    ReadOnly,
    ReindexReport,
)


class Doing(Model):
    """A model that does something before it embeds, and knows the texts it was given."""

    def __init__(
        self, dim: int, fingerprint: str, before: Callable[[list[str]], object] | None = None
    ) -> None:
        super().__init__(dim, fingerprint)
        self.before = before
        self.texts: list[str] = []

    def embed_documents(self, texts: list[str]) -> np.ndarray:
        if self.before is not None:
            self.before(texts)
        self.texts += texts
        return super().embed_documents(texts)


OLD = Model(24, "old")


def fill(home: Path, count: int, embedder: Any = OLD) -> list[str]:
    with Memory.open(home, embedder=embedder) as memory:
        made = memory.remember_many([f"note number {n}" for n in range(count)])
        assert made.vectors_attached == count
        return [str(id) for id in made.ids]


def counts(memory: Memory) -> tuple[int, int, int]:
    coverage = memory.coverage()
    return coverage.total, coverage.vectorized, coverage.pending


def by_vector(memory: Memory, question: str = "note number 3") -> bool:
    """Whether vectors are searched; whatever the answer, words find the record."""
    report = memory.recall(question, 1000)
    assert question in [hit.text for hit in report]
    return report.legs["vector"].ran


@pytest.mark.parametrize("dim", [24, 48], ids=["same width", "another width"])
def test_old_vectors_are_searched_until_there_are_as_many_new_ones(home: Path, dim: int) -> None:
    fill(home, 50)
    with (
        Memory.open(home, embedder=OLD) as old,
        Memory.open(home, embedder=Model(dim, "new")) as other,
        Memory.open(home, embedder=Model(dim, "new")) as memory,
    ):
        assert (counts(memory), by_vector(memory)) == ((50, 0, 50), False)
        assert any("50 vectors of another model, old" in notice for notice in memory.status().notices)
        seen = []

        def watch(done: int, total: int | None) -> None:
            seen.append((done, total))
            assert (counts(old), by_vector(old)) == ((50, 50, 0), True)
            assert dict(old.status().foreign_vectors) == {"new": done}
            assert (counts(memory), counts(other)) == ((50, done, 50 - done),) * 2
            assert not by_vector(other)
            assert memory.status().home_embedder == "old"

        report = memory.reindex(batch=20, progress=watch)
        assert seen == [(20, 50), (40, 50), (50, 50)]
        assert report == ReindexReport(
            embedder="new",
            previous="old",
            total=50,
            vectorized=50,
            embedded=50,
            refused=0,
            outdated=0,
            remaining=0,
            switched=True,
            purged=50,
            dry_run=False,
        )
        for handle in (memory, other):
            assert (counts(handle), by_vector(handle)) == ((50, 50, 0), True)
            assert dict(handle.status().foreign_vectors) == {}
        assert memory.status().notices == ()
        # The one with the former model is as any with another model.
        assert (counts(old), by_vector(old)) == ((50, 0, 50), False)
        assert dict(old.status().foreign_vectors) == {"new": 50}
        old.remember("written through the old one")
        assert len(old.recall("written through")) >= 1
        assert (counts(old), counts(memory)) == ((51, 0, 51), (51, 50, 1))
        with pytest.raises(EmbedderError, match="reindex"):
            old.embed_pending()
        assert memory.embed_pending().embedded == 1
        assert memory.verify().ok


def test_the_handle_goes_on_with_the_embedder_it_was_told(home: Path) -> None:
    fill(home, 30)
    with Memory.open(home, embedder=OLD) as memory:
        assert by_vector(memory)
        report = memory.reindex(embedder="hash:64")
        assert (report.switched, report.previous) == (True, "old")
        assert memory.status().embedder == "hash:64"
        assert memory.status().embedder_source == "reindex"
        assert by_vector(memory)
        memory.remember("one more")
        assert counts(memory) == (31, 31, 0)
    with Memory.open(home) as memory:
        assert by_vector(memory)
        assert memory.status().embedder == "hash:64"


def test_a_second_run_does_nothing(home: Path) -> None:
    fill(home, 20)
    model = Doing(8, "new")
    with Memory.open(home, embedder=model) as memory:
        assert memory.reindex().switched
        sequence = memory._engine.info()["last_sequence"]
        again = memory.reindex()
        assert (again.embedded, again.switched, again.purged, again.error) == (0, False, 0, None)
        assert memory._engine.info()["last_sequence"] == sequence
        assert len(model.texts) == 20


def test_a_dry_run_tells_and_changes_nothing(home: Path) -> None:
    fill(home, 20)
    model = Doing(8, "new")
    with Memory.open(home, embedder=model, read_only=True) as memory:
        report = memory.reindex(dry_run=True)
        assert (report.remaining, report.total, report.previous) == (20, 20, "old")
        assert (report.dry_run, report.switched, report.embedded) == (True, False, 0)
        with pytest.raises(ReadOnly):
            memory.reindex()
    with Memory.open(home, embedder=OLD) as memory:
        assert (counts(memory), dict(memory.status().foreign_vectors)) == ((20, 20, 0), {})
    assert model.texts == []


def test_what_was_done_before_an_interrupt_is_kept(home: Path) -> None:
    fill(home, 50)
    model = Doing(8, "new")

    def interrupt(done: int, total: int | None) -> None:
        if done >= 20:
            raise KeyboardInterrupt

    with Memory.open(home, embedder=model) as memory:
        with pytest.raises(KeyboardInterrupt) as stopped:
            memory.reindex(batch=10, progress=interrupt)
        assert "20 vectors were made and are kept" in stopped.value.__notes__[0]
        assert counts(memory) == (50, 20, 30)
    with Memory.open(home, embedder=OLD) as memory:
        assert (counts(memory), by_vector(memory)) == ((50, 50, 0), True)
        # Neither set is lost when the store is copied.
        memory.compact()
        assert (counts(memory), dict(memory.status().foreign_vectors)) == ((50, 50, 0), {"new": 20})
    with Memory.open(home, embedder=model) as memory:
        report = memory.reindex(batch=10)
        assert (report.embedded, report.switched) == (30, True)
        assert counts(memory) == (50, 50, 0)
    assert sorted(model.texts) == sorted(set(model.texts))


def test_an_embedder_that_fails_on_the_way_is_told_and_gone_on_with(
    home: Path, server: EmbeddingServer
) -> None:
    fill(home, 50)
    answered = 0

    def two_batches(request: dict[str, Any]) -> Any:
        nonlocal answered
        answered += 1
        return good(request) if answered <= 2 else error(401, "key expired")

    server.play = two_batches
    with Memory.open(home, embedder="openai:toy", config={"embedder_url": server.url}) as memory:
        report = memory.reindex(batch=10)
        assert (report.embedded, report.remaining, report.switched) == (20, 30, False)
        assert isinstance(report.error, EmbedderUnavailable)
        assert "key expired" in str(report.error)
        with Memory.open(home, embedder=OLD) as old:
            assert by_vector(old)
        server.play = good
        report = memory.reindex(batch=10)
        assert (report.embedded, report.remaining, report.switched, report.error) == (30, 0, True, None)
        assert len(server.texts) == 50 + 10
        assert by_vector(memory)


def test_a_busy_embedder_is_waited_for(home: Path, server: EmbeddingServer) -> None:
    fill(home, 20)
    asked = 0

    def busy_once(request: dict[str, Any]) -> Any:
        nonlocal asked
        asked += 1
        return error(502, "starting") if asked == 2 else good(request)

    server.play = busy_once
    with Memory.open(home, embedder="openai:toy", config={"embedder_url": server.url}) as memory:
        report = memory.reindex(batch=10, patience=15)
        assert (report.embedded, report.error) == (20, None)
        assert any("starting" in one for one in memory.status().notices)


def test_a_text_that_changes_while_it_is_embedded_gets_no_vector_of_the_old_one(home: Path) -> None:
    ids = fill(home, 12)
    with Memory.open(home, embedder=OLD) as writer:

        def change(texts: list[str]) -> None:
            model.before = None
            writer.update(ids[1], summary="about submarines")
            writer.forget(ids[2])
            writer.remember("a newcomer")

        model = Doing(32, "new", change)
        with Memory.open(home, embedder=model) as memory:
            report = memory.reindex(batch=4)
            assert (report.outdated, report.embedded, report.remaining) == (2, 12, 0)
            assert counts(memory) == (12, 12, 0)
            rows = memory._engine.stored_vectors(ids[1])
            assert [mark for mark, _, _ in rows] == ["new"]
            text = next(one for one in model.texts if "submarines" in one)
            np.testing.assert_allclose(rows[0][2][0], model.embed_query(text), atol=1e-6)


def test_a_changed_text_loses_both_vectors(home: Path) -> None:
    ids = fill(home, 10)

    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with Memory.open(home, embedder=Model(8, "new")) as memory:
        with pytest.raises(KeyboardInterrupt):
            memory.reindex(batch=5, progress=stop)
        assert counts(memory) == (10, 5, 5)
        memory.update(ids[0], summary="another text", title="x")
        assert counts(memory) == (10, 4, 6)
        with Memory.open(home, embedder=None) as plain:
            assert plain.coverage().vectorized == 9
        assert memory.recall("another text")[0].id == ids[0]


def test_the_home_changes_hands_as_soon_as_the_new_model_serves_more(home: Path) -> None:
    with Memory.open(home, embedder=OLD) as old:
        old.remember_many([f"note number {n}" for n in range(40)], embed="later")
        first = [one.id for one in old.pending(limit=10)]
        assert len(first) == 10
        old._vectors.after_write(first)
        assert counts(old) == (40, 10, 30)
        owners = []
        with Memory.open(home, embedder=Model(8, "new")) as memory:

            def watch(done: int, total: int | None) -> None:
                owners.append((done, memory.status().home_embedder, by_vector(old)))

            report = memory.reindex(batch=5, progress=watch)
        assert owners[:3] == [(5, "old", True), (10, "old", True), (15, "new", False)]
        assert (report.embedded, report.vectorized, report.purged) == (40, 40, 10)


class Refusing(Model):
    """Gives no usable vector for some texts."""

    def __init__(self, dim: int, fingerprint: str, bad: Callable[[str], bool]) -> None:
        super().__init__(dim, fingerprint)
        self.bad = bad

    def embed_documents(self, texts: list[str]) -> np.ndarray:
        rows = super().embed_documents(texts)
        rows[[at for at, text in enumerate(texts) if self.bad(text)]] = 0.0
        return rows


def test_a_few_refusals_are_counted_and_do_not_keep_the_old_model(home: Path) -> None:
    fill(home, 20)
    with Memory.open(home, embedder=Refusing(8, "new", lambda text: text.endswith((" 3", " 7")))) as memory:
        report = memory.reindex(batch=4)
        assert (report.embedded, report.refused, report.remaining) == (18, 2, 0)
        assert (report.switched, report.error) == (True, None)
        assert memory.coverage().refused == 2
        assert list(memory.pending()) == []
        reasons = {memory.get(one.id).summary: one.reason for one in memory.pending(refused=True)}
        assert reasons == {"note number 3": "is all zeros", "note number 7": "is all zeros"}
        again = memory.reindex()
        assert (again.embedded, again.refused, again.error) == (0, 0, None)


def test_what_was_refused_before_the_first_vector_is_recorded_all_the_same(home: Path) -> None:
    fill(home, 12)
    model = Refusing(8, "new", lambda text: text.endswith((" 0", " 1")))
    with Memory.open(home, embedder=model) as memory:
        report = memory.reindex(batch=2)
        assert (report.embedded, report.refused, report.remaining, report.switched) == (10, 2, 0, True)
        assert memory.coverage().refused == 2


def test_ten_models_one_after_the_other_do_not_take_the_room_of_ten(home: Path) -> None:
    """A forced reindex wrote 35 GB, and lost what it was to index."""
    fill(home, 1500, Model(256, "model 0"))
    file = home / "episodes.redb"
    with Memory.open(home, embedder=Model(256, "model 0")) as memory:
        texts = io.BytesIO()
        memory.export(texts, vectors=False)
        sizes = [file.stat().st_size]
        for number in range(1, 11):
            assert memory.reindex(embedder=Model(256, f"model {number}")).switched
            sizes.append(file.stat().st_size)
        # A small file grows by large steps; measured 2.0 times with 5,000 records, here 3.0.
        assert max(sizes) < 3.5 * sizes[0], sizes
        after = io.BytesIO()
        memory.export(after, vectors=False)
        assert after.getvalue() == texts.getvalue()
        memory.compact()
        assert file.stat().st_size < sizes[0]


def test_a_handle_without_an_embedder_neither_uses_nor_destroys_vectors_of_another_width(home: Path) -> None:
    ids = fill(home, 5)
    with Memory.open(home, embedder=None) as memory:
        report = memory.recall("note number 3", vector=[1.0, 0.0])
        assert (report[0].text, report.legs["vector"].ran) == ("note number 3", False)
        memory.remember("given in another width", vector=[1.0, 0.0])
        memory.update(ids[0], tags=["x"])
        assert counts(memory) == (6, 5, 1)
        with pytest.raises(EmbedderError):
            memory.pending()
    with Memory.open(home, embedder=OLD) as memory:
        assert (counts(memory), by_vector(memory)) == ((6, 5, 1), True)


@pytest.mark.parametrize("good_ones", [0, 5])
def test_a_model_that_refuses_most_does_not_get_the_home(home: Path, good_ones: int) -> None:
    fill(home, 20)
    model = Refusing(8, "new", lambda text: int(text.split()[-1]) < 20 - good_ones)
    with Memory.open(home, embedder=model) as memory:
        report = memory.reindex(batch=4)
        assert (report.embedded, report.switched) == (good_ones, False)
        assert f"new has vectors of {good_ones} of 20 records" in str(report.error)
        assert report.refused == 20 - good_ones
        assert memory.status().home_embedder == "old"
    with Memory.open(home, embedder=OLD) as memory:
        assert (counts(memory), by_vector(memory)) == ((20, 20, 0), True)


def test_vectors_that_callers_gave_are_kept(home: Path) -> None:
    with Memory.open(home, embedder=None) as memory:
        for n in range(6):
            memory.remember(f"note number {n}", vector=[1.0, float(n), 2.0])
    with Memory.open(home, embedder=Model(8, "new")) as memory:
        report = memory.reindex()
        assert (report.switched, report.purged) == (True, 0)
        assert dict(memory.status().foreign_vectors) == {"given:3": 6}
        memory.compact()
        assert dict(memory.status().foreign_vectors) == {"given:3": 6}
        assert by_vector(memory)
    with Memory.open(home, embedder=None) as plain:
        report = plain.recall(vector=[1.0, 0.0, 2.0])
        assert not report.legs["vector"].ran
        assert "new" in str(report.legs["vector"].reason)


def test_a_vector_of_another_width_is_counted_listed_and_repaired(home: Path) -> None:
    with Memory.open(home, embedder=Model(8, "mine")) as memory:
        memory.remember("fine")
        wrong = memory.remember("given in another width", vector=[1.0, 2.0])
        zero = memory.remember("given without direction", vector=[0.0] * 8)
        coverage = memory.coverage()
        assert (coverage.vectorized, coverage.dimension_mismatches, coverage.refused) == (1, 1, 1)
        assert coverage.has_dimension_mismatch()
        assert list(memory.pending()) == []
        listed = {one.id: str(one.reason) for one in memory.pending(refused=True)}
        assert listed[wrong.id] == "wrong width: 2 dimensions, 8 expected"
        assert listed[zero.id] == "zero vector: it has no direction"
        report = memory.reindex()
        assert (report.embedded, report.switched) == (1, False)
        coverage = memory.coverage()
        assert (coverage.vectorized, coverage.dimension_mismatches, coverage.refused) == (2, 0, 1)


def test_an_empty_home_of_another_model_is_free_for_the_next(home: Path) -> None:
    ids = fill(home, 3)
    with Memory.open(home, embedder=Model(8, "new")) as memory:
        memory.forget(*ids)
        memory.remember("waits")
        assert counts(memory) == (1, 0, 1)
        memory.forget_where({"scope": ""})
        assert memory.reindex().switched
        assert memory.status().home_embedder is None
        memory.remember("note number 3")
        assert (counts(memory), by_vector(memory)) == ((1, 1, 0), True)
        assert memory.status().home_embedder == "new"


def test_there_and_back_again(home: Path) -> None:
    """The former model's rows are gone: what it finds when it comes back is made anew."""
    fill(home, 10)
    old = Doing(24, "old")
    with Memory.open(home, embedder=Model(8, "new")) as new, Memory.open(home, embedder=old) as memory:
        assert by_vector(memory)
        assert new.reindex().switched
        assert counts(memory) == (10, 0, 10)
        report = memory.reindex()
        assert (report.embedded, report.previous, report.switched) == (10, "new", True)
        assert (counts(memory), by_vector(memory)) == ((10, 10, 0), True)
        assert (counts(new), by_vector(new)) == ((10, 0, 10), False)
        assert memory.verify().ok
        memory.compact()
        assert memory.verify().ok
        assert memory.verify().vectors == 10


@pytest.mark.parametrize("spec", ["auto", "none", "magic:1", 5])
def test_what_is_no_embedder_changes_nothing(home: Path, spec: Any) -> None:
    fill(home, 3)
    with Memory.open(home, embedder=OLD) as memory:
        with pytest.raises(InvalidInput) as caught:
            memory.reindex(embedder=spec)
        assert caught.value.field == "embedder"
        assert by_vector(memory, "note number 2")


def test_who_cannot_do_it_is_told(home: Path) -> None:
    fill(home, 3)
    with (
        Memory.open(home, embedder=None) as memory,
        pytest.raises(EmbedderUnavailable, match="cannot reindex"),
    ):
        memory.reindex()
    with (
        Memory.open(home, embedder=Model(8, "new"), scope="team") as memory,
        pytest.raises(InvalidInput, match="team only"),
    ):
        memory.reindex()
    with Memory.open(home, embedder=Model(8, "replaced:x")) as memory:
        report = memory.remember_many(["kept all the same"])
        assert report.written == 1
        with pytest.raises(InvalidInput, match="replaced:"):
            memory.reindex()
    with Memory.open(home, embedder=OLD) as memory:
        assert by_vector(memory, "note number 2")


def test_scopes_and_quarantine_are_seen(home: Path) -> None:
    with Memory.open(home, embedder=OLD) as memory:
        for scope in ("", "a", "a/b", "c"):
            memory.remember(f"note of {scope or 'all'}", scope=scope)
        assert memory.reindex(embedder=Model(8, "new")).embedded == 4
        for scope in ("a", "c"):
            with Memory.open(home, embedder=Model(8, "new"), scope=scope) as inner:
                assert inner.coverage().ratio() == 1.0
                assert inner.recall("note").legs["vector"].ran


def test_what_is_nobodys_is_in_no_export_copy_or_compacted_file(home: Path, tmp_path: Path) -> None:
    """As after a kill between the switch and the removal."""
    from otolith._core import reindex_attach, reindex_pending, reindex_switch  # noqa: TID251

    fill(home, 300, Model(256, "old"))
    new = Model(8, "new")
    with Memory.open(home, embedder=new) as memory:
        todo, going_on = reindex_pending(memory._engine, "new", limit=1000)
        assert (len(todo), going_on) == (300, None)
        rows = [(one.id, one.text_hash, new.embed_documents(one.chunks)) for one in todo]
        assert reindex_attach(memory._engine, "new", rows).attached == 300
        assert reindex_switch(memory._engine, "new")[0]
        assert (counts(memory), by_vector(memory)) == ((300, 300, 0), True)
        assert dict(memory.status().foreign_vectors) == {}
        assert memory.verify().vectors == 600
        out = io.BytesIO()
        memory.export(out)
        marks = {
            vectors["embedder"]
            for line in out.getvalue().splitlines()[1:-1]
            for vectors in json.loads(line)["vectors"]
        }
        assert marks == {"new"}
        assert memory.backup(tmp_path / "copy").vectors == 300
        with Memory.open(tmp_path / "copy", embedder=new) as copy:
            assert (copy.verify().vectors, by_vector(copy)) == (300, True)
        before = (home / "episodes.redb").stat().st_size
        memory.compact()
        assert (home / "episodes.redb").stat().st_size < before / 3
        assert memory.verify().vectors == 300
        assert memory.reindex().purged == 0
        assert (counts(memory), by_vector(memory)) == ((300, 300, 0), True)


def test_the_index_on_disk_follows(home: Path) -> None:
    """Its segments hold the vectors of one embedder."""
    fill(home, 2500, "hash:32")
    with Memory.open(home) as old, Memory.open(home, embedder="hash:48") as memory:
        assert by_vector(old)
        assert memory.reindex(batch=500).switched
        assert by_vector(memory)
        assert not by_vector(old)
        assert counts(old) == (2500, 0, 2500)
        assert memory.verify().ok
        assert old.verify().ok
        memory.remember_many([f"later {n}" for n in range(1500)])
        assert counts(memory) == (4000, 4000, 0)
        assert memory.verify().ok
    with Memory.open(home) as again:
        assert (again.status().embedder, by_vector(again)) == ("hash:48", True)
        assert again.verify().ok


def test_compaction_and_writers_go_on_meanwhile(home: Path) -> None:
    fill(home, 400)
    stop = threading.Event()
    written: list[str] = []

    def write() -> None:
        with Memory.open(home, embedder=OLD) as memory:
            while not stop.is_set():
                written.append(memory.remember(f"meanwhile {len(written)}").id)
                if len(written) % 3 == 0:
                    memory.update(written[-1], summary=f"changed {len(written)}")

    def compact() -> None:
        with Memory.open(home, embedder=OLD) as memory:
            while not stop.is_set():
                memory.compact()

    with ThreadPoolExecutor(2) as pool, Memory.open(home, embedder=Model(48, "new")) as memory:
        others = [pool.submit(write), pool.submit(compact)]
        try:
            report = memory.reindex(batch=16)
        finally:
            stop.set()
        for other in others:
            other.result(60)
        assert (report.switched, report.error) == (True, None)
        memory.embed_pending()
        assert counts(memory) == (400 + len(written), 400 + len(written), 0)
        assert {one.id for one in memory.episodes()} >= set(written)
        assert memory.verify().ok
        memory.compact()
        assert memory.verify().vectors == 400 + len(written)


WATCHER = """
import sys
from otolith import Memory
sys.path.insert(0, sys.argv[2])
from field_reports import Model
handles = [Memory.open(sys.argv[1], embedder=one) for one in (Model(24, "old"), Model(8, "new"), None)]
print("ready", flush=True)
for line in sys.stdin:
    told = []
    for memory in handles:
        coverage = memory.coverage()
        told += [coverage.vectorized, memory.recall("note number 3").legs["vector"].ran]
    print(*told, flush=True)
"""


def test_other_processes_follow(home: Path) -> None:
    fill(home, 40)
    with python(WATCHER, str(home), str(Path(__file__).parent)) as watcher:
        assert watcher.stdin is not None
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == "ready\n"

        def ask() -> str:
            assert watcher.stdin is not None
            assert watcher.stdout is not None
            watcher.stdin.write("?\n")
            watcher.stdin.flush()
            return watcher.stdout.readline().strip()

        assert ask() == "40 True 0 False 40 False"
        seen = []
        with Memory.open(home, embedder=Model(8, "new")) as memory:
            memory.reindex(batch=16, progress=lambda done, total: seen.append(ask()))
        assert seen == ["40 True 16 False 40 False", "40 True 32 False 40 False", "40 True 40 False 40 False"]
        assert ask() == "0 False 40 True 40 False"
        watcher.stdin.close()
        assert watcher.wait(20) == 0


REINDEXER = """
import sys, time
from otolith import Memory
sys.path.insert(0, sys.argv[2])
from field_reports import Model
class Slow(Model):
    def embed_documents(self, texts):
        time.sleep(0.004)
        return super().embed_documents(texts)
with Memory.open(sys.argv[1], embedder=Slow(8, sys.argv[3])) as memory:
    print("ready", flush=True)
    while True:
        report = memory.reindex(batch=4)
        print(report.switched, flush=True)
"""


def test_a_kill_at_any_moment_leaves_one_model_that_serves(home: Path) -> None:
    """Killed again and again while it makes vectors, hands the home over and removes the old ones."""
    seed = 20
    draw = random.Random(seed)
    fill(home, 60)
    served, target, switches = OLD, Model(8, "model 0"), 0
    folder = str(Path(__file__).parent)
    for number in range(effort(14, 200)):
        with python(REINDEXER, str(home), folder, target.fingerprint) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            time.sleep(draw.random() * 0.3)
            child.kill()
        with Memory.open(home, embedder=target) as memory:
            owner = memory.status().home_embedder
            assert owner in (served.fingerprint, target.fingerprint), (seed, number)
            made = memory.coverage().vectorized
            assert memory.verify().ok, (seed, number)
            if owner == target.fingerprint:
                assert (made, by_vector(memory)) == (60, True), (seed, number)
                switches += 1
                served, target = target, Model(8, f"model {switches}")
                continue
        with Memory.open(home, embedder=served) as memory:
            assert (counts(memory), by_vector(memory)) == ((60, 60, 0), True), (seed, number)
        if draw.random() < 0.2:
            with Memory.open(home, embedder=served) as memory:
                memory.compact()
    with Memory.open(home, embedder=target) as memory:
        memory.reindex()
        assert (counts(memory), by_vector(memory)) == ((60, 60, 0), True)
        memory.compact()
        assert memory.verify().vectors == 60
    assert switches > 1, "the kills came too early to see the switch"


# -- the command line -------------------------------------------------------------------------------------


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_the_command_does_it_and_says_so(cli: Cli) -> None:
    old = {"OTOLITH_EMBEDDER": "hash:16"}
    for n in range(3):
        cli("remember", f"note number {n}", env=old)
    dry = cli("reindex", "--embedder", "hash:32", "--dry-run")
    assert dry.err == (
        "3 of 3 records would be embedded with hash:32, and its vectors searched in place of those of "
        "hash:16\n"
    )
    assert cli("reindex", "--embedder", "hash:32", "--dry-run", "--json").json["remaining"] == 3
    done = cli("reindex", "--embedder", "hash:32", env=old)
    assert done.out == ""
    assert "embedded 3, refused 0, changed meanwhile 0, still waiting 0; 3 of 3 records have" in done.err
    assert "vectors of hash:32 are searched now, in place of those of hash:16\n" in done.err
    assert "say `otolith config set embedder hash:32`" in done.err
    assert "\x1b" not in done.err
    assert cli("status", "--json").json["home_embedder"].startswith("hash:32|")
    again = cli("reindex", "--json")
    assert (again.json["embedded"], again.json["switched"], again.json["purged"]) == (0, False, 0)
    wrong = cli("reindex", "--embedder", "magic:1", code=1)
    assert "is not one of" in wrong.err
    assert "memory" in cli("reindex", env={"OTOLITH_HOME": str(cli.root / "none")}, code=1).err


def test_the_command_fails_with_counts(cli: Cli, server: EmbeddingServer) -> None:
    for n in range(3):
        cli("remember", f"note number {n}", "-q", env={"OTOLITH_EMBEDDER": "none"})
    answered = 0

    def once(request: dict[str, Any]) -> Any:
        nonlocal answered
        answered += 1
        return good(request) if answered == 1 else error(401, "key expired")

    server.play = once
    env = {"OTOLITH_EMBEDDER_URL": server.url}
    failed = cli("reindex", "--embedder", "openai:toy", "--batch", "2", "--json", env=env, code=1)
    assert (failed.json["embedded"], failed.json["remaining"]) == (2, 1)
    assert "key expired" in failed.json["error"]
    assert "key expired" in failed.err


def test_ctrl_c_keeps_what_is_done(cli: Cli, tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import time\ndef embed(texts):\n    time.sleep(0.3)\n"
        "    return [[1.0, float(len(t))] for t in texts]\n"
    )
    for n in range(8):
        cli("remember", f"note number {n}", env={"OTOLITH_EMBEDDER": "hash:16"})
    env = cli.environment({"PYTHONPATH": str(tmp_path)})
    arguments = ["reindex", "--embedder", "python:slow:embed", "--batch", "1"]
    command = [sys.executable, "-m", "otolith", *arguments]
    with subprocess.Popen(command, env=env, cwd=cli.cwd, stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 30
        while time.monotonic() < end and not cli("status", "--json").json["foreign_vectors"]:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "are kept; run it again to go on" in told
    assert "Traceback" not in told
    status = cli("status", "--json").json
    assert (status["embedder"], status["coverage"]["vectorized"]) == ("hash:16", 8)
    assert sum(status["foreign_vectors"].values()) >= 1
