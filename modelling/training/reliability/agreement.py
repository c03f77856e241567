"""Agreement of workers with each other (Krippendorff's alpha) and with themselves."""

from __future__ import annotations

import numpy as np

from modelling.crowdgppl.arrays import FloatArray, IntArray

from .answers import Answers
from .estimates import Estimate, share

RESAMPLES, SEED = 1000, 16


def krippendorff_alpha(answers: Answers) -> Estimate | None:
    """Nominal alpha of the three answers on pairs with two or more workers; only a worker's first answer counts.

    The interval is the 95% range of a bootstrap over pairs. Pairs with equal counts are resampled as one multinomial
    category, which gives the same distribution.
    """
    first = answers.first_answers
    counts = answer_counts(answers.pair[first], answers.y[first])
    kinds, times = np.unique(counts, axis=0, return_counts=True)
    if not len(kinds):
        return None
    value = float(alpha_of_counts(kinds, times[None].astype(np.float64))[0])
    if not np.isfinite(value):
        return None
    n = int(times.sum())
    drawn = np.random.default_rng(SEED).multinomial(n, times / n, size=RESAMPLES)
    alphas = alpha_of_counts(kinds, drawn.astype(np.float64))
    low, high = np.quantile(alphas[np.isfinite(alphas)], [0.025, 0.975]).tolist()
    return Estimate(value, n, low, high)


def answer_counts(unit: IntArray, y: FloatArray) -> IntArray:
    """How often each of the three answers was given, for each unit with two or more answers."""
    counts = np.zeros((int(unit.max(initial=-1)) + 1, 3), dtype=np.int64)
    np.add.at(counts, (unit, np.rint(2 * y).astype(np.int64)), 1)
    return counts[counts.sum(axis=1) > 1]


def alpha_of_counts(kinds: IntArray, times: FloatArray) -> FloatArray:
    """Alpha for each row of `times`, the number of units of each kind; NaN if all answers are the same."""
    m = kinds.sum(axis=1)
    observed = times @ ((m**2 - (kinds**2).sum(axis=1)) / (m - 1))
    totals = times @ kinds
    n = totals.sum(axis=1)
    expected = n**2 - (totals**2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return 1.0 - (n - 1) * observed / expected


def self_consistency(answers: Answers) -> Estimate | None:
    """Mean probability that two of a worker's answers to the same pair agree, over pairs answered repeatedly."""
    unit = answers.worker * (answers.pair.max(initial=0) + 1) + answers.pair
    counts = answer_counts(np.unique(unit, return_inverse=True)[1].reshape(-1), answers.y)
    m = counts.sum(axis=1)
    return share(float(((counts * (counts - 1)).sum(axis=1) / (m * (m - 1))).sum()), len(m))
