"""Bradley-Terry scores with standard errors, separation reliability, and infit and outfit.

Davidson's model of ties: P(a, b, tie) is proportional to e^f_a, e^f_b, nu e^((f_a + f_b) / 2), as in the function btm
of the R package sirt. Scores are centred within each part of the comparison graph, since no judgement relates parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.stats import chi2

from modelling.baselines import BradleyTerry
from modelling.crowdgppl import PairwiseLabels
from modelling.crowdgppl.arrays import FloatArray, IntArray

from .answers import Answers, centre
from .estimates import Z_95, Estimate

RIDGE = 0.1  # prior precision: keeps the scores of items that won or lost every time finite
NO_SPREAD = 1e-9  # variance of scores that are equal but for rounding, as with ties only
MAX_PART = 2000  # items in a part of the graph; larger information matrices are not inverted


@dataclass(frozen=True, eq=False)
class Scale:
    """All items' centred scores, their standard errors (None if a part has too many items) and log nu."""

    scores: FloatArray
    errors: FloatArray | None
    log_nu: float


@dataclass(frozen=True, eq=False)
class Fit:
    """Infit, outfit and the expected 95% range of infit for each item or worker; NaN without judgements."""

    infit: FloatArray
    outfit: FloatArray
    low: FloatArray
    high: FloatArray
    n: IntArray


def fit_scale(answers: Answers) -> Scale:
    """Fit the scale by penalised maximum likelihood."""
    labels = PairwiseLabels(np.zeros_like(answers.a), answers.a, answers.b, answers.y, answers.count)
    model = BradleyTerry(ridge=RIDGE).fit(labels, n_items=answers.n_items)
    scores, log_nu = centre(model.scores, answers.parts), float(model.tie_rate[0])
    return Scale(scores, standard_errors(answers, model.scores, log_nu), log_nu)


def standard_errors(answers: Answers, scores: FloatArray, log_nu: float) -> FloatArray | None:
    """Standard errors of the centred scores from each part's inverse information matrix, given the tie rate.

    The information is a graph Laplacian L plus the ridge r, so C (L + rI)^-1 C = (L + rI)^-1 - 11' / (n r), where C
    centres the n scores of the part.
    """
    if np.bincount(answers.parts).max(initial=0) > MAX_PART:
        return None
    a, b = answers.pair_items
    variance = moments(scores[a] - scores[b], log_nu)[1]
    weight = np.bincount(answers.pair, answers.count, len(a)) * variance
    errors = np.zeros(answers.n_items)
    for part in np.unique(answers.parts):
        items, rows = np.flatnonzero(answers.parts == part), answers.parts[a] == part
        i, j = np.searchsorted(items, a[rows]), np.searchsorted(items, b[rows])
        L = np.zeros((len(items), len(items)))
        L[i, j] = L[j, i] = -weight[rows]
        L -= np.diag(L.sum(axis=0))
        inverse = linalg.inv(L + RIDGE * np.eye(len(items)))
        errors[items] = np.sqrt(np.maximum(np.diag(inverse) - 1.0 / (len(items) * RIDGE), 0.0))
    return errors


def moments(difference: FloatArray, log_nu: FloatArray | float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean, variance and fourth central moment of an answer y, given the difference between both scores."""
    half = difference / 2.0
    top = np.maximum(np.abs(half), log_nu)
    win, loss, tie = np.exp(half - top), np.exp(-half - top), np.exp(log_nu - top)
    total = win + loss + tie
    win, loss, tie = win / total, loss / total, tie / total
    mean = win + tie / 2
    powers = [win * (1 - mean) ** k + loss * mean**k + tie * (0.5 - mean) ** k for k in (2, 4)]
    return mean, powers[0], powers[1]


def separation_reliability(scale: Scale, parts: IntArray) -> Estimate | None:
    """SSR = 1 - mean(se^2) / var(score), not clipped at 0."""
    if scale.errors is None:
        return None
    return reliability_estimate(scale.scores, float((scale.errors**2).mean()), parts)


def reliability_estimate(scores: FloatArray, error: float, parts: IntArray) -> Estimate | None:
    """1 - error / var(score) for scores centred within their parts.

    The interval treats the items as a sample from a normal distribution, so that (n - 1) var(score) is chi-squared.
    """
    freedom = len(parts) - len(np.unique(parts))
    variance = float((scores**2).sum()) / max(freedom, 1)
    if freedom < 1 or not variance > NO_SPREAD:
        return None
    ratio = error / variance
    high, low = (1.0 - ratio * float(chi2.ppf(q, freedom)) / freedom for q in (0.025, 0.975))
    return Estimate(1.0 - ratio, len(parts), low, high)


def separation(reliability: Estimate) -> Estimate:
    """G = sqrt(SSR / (1 - SSR)): true spread of the scores in units of their error; 0 for a negative SSR."""

    def ratio(value: float | None) -> float:
        clipped = max(value or 0.0, 0.0)
        return float(np.sqrt(clipped / (1.0 - clipped)))

    return Estimate(ratio(reliability.value), reliability.n, ratio(reliability.low), ratio(reliability.high))


def fit_statistics(answers: Answers, scale: Scale, members: list[IntArray], size: int) -> Fit:
    """Infit and outfit of each item or worker; `members` holds each answer's worker, or both of its items."""
    mean, variance, fourth = moments(scale.scores[answers.a] - scale.scores[answers.b], scale.log_nu)
    squares = (answers.y - mean) ** 2

    def total(values: FloatArray) -> FloatArray:
        return np.sum([np.bincount(each, answers.count * values, size) for each in members], axis=0)

    n, information = total(np.ones(len(mean))), total(variance)
    with np.errstate(invalid="ignore", divide="ignore"):
        infit, outfit = total(squares) / information, total(squares / variance) / n
        half = Z_95 * np.sqrt(total(fourth - variance**2)) / information
    return Fit(infit, outfit, np.maximum(1.0 - half, 0.0), 1.0 + half, n.astype(np.int64))
