"""GPPL-per-user: every user is a Gaussian process of their own, and nobody learns from anybody else."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import linalg

from modelling.baselines.base import Baseline, Moments, view_of
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.inducing import ItemSpace, item_space
from modelling.crowdgppl.kernels import Kernel, Matern32
from modelling.crowdgppl.labels import PairwiseLabels
from modelling.crowdgppl.likelihood import ep_sites

SWEEPS, DAMPING = 12, 0.8


class GPPLPerUser(Baseline):
    """f_u ~ GP(0, k / s_u) for each user; the consensus is the mean of the users who said something."""

    SETTINGS: ClassVar = ("item_kernel", "n_inducing_items", "prior", "random_state")
    LEARNED: ClassVar = ("u", "a", "b", "lam", "tau", "s")
    space: ItemSpace
    u: IntArray
    a: IntArray
    b: IntArray
    lam: FloatArray  # (P,) sites, labels sorted by user
    tau: FloatArray
    s: FloatArray  # (U,) inverse scale of each user

    def __init__(
        self, item_kernel: Kernel | None = None, n_inducing_items: int | None = 200,
        prior: tuple[float, float] = (1.0, 1.0), random_state: int = 0,
    ) -> None:  # fmt: skip
        self.item_kernel = Matern32() if item_kernel is None else item_kernel
        self.n_inducing_items = n_inducing_items
        self.prior = prior
        self.random_state = random_state

    def _learn(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """Sites and scales of each user in turn."""
        self.space = item_space(
            X_items, self.n_items_, self.item_kernel, self.n_inducing_items, "auto", self.random_state
        )
        labels = labels.take(np.argsort(labels.u, kind="stable"))
        self.u, self.a, self.b = labels.u, labels.a, labels.b
        self.lam, self.tau = np.zeros(len(labels)), np.zeros(len(labels))
        self.s = np.full(self.n_users_, self.prior[0] / self.prior[1])
        for user in np.unique(self.u):
            self._settle(int(user), labels)

    def _settle(self, user: int, labels: PairwiseLabels) -> None:
        """Expectation propagation for one user, its scale learned along the way (eq:qs)."""
        rows = self._rows(user)
        K = self._own_covariance(rows)
        shape, rate = self.prior
        for _ in range(SWEEPS):
            lam, tau, s = self.lam[rows], self.tau[rows], self.s[user]
            mean, cov, energy = _gp_posterior(K / s, lam, tau)
            new_lam, new_tau, _ = ep_sites(
                mean, np.diagonal(cov).copy(), lam, tau, labels.y[rows], labels.weights[rows]
            )
            self.lam[rows] += DAMPING * (new_lam - lam)
            self.tau[rows] += DAMPING * (new_tau - tau)
            self.s[user] = (shape + 0.5 * self.space.M) / (rate + 0.5 * (self.space.M + energy) / s)

    def _rows(self, user: int) -> slice:
        return slice(int(np.searchsorted(self.u, user)), int(np.searchsorted(self.u, user, side="right")))

    def _own_covariance(self, rows: slice) -> FloatArray:
        """The covariance of the differences that a user judged, for s = 1."""
        view = view_of(self.space, None)
        E = view.rows(self.a[rows]) - view.rows(self.b[rows])
        return np.asarray(E @ E.T + np.diag(view.rest(self.a[rows], self.b[rows])))

    def _moments(self, user: int | None, items: IntArray, X_new: FloatArray | None) -> Moments:
        """One user's process, or the mean of all who have labels."""
        if user is not None:
            return self._personal(user, items, X_new)
        users = np.unique(self.u)
        each = [self._personal(int(one), items, X_new) for one in users]
        mean = np.mean([mean for mean, _ in each], axis=0)
        return mean, np.sum([cov for _, cov in each], axis=0) / len(users) ** 2

    def _personal(self, user: int, items: IntArray, X_new: FloatArray | None) -> Moments:
        """The posterior process of one user; the prior for a user without labels."""
        view = view_of(self.space, X_new)
        Psi, s = view.rows(items), self._scale(user)
        prior = (Psi @ Psi.T + view.rest_covariance(items)) / s
        rows = self._rows(user)
        if rows.start == rows.stop:
            return np.zeros(len(items)), prior
        E = view.rows(self.a[rows]) - view.rows(self.b[rows])
        across, K = Psi @ E.T / s, self._own_covariance(rows) / s
        N, target = _precision(K, self.lam[rows]), self.tau[rows]
        return across @ (target - N @ (K @ target)), prior - across @ N @ across.T

    def _scale(self, user: int) -> float:
        return float(self.s[user]) if user < len(self.s) else self.prior[0] / self.prior[1]


def _precision(K: FloatArray, lam: FloatArray) -> FloatArray:
    """(K + Lam^-1)^-1, also where some lam are 0."""
    root = np.sqrt(lam)
    factor = linalg.cholesky(np.eye(len(K)) + root[:, None] * K * root, lower=True)
    half = linalg.solve_triangular(factor, np.diag(root), lower=True)
    return np.asarray(half.T @ half)


def _gp_posterior(K: FloatArray, lam: FloatArray, tau: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Mean and covariance of the judged differences; and s E|b|^2 - M, what they add to the energy of the weights."""
    N = _precision(K, lam)
    alpha = tau - N @ (K @ tau)
    cov = K - K @ N @ K
    energy = float(alpha @ K @ alpha - np.sum(N * K))
    return K @ alpha, cov, energy
