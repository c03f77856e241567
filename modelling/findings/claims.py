"""Simultaneous claims: “A is above B”, rank ranges and tiers with joint 95% coverage.

A claim is made where the difference between two scores exceeds c standard deviations. c is the 95% quantile, over
posterior samples, of the largest standardised error among all pairs of all groups, so that with 95% probability not a
single claim is false. Rank ranges follow by counting claims (Mogstad, Romano, Shaikh and Wilhelm 2024, “Inference for
ranks”). Whatever follows from two claims is claimed too. Arrays in, arrays out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modelling.planning.policy import Mask
from modelling.planning.posterior import Floats, Ints, OrderPosterior

LEVEL = 0.95
SAMPLES, MIN_SAMPLES = 2000, 400
CHUNK_ENTRIES = 4_000_000  # of the matrix of samples by pairs that is in memory at once
BUDGET = 400_000_000  # samples times pairs; groups with many items get fewer samples


@dataclass(frozen=True, eq=False)
class Claims:
    """The simultaneous claims about one group: which item is above which, rank ranges and tiers."""

    above: Mask  # (N, N) the row is above the column
    rank_low: Ints  # best possible rank
    rank_high: Ints  # worst possible rank
    tier: Ints  # 1 + the longest chain of claims above the item

    @property
    def covers(self) -> list[tuple[int, int]]:
        """The claims that do not follow from others."""
        indirect = (self.above.astype(np.float32) @ self.above.astype(np.float32)) > 0
        rows, columns = np.nonzero(self.above & ~indirect)
        return list(zip(rows.tolist(), columns.tolist(), strict=True))


def simultaneous_claims(
    posteriors: Sequence[OrderPosterior], linked: Sequence[Mask | None], rng: np.random.Generator
) -> list[Claims]:
    """Claims about each group that hold simultaneously for all groups; `linked` marks comparable pairs."""
    limit = critical_value(posteriors, rng)
    found = []
    for posterior, allowed in zip(posteriors, linked, strict=True):
        mean, variance = posterior.differences()
        above = mean > limit * np.sqrt(variance) + 1e-9
        found.append(claims_of(above if allowed is None else above & allowed, posterior.mean))
    return found


def critical_value(posteriors: Sequence[OrderPosterior], rng: np.random.Generator) -> float:
    """The 95% quantile of the largest standardised error of a difference, over the pairs of all groups."""
    pairs = sum(len(each) * (len(each) - 1) // 2 for each in posteriors)
    n = int(np.clip(BUDGET // max(pairs, 1), MIN_SAMPLES, SAMPLES))
    largest = np.zeros(n)
    for posterior in posteriors:
        np.maximum(largest, largest_errors(posterior, n, rng), out=largest)
    return float(np.quantile(largest, LEVEL))


def largest_errors(posterior: OrderPosterior, n: int, rng: np.random.Generator) -> Floats:
    """The largest error of a difference in each of n posterior samples, in standard deviations."""
    first, second = np.triu_indices(len(posterior), 1)
    if not len(first):
        return np.zeros(n)
    errors = (posterior.sample(n, rng) - posterior.mean).astype(np.float32)
    sd = np.sqrt(np.maximum(posterior.differences()[1][first, second], 1e-12)).astype(np.float32)
    largest = np.zeros(n)
    step = max(1, CHUNK_ENTRIES // len(first))
    for start in range(0, n, step):
        some = errors[start : start + step]
        largest[start : start + step] = (np.abs(some[:, first] - some[:, second]) / sd).max(axis=1)
    return largest


def claims_of(above: Mask, mean: Floats) -> Claims:
    """Close the claims transitively and derive rank ranges and tiers from them."""
    above = transitive_closure(above)
    N = len(above)
    tier = np.ones(N, dtype=np.int64)
    for item in np.argsort(-mean, kind="stable").tolist():
        over = above[:, item]
        if over.any():
            tier[item] = 1 + tier[over].max()
    return Claims(above, 1 + above.sum(axis=0), N - above.sum(axis=1), tier)


def transitive_closure(above: Mask) -> Mask:
    """Add every claim that follows from others; squaring doubles the length of the chains."""
    while True:
        chained = above | ((above.astype(np.float32) @ above.astype(np.float32)) > 0)
        if (chained == above).all():
            return np.asarray(above)
        above = chained
