"""From a posterior over the consensus to ranks that admit what they do not know. Arrays in, arrays out."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Z_95 = 1.96  # standard deviations on either side of a 95 % interval
DRAWS = 500
TOP = 10
JITTER = 1e-9


@dataclass(frozen=True)
class Ranking:
    """One entry per item, in the order of the items."""

    rank: Ints
    rank_low: Ints
    rank_high: Ints
    top_probability: Floats


def rank_items(mean: Floats, cov: Floats, rng: np.random.Generator) -> Ranking:
    """Ranks by the mean; their 90 % intervals and the chance to be among the ten best, by draws from the posterior."""
    return rank_draws(mean, _draws(mean, cov, rng))


def rank_many(mean: Floats, F: Floats, own: Floats, rng: np.random.Generator) -> Ranking:
    """The same from a covariance F F^T + diag(own): nothing is items by items."""
    common = rng.standard_normal((DRAWS, F.shape[1])) @ F.T
    return rank_draws(mean, mean + common + rng.standard_normal((DRAWS, len(mean))) * np.sqrt(own))


def relative_sd_of_many(F: Floats, own: Floats) -> Floats:
    """How unsure each score is, as its distance from the mean of all, from a covariance F F^T + diag(own)."""
    centred = F - F.mean(axis=0)
    return np.asarray(np.sqrt((centred**2).sum(axis=1) + own * (1.0 - 2.0 / len(own)) + own.mean() / len(own)))


def rank_draws(mean: Floats, draws: Floats) -> Ranking:
    """The same from draws (n, items) of the posterior."""
    drawn = ranks(draws)
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0, method="nearest").astype(np.int64)
    rank = ranks(mean[None, :])[0]
    return Ranking(rank, np.minimum(low, rank), np.maximum(high, rank), (drawn <= TOP).mean(axis=0))


def relative_sd(cov: Floats, among: Ints | None = None) -> Floats:
    """How unsure each score is, as its distance from the mean of all, or of those `among` which it stands.

    Judgements compare: they say nothing of a constant added to every score, so no interval is about that.
    """
    those = np.arange(len(cov)) if among is None else among
    variance = cov.diagonal() - 2.0 * cov[:, those].mean(axis=1) + cov[np.ix_(those, those)].mean()
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


def ranks(scores: Floats) -> Ints:
    """Rank 1 is the highest score, in each row; equal scores go by position."""
    order = np.argsort(-scores, axis=1, kind="stable")
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.arange(1, scores.shape[1] + 1)[None, :], axis=1)
    return places


def _draws(mean: Floats, cov: Floats, rng: np.random.Generator) -> Floats:
    return mean + rng.standard_normal((DRAWS, len(mean))) @ _root(cov).T


def _root(cov: Floats) -> Floats:
    """A matrix whose square is the covariance: the quick way, or the one that also takes a singular covariance."""
    lifted = cov + JITTER * np.eye(len(cov))
    try:
        return np.asarray(np.linalg.cholesky(lifted))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(lifted)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
