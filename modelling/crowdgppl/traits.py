"""Worker traits: the weights of users in the directions Psi have a mean that follows their traits.

w_u = g(x_u) + e_u, g ~ GP(0, rho A_M x L), e ~ N(0, (1 - rho) A_M): the share rho is chosen by the evidence and is
0 if the traits are uninformative.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from .arrays import FloatArray, State
from .kernels import Kernel, Matern32
from .labels import LabelStore, chunks_of_users
from .posterior import Posterior
from .state import from_text, kernel_from_text, kernel_to_text, to_text
from .users import Visit

SHARES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
MIN_GAIN = 3.0  # smallest gain in log evidence for which traits are used
MAX_USERS = 1500  # most users that g is fitted to; of more, an even sample is taken


class Traits:
    """Traits of users, and their effect on tastes."""

    def __init__(self, X: FloatArray, kernel: Kernel) -> None:
        self.X, self.kernel, self.rho = X, kernel, 0.0
        self.rows = np.zeros(0, dtype=np.int64)  # users that g is fitted to
        self.coefficients = np.zeros((0, 0))  # (rows, M): g(x) = k(x, X[rows]) coefficients

    @classmethod
    def of(cls, X: FloatArray | None, kernel: Kernel | None) -> Traits | None:
        """Return the traits of the users of a fit, or None if there are none or all users are alike."""
        if X is None or not np.ptp(X, axis=0).any():
            return None
        return cls(X, (kernel or Matern32()).fit(X))

    @property
    def n_users(self) -> int:
        return len(self.X)

    def add_users(self, X: FloatArray | None, n_new: int) -> None:
        """Append new users; those without traits get the average."""
        new = np.repeat(self.X.mean(axis=0)[None], n_new, axis=0)
        if X is not None:
            new[: len(X)] = X
        self.X = np.vstack((self.X, new))

    def predict(self, X: FloatArray) -> FloatArray:
        """Expected weights (users, M) of users with these traits."""
        if not len(self.rows):
            return np.zeros((len(X), self.coefficients.shape[1]))
        return np.asarray(self._covariance(X) @ self.coefficients)

    def _covariance(self, X: FloatArray) -> FloatArray:
        """k(X, rows), centred over the rows, because g models differences between users."""
        cross, own = self.kernel(X, self.X[self.rows]), self.kernel(self.X[self.rows])
        return np.asarray(cross - cross.mean(axis=1, keepdims=True) - own.mean(axis=0) + own.mean())

    def learn(self, post: Posterior, store: LabelStore) -> bool:
        """Choose rho by the evidence and set the users' prior weights; return whether they changed."""
        M = post.Psi.shape[1]
        had = post.trait_weights is not None
        if not M:
            return False
        post.trait_weights = None
        users = store.active_users()
        if len(users) > MAX_USERS:
            users = users[np.linspace(0, len(users) - 1, MAX_USERS).astype(np.int64)]
        value, precision = messages(post, store, users)
        self.rows = users
        L = self._covariance(self.X[users])
        L /= max(float(np.diagonal(L).mean()), 1e-12)
        size = np.diagonal(post.A_M)
        evidence = [self._log_evidence(L, rho, value, precision, size) for rho in SHARES]
        best = int(np.argmax(evidence))
        self.rho = SHARES[best] if evidence[best] > evidence[0] + MIN_GAIN else 0.0
        self.coefficients = np.zeros((len(users), M))
        if self.rho:
            scale = float(np.diagonal(self._covariance(self.X[users])).mean())
            for m in range(M):
                noise = np.where(precision[:, m] > 0, 1.0 / np.maximum(precision[:, m], 1e-9), 1e9)
                C = self.rho * size[m] * L + np.diag((1.0 - self.rho) * size[m] + noise)
                self.coefficients[:, m] = self.rho * size[m] / scale * linalg.solve(C, value[:, m], assume_a="pos")
            post.trait_weights = self.predict(self.X)
        return had or self.rho > 0

    def _log_evidence(
        self, L: FloatArray, rho: float, value: FloatArray, precision: FloatArray, size: FloatArray
    ) -> float:
        total = 0.0
        for m in range(value.shape[1]):
            seen = precision[:, m] > 1e-6
            noise = 1.0 / precision[seen, m]
            C = rho * size[m] * L[np.ix_(seen, seen)] + np.diag((1.0 - rho) * size[m] + noise)
            factor = linalg.cholesky(C, lower=True)
            half = linalg.solve_triangular(factor, value[seen, m], lower=True)
            total += -0.5 * float(half @ half) - float(np.log(np.diagonal(factor)).sum())
        return total

    def to_state(self) -> State:
        """Traits as arrays."""
        return {
            "traits_X": np.array(self.X), "traits_rows": np.array(self.rows),
            "traits_coefficients": np.array(self.coefficients), "traits_kernel": kernel_to_text(self.kernel),
            "traits_rho": to_text(self.rho),
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: State) -> Traits | None:
        """Inverse of `to_state`."""
        if "traits_X" not in state:
            return None
        kernel = kernel_from_text(state["traits_kernel"])
        if kernel is None:
            raise ValueError("The stored traits have no kernel.")
        traits = cls(np.array(state["traits_X"]), kernel)
        traits.rows, traits.coefficients = np.array(state["traits_rows"]), np.array(state["traits_coefficients"])
        traits.rho = from_text(state["traits_rho"])
        return traits


def messages(post: Posterior, store: LabelStore, users: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """Estimate each user's weight in each direction from labels alone: value and precision (users, M)."""
    prior = np.diagonal(post.A_M)
    value, precision = np.zeros((len(users), len(prior))), np.zeros((len(users), len(prior)))
    for chunk in chunks_of_users(np.arange(len(users)), store.count_labels(users), post.n_items):
        visit = Visit(store.load(users[chunk]), post)
        visit.integrate_users(post)
        part = np.zeros((len(users[chunk]), len(prior)))
        mean = visit.scores(post) @ post.Psi @ post.A_M
        for solution in visit.solutions:
            Psi = solution.block.at(post.Psi) @ post.A_M
            part[solution.block.users] = (Psi * (solution.J @ Psi)).sum(axis=1)
        variance = np.clip(prior - part, 1e-9 * prior, prior)
        precision[chunk] = np.maximum(1.0 / variance - 1.0 / prior, 0.0)
        value[chunk] = mean / variance / np.maximum(precision[chunk], 1e-12)
    return np.where(precision > 1e-6, value, 0.0), precision
