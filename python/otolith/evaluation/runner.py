"""Asking a dataset's questions, by each way of searching."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otolith._core import Report, __version__
from otolith.config import Settings
from otolith.embedders import Embedder
from otolith.exceptions import EmbedderUnavailable, InvalidInput
from otolith.memory import Memory

from .dataset import Collection, Dataset, Question, checked
from .grep import Grep
from .measures import judge
from .run import Answer, Row, Run

__all__ = ["ROWS", "evaluate"]

Progress = Callable[[int, int | None], object]

ROWS: dict[str, tuple[str, ...]] = {
    "grep": (),
    "lexical": ("lexical",),
    "vector": ("vector",),
    "hybrid": ("lexical", "vector"),
}
"""Ways of searching, with the legs that have to run."""

DEEP = 100
"""Hits that the place of the first relevant one is looked for in, and that sessions are ranked by."""

BEST_OF_SESSION = 3
"""Hits of a session that count: it is ranked by the sum of their scores."""

NOTHING_TO_SEARCH = "the question holds nothing that can be searched"


def evaluate(
    dataset: Dataset,
    *,
    rows: Sequence[str] | None = None,
    k: int = 10,
    embedder: str | Embedder | None = "auto",
    config: Settings | Mapping[str, Any] | None = None,
    home: str | os.PathLike[str] | None = None,
    work: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Asks every question of a dataset and judges the answers.

    Each collection becomes a memory of its own, in a directory that is deleted afterwards. An answer of `k`
    hits is timed and judged; then 100 are asked for, for the place of the first relevant hit and for
    sessions.

    Args:
        dataset: What is asked.
        rows: Ways of searching, of `ROWS`; by default `grep` and `lexical`, with an embedder also `vector`
            and `hybrid`.
        k: Hits of an answer, 1 or more. Measures at a greater number judge the 100.
        embedder: As for `Memory.open`.
        config: As for `Memory.open`.
        home: Where the records are if the dataset has none of its own.
        work: A directory where the memories are kept, and found again by the next run, so that vectors are
            not made twice.
        progress: Called with (steps done, of all): records of a collection that are ready, answers.

    Returns:
        The answers, and what they are worth.

    Raises:
        InvalidInput: A row is unknown, a record is refused, or a name is of no record.
        EmbedderError: A leg that was asked for did not run, or not all records have vectors.
        StoreError: A memory cannot be made or opened.
    """
    checked(dataset)
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InvalidInput(f"k: must be 1 or more, not {k!r}", field="k")
    unknown = [name for name in rows or () if name not in ROWS]
    if unknown or (rows is not None and not rows):
        given = repr(unknown[0]) if unknown else "nothing"
        raise InvalidInput(f"rows: {given} is not one of {', '.join(ROWS)}", field="rows")
    names = None if rows is None else [name for name in ROWS if name in rows]
    return _Job(dataset, names, k, embedder, config, home, work).run(progress)


@dataclass
class _Job:
    dataset: Dataset
    names: list[str] | None
    k: int
    embedder: str | Embedder | None
    config: Settings | Mapping[str, Any] | None
    home: str | os.PathLike[str] | None
    work: str | os.PathLike[str] | None

    def run(self, progress: Progress | None) -> Run:
        rows: dict[str, Row] = {}
        settings: dict[str, Any] = {"k": self.k}
        done = 0
        with self._place() as place:
            for number, collection in enumerate(self.dataset.collections):
                if not collection.questions:
                    continue
                with self._memory(collection, place / f"{number:03d}") as memory:
                    status = memory.status()
                    names = self.names = self.names or self._by_default(status.embedder)
                    settings |= {"analyzer": status.analyzer, "embedder": status.fingerprint}
                    records = collection.records or [one.to_dict() for one in memory.episodes()]
                    asking = _Asking(collection, memory, records, names, self.k, self.dataset.sessions)
                    for name in names:
                        row = rows.setdefault(name, Row(name=name))
                        for asked in collection.questions:
                            row.answers.append(asking.answer(name, asked))
                            done += 1
                            if progress is not None:
                                progress(done, len(names) * self.dataset.questions)
        described = {
            "name": self.dataset.name,
            "format": self.dataset.format,
            "sha256": self.dataset.sha256,
            "collections": len(self.dataset.collections),
            "records": self.dataset.records,
            "questions": self.dataset.questions,
            "left_out": dict(self.dataset.left_out),
        }
        return Run(version=__version__, dataset=described, settings=settings, rows=list(rows.values()))

    @staticmethod
    def _by_default(embedder: str | None) -> list[str]:
        return [name for name in ROWS if embedder is not None or "vector" not in ROWS[name]]

    @contextmanager
    def _place(self) -> Iterator[Path]:
        if self.work is not None:
            yield Path(self.work) / f"{self.dataset.name}-{self.dataset.sha256[:12]}"
            return
        with tempfile.TemporaryDirectory(prefix="otolith-eval-") as place:
            yield Path(place)

    @contextmanager
    def _memory(self, collection: Collection, place: Path) -> Iterator[Memory]:
        wants = self.names is None or any("vector" in ROWS[name] for name in self.names)
        embedder = self.embedder if wants else None
        if collection.records is None:
            with Memory.open(self.home, embedder=embedder, create=False, config=self.config) as memory:
                self._ready(memory)
                yield memory
            return
        place.mkdir(parents=True, exist_ok=True)
        with Memory.open(place, embedder=embedder, config=self.config) as memory:
            report = memory.remember_many(collection.records, embed="later")
            if report.failed:
                at, error = report.failed[0]
                key = collection.records[at]["key"]
                raise InvalidInput(f"dataset: record {key} of {collection.name}: {error}", field="dataset")
            if memory.status().embedder is not None:
                done = memory.embed_pending()
                if done.error is not None:
                    raise done.error
            self._ready(memory)
            yield memory

    def _ready(self, memory: Memory) -> None:
        """Vectors of only some records would have a way of searching called worse than it is."""
        if memory.status().embedder is None:
            if self.names is not None and any("vector" in ROWS[name] for name in self.names):
                raise EmbedderUnavailable(
                    "rows by vectors were asked for and there is no embedder; name one with --embedder SPEC, "
                    "or ask for grep and lexical alone"
                )
            return
        coverage = memory.coverage()
        if coverage.vectorized < coverage.total:
            left = coverage.total - coverage.vectorized
            raise EmbedderUnavailable(
                f"{left} of {coverage.total} records have no vector; make them with `otolith embed`, or ask "
                "for grep and lexical alone"
            )


class _Asking:
    """One collection under question."""

    def __init__(
        self,
        collection: Collection,
        memory: Memory,
        records: Sequence[Mapping[str, Any]],
        names: Sequence[str],
        k: int,
        by_session: bool,
    ) -> None:
        self._collection = collection
        self._memory = memory
        self._grep = Grep(records if "grep" in names else ())
        self._k = k
        self._sessions: dict[str, str] | None = None
        if by_session:
            self._sessions = {one["key"]: str(one.get("session_id") or one["key"]) for one in records}
        self._names = self._look_up(collection, records) if collection.records is None else {}

    @staticmethod
    def _look_up(collection: Collection, records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """By id of a record of the home, how the questions name it: by its id or its key."""
        if not records:
            raise InvalidInput("dataset: the home holds no records: nothing could be found", field="dataset")
        named = {name for one in collection.questions for name in (*one.relevant, *one.forbidden)}
        both = ((one["id"], name) for one in records for name in (one["id"], one.get("key")))
        found = {id: name for id, name in both if name in named}
        unknown = sorted(named - set(found.values()))
        if unknown:
            raise InvalidInput(
                f"dataset: {collection.name} names {unknown[0]!r}, which is neither the id nor the key of a "
                "record of the home",
                field="dataset",
            )
        return found

    def answer(self, name: str, asked: Question) -> Answer:
        if name == "grep":
            start = time.perf_counter()
            found = self._grep.find(asked.text, self._k)
            elapsed = time.perf_counter() - start
            deep = self._grep.find(asked.text, max(DEEP, self._k))
            scores = [1.0 / place for place in range(1, len(deep) + 1)]
            return self._judged(asked, (found, deep, scores), (), None, elapsed)
        legs = ROWS[name]
        start = time.perf_counter()
        report = self._memory.recall(asked.text, self._k, filter=asked.filter, legs=legs)
        elapsed = time.perf_counter() - start
        for leg in legs:
            state = report.legs[leg]
            if not state.ran and state.reason != NOTHING_TO_SEARCH:
                raise EmbedderUnavailable(
                    f"{name}: the {leg} leg did not run for question {asked.id}: {state.reason}; mend that, "
                    "or ask for other rows"
                )
        more = self._memory.recall(asked.text, max(DEEP, self._k), filter=asked.filter, legs=legs)
        scores = [hit.score for hit in more]
        ran = tuple(leg for leg in legs if report.legs[leg].ran)
        relevance = max((hit.relevance for hit in report), default=0.0)
        return self._judged(asked, (self._keys(report), self._keys(more), scores), ran, relevance, elapsed)

    def _keys(self, report: Report) -> list[str]:
        if self._collection.records is None:
            return [self._names.get(hit.id, hit.id) for hit in report]
        return [str(hit.episode.key) for hit in report]

    def _judged(
        self,
        asked: Question,
        answers: tuple[list[str], list[str], list[float]],
        ran: tuple[str, ...],
        relevance: float | None,
        elapsed: float,
    ) -> Answer:
        found, deep, scores = answers
        # Up to k as it was answered, behind that as it would go on.
        whole = found + [one for one in deep if one not in found]
        values: dict[str, float] = {}
        by_session: dict[str, float] = {}
        if asked.relevant:
            values = judge(whole, asked.relevant)
            if self._sessions is not None:
                by_session = self._judged_by_session(asked, deep, scores, self._sessions)
        return Answer(
            collection=self._collection.name,
            question=asked.id,
            text=asked.text,
            category=asked.category,
            values=values,
            session_values=by_session,
            found=tuple(found),
            precision=sum(one in asked.relevant for one in found) / len(found) if found else None,
            leaked=tuple(one for one in found if one in asked.forbidden),
            relevance=relevance,
            ran=ran,
            elapsed_us=elapsed * 1e6,
        )

    @staticmethod
    def _judged_by_session(
        asked: Question, deep: list[str], scores: list[float], sessions: dict[str, str]
    ) -> dict[str, float]:
        best: dict[str, list[float]] = {}
        for key, score in zip(deep, scores, strict=True):
            own = best.setdefault(sessions[key], [])
            if len(own) < BEST_OF_SESSION:
                own.append(score)
        # The order of the hits where sums are equal.
        ranked = sorted(best, key=lambda session: -sum(best[session]))
        counts: dict[str, int] = {}
        for key in asked.relevant:
            counts[sessions[key]] = counts.get(sessions[key], 0) + 1
        return judge(ranked, dict.fromkeys(counts, 1.0), counts)
