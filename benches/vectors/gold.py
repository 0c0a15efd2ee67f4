"""Exact answers: cosines and fused scores in float64 over every document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from compare.corpus import Question
from compare.exact import Answer, ExactBm25
from numpy.typing import NDArray

from .rows import Floats

Mask = NDArray[np.bool_]
K = 10
# Engines multiply in float32: a cosine as near as this is a tie.
TIE = 1e-7
BLOCK = 10_000
# As docs/retrieval.md has them.
FULL_MASS, MASS_DEPTH, WEIGHT = 0.15, 10, 0.5


def _best(scores: NDArray[np.float64], numbers: NDArray[np.int64], tie: float) -> Answer:
    wanted = min(K, int(np.isfinite(scores).sum()))
    if wanted == 0:
        return Answer(frozenset(), 0)
    last = np.partition(scores, -wanted)[-wanted]
    return Answer(frozenset(numbers[scores >= last - tie].tolist()), wanted)


def nearest(rows: Floats, asked: Floats, allowed: Mask | None = None) -> list[Answer]:
    """The ten rows with the largest cosine for each question, and those tied with the last.

    All are of length 1.
    """
    questions = asked.astype(np.float64)
    scores, numbers = [], []
    keep = 4 * K
    for begin in range(0, len(rows), BLOCK):
        block = questions @ rows[begin : begin + BLOCK].astype(np.float64).T
        if allowed is not None:
            block[:, ~allowed[begin : begin + BLOCK]] = -np.inf
        best = np.argpartition(block, -min(keep, block.shape[1]), axis=1)[:, -keep:]
        scores.append(np.take_along_axis(block, best, axis=1))
        numbers.append(best + begin)
    all_scores, all_numbers = np.concatenate(scores, axis=1), np.concatenate(numbers, axis=1)
    return [_best(s, i, TIE) for s, i in zip(all_scores, all_numbers, strict=True)]


def fused(
    bm25: NDArray[np.float64], matched: NDArray[np.float64], cosine: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The weighted fusion of `HybridIndex`, where a cosine counts from 0.

    Args:
        bm25: A score a document, 0 where no word is.
        matched: Which share of the question's idf it holds.
        cosine: Its vector's with the question's.
    """
    vector = np.clip(cosine / cosine.max(), 0, 1)
    best = bm25.max()
    if best <= 0:
        return vector
    depth = min(MASS_DEPTH, int(np.count_nonzero(bm25)))
    vouching = bm25 >= np.partition(bm25, -depth)[-depth]
    weight = WEIGHT * min(1.0, float(matched[vouching].max()) / FULL_MASS)
    out: NDArray[np.float64] = weight * bm25 / best + (1 - weight) * vector
    return out


def _cosines(rows: Floats, asked: Floats) -> Iterator[NDArray[np.float64]]:
    """Those of all rows for each question, some questions at a time."""
    for begin in range(0, len(asked), 50):
        some = asked[begin : begin + 50].astype(np.float64)
        blocks = [some @ rows[at : at + BLOCK].astype(np.float64).T for at in range(0, len(rows), BLOCK)]
        yield from np.concatenate(blocks, axis=1)


def joined(rows: Floats, asked: Floats, questions: Sequence[Question], exact: ExactBm25) -> list[Answer]:
    """The ten best by both legs over every document, for each question."""
    numbers = np.arange(len(rows))
    answers = []
    for question, cosine in zip(questions, _cosines(rows, asked), strict=True):
        scores = fused(exact.scores(question.terms), exact.matched(question.terms), cosine)
        answers.append(_best(scores, numbers, TIE))
    return answers
