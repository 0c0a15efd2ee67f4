"""Any sequence of writes by any process, killed or not, leaves what a dict holds and answers like a copy."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from effort import LONG, effort
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from memory_actor import DIM, Child, Handle, given_row

WORDS = st.lists(
    st.sampled_from(["token", "deploy", "lunch", "noodles", "令牌", "部署", "src/auth.rs", "v1.2.3"]),
    min_size=1,
    max_size=5,
).map(" ".join)
KEYS = st.sampled_from(["a", "b", "c", None])
USERS = st.sampled_from(["u", "v", None])
TAGS = st.sampled_from([(), ("x",), ("x", "标签")])
ORIGINS = st.sampled_from(["assistant", "user", "web"])
EMBED = st.sampled_from(["now", "later"])
SEEDS = st.one_of(st.none(), st.integers(0, 50))
CHILD = 2
WHO = st.integers(0, CHILD)
PICK = st.integers(0, 60)
PICKS = st.lists(PICK, min_size=1, max_size=4)
DIMS = st.sampled_from([16, DIM, 48])
DOING = st.sampled_from(["remember", "many", "update", "forget", "where", "embed", "reindex"])
# An operation takes about two milliseconds from the pipe to its commit and its vector.
MOMENTS = st.floats(0, 0.004)
MADE = "made by the embedder"


@dataclass(frozen=True)
class Kept:
    """A record as it should be. `vector` is the seed of a given one, MADE, or None."""

    summary: str
    key: str | None = None
    tags: tuple[str, ...] = ()
    user_id: str | None = None
    origin: str = "assistant"
    trusted: bool = True
    vector: int | str | None = None

    def as_seen(self) -> list[Any]:
        trust = "trusted" if self.trusted else "untrusted"
        return [self.summary, self.key, list(self.tags), self.user_id, self.origin, trust]


Records = dict[str, Kept]
Change = Callable[[Records], Records]


def written(records: Records, new: Kept, id: str, embed: str) -> Records:
    """The records after `new` was written under `id`."""
    old = records.get(id)
    new = replace(new, trusted=new.origin != "web")
    if old is not None and replace(old, trusted=new.trusted, vector=new.vector) == new:
        new = replace(new, trusted=old.trusted)  # the same again
    if new.vector is None and old is not None and old.summary == new.summary:
        new = replace(new, vector=old.vector)
    if new.vector is None and embed == "now":
        new = replace(new, vector=MADE)
    return {**records, id: new}


def owner(records: Records, key: str | None) -> str | None:
    return next((id for id, one in records.items() if key is not None and one.key == key), None)


class Model(RuleBasedStateMachine):
    """Two handles in this process and one in another, used in turn, beside a dict."""

    @initialize()
    def open(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.home = self.root / "home"
        self.numbers = itertools.count()
        self.records: Records = {}
        self.question = "deploy token 部署"
        self.dim = DIM
        self.actors: list[Handle | Child] = []
        self._open_all()

    def _open_all(self) -> None:
        for actor in self.actors:
            actor.close()
        handles = [Handle(self.home, self.dim) for _ in range(2)]
        self.actors = [*handles, Child(self.home, self.dim)]

    def teardown(self) -> None:
        for actor in getattr(self, "actors", ()):
            actor.close()
        if hasattr(self, "root"):
            shutil.rmtree(self.root)

    # -- writing ------------------------------------------------------------------------------------------

    @rule(who=WHO, summary=WORDS, key=KEYS, tags=TAGS, user=USERS, origin=ORIGINS, embed=EMBED, seed=SEEDS)
    def remember(
        self,
        who: int,
        summary: str,
        key: str | None,
        tags: tuple[str, ...],
        user: str | None,
        origin: str,
        embed: str,
        seed: int | None,
    ) -> None:
        new = Kept(summary, key, tags, user, origin, vector=seed)
        id = self.actors[who].do("remember", **self._as_given(new), embed=embed)
        assert owner(self.records, key) in (None, id)
        self.records = written(self.records, new, id, embed)
        self.question = summary

    def _as_given(self, new: Kept) -> dict[str, Any]:
        fields = {"summary": new.summary, "tags": list(new.tags), "origin": new.origin, "seed": new.vector}
        fields["dim"] = self.dim
        return fields | {name: getattr(new, name) for name in ("key", "user_id") if getattr(new, name)}

    @rule(who=WHO, texts=st.lists(WORDS, max_size=4), user=USERS, embed=EMBED)
    def remember_many(self, who: int, texts: list[str], user: str | None, embed: str) -> None:
        records = [{"summary": text, **({"user_id": user} if user else {})} for text in texts]
        ids = self.actors[who].do("remember_many", records=records, embed=embed)
        for id, text in zip(ids, texts, strict=True):
            assert id not in self.records
            self.records = written(self.records, Kept(text, user_id=user), id, embed)

    @rule(pick=PICK, who=WHO, summary=WORDS, tags=TAGS)
    def update(self, pick: int, who: int, summary: str, tags: tuple[str, ...]) -> None:
        if not (id := self._one(pick)):
            return
        self.actors[who].do("update", id=id, summary=summary, tags=list(tags))
        self.records = self._updated(id, summary, tags)(self.records)
        self.question = summary

    @staticmethod
    def _updated(id: str, summary: str, tags: tuple[str, ...]) -> Change:
        def change(records: Records) -> Records:
            old = records[id]
            kept = old.vector if old.summary == summary and old.vector is not None else MADE
            return {**records, id: replace(old, summary=summary, tags=tags, vector=kept)}

        return change

    @rule(pick=PICK, who=WHO, other=WHO)
    def update_with_expect(self, pick: int, who: int, other: int) -> None:
        if not (id := self._one(pick)):
            return
        seen = self.actors[who].do("read", id=id)
        tags = tuple(f"t{next(self.numbers)}" for _ in range(2))
        summary = self.records[id].summary
        newer = self.actors[other].do("update", id=id, expect=seen, tags=list(tags))
        assert newer > seen
        self.records = self._updated(id, summary, tags)(self.records)
        assert self.actors[who].do("update", id=id, expect=seen, summary="never seen") == "Conflict"
        assert self.actors[who].do("read", id=id) == newer

    @rule(pick=PICK, who=WHO)
    def trust(self, pick: int, who: int) -> None:
        if not (id := self._one(pick)):
            return
        assert self.actors[who].do("trust", id=id) == "trusted"
        self.records = {**self.records, id: replace(self.records[id], trusted=True)}

    @rule(picks=PICKS, who=WHO, other=WHO)
    def forget(self, picks: list[int], who: int, other: int) -> None:
        if not (ids := self._some(picks)):
            return
        assert self.actors[who].do("forget", ids=ids) == len(ids)
        assert self.actors[other].do("forget", ids=ids) == 0
        assert self.actors[other].do("update", id=ids[0], summary="late") == "NotFound"
        self.records = {id: one for id, one in self.records.items() if id not in ids}

    @rule(who=WHO, user=st.sampled_from(["u", "v"]))
    def forget_where(self, who: int, user: str) -> None:
        gone = sorted(id for id, one in self.records.items() if one.user_id == user)
        assert self.actors[who].do("forget_where", user_id=user) == gone
        self.records = {id: one for id, one in self.records.items() if id not in gone}

    @rule(who=WHO)
    def embed_pending(self, who: int) -> None:
        pending = [id for id, one in self.records.items() if one.vector is None]
        assert self.actors[who].do("embed_pending") == len(pending)
        self.records = {**self.records, **{id: replace(self.records[id], vector=MADE) for id in pending}}

    @rule(who=WHO, dim=DIMS)
    def reindex(self, who: int, dim: int) -> None:
        lacking = sum(one.vector is None for one in self.records.values())
        made = self.actors[who].do("reindex", dim=dim)
        if dim == self.dim:
            assert made == lacking
            kept = {id: one.vector for id, one in self.records.items()}
        else:
            # A run that was killed may have left some.
            assert made <= len(self.records)
            kept = {}
        self.records = {
            id: replace(one, vector=MADE if kept.get(id) is None else kept[id])
            for id, one in self.records.items()
        }
        count = len(self.records)
        assert self.actors[who].do("covered") == [count, count, 0]
        if dim != self.dim:
            self.dim = dim
            for actor in [one for at, one in enumerate(self.actors) if at != who]:
                assert actor.do("covered") == [count, 0, count]
            self._open_all()

    @rule(who=WHO, other=WHO)
    def forget_all_and_bring_it_back(self, who: int, other: int) -> None:
        moved = self.actors[who].do("export")
        assert self.actors[other].do("forget_where", scope="") == sorted(self.records)
        assert self.actors[who].do("restore", exported=moved) == len(self.records)
        assert self.actors[other].do("export") == moved

    # -- opening, dying -----------------------------------------------------------------------------------

    @rule(who=WHO)
    def reopen(self, who: int) -> None:
        self.actors[who].close()
        kind = Child if who == CHILD else Handle
        self.actors[who] = kind(self.home, self.dim)

    @rule(doing=DOING, picks=PICKS, seconds=MOMENTS, summary=WORDS, key=KEYS, user=USERS, dim=DIMS)
    def crash(
        self,
        doing: str,
        picks: list[int],
        seconds: float,
        summary: str,
        key: str | None,
        user: str | None,
        dim: int,
    ) -> None:
        """The other process is killed in the middle of something: it happened whole or not at all."""
        # Records that are new have ids only the dead process knows; here they are called by numbers.
        before = self.records
        if doing == "remember":
            new = Kept(summary, key, user_id=user)
            given = {"what": "remember", **self._as_given(new)}
            after = written(before, new, owner(before, key) or "new 0", "later")
        elif doing == "many":
            given = {"what": "remember_many", "records": [{"summary": summary}] * 20, "embed": "now"}
            after = before | {f"new {number}": Kept(summary) for number in range(20)}
        elif doing == "update" and before:
            id = self._some(picks)[0]
            given = {"what": "update", "id": id, "summary": summary, "tags": ["moved"]}
            after = self._updated(id, summary, ("moved",))(before)
        elif doing == "forget" and before:
            ids = self._some(picks)
            given = {"what": "forget", "ids": ids}
            after = {id: one for id, one in before.items() if id not in ids}
        elif doing == "where":
            given = {"what": "forget_where", "user_id": "u"}
            after = {id: one for id, one in before.items() if one.user_id != "u"}
        elif doing == "reindex":
            # It takes a transaction for two records, and one each for the switch and for what is removed.
            seconds *= 2 + len(before) / 2
            given = {"what": "reindex", "dim": dim}
            after = before
        else:
            given = {"what": "embed_pending"}
            after = before
        child = self.actors[CHILD]
        assert isinstance(child, Child)
        child.die_during(seconds=seconds, **given)
        # A commit that was cut off is finished or undone by the next writer, not by a reader.
        settled = Kept("settled", "settled")
        id = self.actors[1].do("remember", **self._as_given(settled), embed="now")
        self.actors[CHILD] = Child(self.home, self.dim)
        self._adopt(written(before, settled, id, "now"), written(after, settled, id, "now"))

    def _adopt(self, before: Records, after: Records) -> None:
        """Takes what is there for the truth if it is one of the two."""
        there = self.actors[0].do("look")
        served = self.actors[0].do("owner") or self.dim
        rows = self._rows(served)
        new = sorted(set(there) - set(before))
        named = {f"new {new.index(id)}" if id in new else id: id for id in there}
        for records in (after, before):
            seen = {id: one.as_seen() for id, one in records.items()}
            if seen == {name: there[id] for name, id in named.items()}:
                break
        else:
            raise AssertionError((there, before, after))
        self.records = {}
        for name, id in named.items():
            one = records[name]
            # The text is safe first, its vector comes in a transaction of its own.
            vector = one.vector if isinstance(one.vector, int) and served == self.dim else MADE
            self.records[id] = replace(one, vector=vector if id in rows else None)
        if served != self.dim:
            self.dim = served
            self._open_all()

    # -- copies -------------------------------------------------------------------------------------------

    @rule(who=WHO)
    def compact(self, who: int) -> None:
        self.actors[who].do("compact")

    @rule(who=WHO)
    def backup(self, who: int) -> None:
        dest = self.root / f"backup{next(self.numbers)}"
        self.actors[who].do("backup", dest=str(dest))
        copy = Handle(dest, self.dim)
        try:
            assert copy.do("export") == self.actors[0].do("export")
            assert copy.do("ask", question=self.question) == self.actors[0].do("ask", question=self.question)
        finally:
            copy.close()

    @rule(who=WHO)
    def verify(self, who: int) -> None:
        assert self.actors[who].do("verify") == []

    # -- what always holds --------------------------------------------------------------------------------

    # What is drawn must not depend on what is there: after a crash that is for the clock to say.

    def _one(self, pick: int) -> str | None:
        return next(iter(self._some([pick])), None)

    def _some(self, picks: list[int]) -> list[str]:
        ids = sorted(self.records)
        return list(dict.fromkeys(ids[pick % len(ids)] for pick in picks)) if ids else []

    def _rows(self, dim: int) -> dict[str, np.ndarray]:
        rows = {}
        for line in self.actors[0].do("export").splitlines()[1:-1]:
            record = json.loads(line)
            for vectors in record.get("vectors", ()):
                if vectors["dim"] == dim:
                    rows[record["id"]] = np.frombuffer(base64.b64decode(vectors["f32"]), "<f4")
        return rows

    @invariant()
    def every_handle_holds_the_dict(self) -> None:
        wanted = {id: one.as_seen() for id, one in self.records.items()}
        vectors = sum(one.vector is not None for one in self.records.values())
        for actor in self.actors:
            assert actor.do("look") == wanted
            assert actor.do("covered") == [len(wanted), vectors, len(wanted) - vectors]

    @invariant()
    def every_vector_is_the_one_of_its_record(self) -> None:
        rows = self._rows(self.dim)
        assert rows.keys() == {id for id, one in self.records.items() if one.vector is not None}
        for id, one in self.records.items():
            if isinstance(one.vector, int):
                np.testing.assert_allclose(rows[id], given_row(one.vector, self.dim), atol=1e-6)

    @invariant()
    def answers_are_those_of_a_fresh_memory(self) -> None:
        moved = self.actors[0].do("export")
        fresh = Handle(self.root / "fresh", self.dim)
        try:
            assert fresh.do("restore", exported=moved) == len(self.records)
            assert fresh.do("export") == moved
            wanted = fresh.do("ask", question=self.question)
        finally:
            fresh.close()
            shutil.rmtree(self.root / "fresh")
        for actor in self.actors:
            assert actor.do("ask", question=self.question) == wanted


Model.TestCase.settings = settings(
    max_examples=effort(8, 400),
    stateful_step_count=effort(15, 60),
    deadline=None,
    print_blob=LONG,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
TestModel = Model.TestCase
