"""When to stop: how certain the top k and the order are, and how many more judgements a target certainty would need.

Arrays in, numbers out. `certainty` describes the current posterior. `forecast` moves it forward: more answers, chosen
by the study's policy, lower the covariance from S to S' and scatter the mean by S - S'. Sampling both gives the
probability that the top k of the later mean are the true ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from modelling.planning.policy import Mask, PairQuestion, Purpose, pair_gains, suggest_pairs
from modelling.planning.posterior import Floats, Ints, OrderPosterior
from modelling.training.ranking import square_root

SAMPLES = 1000
FORECAST_SAMPLES = 400
MAX_CANDIDATES = 100  # items that may be among the top k; the others are left out of a forecast
STEPS, GROWTH, FIRST_STEP = 10, 1.6, 0.1  # of a forecast; the first step as a share of the judgements so far
MAX_FACTOR = 20  # a forecast ends at this many times the judgements so far


@dataclass(frozen=True, eq=False)
class Certainty:
    """The probability that the ranking's top k is correct, and the expected Kendall's tau with the true order.

    `by_cut` has the probability for every k from 1 to N - 1.
    """

    probability: float
    tau: float
    by_cut: Floats


def certainty(posterior: OrderPosterior, top_k: int, rng: np.random.Generator) -> Certainty:
    by_cut = cut_probabilities(posterior, rng)
    return Certainty(float(by_cut[top_k - 1]), expected_tau(posterior), by_cut)


def cut_probabilities(posterior: OrderPosterior, rng: np.random.Generator) -> Floats:
    """For each k from 1 to N - 1, the share of posterior samples whose top k are those of the mean."""
    order = np.argsort(-posterior.mean, kind="stable")
    samples = posterior.sample(SAMPLES, rng)[:, order]
    lowest_above = np.minimum.accumulate(samples, axis=1)[:, :-1]
    highest_below = np.maximum.accumulate(samples[:, ::-1], axis=1)[:, ::-1][:, 1:]
    return np.asarray((lowest_above > highest_below).mean(axis=0))


def expected_tau(posterior: OrderPosterior) -> float:
    """Mean over pairs of P(concordant) - P(discordant), in closed form."""
    mean, variance = posterior.differences()
    rows, columns = np.triu_indices(len(posterior), 1)
    z = np.abs(mean[rows, columns]) / np.sqrt(np.maximum(variance[rows, columns], 1e-300))
    return float((1.0 - 2.0 * ndtr(-z)).mean())


def top_mask(scores: Floats, top_k: int) -> Mask:
    """Whether each score is among the k highest of its row."""
    order = np.argsort(-scores, axis=1, kind="stable")
    mask = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(mask, order[:, :top_k], True, axis=1)
    return mask


@dataclass(frozen=True, eq=False)
class Forecast:
    """The expected probability of a correct top k after further judgements; the first point is the current state."""

    judgements: Ints
    probability: Floats

    def needed(self, target: float) -> int | None:
        """The judgements needed to reach the target, interpolated; None if the forecast ends before that."""
        reached = np.flatnonzero(self.probability >= target)
        if not len(reached):
            return None
        at = int(reached[0])
        if at == 0:
            return 0
        low, high = self.probability[at - 1], self.probability[at]
        share = (target - low) / (high - low)
        start, end = self.judgements[at - 1], self.judgements[at]
        return round(start + share * (end - start))


def forecast(
    posterior: OrderPosterior,
    top_k: int,
    n_so_far: int,
    policy: Purpose | None,
    random_share: float,
    rng: np.random.Generator,
    taste: Floats | None = None,
) -> Forecast:
    """Forecast the probability under the policy (None: random pairs), up to MAX_FACTOR times the judgements so far."""
    kept = candidates(posterior, top_k)
    share = len(kept) / len(posterior)  # share of the judgements that are about the candidates
    now = posterior.take(kept)
    taste = None if taste is None else taste[kept]
    counts, probabilities = [0], [float(cut_probabilities(now, rng)[top_k - 1])]
    later, step = now, max(FIRST_STEP * n_so_far, 5.0)
    for _ in range(STEPS):
        if counts[-1] > MAX_FACTOR * n_so_far:
            break
        later = _after_judgements(later, share * step, policy, top_k, random_share, taste, rng)
        counts.append(counts[-1] + round(step))
        probabilities.append(_later_probability(now, later, top_k, rng))
        step *= GROWTH
    return Forecast(np.array(counts), np.maximum.accumulate(probabilities))


def candidates(posterior: OrderPosterior, top_k: int) -> Ints:
    """The items at the top and those nearest to the boundary of the top k, by distance in standard deviations."""
    if len(posterior) <= MAX_CANDIDATES:
        return np.arange(len(posterior))
    order = np.argsort(-posterior.mean, kind="stable")
    boundary = posterior.mean[order[top_k - 1 : top_k + 1]].mean()
    distance = np.abs(posterior.mean - boundary) / np.sqrt(np.maximum(np.diagonal(posterior.cov), 1e-300))
    distance[order[: min(top_k, MAX_CANDIDATES // 2)]] = -1.0
    return np.sort(np.argsort(distance, kind="stable")[: max(MAX_CANDIDATES, top_k + 1)])


def _after_judgements(
    posterior: OrderPosterior,
    count: float,
    policy: Purpose | None,
    top_k: int,
    random_share: float,
    taste: Floats | None,
    rng: np.random.Generator,
) -> OrderPosterior:
    """The posterior after `count` more answers; each pair's precision is multiplied by the number of its answers."""
    question = PairQuestion(policy or "order", top_k, taste=taste)
    precision = pair_gains(posterior, question, rng)[1]
    first, second = np.triu_indices(len(posterior), 1)
    n_random = count if policy is None else random_share * count
    a, b, times = first, second, np.full(len(first), n_random / len(first))
    if policy is not None and count > n_random:
        found = suggest_pairs(posterior, question, max(1, min(len(posterior), round(count))), rng)
        a, b = np.append(a, found.a), np.append(b, found.b)
        times = np.append(times, np.full(len(found), (count - n_random) / max(len(found), 1)))
    return posterior.after_many(a, b, times * precision[a, b])


def _later_probability(now: OrderPosterior, later: OrderPosterior, top_k: int, rng: np.random.Generator) -> float:
    """Probability that the top k of the later mean are the true ones."""
    ridge = 1e-9 * np.eye(len(now))
    moves = rng.standard_normal((FORECAST_SAMPLES, len(now))) @ square_root(now.cov - later.cov + ridge).T
    errors = rng.standard_normal((FORECAST_SAMPLES, len(now))) @ square_root(later.cov + ridge).T
    mean = now.mean + moves
    return float((top_mask(mean, top_k) == top_mask(mean + errors, top_k)).all(axis=1).mean())
