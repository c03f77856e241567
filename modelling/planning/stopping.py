"""When to stop: how certain the top k and the order are, and how many more judgements a target certainty would need.

Arrays in, numbers out. `certainty` describes the current posterior. `continue_study` simulates the rest of the
study: further answers, chosen by its policy, reduce the covariance from S to S', and the means are drawn with the
covariance S - S'. In each simulated continuation the probability that its top k are the true ones is computed, and the
forecast is when these probabilities reach the target. (The mean of the probabilities would be misleading: in some
continuations two items remain equally good, so the mean reaches 90 % long after most studies have.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from modelling.planning.policy import PairQuestion, Purpose, pair_gains, suggest_pairs
from modelling.planning.posterior import Floats, Ints, OrderPosterior
from modelling.training.ranking import square_root

SAMPLES = 1000
CONTINUATIONS, FORECAST_SAMPLES = 60, 300
MAX_CANDIDATES = 100  # items that may be among the top k; the others are left out of a forecast
STEPS, GROWTH, FIRST_STEP = 12, 1.5, 0.1  # of a forecast; the first step as a share of the judgements so far
LEAST_STEP = 5.0
RANGE = (0.1, 0.9)  # quantiles of the continuations
RIDGE = 1e-9


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


@dataclass(frozen=True, eq=False)
class Forecast:
    """The highest probability of a correct top k reached within a number of further judgements.

    The median over simulated continuations of the study, and the range of 8 of 10. The first point is the present.
    """

    judgements: Ints
    probability: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, judgements: Ints, continuations: Floats) -> Forecast:
        """Summarise the probabilities (continuations, steps) after these numbers of further judgements."""
        highest = np.maximum.accumulate(continuations, axis=1)
        low, median, high = np.quantile(highest, [RANGE[0], 0.5, RANGE[1]], axis=0)
        return cls(judgements, median, low, high)

    def needed(self, target: float) -> int | None:
        """Judgements until half of the continuations have reached the target; None if the forecast ends before that."""
        return self._reached(self.probability, target)

    def earliest(self, target: float) -> int | None:
        """Judgements until one in ten continuations has reached the target."""
        return self._reached(self.high, target)

    def latest(self, target: float) -> int | None:
        """Judgements until nine in ten continuations have reached the target."""
        return self._reached(self.low, target)

    def _reached(self, probability: Floats, target: float) -> int | None:
        reached = np.flatnonzero(probability >= target)
        if not len(reached):
            return None
        at = int(reached[0])
        if at == 0:
            return 0
        low, high = probability[at - 1], probability[at]
        share = (target - low) / (high - low)
        start, end = self.judgements[at - 1], self.judgements[at]
        return round(start + share * (end - start))


@dataclass(frozen=True, eq=False)
class Continuations:
    """Simulated continuations of a study: the probability in each after these numbers of further judgements."""

    judgements: Ints  # (steps,), from 0
    probability: Floats  # (continuations, steps)


def continue_study(
    posterior: OrderPosterior,
    top_k: int,
    n_so_far: int,
    policy: Purpose | None,
    random_share: float,
    rng: np.random.Generator,
    taste: Floats | None = None,
    lapse: float = 0.0,
) -> Continuations:
    """Simulate continuations under the policy (None: random pairs).

    The covariance decreases as expected for the current mean and is the same in each continuation; means differ.
    """
    kept = candidates(posterior, top_k)
    share = len(kept) / len(
        posterior
    )  # of the judgements that are about the candidates; suggestions for the top all are
    random = share if policy is None else share * random_share
    suggested = 0.0 if policy is None else (1.0 - random_share) * (1.0 if policy == "top" else share)
    now = posterior.take(kept)
    question = PairQuestion(policy or "order", top_k, taste=None if taste is None else taste[kept], lapse=lapse)
    standard = rng.standard_normal((FORECAST_SAMPLES, len(now)))
    means = np.tile(now.mean, (CONTINUATIONS, 1))
    counts, stated = [0], [stated_probabilities(means, now.cov, top_k, standard)]
    step = max(FIRST_STEP * n_so_far, LEAST_STEP)
    for _ in range(STEPS):
        later = _after_judgements(now, random * step, suggested * step, question, rng)
        moves = rng.standard_normal(means.shape) @ _root(now.cov - later.cov).T
        means, now = means + moves, later
        counts.append(counts[-1] + round(step))
        stated.append(stated_probabilities(means, now.cov, top_k, standard))
        step *= GROWTH
    return Continuations(np.array(counts), np.array(stated).T)


def stated_probabilities(means: Floats, cov: Floats, top_k: int, standard: Floats) -> Floats:
    """For each row of means, the share of samples with the same top k; `standard` (samples, N) are normal errors."""
    errors, found = standard @ _root(cov).T, []
    for mean in means:
        order = np.argsort(-mean, kind="stable")
        samples = mean + errors
        above, below = samples[:, order[:top_k]], samples[:, order[top_k:]]
        found.append((above.min(axis=1) > below.max(axis=1)).mean())
    return np.array(found)


def _root(cov: Floats) -> Floats:
    return square_root(cov + RIDGE * np.eye(len(cov)))


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
    posterior: OrderPosterior, n_random: float, n_suggested: float, question: PairQuestion, rng: np.random.Generator
) -> OrderPosterior:
    """The posterior after more answers; each pair's precision is multiplied by the number of its answers."""
    precision = pair_gains(posterior, question, rng)[1]
    a, b = np.triu_indices(len(posterior), 1)
    times = np.full(len(a), n_random / len(a))
    if n_suggested:
        found = suggest_pairs(posterior, question, max(1, min(len(posterior), round(n_random + n_suggested))), rng)
        a, b = np.append(a, found.a), np.append(b, found.b)
        times = np.append(times, np.full(len(found), n_suggested / len(found)))
    return posterior.after_many(a, b, times * precision[a, b])
