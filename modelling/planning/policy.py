"""Find the pairs that would be most informative for a purpose. Arrays in, arrays out: the updater, the study designer
and the benchmarks call the same function.

An answer to the pair (a, b) lowers the covariance S of the scores, in expectation, by k S x x' S, where x = e_a - e_b
and k is the expected curvature of the log evidence of an answer (moment matching, exact in closed form; lower if some
answers are given at random). The gain of a pair is the reduction in a weighted sum of the variances of all differences,
sum_ij w_ij Var(f_i - f_j) = 2 tr(L S), with L the Laplacian of the weights: k x' S L S x. The purpose determines the
weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from modelling.planning.information import with_lapses
from modelling.planning.posterior import Floats, Ints, OrderPosterior, contrasts
from modelling.training.ranking import ranks

Mask = NDArray[np.bool_]
Purpose = Literal["order", "top", "coverage"]

TOP_SAMPLES = 400  # of the posterior, for each item's probability of being among the top k
LEAST_PROBABILITY = 1e-9
ROUND_SHARE = 4  # a round has at most one pair per this many items, so that later rounds can take it into account
LEAST_SHARE = 0.2  # share of a round's best gain; pairs with less wait for a later round
MANY_ITEMS, MAX_ROUNDS, FEW_ROUNDS = 300, 12, 3  # rounds cost N^3, so studies with many items get few
NORMAL = 1.0 / np.sqrt(2.0 * np.pi)


@dataclass(frozen=True, eq=False)
class PairQuestion:
    """The policy's inputs other than the posterior; arrays are indexed by item position.

    `taste` (N, C) are the loadings of the components in which workers differ: for the consensus, a worker's taste is
    noise. `seconds` (N,) is the time to read an item, `blocked` (N, N) excludes pairs, and `lapse` is the share of
    answers given at random.
    """

    purpose: Purpose = "order"
    top_k: int = 10
    judgements: Ints | None = None
    taste: Floats | None = None
    seconds: Floats | None = None
    blocked: Mask | None = None
    lapse: float = 0.0


@dataclass(frozen=True, eq=False)
class SuggestedPairs:
    """Pairs, best first, with their gain per second; `random_gain` is the mean gain per second of all pairs."""

    a: Ints
    b: Ints
    gain: Floats
    random_gain: float

    def __len__(self) -> int:
        return len(self.a)


def suggest_pairs(
    posterior: OrderPosterior, question: PairQuestion, count: int, rng: np.random.Generator
) -> SuggestedPairs:
    """Choose up to `count` pairs in rounds: an item is used once per round, and earlier rounds count as judged."""
    N = len(posterior)
    first, second = np.triu_indices(N, 1)
    open_pairs = np.ones(len(first), dtype=bool) if question.blocked is None else ~question.blocked[first, second]
    first, second = first[open_pairs], second[open_pairs]
    chosen: list[tuple[Ints, Ints, Floats]] = []
    n_chosen, random_gain = 0, 0.0
    for _round in range(MAX_ROUNDS if N <= MANY_ITEMS else FEW_ROUNDS):
        if n_chosen == count or not len(first):
            break
        gain, precision = pair_gains(posterior, question, rng)
        gains = gain[first, second]
        if not chosen:
            random_gain = float(gains.mean())
        rows = _disjoint(first, second, gains, min(max(N // ROUND_SHARE, 1), count - n_chosen))
        a, b = first[rows], second[rows]
        chosen.append((a, b, gains[rows]))
        n_chosen += len(rows)
        posterior = posterior.after(a, b, precision[a, b])
        left = np.ones(len(first), dtype=bool)
        left[rows] = False
        first, second = first[left], second[left]
    if not chosen:
        return SuggestedPairs(first, second, np.zeros(0), 0.0)
    a, b, gains = (np.concatenate(column) for column in zip(*chosen, strict=True))
    return SuggestedPairs(a, b, gains, random_gain)


def pair_gains(posterior: OrderPosterior, question: PairQuestion, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The gain per second of every pair, and the precision with which its answer measures the difference, (N, N)."""
    mean, variance = posterior.differences()
    noise = 1.0 if question.taste is None else 1.0 + contrasts(question.taste @ question.taste.T)
    z = mean / np.sqrt(variance + noise)
    p = with_lapses(ndtr(z), question.lapse)
    slope = ((1.0 - question.lapse) * NORMAL * np.exp(-0.5 * z**2)) ** 2 / np.maximum(p * (1.0 - p), LEAST_PROBABILITY)
    k = slope / (variance + noise)
    w = _weights(posterior, question, mean, variance, rng)
    L = np.diag(w.sum(axis=0)) - w
    gain = k * contrasts(posterior.cov @ L @ posterior.cov)
    if question.seconds is not None:
        gain = gain / (question.seconds[:, None] + question.seconds[None, :])
    return gain, k / np.maximum(1.0 - k * variance, LEAST_PROBABILITY)


def _weights(
    posterior: OrderPosterior, question: PairQuestion, mean: Floats, variance: Floats, rng: np.random.Generator
) -> Floats:
    """How much the variance of each difference matters for the purpose, (N, N)."""
    if question.purpose == "coverage":
        judged = np.zeros(len(posterior)) if question.judgements is None else question.judgements
        need = 1.0 / (1.0 + judged) ** 2
        w = need[:, None] + need[None, :]
    else:
        sd = np.sqrt(np.maximum(variance, LEAST_PROBABILITY))
        w = NORMAL * np.exp(-0.5 * (mean / sd) ** 2) / sd  # the density of a difference of 0: the order is open
    if question.purpose == "top":
        q = (ranks(posterior.sample(TOP_SAMPLES, rng)) <= question.top_k).mean(axis=0)
        across = q[:, None] * (1.0 - q[None, :])  # one of the pair is among the top k and the other is not
        w = w * (across + across.T)
    np.fill_diagonal(w, 0.0)
    return np.asarray(w)


def _disjoint(a: Ints, b: Ints, gains: Floats, count: int) -> Ints:
    """Positions of the best pairs in order of gain, using each item at most once."""
    best = np.flatnonzero(gains >= LEAST_SHARE * gains.max())
    best = best[np.argsort(-gains[best], kind="stable")]
    used, rows = set[int](), list[int]()
    for row in best.tolist():
        one, other = int(a[row]), int(b[row])
        if one in used or other in used:
            continue
        used.update((one, other))
        rows.append(row)
        if len(rows) == count:
            break
    return np.array(rows, dtype=np.int64)
