"""GPPL per user: an independent Gaussian process for each user; nothing is shared between users."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from modelling.baselines.base import Baseline, Moments, NewRows
from modelling.baselines.gaussian_process import condition, excess_energy, updated_sites
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.kernels import Kernel, Matern32
from modelling.crowdgppl.labels import PairwiseLabels

SWEEPS = 12
MAX_MATRIX = 3000  # items; with more, the prior covariance matrix is not kept


class GPPLPerUser(Baseline):
    """f_u ~ GP(0, k / s_u) for each user; the consensus is the mean over the users with labels."""

    SETTINGS: ClassVar[tuple[str, ...]] = ("item_kernel", "prior")
    FITTED: ClassVar[tuple[str, ...]] = ("u", "a", "b", "lam", "eta", "s", "X")
    u: IntArray
    a: IntArray
    b: IntArray
    lam: FloatArray  # (P,) sites, labels sorted by user
    eta: FloatArray
    s: FloatArray  # (U,) inverse scale of each user
    X: FloatArray  # (N, D), no columns without features

    def __init__(self, item_kernel: Kernel | None = None, prior: tuple[float, float] = (1.0, 1.0)) -> None:
        """`prior` holds the shape and rate of the Gamma prior of s_u."""
        self.item_kernel = Matern32() if item_kernel is None else item_kernel
        self.prior = prior

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """Fit the EP sites and the scale of each user."""
        labels = self._set_up(labels, X_items)
        for user in np.unique(self.u):
            self._fit_user(int(user), labels)

    def _set_up(self, labels: PairwiseLabels, X_items: FloatArray | None) -> PairwiseLabels:
        """Initialise all sites to zero; return the labels sorted by user."""
        self.X = np.zeros((self.n_items_, 0)) if X_items is None else X_items
        self._kernel: Kernel | None = None
        labels = labels.take(np.argsort(labels.u, kind="stable"))
        self.u, self.a, self.b = labels.u, labels.a, labels.b
        self.lam, self.eta = np.zeros(len(labels)), np.zeros(len(labels))
        self.s = np.full(self.n_users_, self.prior[0] / self.prior[1])
        return labels

    def _fit_user(self, user: int, labels: PairwiseLabels) -> None:
        """Expectation propagation for one user, alternating with updates of the scale (eq:qs)."""
        rows, M = self._rows(user), self.n_items_
        K = self._differences_prior(rows)
        shape, rate = self.prior
        for _ in range(SWEEPS):
            s = self.s[user]
            energy = excess_energy(K / s, *condition(K / s, self.lam[rows], self.eta[rows]))
            y, weight = labels.y[rows], labels.weights[rows]
            self.lam[rows], self.eta[rows] = updated_sites(K / s, self.lam[rows], self.eta[rows], y, weight)
            self.s[user] = (shape + 0.5 * M) / (rate + 0.5 * (M + energy) / s)

    def _rows(self, user: int) -> slice:
        return slice(int(np.searchsorted(self.u, user)), int(np.searchsorted(self.u, user, side="right")))

    def _prior(self, first: IntArray, second: IntArray, new: NewRows) -> FloatArray:
        """k between items, for s = 1; without features items are independent."""
        if not self.X.shape[1]:
            return np.asarray(first[:, None] == second[None, :], dtype=np.float64)
        if getattr(self, "_kernel", None) is None:
            self._kernel = self.item_kernel.fit(self.X)
            self._K = self._kernel(self.X) if len(self.X) <= MAX_MATRIX else None
        assert self._kernel is not None  # noqa: S101
        if self._K is not None and new.items is None:
            return self._K[np.ix_(first, second)]
        X = self.X if new.items is None else np.vstack([self.X, new.items])
        return self._kernel(X[first], X[second])

    def _differences_prior(self, rows: slice) -> FloatArray:
        """Prior covariance of the differences that a user judged, for s = 1."""
        return self._covariances(np.zeros(0, dtype=np.int64), rows, NewRows())[1]

    def _covariances(self, items: IntArray, rows: slice, new: NewRows) -> tuple[FloatArray, FloatArray]:
        """Covariance of items with the differences a user judged, and of those differences, for s = 1."""
        a, b = self.a[rows], self.b[rows]
        seen = np.unique(np.concatenate([a, b]))
        i, j = np.searchsorted(seen, a), np.searchsorted(seen, b)
        K, across = self._prior(seen, seen, new), self._prior(items, seen, new)
        differences = K[i] - K[j]
        return across[:, i] - across[:, j], differences[:, i] - differences[:, j]

    def _moments(self, user: int | None, items: IntArray, new: NewRows) -> Moments:
        """The posterior of one user, or of the mean over the users with labels."""
        if user is not None:
            return self._user_moments(user, items, new)
        users = np.unique(self.u)
        mean, cov = np.zeros(len(items)), np.zeros((len(items), len(items)))
        for one in users:
            own_mean, own_cov = self._user_moments(int(one), items, new)
            mean, cov = mean + own_mean / len(users), cov + own_cov / len(users) ** 2
        return mean, cov

    def _user_moments(self, user: int, items: IntArray, new: NewRows) -> Moments:
        """The posterior of one user; the prior for a user without labels."""
        s = float(self.s[user]) if user < len(self.s) else self.prior[0] / self.prior[1]
        prior, rows = self._prior(items, items, new) / s, self._rows(user)
        if rows.start == rows.stop:
            return np.zeros(len(items)), prior
        across, K = (covariance / s for covariance in self._covariances(items, rows, new))
        N, alpha = condition(K, self.lam[rows], self.eta[rows])
        return across @ alpha, prior - across @ N @ across.T
