"""Items that are preferred across the taste space: their lowest preference among groups of like-minded workers.

The groups are the workers at the two ends of each component: the third of the workers with the largest weights and the
third with the smallest. Arrays in, arrays out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from modelling.planning.posterior import Floats, Ints, OrderPosterior

SAMPLES = 200
END_SHARE = 3  # an end of a component is one third of the workers
MIN_WORKERS = 6  # without this many there are no groups
OPPONENTS = 24  # quantiles of the scores that represent a random other item


@dataclass(frozen=True, eq=False)
class TasteGroup:
    """The workers at one end of a component: their number and mean weights, with the covariance of that mean."""

    component: int
    high: bool
    workers: int
    mean: Floats  # (C,)
    cov: Floats  # (C, C)


@dataclass(frozen=True, eq=False)
class Bridging:
    """For each item, the lowest preference among the groups with its 95% interval, and which group has it.

    A preference is the probability that a member of the group prefers the item to a random other one.
    """

    preference: Floats  # (groups, N)
    lowest: Floats  # (N,)
    low: Floats
    high: Floats
    group: Ints  # (N,) index of the group with the lowest preference


def taste_groups(weights: Floats, covariances: Floats) -> list[TasteGroup]:
    """The workers at both ends of every component, from the weights (C, U) and their covariances (U, C, C)."""
    C, U = weights.shape
    if U < MIN_WORKERS:
        return []
    size, groups = U // END_SHARE, []
    for component in range(C):
        order = np.argsort(weights[component], kind="stable")
        for high, members in ((True, order[U - size :]), (False, order[:size])):
            cov = covariances[members].mean(axis=0) / size
            groups.append(TasteGroup(component, high, size, weights[:, members].mean(axis=1), cov))
    return groups


def find_bridging(
    posterior: OrderPosterior, components: Floats, groups: list[TasteGroup], rng: np.random.Generator
) -> Bridging:
    """Preferences of these items, whose components are (C, N), with intervals from samples of scores and weights."""
    preference = np.array([preferences(posterior.mean + group.mean @ components) for group in groups])
    t = posterior.sample(SAMPLES, rng)
    lowest = np.ones((SAMPLES, len(posterior)))
    for group in groups:
        weights = rng.multivariate_normal(group.mean, group.cov, size=SAMPLES, method="eigh")
        scores = t + weights @ components
        for row in range(SAMPLES):
            np.minimum(lowest[row], preferences(scores[row]), out=lowest[row])
    low, high = np.quantile(lowest, [0.025, 0.975], axis=0)
    found = preference.min(axis=0)
    return Bridging(preference, found, np.minimum(low, found), np.maximum(high, found), preference.argmin(axis=0))


def preferences(scores: Floats) -> Floats:
    """The probability that each item is preferred to a random one, by quantiles of all scores."""
    grid = np.quantile(scores, (np.arange(OPPONENTS) + 0.5) / OPPONENTS)
    return np.asarray(ndtr(scores[:, None] - grid[None, :]).mean(axis=1))
