"""Measures of one answer, and what they are over many."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from statistics import fmean

__all__ = ["MEASURES", "interval", "judge", "paired"]

CUTS = (1, 5, 10, 20)
"""Places at which an answer is cut."""

DRAWS = 1_000
"""Resamples of an interval."""

_SEED = 7

MEASURES = {
    **{f"share@{k}": f"share of what is relevant among the first {k}" for k in CUTS},
    **{f"any@{k}": f"1 if something relevant is among the first {k}" for k in CUTS},
    **{f"all@{k}": f"1 if all that is relevant is among the first {k}" for k in CUTS},
    "mrr": "1 / place of the first relevant hit; 0 if none is found",
    "ndcg@10": "discounted gain of the first 10 over the best attainable (Järvelin, Kekäläinen 2002)",
}
"""Name of each measure, and what it says of one question."""


def judge(
    found: Sequence[str], relevant: Mapping[str, float], counts: Mapping[str, int] | None = None
) -> dict[str, float]:
    """What one answer is worth.

    Args:
        found: Units in the order of the answer, each once.
        relevant: The units that are wanted, with their gain, above 0; not empty.
        counts: How often each of them counts in a share: how many wanted records a session holds. Once if not
            given.

    Returns:
        A value from 0 to 1 for each of `MEASURES`.
    """
    values: dict[str, float] = {}
    counts = dict.fromkeys(relevant, 1) if counts is None else counts
    for k in CUTS:
        hits = [one for one in found[:k] if one in relevant]
        values[f"share@{k}"] = sum(counts[one] for one in hits) / sum(counts.values())
        values[f"any@{k}"] = float(len(hits) > 0)
        values[f"all@{k}"] = float(len(hits) == len(relevant))
    first = next((place for place, one in enumerate(found, 1) if one in relevant), None)
    values["mrr"] = 1.0 / first if first else 0.0
    gains = [relevant.get(one, 0.0) for one in found[:10]]
    values["ndcg@10"] = _dcg(gains) / _dcg(sorted(relevant.values(), reverse=True)[:10])
    return values


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains, 1))


def interval(groups: Sequence[Sequence[float]], *, draws: int = DRAWS) -> tuple[float, float]:
    """Between what the mean lies, in 95 of 100 resamples (percentile bootstrap, seeded).

    Args:
        groups: Values that belong together, such as those of one conversation: groups are drawn whole. With
            one group its values are drawn.
        draws: How many resamples.

    Returns:
        The 2.5th and the 97.5th percentile.
    """
    filled = [list(group) for group in groups if group]
    if len(filled) == 1:
        filled = [[value] for value in filled[0]]
    if not filled:
        return (0.0, 0.0)
    drawn = random.Random(_SEED)
    sums = [(sum(group), len(group)) for group in filled]
    means = []
    for _ in range(draws):
        total, count = 0.0, 0
        for _ in sums:
            value, size = sums[drawn.randrange(len(sums))]
            total += value
            count += size
        means.append(total / count)
    means.sort()
    return (means[int(0.025 * draws)], means[min(draws - 1, int(0.975 * draws))])


def paired(
    before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]
) -> tuple[float, tuple[float, float]]:
    """By how much the mean changed, and between what that lies in 95 of 100 resamples.

    Args:
        before: Values by group, as for `interval`.
        after: Those of the same questions, in the same order.
    """
    changes = [
        [b - a for a, b in zip(one, other, strict=True)] for one, other in zip(before, after, strict=True)
    ]
    all_changes = [value for group in changes for value in group]
    return (fmean(all_changes) if all_changes else 0.0, interval(changes))
