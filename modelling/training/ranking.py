"""Ranks with uncertainty from a posterior over the consensus. Arrays in, arrays out."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from modelling.training.reliability.estimates import Z_95 as Z_95

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SAMPLES = 500
TOP = 10
JITTER = 1e-9


@dataclass(frozen=True)
class Ranking:
    """One entry per item, in the order of the items; `rank_low` and `rank_high` bound a 95% interval."""

    rank: Ints
    rank_low: Ints
    rank_high: Ints
    top_probability: Floats


def rank_items(mean: Floats, cov: Floats, rng: np.random.Generator) -> Ranking:
    """Rank by the mean, with intervals from samples of N(mean, cov)."""
    return rank_samples(mean, mean + rng.standard_normal((SAMPLES, len(mean))) @ square_root(cov).T)


def rank_samples(mean: Floats, samples: Floats) -> Ranking:
    """Rank by the mean, with intervals from samples (n, items) of the posterior."""
    sampled = ranks(samples)
    low, high = np.quantile(sampled, [0.025, 0.975], axis=0, method="nearest").astype(np.int64)
    rank = ranks(mean[None, :])[0]
    return Ranking(rank, np.minimum(low, rank), np.maximum(high, rank), (sampled <= TOP).mean(axis=0))


def relative_sd(cov: Floats, among: Ints | None = None) -> Floats:
    """The standard deviation of each score's distance from the mean score of all items, or of those in `among`.

    Comparisons cannot determine a constant added to every score, so its uncertainty is left out.
    """
    if among is None:
        means = cov.mean(axis=1)
        variance = cov.diagonal() - 2.0 * means + means.mean()
    else:
        variance = cov.diagonal() - 2.0 * cov[:, among].mean(axis=1) + cov[np.ix_(among, among)].mean()
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


def ranks(scores: Floats) -> Ints:
    """The rank of each score within its row; 1 is the highest, and equal scores are ranked by position."""
    order = np.argsort(-scores, axis=1, kind="stable")
    result = np.empty_like(order)
    np.put_along_axis(result, order, np.arange(1, scores.shape[1] + 1)[None, :], axis=1)
    return result


def square_root(cov: Floats) -> Floats:
    """R with R R^T = cov, by Cholesky, or by an eigendecomposition if the covariance is singular."""
    regularised = cov.copy()
    regularised[np.diag_indices_from(regularised)] += JITTER
    try:
        return np.asarray(np.linalg.cholesky(regularised))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(regularised)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
