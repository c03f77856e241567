"""A linear score of the features, the same for all users: ridge logistic regression on feature differences."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from modelling.baselines.base import Baseline, Moments, NewRows
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.labels import PairwiseLabels


class LinearPreference(Baseline):
    """P(a preferred) = logistic(beta . (x_a - x_b)), beta ~ N(0, I / ridge); a tie counts half for each side."""

    SETTINGS: ClassVar = ("ridge",)
    FITTED: ClassVar = ("beta", "known")
    beta: FloatArray  # (D,)
    known: FloatArray  # (N,) scores of the training items

    def __init__(self, ridge: float = 1.0) -> None:
        if not ridge > 0:
            raise ValueError("ridge must be a positive number.")
        self.ridge = ridge

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """Find the posterior mode."""
        if X_items is None:
            raise ValueError("A linear model needs features: pass X_items.")

        def loss(beta: FloatArray) -> tuple[float, FloatArray]:
            scores = X_items @ beta
            z = scores[labels.a] - scores[labels.b]
            likelihood = labels.weights @ (labels.y * z - np.logaddexp(0.0, z))
            slope = labels.weights * (labels.y - expit(z))
            per_item = np.bincount(labels.a, slope, len(scores)) - np.bincount(labels.b, slope, len(scores))
            return float(0.5 * self.ridge * beta @ beta - likelihood), self.ridge * beta - X_items.T @ per_item

        self.beta = minimize(loss, np.zeros(X_items.shape[1]), jac=True, method="L-BFGS-B").x
        self.known = X_items @ self.beta

    def _moments(self, user: int | None, items: IntArray, new: NewRows) -> Moments:
        """The scores, with zero covariance."""
        scores = self.known if new.items is None else np.append(self.known, new.items @ self.beta)
        return scores[items], np.zeros(len(items))

    def _link(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        return np.asarray(expit(mean))
