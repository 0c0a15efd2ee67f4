"""Searches among ids: by a list, and by a set that is looked up once."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from otolith import HybridIndex, IdSet, IndexParams, InvalidInput


def filled(count: int = 50) -> HybridIndex:
    index = HybridIndex(2)
    index.insert_many(
        [str(n) for n in range(count)], ["same words"] * count, [[1.0, float(n)] for n in range(count)]
    )
    return index


def found(index: HybridIndex, ids: list[str] | IdSet) -> set[str]:
    by_words = {hit.id for hit in index.search("words", k=100, ids=ids)}
    by_vector = {hit.id for hit in index.search(vector=[1.0, 0.5], k=100, ids=ids)}
    assert by_words == by_vector
    return by_words


def test_a_set_stands_for_its_ids_whatever_happens_to_the_index(tmp_path: Path) -> None:
    index = filled()
    ids = ["3", "7", "7", "nobody"]
    subset = index.subset(ids)
    assert (len(subset), subset.unknown) == (3, 1)
    assert repr(subset) == "IdSet(len=3, unknown=1)"
    assert found(index, subset) == found(index, ids) == {"3", "7"}
    index.insert("nobody", "words", [1.0, 1.0])
    assert found(index, subset) == {"3", "7", "nobody"}
    index.remove("7")
    assert found(index, subset) == {"3", "nobody"}
    index.compact()
    assert found(index, subset) == {"3", "nobody"}
    index.insert("7", "words", [1.0, 2.0])
    assert found(index, subset) == {"3", "7", "nobody"}
    assert subset.unknown == 1, "it tells of when it was made"
    assert found(index, index.subset([])) == found(index, []) == set()
    # One that was loaded is another index, whose ids lie in the file.
    index.save(tmp_path / "saved")
    loaded = HybridIndex.load(tmp_path / "saved")
    assert found(loaded, loaded.subset(ids)) == {"3", "7", "nobody"}
    with pytest.raises(InvalidInput, match="another index") as raised:
        loaded.search("words", ids=subset)
    assert raised.value.field == "ids"


def test_many_questions_among_ids() -> None:
    index = filled()
    ids = ["3", "7", "nobody"]
    for among in (ids, tuple(ids), index.subset(ids)):
        answers = index.search_many(["words", "same"], k=9, ids=among)
        assert [{hit.id for hit in hits} for hits in answers] == [{"3", "7"}] * 2
        assert {hit.id for hit in index.search_many(["words"], k=9, ids=among)[0]} == {"3", "7"}
    with pytest.raises(InvalidInput, match="another index"):
        index.search_many(["words"], ids=filled(2).subset(ids))


@pytest.mark.parametrize("ids", ["three", {"3"}, [3], 3, ["3", None]])
def test_ids_are_checked(ids: object) -> None:
    index = filled(5)
    for call in (index.subset, lambda ids: index.search("words", ids=ids)):
        with pytest.raises(InvalidInput) as raised:
            call(ids)  # type: ignore[arg-type]
        assert raised.value.field == "ids"


@pytest.mark.parametrize(
    ("argument", "value", "wanted"),
    [
        ("exact", "yes", "True or False"),
        ("exact", 1, "True or False"),
        ("ef_search", True, "from 1 up"),
        ("ef_search", 0, "from 1 up"),
        ("ef_search", -1, "from 1 up"),
        ("ef_search", "many", "from 1 up"),
    ],
)
def test_how_to_search_is_checked(argument: str, value: object, wanted: str) -> None:
    index = filled(5)
    calls = (
        lambda **given: index.search("words", **given),
        lambda **given: index.search_many(["words"], **given),
    )
    for call in calls:
        with pytest.raises(InvalidInput, match=wanted) as raised:
            call(**{argument: value})
        assert raised.value.field == argument
    with pytest.raises(InvalidInput, match="True or False") as raised:
        index.search("words", explain="yes")  # type: ignore[arg-type]
    assert raised.value.field == "explain"


def test_many_questions_are_searched_as_one_is() -> None:
    rows = np.random.default_rng(3).normal(size=(3_000, 8)).astype(np.float32)
    index = HybridIndex(8, params=IndexParams(exact_below=0))
    index.insert_many([str(n) for n in range(len(rows))], None, rows)
    index.compact()
    questions = np.random.default_rng(4).normal(size=(60, 8)).astype(np.float32)
    answers = {}
    for name, how in (("short", {"ef_search": 1}), ("long", {"ef_search": 500}), ("exact", {"exact": True})):
        answers[name] = index.search_many(None, questions, k=5, **how)
        assert answers[name] == [index.search(vector=one, k=5, **how) for one in questions]
    assert answers["long"] == answers["exact"] != answers["short"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_set_is_asked_with_in_a_forked_child() -> None:
    index = filled()
    subset = index.subset(["3", "7"])
    index.insert("new", "words", [1.0, 1.0])
    child = os.fork()
    if child == 0:
        os._exit(0 if found(index, subset) == {"3", "7"} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_searches_go_on_while_another_thread_compacts() -> None:
    rows = np.random.default_rng(5).normal(size=(16_000, 64)).astype(np.float32)
    index = HybridIndex(64, params=IndexParams(exact_below=0))
    index.insert_many([str(n) for n in range(len(rows))], None, rows)
    taken: list[float] = []

    def compact() -> None:
        start = time.perf_counter()
        index.compact()
        taken.append(time.perf_counter() - start)

    thread = threading.Thread(target=compact)
    thread.start()
    longest, count = 0.0, 0
    while thread.is_alive():
        start = time.perf_counter()
        index.search(vector=rows[count % len(rows)], k=5)
        # A change that waits lets no search in, either.
        index.insert("new", vector=rows[0])
        longest, count = max(longest, time.perf_counter() - start), count + 1
    thread.join()
    assert count > 20
    assert longest < taken[0] / 3, f"{longest:.3f} s of {taken[0]:.3f} s"
    assert index.search(vector=rows[9], k=1)[0].id == "9"
