"""Reliability that adaptive pairing cannot inflate, from the judgements of random pairs alone.

Suggested pairs match items with similar scores. Where answers are noise, chance winners then meet chance winners, the
scores spread, and SSR rises without any agreement. Random pairs, with a stored propensity, do not depend on the
answers, so the variance of scores fitted to them alone is that of true scores plus error.

That share is small, and with few judgements per item SSR is above 0 even for noise, because maximum likelihood spreads
the scores. So the scores here are one Newton step from equality, s = (L + rI)^-1 g, where L is the information at equal
scores and g the gradient. For true scores with the variance x, and v = v(x) the mean variance of an answer relative to
that at equality, the covariance of s has the eigenvalues

    v l / (l + r)^2 + x v^2 l^2 / (l + r)^2        (error + signal, l: eigenvalues of L),

because an answer's variance is also the slope of its mean. Their sum is the expectation of s^T s, which determines x.
The variance of s^T s is twice the sum of their squares, less a term for answers having few values (as for any quadratic
form of independent variables with a small fourth moment).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2

from modelling.crowdgppl.arrays import FloatArray

from .answers import Answers, centre
from .estimates import Estimate
from .scale import MAX_PART, RIDGE, Scale, fit_scale, moments

LEAST_PER_ITEM = 1.0  # judgements of random pairs; with fewer, the figure is that of a few chance pairs
MAX_VARIANCE = 30.0  # of true scores, in squared logits
MAX_P = 0.005  # of noise; above it nothing is projected, because a small share's chance result would be magnified
QUANTILES = (None, 0.975, 0.025)  # of the sum of squares, for a value and both ends of its 95 % interval
POINTS = np.linspace(-6.0, 6.0, 241)  # standard normal
WEIGHTS = np.exp(-0.5 * POINTS**2) / np.exp(-0.5 * POINTS**2).sum()


@dataclass(frozen=True)
class RandomShare:
    """The reliability of the random share, and its projection to all judgements; None if it cannot be computed."""

    reliability: Estimate | None
    projected: Estimate | None


@dataclass(frozen=True, eq=False)
class OneStepScores:
    """The sum of squares of one-step scores, and its distribution for true scores of some variance."""

    squares: float
    eigenvalues: FloatArray  # of the information at equal scores, without zeros
    flatness: float  # what the few values of an answer take off the variance of the sum of squares
    log_nu: float
    n_items: int

    @classmethod
    def fit(cls, answers: Answers) -> OneStepScores:
        log_nu, N = fit_scale(answers).log_nu, answers.n_items
        _mean, variance, fourth = (float(each[0]) for each in moments(np.zeros(1), log_nu))
        eigenvalues, U = np.linalg.eigh(laplacian(answers, np.full(len(answers.y), variance)))
        residual = answers.count * (answers.y - 0.5)
        g = np.bincount(answers.a, residual, N) - np.bincount(answers.b, residual, N)
        scores = centre(U @ (U.T @ g / (eigenvalues + RIDGE)), answers.parts)
        M = (U / (eigenvalues + RIDGE) ** 2) @ U.T  # s's = g' M g
        own = M[answers.a, answers.a] + M[answers.b, answers.b] - 2.0 * M[answers.a, answers.b]
        flatness = (3.0 * variance**2 - fourth) * float(answers.count @ own**2)
        n_parts = int(answers.parts.max()) + 1
        return cls(float(scores @ scores), np.maximum(eigenvalues[n_parts:], 0.0), flatness, log_nu, N)

    def error_and_signal(self, variance: float) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues of the covariance of the scores due to noise, and due to true scores with this variance."""
        v = self.relative_variance(variance)
        shrunk = self.eigenvalues / (self.eigenvalues + RIDGE) ** 2
        return v * shrunk, variance * v**2 * self.eigenvalues * shrunk

    def relative_variance(self, variance: float) -> float:
        """The mean variance of an answer about true scores with this variance, relative to that at equality."""
        answer = moments(np.sqrt(2.0 * variance) * POINTS, self.log_nu)[1] @ WEIGHTS
        return float(answer / moments(np.zeros(1), self.log_nu)[1][0])

    def distribution(self, variance: float) -> tuple[float, float]:
        """Mean and degrees of freedom of the multiple of chi-squared with the moments of the sum of squares."""
        eigenvalues = np.add(*self.error_and_signal(variance))
        mean = float(eigenvalues.sum())
        spread = 2.0 * float((eigenvalues**2).sum()) - self.relative_variance(variance) ** 2 * self.flatness
        return mean, 2.0 * mean**2 / spread

    def reliability(self, variance: float) -> float:
        """The share of true scores in the variance of the one-step scores, with the sign of their variance."""
        error, signal = (float(each.sum()) for each in self.error_and_signal(abs(variance)))
        return float(np.copysign(signal / (error + signal), variance))

    def solve(self, quantile: float | None) -> float:
        """The variance of true scores that makes the observed sum of squares this quantile, or its expectation.

        In half of all studies without true scores the sum is below its expectation under noise. The result is then
        negative: minus the variance for a sum that is as far above. So estimates scatter around 0 and are not clipped.
        """
        of_noise = self._quantile(0.0, quantile)
        above = abs(self.squares - of_noise)

        def excess(variance: float) -> float:
            return self._quantile(variance, quantile) - of_noise - above

        found = MAX_VARIANCE if excess(MAX_VARIANCE) < 0.0 else float(brentq(excess, 0.0, MAX_VARIANCE))
        return float(np.copysign(found, self.squares - of_noise))

    def p_of_noise(self) -> float:
        """The probability of at least this sum of squares if every answer is a coin flip."""
        mean, freedom = self.distribution(0.0)
        return float(chi2.sf(self.squares / mean * freedom, freedom))

    def _quantile(self, variance: float, quantile: float | None) -> float:
        mean, freedom = self.distribution(variance)
        return mean if quantile is None else mean * float(chi2.ppf(quantile, freedom)) / freedom


def random_share_reliability(answers: Answers, by_chance: NDArray[np.bool_], whole: Scale) -> RandomShare:
    """Estimate reliability from the random pairs; `whole` is the scale fitted to all judgements."""
    if not by_chance.any() or float(answers.count[by_chance].sum()) < LEAST_PER_ITEM * answers.n_items:
        return RandomShare(None, None)
    some = take_answers(answers, by_chance)
    if np.bincount(some.parts).max() > MAX_PART:
        return RandomShare(None, None)
    scores = OneStepScores.fit(some)
    if not scores.squares > 0.0:
        return RandomShare(None, None)
    value, low, high = (scores.reliability(scores.solve(quantile)) for quantile in QUANTILES)
    return RandomShare(Estimate(value, some.n_items, low, high), project(scores, whole))


def take_answers(answers: Answers, rows: NDArray[np.bool_]) -> Answers:
    """Select some of the answers and renumber the items that occur in them."""
    items, places = np.unique(np.append(answers.a[rows], answers.b[rows]), return_inverse=True)
    a, b = places.reshape(2, -1)
    columns = (answers.worker[rows], a, b, answers.y[rows], answers.count[rows])
    return Answers(*columns, len(items), answers.n_workers)


def laplacian(answers: Answers, weight: FloatArray) -> FloatArray:
    """Sum over the answers of count * weight * (e_a - e_b)(e_a - e_b)'."""
    L = np.zeros((answers.n_items, answers.n_items))
    np.add.at(L, (answers.a, answers.b), -answers.count * weight)
    L = L + L.T
    L[np.diag_indices_from(L)] -= L.sum(axis=0)
    return L


def project(scores: OneStepScores, whole: Scale) -> Estimate | None:
    """Project the reliability to the precision of the scale of all judgements.

    None unless the random share rules out noise: otherwise the projection would magnify chance.
    """
    if whole.errors is None or scores.p_of_noise() > MAX_P:
        return None
    error = float((whole.errors**2).mean())
    value, low, high = (variance / (variance + error) for variance in map(scores.solve, QUANTILES))
    return Estimate(value, scores.n_items, low, high)
