"""GPVU: a Gaussian process for each user plus matrix factorisation (Khan, Ko and Seeger 2014)."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from modelling.baselines.base import NewRows
from modelling.baselines.gaussian_process import condition, excess_energy, updated_sites
from modelling.baselines.gppl_per_user import GPPLPerUser
from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.kernels import Kernel
from modelling.crowdgppl.labels import PairwiseLabels

ITERATIONS, SWEEPS = 15, 2  # of EM, and of EP in each E-step
START = 0.3  # standard deviation of the random item factors
RIDGE = 1.0  # precision of the prior of V
CG_STEPS = 20


class GPVU(GPPLPerUser):
    """f_u = r_u + V w_u with r_u ~ GP(0, k / s) for each user and w_u ~ N(0, I).

    EM with EP in the E-step, as in the publication: given V, a user's w_u and r_u are integrated out together, so that
    f_u has the prior covariance k / s + V V'; V maximises the expected log likelihood with a ridge penalty. The model
    has no consensus; the mean over users is used instead.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("n_components", "item_kernel", "prior", "random_state")
    FITTED: ClassVar[tuple[str, ...]] = (*GPPLPerUser.FITTED, "V")
    V: FloatArray  # (N, C) item factors, in units of s = 1

    def __init__(
        self, n_components: int = 10, item_kernel: Kernel | None = None, prior: tuple[float, float] = (1.0, 1.0),
        random_state: int = 0,
    ) -> None:  # fmt: skip
        """`prior` holds the shape and rate of the Gamma prior of s, the inverse scale that all users share."""
        super().__init__(item_kernel, prior)
        self.n_components, self.random_state = n_components, random_state

    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """Alternate between the users' posteriors given V and s, and the best V and s given these posteriors."""
        labels = self._set_up(labels, X_items)
        rng = np.random.default_rng(self.random_state)
        self.V = START * rng.standard_normal((self.n_items_, self.n_components))
        for _ in range(ITERATIONS):
            for _ in range(SWEEPS):
                for rows in self._users_rows():
                    K = self._differences_prior(rows) / self.s[0]
                    y, weight = labels.y[rows], labels.weights[rows]
                    self.lam[rows], self.eta[rows] = updated_sites(K, self.lam[rows], self.eta[rows], y, weight)
            self._maximise()

    def _users_rows(self) -> list[slice]:
        """The labels of each user."""
        starts = np.append(np.flatnonzero(np.append(True, np.diff(self.u) != 0)), len(self.u))
        return [slice(int(start), int(stop)) for start, stop in pairwise(starts)]

    def _prior(self, first: IntArray, second: IntArray, new: NewRows) -> FloatArray:
        """k + s V V' between items, for s = 1; new items have no factors."""
        V = self.V * np.sqrt(self.s[0])
        if new.items is not None:
            V = np.vstack([V, np.zeros((len(new.items), V.shape[1]))])
        return super()._prior(first, second, new) + V[first] @ V[second].T

    def _maximise(self) -> None:
        """The M-step for V and s."""
        w, ww, target, energy = self._expectations()
        users = np.searchsorted(np.unique(self.u), self.u)
        self.V = self._solve_factors(ww[users], target)
        n_users, M = len(w), self.n_items_
        shape, rate = self.prior
        self.s[:] = (shape + 0.5 * n_users * M) / (rate + 0.5 * (n_users * M + energy) / self.s[0])

    def _expectations(self) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """E[w_u] (U, C), E[w_u w_u'] (U, C, C), the linear term of V for each label (P, C), and the energy of r."""
        s, C = self.s[0], self.n_components
        w, ww, target, energy = [], [], np.empty((len(self.u), C)), 0.0
        for rows in self._users_rows():
            lam, eta = self.lam[rows], self.eta[rows]
            D = self.V[self.a[rows]] - self.V[self.b[rows]]  # (n, C)
            R = self._differences_prior(rows) / s - D @ D.T  # prior covariance of the differences of r
            N, alpha = condition(R + D @ D.T, lam, eta)
            w_u, r_u = D.T @ alpha, R @ alpha
            across = -D.T @ N @ R  # Cov(w_u, r_u)
            w.append(w_u)
            ww.append(np.eye(C) - D.T @ N @ D + np.outer(w_u, w_u))
            target[rows] = eta[:, None] * w_u - lam[:, None] * (r_u[:, None] * w_u + across.T)
            energy += excess_energy(R, N, alpha)
        return np.array(w), np.array(ww), target, energy

    def _solve_factors(self, ww: FloatArray, target: FloatArray) -> FloatArray:
        """Solve the normal equations for V (N C unknowns) by conjugate gradients, starting from the current V."""
        shape = self.V.shape

        def scatter(rows: FloatArray) -> FloatArray:
            out = np.zeros(shape)
            np.add.at(out, self.a, rows)
            np.subtract.at(out, self.b, rows)
            return out

        def normal(v: FloatArray) -> FloatArray:
            V = v.reshape(shape)
            D = V[self.a] - V[self.b]
            weighted = self.lam[:, None] * np.matmul(ww, D[:, :, None])[:, :, 0]
            return np.asarray((scatter(weighted) + RIDGE * V).ravel())

        operator = LinearOperator((self.V.size, self.V.size), matvec=normal, dtype=np.float64)
        found, _ = cg(operator, scatter(target).ravel(), x0=self.V.ravel(), maxiter=CG_STEPS, rtol=1e-6)
        return np.asarray(found.reshape(shape))
