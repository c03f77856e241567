"""Reliability that adaptive pairing cannot inflate: from the judgements whose pairs were chosen by chance alone.

Suggested pairs match items with similar scores. Where answers are noise, chance winners then meet chance winners, the
scores spread, and SSR rises without any agreement. Pairs chosen by chance, with a stored propensity, do not depend on
the answers, so the variance of scores fitted to them alone is that of true scores plus error.

That share is small, and with few judgements per item SSR is above 0 even for noise, because maximum likelihood spreads
the scores. So the scores here are one Newton step from equality, f = (H + rI)^-1 g, whose error is known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from modelling.crowdgppl.arrays import FloatArray

from .answers import Answers, centre
from .estimates import Estimate
from .scale import MAX_PART, RIDGE, Scale, fit_scale, moments, reliability_estimate

ITERATIONS, TOLERANCE = 50, 1e-7


@dataclass(frozen=True)
class RandomShare:
    """The reliability of the random share, and its projection to all judgements; None if it cannot be computed."""

    reliability: Estimate | None
    projected: Estimate | None


def random_share_reliability(answers: Answers, by_chance: NDArray[np.bool_], whole: Scale) -> RandomShare:
    """Estimate reliability from the pairs chosen by chance; `whole` is the scale fitted to all judgements."""
    if not by_chance.any():
        return RandomShare(None, None)
    some = take_answers(answers, by_chance)
    error, estimate = one_step_reliability(some)
    if estimate is None or whole.errors is None:
        return RandomShare(estimate, None)
    return RandomShare(estimate, project(estimate, error / float((whole.errors**2).mean())))


def take_answers(answers: Answers, rows: NDArray[np.bool_]) -> Answers:
    """Select some of the answers and renumber the items that occur in them."""
    items, places = np.unique(np.append(answers.a[rows], answers.b[rows]), return_inverse=True)
    a, b = places.reshape(2, -1)
    columns = (answers.worker[rows], a, b, answers.y[rows], answers.count[rows])
    return Answers(*columns, len(items), answers.n_workers)


def one_step_reliability(answers: Answers) -> tuple[float, Estimate | None]:
    """The error variance of one-step scores, and their reliability 1 - error / var(score), not clipped at 0.

    An answer varies less where the true scores differ more. The true scores are approximated by the maximum-likelihood
    scores times sqrt(reliability), so the reliability is the solution of a fixed-point equation.
    """
    if np.bincount(answers.parts).max(initial=0) > MAX_PART:
        return 0.0, None
    scale, N = fit_scale(answers), answers.n_items
    at_equality = float(moments(np.zeros(1), scale.log_nu)[1][0])
    H = laplacian(answers, np.full(len(answers.y), at_equality)) + RIDGE * np.eye(N)
    H_inverse = linalg.inv(H)
    residual = answers.count * (answers.y - 0.5)
    g = np.bincount(answers.a, residual, N) - np.bincount(answers.b, residual, N)
    scores = centre(H_inverse @ g, answers.parts)
    difference = scale.scores[answers.a] - scale.scores[answers.b]
    squared = H_inverse @ H_inverse
    diagonal = np.diagonal(squared)
    # tr(H^-1 L H^-1) = sum over answers of weight * x' H^-2 x, so that an iteration needs no matrix product.
    per_answer = diagonal[answers.a] + diagonal[answers.b] - 2.0 * squared[answers.a, answers.b]
    found = 0.0
    for _ in range(ITERATIONS):
        variance = moments(np.sqrt(max(found, 0.0)) * difference, scale.log_nu)[1]
        error = float((answers.count * variance * per_answer).sum()) / N
        estimate = reliability_estimate(scores, error, answers.parts)
        if estimate is None or abs(estimate.value - found) < TOLERANCE:
            break
        found = estimate.value
    return error, estimate


def laplacian(answers: Answers, weight: FloatArray) -> FloatArray:
    """Sum over the answers of count * weight * (e_a - e_b)(e_a - e_b)'."""
    L = np.zeros((answers.n_items, answers.n_items))
    np.add.at(L, (answers.a, answers.b), -answers.count * weight)
    L = L + L.T
    L[np.diag_indices_from(L)] -= L.sum(axis=0)
    return L


def project(found: Estimate, k: float) -> Estimate | None:
    """Project the reliability to k times the precision with the Spearman-Brown formula.

    None unless the whole interval lies above 0: otherwise the projection would magnify noise.
    """
    if found.low is None or found.high is None or found.low <= 0.0:
        return None

    def stepped(value: float) -> float:
        return k * value / (1.0 + (k - 1.0) * value)

    return Estimate(stepped(found.value), found.n, stepped(found.low), stepped(found.high))
