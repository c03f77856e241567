"""Bradley-Terry with ties (Davidson's model) and a Gaussian prior: one score per item, the same for all users."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import sparse
from scipy.special import expit, logsumexp

from modelling.baselines.base import Baseline, Moments, NewRows
from modelling.baselines.gaussian_process import Regression
from modelling.baselines.newton import maximise
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.kernels import Kernel
from modelling.crowdgppl.labels import PairwiseLabels

TIE_PRIOR = 0.1  # precision of the log tie rate, which keeps it finite without any tie
MAX_REGRESSION = 2000  # scores used for the regression on features


class BradleyTerry(Baseline):
    """P(a wins, b wins, tie) is proportional to e^f_a, e^f_b, nu e^((f_a + f_b) / 2).

    No N x N matrix is needed. The variance of a score is conditional on the other scores; the sum of two variances is
    close to the variance of the difference when items are compared with several others (von Luxburg et al. 2014).
    With an item kernel, items without labels take their scores from the others by Gaussian process regression on
    their features, with the variance of each score as its noise. All workers are treated alike; `crowd_bt` does not.
    """

    SETTINGS: ClassVar = ("ridge", "item_kernel")
    FITTED: ClassVar = ("scores", "variances", "tie_rate", "labelled", "X")
    scores: FloatArray  # (N,)
    variances: FloatArray  # (N,)
    tie_rate: FloatArray  # (1,) log nu
    labelled: IntArray
    X: FloatArray

    def __init__(self, ridge: float = 1.0, item_kernel: Kernel | None = None) -> None:
        if not ridge > 0:
            raise ValueError("ridge must be a positive number.")
        self.ridge = ridge
        self.item_kernel = item_kernel

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """Maximise the strictly concave log posterior by Newton's method with conjugate gradients."""
        labels = merge_labels(labels)
        prior = np.append(np.full(self.n_items_, self.ridge), TIE_PRIOR)
        theta, H = maximise(lambda x: _posterior(x, labels, prior), np.zeros(self.n_items_ + 1))
        self.scores, self.tie_rate = theta[:-1], theta[-1:]
        self.variances = 1.0 / H.diagonal()[:-1]
        self.labelled = np.unique(np.concatenate([labels.a, labels.b]))
        self.X = np.zeros((self.n_items_, 0)) if X_items is None else X_items
        self._regression: Regression | None = None

    def _moments(self, user: int | None, items: IntArray, new: NewRows) -> Moments:
        """Fitted scores for items with labels; for the others, predictions from their features, or else the prior."""
        mean, variance = np.zeros(len(items)), np.full(len(items), 1.0 / self.ridge)
        known = np.isin(items, self.labelled)
        mean[known], variance[known] = self.scores[items[known]], self.variances[items[known]]
        if self.item_kernel is not None and self.X.shape[1] and not known.all():
            X = self.X if new.items is None else np.vstack([self.X, new.items])
            mean[~known], cov = self._fit_regression(self.item_kernel).predict(X[items[~known]])
            variance[~known] = np.maximum(np.diagonal(cov), 0.0)
        return mean, variance

    def _fit_regression(self, kernel: Kernel) -> Regression:
        """Fit the regression of the scores on the features once and cache it."""
        if getattr(self, "_regression", None) is None:
            rows = spread(self.labelled, MAX_REGRESSION)
            self._regression = Regression.fit(kernel.fit(self.X), self.X[rows], self.scores[rows], self.variances[rows])
        assert self._regression is not None  # noqa: S101
        return self._regression

    def _link(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """P(a wins, given no tie), with MacKay's approximation of the expected logistic."""
        return np.asarray(expit(mean / np.sqrt(1.0 + np.pi * variance / 8.0)))


def spread(rows: IntArray, most: int) -> IntArray:
    """Select at most this many rows, evenly spread."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]


def merge_labels(labels: PairwiseLabels) -> PairwiseLabels:
    """Merge labels with the same pair and answer into one, adding up their weights."""
    swap = labels.a > labels.b
    pairs = np.where(swap, labels.b, labels.a) * labels.n_items + np.where(swap, labels.a, labels.b)
    y = np.where(swap, 1.0 - labels.y, labels.y)
    order = np.lexsort((y, pairs))
    pairs, y, weight = pairs[order], y[order], labels.weights[order]
    first = np.flatnonzero(np.append(True, (np.diff(pairs) != 0) | (np.diff(y) != 0)))
    a, b = pairs[first] // labels.n_items, pairs[first] % labels.n_items
    return PairwiseLabels(np.zeros(len(first), dtype=np.int64), a, b, y[first], np.add.reduceat(weight, first))


def _posterior(
    theta: FloatArray, labels: PairwiseLabels, prior: FloatArray
) -> tuple[float, FloatArray, sparse.csr_matrix]:
    """Log posterior, its gradient and its negative Hessian with respect to (scores, log nu)."""
    a, b, weight = labels.a, labels.b, labels.weights
    logits = np.column_stack([theta[a], theta[b], theta[-1] + 0.5 * (theta[a] + theta[b])])
    log_mass = logsumexp(logits, axis=1)
    p = np.exp(logits - log_mass[:, None])
    observed = np.where(
        labels.y[:, None] == 0.5, [0.0, 0.0, 1.0], np.column_stack([labels.y, 1 - labels.y, 0 * labels.y])
    )
    value = float(weight @ ((observed * logits).sum(axis=1) - log_mass) - 0.5 * prior @ theta**2)
    J = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 1.0]])  # d logits / d (f_a, f_b, log nu)
    slopes = weight[:, None] * ((observed - p) @ J)
    curve = weight[:, None, None] * (J.T @ (p[:, :, None] * np.eye(3) - p[:, :, None] * p[:, None, :]) @ J)
    where = np.column_stack([a, b, np.full(len(a), len(theta) - 1)])
    gradient = np.bincount(where.ravel(), slopes.ravel(), minlength=len(theta)) - prior * theta
    positions = (np.repeat(where, 3, axis=1).ravel(), np.tile(where, 3).ravel())
    H = sparse.coo_matrix((curve.ravel(), positions), shape=(len(theta),) * 2).tocsr() + sparse.diags(prior)
    return value, gradient, sparse.csr_matrix(H)
