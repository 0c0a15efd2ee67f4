"""Numbers for people."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of them do not exceed; 0 without any."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def spread(values: Sequence[float]) -> dict[str, float]:
    """Number, median, 99th percentile and largest."""
    return {
        "n": len(values),
        "p50": percentile(values, 0.5),
        "p99": percentile(values, 0.99),
        "max": max(values, default=0.0),
    }


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Least squares rise of the values per unit of time; 0 for fewer than two."""
    if len(times) < 2:
        return 0.0
    middle, mean = sum(times) / len(times), sum(values) / len(values)
    wide = sum((time - middle) ** 2 for time in times)
    if not wide:
        return 0.0
    return sum((t - middle) * (value - mean) for t, value in zip(times, values, strict=True)) / wide
