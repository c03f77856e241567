"""Thurstone-Mosteller: Bradley-Terry with the probit instead of the logistic likelihood."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr

from modelling.baselines.base import Baseline, Moments, NewRows
from modelling.baselines.bradley_terry import merge_labels
from modelling.baselines.newton import Evaluation, maximise, score_posterior
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.labels import PairwiseLabels
from modelling.crowdgppl.likelihood import hazard


class ThurstoneMosteller(Baseline):
    """P(a preferred) = Phi(f_a - f_b) (eq:plphi), f ~ N(0, I / ridge); a tie counts half for each side.

    Scores are the posterior mode. As in `BradleyTerry`, the variance of a score is conditional on the other scores.
    """

    SETTINGS: ClassVar = ("ridge",)
    FITTED: ClassVar = ("scores", "variances")
    scores: FloatArray  # (N,)
    variances: FloatArray  # (N,)

    def __init__(self, ridge: float = 1.0) -> None:
        if not ridge > 0:
            raise ValueError("ridge must be a positive number.")
        self.ridge = ridge

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """Find the posterior mode; log Phi is concave."""
        merged = merge_labels(labels)
        a, b = merged.a, merged.b

        def posterior(f: FloatArray) -> Evaluation:
            return score_posterior(f, a, b, probit_terms(f[a] - f[b], merged.y, merged.weights), self.ridge)

        self.scores, H = maximise(posterior, np.zeros(self.n_items_))
        self.variances = 1.0 / H.diagonal()

    def _moments(self, user: int | None, items: IntArray, new: NewRows) -> Moments:
        """Means and variances of the scores; the prior for new items."""
        n_new = 0 if new.items is None else len(new.items)
        scores = np.append(self.scores, np.zeros(n_new))
        return scores[items], np.append(self.variances, np.full(n_new, 1.0 / self.ridge))[items]


def probit_terms(z: FloatArray, y: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log likelihood of each label, its slope and minus its curvature in z."""
    up, down = hazard(z), hazard(-z)
    value = weight * (y * log_ndtr(z) + (1.0 - y) * log_ndtr(-z))
    slope = weight * (y * up - (1.0 - y) * down)
    return value, slope, weight * (y * up * (up + z) + (1.0 - y) * down * (down - z))
