"""Seeded unit vectors for the documents of `compare.corpus`, and vectors near some of them to ask with.

A document is a point in a space of 64 latent numbers: the place of its topic, and a Gaussian around it. A
fixed map, partly linear and partly not, takes it to the width that is wanted; noise and an offset that all
rows share come on top, as embedding models have them. Row i is the same whatever the size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from compare.corpus import CHUNK, SEED, TOPICS, chunks
from numpy.typing import NDArray

Floats = NDArray[np.float32]

LATENT = 64
# Chosen so that a graph with 16 links finds .9 of the ten best at `ef` 16 and .99 at 128, as with real texts.
BEND, OFFSET, NOISE, NEAR = 2.0, 0.7, 1.3, 0.5


@cache
def _topics() -> NDArray[np.float64]:
    return np.random.default_rng([SEED, 4]).normal(size=(TOPICS, LATENT))


@cache
def _map(
    width: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """(linear part, what is bent, where that goes, offset) of a width."""
    rng = np.random.default_rng([SEED, 5, width])
    straight, inner = rng.normal(size=(LATENT, width)), rng.normal(size=(LATENT, LATENT))
    outer, offset = rng.normal(size=(LATENT, width)), rng.normal(size=width)
    return straight / LATENT**0.5, inner / LATENT**0.5, outer / LATENT**0.5, OFFSET * offset


def _unit(places: NDArray[np.float64], width: int, rng: np.random.Generator) -> Floats:
    straight, inner, outer, offset = _map(width)
    raw = places @ straight + np.tanh(BEND * (places @ inner)) @ outer + offset
    raw += NOISE * rng.normal(size=raw.shape)
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


def _places(number: int, topics: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of the documents of a chunk; always drawn for a whole one."""
    own = np.random.default_rng([SEED, 6, number]).normal(size=(CHUNK, LATENT))
    return _topics()[topics] + own[: len(topics)]


def rows(n: int, width: int) -> Iterator[Floats]:
    """Those of the first `n` documents, a chunk at a time."""
    for number, chunk in enumerate(chunks(n)):
        places = np.zeros((CHUNK, LATENT))
        places[: len(chunk)] = _places(number, chunk.topics)
        yield _unit(places, width, np.random.default_rng([SEED, 7, width, number]))[: len(chunk)]


def near(documents: Sequence[int], width: int) -> Floats:
    """A row near that of each of these documents, which are among the first `CHUNK`."""
    (head,) = chunks(CHUNK)
    rng = np.random.default_rng([SEED, 8, width])
    places = _places(0, head.topics)[np.asarray(documents)]
    return _unit(places + NEAR * rng.normal(size=places.shape), width, rng)
