"""Bradley-Terry with ties (Davidson's model) and a Gaussian prior: one score per item, the same for all users."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import cg
from scipy.special import expit, logsumexp

from modelling.baselines.base import Baseline, Moments
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.kernels import Kernel
from modelling.crowdgppl.labels import PairwiseLabels

MAX_STEPS, TOLERANCE = 50, 1e-8
TIE_PRIOR = 0.1  # precision of the log tie rate, which keeps it finite without any tie
MAX_REGRESSION = 2000  # scores used for the regression on features


class BradleyTerry(Baseline):
    """P(a wins, b wins, tie) is proportional to e^f_a, e^f_b, nu e^((f_a + f_b) / 2).

    Nothing is of size N x N. The variance of a score is that given the other scores; the sum of two of them is close
    to the variance of the difference when items are compared with several others (von Luxburg et al. 2014).
    With an item kernel, items without labels take their scores from the others by Gaussian process regression on
    their features, with the variance of each score as its noise (the pipeline of the paper's crowdBT-GP).
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
        """Newton's method on a strictly concave posterior, each step by conjugate gradients."""
        labels = merge_labels(labels)
        theta = np.zeros(self.n_items_ + 1)
        prior = np.append(np.full(self.n_items_, self.ridge), TIE_PRIOR)
        value, slope, H = _posterior(theta, labels, prior)
        for _ in range(MAX_STEPS):
            step, _ = cg(H, slope, rtol=1e-10, M=sparse.diags(1.0 / H.diagonal()))
            theta, value, slope, H = _newton_step(theta, step, value, labels, prior)
            if np.abs(step).max() < TOLERANCE:
                break
        self.scores, self.tie_rate = theta[:-1], theta[-1:]
        self.variances = 1.0 / H.diagonal()[:-1]
        self.labelled = np.unique(np.concatenate([labels.a, labels.b]))
        self.X = np.zeros((self.n_items_, 0)) if X_items is None else X_items
        self._regression: tuple[Kernel, IntArray, FloatArray] | None = None

    def _moments(self, user: int | None, items: IntArray, X_new: FloatArray | None) -> Moments:
        """Fitted scores of items with labels; for the others the prediction from their features, or else the prior."""
        mean, variance = np.zeros(len(items)), np.full(len(items), 1.0 / self.ridge)
        known = np.isin(items, self.labelled)
        mean[known], variance[known] = self.scores[items[known]], self.variances[items[known]]
        if self.item_kernel is not None and self.X.shape[1] and not known.all():
            X = self.X if X_new is None else np.vstack([self.X, X_new])
            mean[~known], variance[~known] = self._predict_from_features(X[items[~known]])
        return mean, variance

    def _predict_from_features(self, X: FloatArray) -> Moments:
        """Gaussian process regression of the scores on the features."""
        kernel, rows, factor = self._fit_regression()
        across = kernel(X, self.X[rows]) / self.ridge
        half = linalg.solve_triangular(factor, across.T, lower=True)
        weights = linalg.cho_solve((factor, True), self.scores[rows])
        return across @ weights, np.maximum(kernel.diagonal(X) / self.ridge - (half**2).sum(axis=0), 0.0)

    def _fit_regression(self) -> tuple[Kernel, IntArray, FloatArray]:
        """The fitted kernel, the items used and the Cholesky factor of their scores' covariance, cached."""
        if getattr(self, "_regression", None) is None:
            if self.item_kernel is None:
                raise ValueError("Predicting scores from features needs an item kernel.")
            kernel, rows = self.item_kernel.fit(self.X), self.labelled
            if len(rows) > MAX_REGRESSION:
                rows = rows[np.linspace(0, len(rows) - 1, MAX_REGRESSION).astype(np.int64)]
            K = kernel(self.X[rows]) / self.ridge + np.diag(self.variances[rows])
            self._regression = (kernel, rows, np.asarray(linalg.cholesky(K, lower=True)))
        assert self._regression is not None  # noqa: S101
        return self._regression

    def _link(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """P(a wins, given no tie), with MacKay's approximation of the expected logistic."""
        return np.asarray(expit(mean / np.sqrt(1.0 + np.pi * variance / 8.0)))


def merge_labels(labels: PairwiseLabels) -> PairwiseLabels:
    """One label for each distinct pair and answer, with the sum of the weights."""
    swap = labels.a > labels.b
    pairs = np.where(swap, labels.b, labels.a) * labels.n_items + np.where(swap, labels.a, labels.b)
    y = np.where(swap, 1.0 - labels.y, labels.y)
    order = np.lexsort((y, pairs))
    pairs, y, weight = pairs[order], y[order], labels.weights[order]
    first = np.flatnonzero(np.append(True, (np.diff(pairs) != 0) | (np.diff(y) != 0)))
    a, b = pairs[first] // labels.n_items, pairs[first] % labels.n_items
    return PairwiseLabels(np.zeros(len(first), dtype=np.int64), a, b, y[first], np.add.reduceat(weight, first))


def _newton_step(
    theta: FloatArray, step: FloatArray, value: float, labels: PairwiseLabels, prior: FloatArray
) -> tuple[FloatArray, float, FloatArray, sparse.csr_matrix]:
    """Take the Newton step, halved until the posterior does not decrease."""
    for _ in range(30):
        new = _posterior(theta + step, labels, prior)
        if new[0] >= value - 1e-12 * abs(value):
            break
        step = step / 2.0
    return theta + step, *new


def _posterior(
    theta: FloatArray, labels: PairwiseLabels, prior: FloatArray
) -> tuple[float, FloatArray, sparse.csr_matrix]:
    """Log posterior, its gradient and minus its Hessian in (scores, log nu)."""
    a, b, weight = labels.a, labels.b, labels.weights
    logits = np.column_stack([theta[a], theta[b], theta[-1] + 0.5 * (theta[a] + theta[b])])
    log_mass = logsumexp(logits, axis=1)
    p = np.exp(logits - log_mass[:, None])
    observed = np.where(
        labels.y[:, None] == 0.5, [0.0, 0.0, 1.0], np.column_stack([labels.y, 1 - labels.y, 0 * labels.y])
    )
    value = float(weight @ ((observed * logits).sum(axis=1) - log_mass) - 0.5 * prior @ theta**2)
    J = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 1.0]])  # logits by (f_a, f_b, log nu)
    slopes = weight[:, None] * ((observed - p) @ J)
    curve = weight[:, None, None] * (J.T @ (p[:, :, None] * np.eye(3) - p[:, :, None] * p[:, None, :]) @ J)
    where = np.column_stack([a, b, np.full(len(a), len(theta) - 1)])
    gradient = np.bincount(where.ravel(), slopes.ravel(), minlength=len(theta)) - prior * theta
    positions = (np.repeat(where, 3, axis=1).ravel(), np.tile(where, 3).ravel())
    H = sparse.coo_matrix((curve.ravel(), positions), shape=(len(theta),) * 2).tocsr() + sparse.diags(prior)
    return value, gradient, sparse.csr_matrix(H)
