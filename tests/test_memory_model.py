"""Any sequence of writes leaves what a dict would hold, and answers as a memory built afresh from it."""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from otolith import Memory

WORDS = st.lists(
    st.sampled_from(["token", "deploy", "lunch", "noodles", "令牌", "部署", "src/auth.rs", "v1.2.3"]),
    min_size=1,
    max_size=5,
).map(" ".join)
KEYS = st.sampled_from(["a", "b", "c", None])


class Model(RuleBasedStateMachine):
    """Two handles on one home, used in turn, beside a dict of id -> summary."""

    @initialize()
    def open(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.handles = [self._handle(), self._handle()]
        self.texts: dict[str, str] = {}
        self.keys: dict[str, str] = {}

    def _handle(self) -> Memory:
        return Memory.open(self.root / "home", embedder="hash:32")

    @rule(text=WORDS, key=KEYS, which=st.integers(0, 1))
    def remember(self, text: str, key: str | None, which: int) -> None:
        episode = self.handles[which].remember(text, key=key)
        if key is not None:
            assert self.keys.setdefault(key, episode.id) == episode.id
        self.texts[episode.id] = text

    @rule(texts=st.lists(WORDS, max_size=4), which=st.integers(0, 1))
    def remember_many(self, texts: list[str], which: int) -> None:
        for id, text in zip(self.handles[which].remember_many(texts).ids, texts, strict=True):
            assert id is not None
            self.texts[id] = text

    @precondition(lambda self: self.texts)
    @rule(data=st.data(), text=WORDS, which=st.integers(0, 1))
    def update(self, data: st.DataObject, text: str, which: int) -> None:
        id = data.draw(st.sampled_from(sorted(self.texts)))
        self.handles[which].update(id, summary=text)
        self.texts[id] = text

    @precondition(lambda self: self.texts)
    @rule(data=st.data(), which=st.integers(0, 1))
    def forget(self, data: st.DataObject, which: int) -> None:
        id = data.draw(st.sampled_from(sorted(self.texts)))
        assert self.handles[which].forget(id) == 1
        del self.texts[id]
        self.keys = {key: one for key, one in self.keys.items() if one != id}

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        self.handles[which].close()
        self.handles[which] = self._handle()

    @invariant()
    def both_handles_hold_the_dict(self) -> None:
        for memory in getattr(self, "handles", ()):
            assert {one.id: one.summary for one in memory.episodes()} == self.texts
            assert len(memory) == len(self.texts)
            coverage = memory.coverage()
            assert (coverage.total, coverage.vectorized) == (len(self.texts), len(self.texts))

    @rule(question=WORDS)
    def answers_are_those_of_a_fresh_memory(self, question: str) -> None:
        moved = io.BytesIO()
        self.handles[0].export(moved)
        with Memory.open(self.root / "fresh", embedder="hash:32") as fresh:
            fresh.import_(io.BytesIO(moved.getvalue()))
            wanted = [(hit.id, hit.score) for hit in fresh.recall(question, 100)]
        shutil.rmtree(self.root / "fresh")
        for memory in self.handles:
            assert [(hit.id, hit.score) for hit in memory.recall(question, 100)] == wanted

    def teardown(self) -> None:
        for memory in getattr(self, "handles", ()):
            memory.close()
        if hasattr(self, "root"):
            shutil.rmtree(self.root)


Model.TestCase.settings = settings(
    max_examples=15,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
TestModel = Model.TestCase
