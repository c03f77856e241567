"""Odds that a worker is careless, different or ordinary, from the evidence of the answers. Arrays in, numbers out.

- ordinary: the answers follow the consensus of the others;
- different: they follow the preferences of another worker, or preferences of the worker's own;
- careless: from some answer on, perhaps the first, they are coin flips or follow the sides of the screen (always the
  same one, or changing sides: a Markov chain with unknown transition probabilities).

Evidence is the log probability of all answers under a hypothesis, relative to coin flips. Whether a worker is careless
depends on whether any preferences explain the answers, so dissent is no evidence of carelessness.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, expit, log_ndtr, logsumexp

from modelling.crowdgppl.arrays import FloatArray

SHARE, STRENGTH, STEPS = 0.2, 10.0, 50  # expected share of careless workers, pseudo-workers behind it, and EM steps
SHARPNESS = np.array([0.5, 0.7, 1.0])  # of answers, relative to the model's: some honest workers are noisier
SHARPNESS_WEIGHTS = np.array([0.15, 0.35, 0.5])
ALONE = 0.25  # expected share of honest workers whose preferences are unrelated to all others', learned like SHARE
CAUTION = 1.5  # they count as this much more frequent, because a false flag is worse than a missed careless worker
MOST_ALONE = 0.6  # of the learned share
SHARED = 0.6  # an ordinary worker's consensus evidence is at least this share of that for any preferences
FROM_THE_START = 0.5  # probability that a careless worker was careless from the first answer
LEAST_CARELESS = 10  # careless answers at the end; fewer are not conclusive
TOO_FAST_HONEST, TOO_FAST_CARELESS = (1.0, 50.0), (0.5, 1.0)  # beta priors of the share of answers that are too fast
TIME_LIMITS = (-1.0, 3.0)  # limits of the log odds from response times: some people read fast, and some take breaks


@dataclass(frozen=True)
class Explanation:
    """Log evidence of a worker's answers under each hypothesis, and the most likely start of carelessness."""

    ordinary: float  # the consensus
    followed: float  # the preferences of another worker
    alone: float  # preferences unrelated to all others'
    careless: float
    since: int


def explain(
    consensus: FloatArray, others: FloatArray, alone: float, left: FloatArray, too_fast: int, timed: int
) -> Explanation:
    """Compute the evidence of a worker's n answers under each hypothesis.

    `consensus` (n,) and `others` (n, workers) are standardised differences, positive where they predict the answer.
    `alone` is the evidence of preferences that are unrelated to the crowd. `left` is 1 where the left text was chosen.
    """
    ordinary = float(prefix_evidence(consensus[:, None])[-1])
    followed = prefix_evidence(np.column_stack((others, consensus)))
    careless, since = careless_evidence(followed, left)
    return Explanation(ordinary, float(followed[-1]), alone, careless + time_evidence(too_fast, timed), since)


def prefix_evidence(z: FloatArray) -> FloatArray:
    """Evidence (n + 1,) of the first 0, 1, ..., n answers: a mixture over the columns of z and over sharpness."""
    gains = log_ndtr(z[:, :, None] * SHARPNESS) + np.log(2.0)
    sums = np.concatenate((np.zeros((1, *gains.shape[1:])), np.cumsum(gains, axis=0)))
    return np.asarray(logsumexp(sums + np.log(SHARPNESS_WEIGHTS), axis=(1, 2)) - np.log(z.shape[1]))


def careless_evidence(before: FloatArray, left: FloatArray) -> tuple[float, int]:
    """Evidence of carelessness, summed over its possible starts; `before` (n + 1,) is that of the preceding answers."""
    n = len(left)
    starts = np.arange(0, max(n - LEAST_CARELESS, 0) + 1)
    weight = np.full(len(starts), np.log((1.0 - FROM_THE_START) / max(len(starts) - 1, 1)))
    weight[0] = np.log(FROM_THE_START) if len(starts) > 1 else 0.0
    terms = weight + before[starts] + np.logaddexp(0.0, side_evidence(left)[starts]) - np.log(2.0)
    return float(logsumexp(terms)), int(starts[np.argmax(terms)])


def side_evidence(left: FloatArray) -> FloatArray:
    """For each i, the log evidence (relative to coin flips) that the sides of answers i to n - 1 follow a Markov chain.

    The transition probabilities are integrated out under Jeffreys priors (Krichevsky and Trofimov 1981).
    Transitions from or to an answer whose sides are unknown count as coin flips.
    """
    n, counts = len(left), np.zeros((2, 2))
    total = np.zeros(n)
    for i in range(n - 2, -1, -1):
        if np.isfinite(left[i]) and np.isfinite(left[i + 1]):
            counts[int(left[i]), int(left[i + 1])] += 1
        runs = betaln(counts[:, 0] + 0.5, counts[:, 1] + 0.5) - betaln(0.5, 0.5) + counts.sum(axis=1) * np.log(2.0)
        total[i] = runs.sum()
    return total


def time_evidence(too_fast: int, timed: int) -> float:
    """Log odds of carelessness added by answers too fast for reading both texts."""
    if not timed:
        return 0.0

    def log_evidence(a: float, b: float) -> float:
        return float(betaln(a + too_fast, b + timed - too_fast) - betaln(a, b))

    return float(np.clip(log_evidence(*TOO_FAST_CARELESS) - log_evidence(*TOO_FAST_HONEST), *TIME_LIMITS))


def odds(found: list[Explanation]) -> FloatArray:
    """Probabilities (workers, 3) of careless, different and ordinary.

    The shares of careless workers, and of honest ones with preferences that no one shares, are learned.
    """
    careless, followed, alone, ordinary = (
        np.array([getattr(each, name) for each in found]) for name in ("careless", "followed", "alone", "ordinary")
    )
    share, own = SHARE, ALONE
    for _ in range(STEPS):
        presumed = CAUTION * own
        attentive = np.logaddexp(np.log1p(-presumed) + followed, np.log(presumed) + alone)
        p = expit(careless - attentive + np.log(share) - np.log1p(-share))
        lone = (1.0 - p) * expit(alone - followed + np.log(own) - np.log1p(-own))
        share = (STRENGTH * SHARE + p.sum()) / (STRENGTH + len(found))
        own = min((STRENGTH * ALONE + lone.sum()) / (STRENGTH + (1.0 - p).sum()), MOST_ALONE)
    different = expit(SHARED * attentive - ordinary)
    return np.column_stack((p, (1.0 - p) * different, (1.0 - p) * (1.0 - different)))
