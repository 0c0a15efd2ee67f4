"""Vectors from whatever holds numbers, and what becomes of those that cannot be searched."""

from __future__ import annotations

import array
import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from otolith import (
    DimensionMismatch,
    HybridIndex,
    InvalidInput,
    _core,  # noqa: TID251
)

Engine = _core.Engine


@pytest.fixture
def engine() -> Iterator[_core.Engine]:
    opened = Engine.open(None)
    yield opened
    opened.close()


ROW = [0.5, -2.0, 1.5, 0.25]
MATRIX = np.array([ROW, ROW[::-1]])
SAME: dict[str, Callable[[], Any]] = {
    "list": lambda: ROW,
    "tuple": lambda: tuple(ROW),
    "numpy scalars": lambda: [np.float32(x) for x in ROW],
    "float16": lambda: np.array(ROW, np.float16),
    "float32": lambda: np.array(ROW, np.float32),
    "float64": lambda: np.array(ROW, np.float64),
    "big-endian float16": lambda: np.array(ROW, ">f2"),
    "big-endian float32": lambda: np.array(ROW, ">f4"),
    "big-endian float64": lambda: np.array(ROW, ">f8"),
    "strided": lambda: np.repeat(np.array(ROW, np.float32), 3)[::3],
    "strided float16": lambda: np.repeat(np.array(ROW, np.float16), 2)[::2],
    "reversed": lambda: np.array(ROW[::-1], np.float32)[::-1],
    "column": lambda: np.asfortranarray(MATRIX)[0],
    "read-only": lambda: np.frombuffer(np.array(ROW, np.float32).tobytes(), np.float32),
    "unaligned": lambda: np.frombuffer(b"x" + np.array(ROW, np.float32).tobytes(), np.float32, offset=1),
    "array.array f": lambda: array.array("f", ROW),
    "array.array d": lambda: array.array("d", ROW),
    "memoryview": lambda: memoryview(array.array("f", ROW)),
    "deque": lambda: deque(ROW),
}


@pytest.mark.parametrize("make", SAME.values(), ids=SAME.keys())
def test_whatever_holds_numbers_is_a_vector(engine: _core.Engine, make: Callable[[], Any]) -> None:
    episode = engine.put({"summary": "x"}, vector=make()).episode
    assert episode is not None
    ((_, dim, rows),) = engine.stored_vectors(episode.id)
    assert dim == 4
    wanted = np.array(ROW) / np.linalg.norm(ROW)
    np.testing.assert_allclose(rows[0], wanted, rtol=1e-6)  # type: ignore[arg-type]
    assert rows[0].flags.writeable  # type: ignore[union-attr]
    index = HybridIndex()
    assert index.insert("a", vector=make()).vectorized
    assert index.search(vector=make())[0].parts["cosine"] == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["i1", "u1", "<i2", ">i2", "<u2", "<i4", ">i4", "u4", "<i8", ">i8", "u8"])
def test_whole_numbers_are_a_vector(kind: str) -> None:
    row = np.array([1, 2, 100], kind)
    index = HybridIndex()
    index.insert("a", vector=row)
    assert index.search(vector=[1, 2, 100])[0].parts["cosine"] == pytest.approx(1.0)


def test_every_half_float_is_read_exactly() -> None:
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves) & (halves != 0)]
    index = HybridIndex()
    # Against itself as f32 in blocks: one wrong component would turn the direction.
    for start in range(0, len(finite), 4096):
        block = finite[start : start + 4096]
        for part in (block, block.astype(">f2")):
            index.insert("half", vector=part)
            exact = block.astype(np.float32)
            assert index.search(vector=exact)[0].parts["cosine"] == pytest.approx(1.0, abs=1e-7)
            index = HybridIndex()
    for value in (np.float16("inf"), np.float16("nan"), np.float16(6e-8)):
        done = HybridIndex().insert("a", "t", np.array([value, 0], np.float16))
        assert done.vectorized == bool(np.isfinite(value))


REFUSED: dict[str, tuple[Any, str]] = {
    "NaN": ([math.nan, 1.0], "NaN"),
    "infinite": ([math.inf, 1.0], "infinity"),
    "beyond f32": ([1e300, 1.0], "infinity"),
    "beyond f64": ([10**400, 1], "infinity"),
    "zero": ([0.0, -0.0], "zero"),
    "empty": ([], "dimensions"),
    "empty array": (np.zeros(0), "dimensions"),
    "wrong width": ([1.0, 2.0, 3.0], "width"),
}


@pytest.mark.parametrize(("vector", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_a_vector_that_cannot_be_searched_is_counted_and_its_text_kept(
    engine: _core.Engine, vector: Any, reason: str
) -> None:
    engine.put({"summary": "first"}, vector=[1.0, 0.0])
    outcome = engine.put({"summary": "words remain"}, vector=vector)
    assert outcome.vector_refused is not None
    assert reason in outcome.vector_refused
    assert engine.recall("words")[0].text == "words remain"
    coverage = engine.coverage()
    assert coverage.total == coverage.vectorized + coverage.refused + coverage.dimension_mismatches == 2
    index = HybridIndex(2)
    inserted = index.insert("a", "words remain", vector)
    assert inserted.refused is not None
    assert reason in inserted.refused
    assert not index.add_embedding("a", vector)
    assert index.search("words")[0].id == "a"
    counted = index.vector_coverage()
    assert (counted.refused, counted.dimension_mismatches) == ((0, 1) if reason == "width" else (1, 0))


NO_VECTORS = [
    "12",
    b"12",
    bytearray(b"12"),
    5,
    1.5,
    {0: 1.0},
    {1.0},
    [None],
    ["1"],
    [[1.0]],
    [True],
    [1j],
    object(),
    np.array([[1.0, 2.0]]),
    np.array(1.0),
    np.array([1j]),
    np.array([True]),
    np.array(["a"]),
    np.array([object()]),
    np.array(["2024-01-01"], "M8[D]"),
    np.zeros(2, [("a", "f4")]),
]


@pytest.mark.parametrize("value", NO_VECTORS, ids=lambda one: ascii(one)[:30])
def test_what_holds_no_numbers_is_no_vector(engine: _core.Engine, value: Any) -> None:
    index = HybridIndex()
    calls: list[Callable[[], Any]] = [
        lambda: engine.put({"summary": "x"}, vector=value),
        lambda: engine.recall("x", vector=value),
        lambda: index.insert("a", "x", value),
        lambda: index.add_embedding("a", value),
        lambda: index.search(vector=value),
    ]
    for call in calls:
        with pytest.raises(InvalidInput) as caught:
            call()
        assert caught.value.field == "vector"
    (outcome,) = engine.put_many([{"summary": "x"}], vectors=[value])
    assert isinstance(outcome.error, InvalidInput)
    assert outcome.error.field == "vectors[0]"
    assert (engine.count(), len(index)) == (0, 0)


@pytest.mark.parametrize(
    "many",
    [
        MATRIX,
        MATRIX.astype(">f4"),
        np.asfortranarray(MATRIX),
        MATRIX.astype(np.float16),
        MATRIX.tolist(),
        list(MATRIX),
    ],
    ids=["f64", "big-endian", "fortran", "f16", "lists", "rows"],
)
def test_many_vectors_are_a_matrix_or_a_list(engine: _core.Engine, many: Any) -> None:
    index = HybridIndex()
    assert all(done.vectorized for done in index.insert_many(["a", "b"], vectors=many))
    assert [hits[0].id for hits in index.search_many(vectors=many, k=1)] == ["a", "b"]
    outcomes = engine.put_many([{"summary": "a"}, {"summary": "b"}], vectors=many)
    assert [outcome.vector_refused for outcome in outcomes] == [None, None]
    assert engine.recall(None, 1, vector=ROW)[0].text == "a"


def test_some_of_many_may_have_no_vector(engine: _core.Engine) -> None:
    index = HybridIndex()
    done = index.insert_many(["a", "b", "c"], ["x", None, "z"], [None, [1.0, 0.0], [0.0, 0.0]])
    assert [one.vectorized for one in done] == [False, True, False]
    assert index.vector_coverage() == index.vector_coverage()
    assert index.vector_coverage().to_dict() == {
        "total": 3,
        "vectorized": 1,
        "pending": 1,
        "stale": 0,
        "dimension_mismatches": 0,
        "refused": 1,
        "dim": 2,
        "embedder": None,
    }
    with pytest.raises(InvalidInput, match=r"ids\[0\].*neither"):
        index.insert_many(["d"], [None], [None])
    with pytest.raises(InvalidInput, match="vectors"):
        index.insert_many(["d"], ["x"], np.zeros((2, 2)))
    with pytest.raises(InvalidInput, match="vectors"):
        index.insert_many(["d"], ["x"], np.zeros(2))
    assert len(index) == 3


def test_a_question_of_another_width_is_an_error(engine: _core.Engine) -> None:
    engine.put({"summary": "x"}, vector=[1.0, 0.0])
    index = HybridIndex(2)
    for call in (lambda: engine.recall("x", vector=[1.0]), lambda: index.search(vector=[1.0])):
        with pytest.raises(DimensionMismatch) as caught:
            call()
        assert (caught.value.expected, caught.value.found, caught.value.field) == (2, 1, "vector")
