"""Estimates with 95% intervals."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

Z_95 = 1.96  # standard deviations on either side of a 95 % interval


@dataclass(frozen=True)
class Estimate:
    """A value, its interval where there is one, and the number of units it is computed from."""

    value: float
    n: int
    low: float | None = None
    high: float | None = None


def wilson_interval(p: float, n: int) -> tuple[float, float]:
    """Wilson's 95% interval for a share p of n."""
    if not n:
        return 0.0, 1.0
    z2 = Z_95**2 / n
    centre, half = p + z2 / 2, Z_95 * sqrt(p * (1 - p) / n + z2 / (4 * n))
    return max(0.0, (centre - half) / (1 + z2)), min(1.0, (centre + half) / (1 + z2))


def share(k: float, n: int) -> Estimate | None:
    """The share k / n with its interval; None if n is 0."""
    return Estimate(k / n, n, *wilson_interval(k / n, n)) if n else None


def share_difference(before: Estimate, after: Estimate) -> Estimate:
    """The difference of two independent shares, with Newcombe's 95% interval (1998, method 10)."""
    (low_1, high_1), (low_2, high_2) = (wilson_interval(each.value, each.n) for each in (before, after))
    difference = after.value - before.value
    below = sqrt((after.value - low_2) ** 2 + (high_1 - before.value) ** 2)
    above = sqrt((high_2 - after.value) ** 2 + (before.value - low_1) ** 2)
    return Estimate(difference, before.n + after.n, difference - below, difference + above)
