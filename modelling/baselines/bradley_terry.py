"""Bradley-Terry with ties (Davidson's form) and a Gaussian prior: one score per item, one taste for all."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import linalg
from scipy.special import expit, softmax

from modelling.baselines.base import Baseline, Moments
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.kernels import Kernel
from modelling.crowdgppl.labels import PairwiseLabels

STEPS, CLOSE_ENOUGH = 50, 1e-8
TIE_PRIOR = 0.1  # precision of the log tie rate: without a single tie it goes to a small number, not to zero


class BradleyTerry(Baseline):
    """P(a wins, b wins, tie) is proportional to e^f_a, e^f_b, nu e^((f_a + f_b) / 2).

    With an item kernel, items without labels take their scores from the others by Gaussian process regression
    on their features, with the variance of each score as its noise (the pipeline of the paper's crowdBT-GP).
    """

    SETTINGS: ClassVar = ("ridge", "item_kernel")
    LEARNED: ClassVar = ("scores", "cov", "tie_rate", "labelled", "X")
    scores: FloatArray  # (N,)
    cov: FloatArray  # (N, N)
    tie_rate: FloatArray  # () log nu
    labelled: IntArray
    X: FloatArray

    def __init__(self, ridge: float = 1.0, item_kernel: Kernel | None = None) -> None:
        if not ridge > 0:
            raise ValueError("ridge must be a positive number.")
        self.ridge = ridge
        self.item_kernel = item_kernel

    def _learn(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """Newton's method on a concave posterior; the ridge makes it strictly so, whatever the graph of pairs."""
        theta = np.zeros(self.n_items_ + 1)
        prior = np.append(np.full(self.n_items_, self.ridge), TIE_PRIOR)
        value, slope, H = _posterior(theta, labels, prior)
        for _ in range(STEPS):
            step = linalg.solve(H, slope, assume_a="pos")
            theta, value, slope, H = _climb(theta, step, value, labels, prior)
            if np.abs(step).max() < CLOSE_ENOUGH:
                break
        self.scores, self.tie_rate = theta[:-1], theta[-1:]
        self.cov = linalg.inv(H)[:-1, :-1]
        self.labelled = np.unique(np.concatenate([labels.a, labels.b]))
        self.X = np.zeros((self.n_items_, 0)) if X_items is None else X_items
        self._regression: tuple[Kernel, FloatArray] | None = None

    def _moments(self, user: int | None, items: IntArray, X_new: FloatArray | None) -> Moments:
        """Scores of items with labels; of others what their features, or else the prior, say."""
        mean, cov = np.zeros(len(items)), np.eye(len(items)) / self.ridge
        known = np.isin(items, self.labelled)
        mean[known] = self.scores[items[known]]
        cov[np.ix_(known, known)] = self.cov[np.ix_(items[known], items[known])]
        if self.item_kernel is not None and self.X.shape[1] and not known.all():
            X = self.X if X_new is None else np.vstack([self.X, X_new])
            mean[~known], cov[np.ix_(~known, ~known)] = self._from_features(X[items[~known]])
        return mean, cov

    def _from_features(self, X: FloatArray) -> Moments:
        """Gaussian process regression of the scores on the features."""
        kernel, factor = self._trained()
        across = kernel(X, self.X[self.labelled]) / self.ridge
        half = linalg.solve_triangular(factor, across.T, lower=True)
        weights = linalg.cho_solve((factor, True), self.scores[self.labelled])
        return across @ weights, kernel(X) / self.ridge - half.T @ half

    def _trained(self) -> tuple[Kernel, FloatArray]:
        """The fitted kernel and the Cholesky factor of the scores' covariance, made once."""
        if getattr(self, "_regression", None) is None:
            if self.item_kernel is None:
                raise ValueError("Scores follow features only where there is an item kernel.")
            kernel, rows = self.item_kernel.fit(self.X), self.labelled
            noise = np.diag(np.diagonal(self.cov)[rows])
            K = kernel(self.X[rows]) / self.ridge + noise
            self._regression = (kernel, np.asarray(linalg.cholesky(K, lower=True)))
        assert self._regression is not None  # noqa: S101
        return self._regression

    def _link(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """P(a wins, given no tie), uncertainty averaged over by the usual logistic approximation."""
        return np.asarray(expit(mean / np.sqrt(1.0 + np.pi * variance / 8.0)))


def _climb(
    theta: FloatArray, step: FloatArray, value: float, labels: PairwiseLabels, prior: FloatArray
) -> tuple[FloatArray, float, FloatArray, FloatArray]:
    """The Newton step, halved until the posterior does not fall."""
    for _ in range(30):
        new = _posterior(theta + step, labels, prior)
        if new[0] >= value - 1e-12 * abs(value):
            break
        step = step / 2.0
    return theta + step, *new


def _posterior(theta: FloatArray, labels: PairwiseLabels, prior: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Log posterior, its gradient and minus its Hessian in (scores, log nu)."""
    a, b, weight = labels.a, labels.b, labels.weights
    logits = np.column_stack([theta[a], theta[b], theta[-1] + 0.5 * (theta[a] + theta[b])])
    p = softmax(logits, axis=1)
    seen = np.where(labels.y[:, None] == 0.5, [0.0, 0.0, 1.0], np.column_stack([labels.y, 1 - labels.y, 0 * labels.y]))
    top = logits.max(axis=1)
    log_mass = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    value = float(weight @ ((seen * logits).sum(axis=1) - log_mass) - 0.5 * prior @ theta**2)
    J = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 1.0]])  # logits by (f_a, f_b, log nu)
    slopes = weight[:, None] * ((seen - p) @ J)
    curve = weight[:, None, None] * (J.T @ (p[:, :, None] * np.eye(3) - p[:, :, None] * p[:, None, :]) @ J)
    where = np.column_stack([a, b, np.full(len(a), len(theta) - 1)])
    gradient = np.bincount(where.ravel(), slopes.ravel(), minlength=len(theta)) - prior * theta
    H = np.diag(prior)
    np.add.at(H, (where[:, :, None], where[:, None, :]), curve)
    return value, gradient, H
