"""GPPL per user: an independent Gaussian process for each user, without sharing between users."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import linalg

from modelling.baselines.base import Baseline, Moments
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.kernels import Kernel, Matern32
from modelling.crowdgppl.labels import PairwiseLabels
from modelling.crowdgppl.likelihood import cavity, matched_site

SWEEPS, DAMPING = 12, 0.8


class GPPLPerUser(Baseline):
    """f_u ~ GP(0, k / s_u) for each user; the consensus is the mean over the users with labels."""

    SETTINGS: ClassVar = ("item_kernel", "prior")
    FITTED: ClassVar = ("u", "a", "b", "lam", "eta", "s", "X")
    u: IntArray
    a: IntArray
    b: IntArray
    lam: FloatArray  # (P,) sites, labels sorted by user
    eta: FloatArray
    s: FloatArray  # (U,) inverse scale of each user
    X: FloatArray  # (N, D), no columns without features

    def __init__(self, item_kernel: Kernel | None = None, prior: tuple[float, float] = (1.0, 1.0)) -> None:
        """`prior` is shape and rate of the Gamma prior of s_u."""
        self.item_kernel = Matern32() if item_kernel is None else item_kernel
        self.prior = prior

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """Fit the EP sites and the scale of each user."""
        self.X = np.zeros((self.n_items_, 0)) if X_items is None else X_items
        self._kernel: Kernel | None = None
        labels = labels.take(np.argsort(labels.u, kind="stable"))
        self.u, self.a, self.b = labels.u, labels.a, labels.b
        self.lam, self.eta = np.zeros(len(labels)), np.zeros(len(labels))
        self.s = np.full(self.n_users_, self.prior[0] / self.prior[1])
        for user in np.unique(self.u):
            self._fit_user(int(user), labels)

    def _fit_user(self, user: int, labels: PairwiseLabels) -> None:
        """Expectation propagation for one user, alternating with updates of the scale (eq:qs)."""
        rows, M = self._rows(user), self.n_items_
        _, K = self._covariances(np.zeros(0, dtype=np.int64), rows, None)
        shape, rate = self.prior
        for _ in range(SWEEPS):
            lam, eta, s = self.lam[rows], self.eta[rows], self.s[user]
            mean, cov, energy = _gp_posterior(K / s, lam, eta)
            cavity_mean, cavity_variance = cavity(mean, np.diagonal(cov).copy(), lam, eta)
            new_lam, new_eta = matched_site(cavity_mean, cavity_variance, labels.y[rows], labels.weights[rows])
            self.lam[rows] += DAMPING * (new_lam - lam)
            self.eta[rows] += DAMPING * (new_eta - eta)
            self.s[user] = (shape + 0.5 * M) / (rate + 0.5 * (M + energy) / s)

    def _rows(self, user: int) -> slice:
        return slice(int(np.searchsorted(self.u, user)), int(np.searchsorted(self.u, user, side="right")))

    def _prior(self, first: IntArray, second: IntArray, X_new: FloatArray | None) -> FloatArray:
        """k between items, for s = 1; without features items are independent."""
        if not self.X.shape[1]:
            return np.asarray(first[:, None] == second[None, :], dtype=np.float64)
        if getattr(self, "_kernel", None) is None:
            self._kernel = self.item_kernel.fit(self.X)
        assert self._kernel is not None  # noqa: S101
        X = self.X if X_new is None else np.vstack([self.X, X_new])
        return self._kernel(X[first], X[second])

    def _covariances(self, items: IntArray, rows: slice, X_new: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Covariance of items with the differences a user judged, and of those differences, for s = 1."""
        a, b = self.a[rows], self.b[rows]
        seen = np.unique(np.concatenate([a, b]))
        i, j = np.searchsorted(seen, a), np.searchsorted(seen, b)
        K, across = self._prior(seen, seen, X_new), self._prior(items, seen, X_new)
        differences = K[i] - K[j]
        return across[:, i] - across[:, j], differences[:, i] - differences[:, j]

    def _moments(self, user: int | None, items: IntArray, X_new: FloatArray | None) -> Moments:
        """The posterior of one user, or of the mean over the users with labels."""
        if user is not None:
            return self._user_moments(user, items, X_new)
        users = np.unique(self.u)
        mean, cov = np.zeros(len(items)), np.zeros((len(items), len(items)))
        for one in users:
            own_mean, own_cov = self._user_moments(int(one), items, X_new)
            mean, cov = mean + own_mean / len(users), cov + own_cov / len(users) ** 2
        return mean, cov

    def _user_moments(self, user: int, items: IntArray, X_new: FloatArray | None) -> Moments:
        """The posterior of one user; the prior for a user without labels."""
        s = float(self.s[user]) if user < len(self.s) else self.prior[0] / self.prior[1]
        prior, rows = self._prior(items, items, X_new) / s, self._rows(user)
        if rows.start == rows.stop:
            return np.zeros(len(items)), prior
        across, K = (covariance / s for covariance in self._covariances(items, rows, X_new))
        N, eta = _precision(K, self.lam[rows]), self.eta[rows]
        return across @ (eta - N @ (K @ eta)), prior - across @ N @ across.T


def _precision(K: FloatArray, lam: FloatArray) -> FloatArray:
    """Compute (K + diag(lam)^-1)^-1; entries of lam may be 0."""
    root = np.sqrt(lam)
    factor = linalg.cholesky(np.eye(len(K)) + root[:, None] * K * root, lower=True)
    half = linalg.solve_triangular(factor, np.diag(root), lower=True)
    return np.asarray(half.T @ half)


def _gp_posterior(K: FloatArray, lam: FloatArray, eta: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Compute mean and covariance of the judged differences, and s E[f' k^-1 f] - N."""
    N = _precision(K, lam)
    alpha = eta - N @ (K @ eta)
    cov = K - K @ N @ K
    energy = float(alpha @ K @ alpha - np.sum(N * K))
    return K @ alpha, cov, energy
