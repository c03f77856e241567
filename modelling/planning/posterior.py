"""The posterior of the items' order, as pair selection and the stop rule need it. Arrays in, arrays out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from modelling.training.ranking import square_root

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

JITTER = 1e-9  # relative to the mean variance
SAMPLE_JITTER = 1e-6


@dataclass(frozen=True, eq=False)
class OrderPosterior:
    """Normal posterior of centred scores, given their common scale.

    A factor common to all scores does not change their order, but it is uncertain, and that uncertainty would dominate
    the covariance of distant items. So `given_scale` makes the covariance conditional on it.
    """

    mean: Floats  # (N,)
    cov: Floats  # (N, N)

    @classmethod
    def given_scale(cls, mean: Floats, cov: Floats) -> OrderPosterior:
        """Centre the scores, and condition on their length in the direction of the mean.

        The conditional covariance is S - m m' / (m' S^-1 m): the largest multiple of m m' that S allows is subtracted.
        """
        centred = mean - mean.mean() if len(mean) else mean
        cov = centre(cov)
        ridge = JITTER * max(float(np.trace(cov)) / max(len(mean), 1), 1e-300)
        precision = float(centred @ np.linalg.solve(cov + ridge * np.eye(len(mean)), centred)) if len(mean) else 0.0
        if precision > 0.0:
            cov = cov - np.outer(centred, centred) / precision
        return cls(centred, cov)

    def __len__(self) -> int:
        return len(self.mean)

    def take(self, items: Ints) -> OrderPosterior:
        """The posterior restricted to some of the items."""
        return OrderPosterior(self.mean[items], self.cov[np.ix_(items, items)])

    def differences(self) -> tuple[Floats, Floats]:
        """Means and variances (N, N) of the differences of all pairs, row minus column."""
        return self.mean[:, None] - self.mean[None, :], contrasts(self.cov)

    def after(self, a: Ints, b: Ints, precision: Floats) -> OrderPosterior:
        """The posterior after also observing the differences of these pairs with these precisions.

        Only the covariance changes: the expected mean is the current one.
        """
        S_x = self.cov[:, a] - self.cov[:, b]  # S X', with a row e_a - e_b of X for each pair
        inner = S_x[a] - S_x[b] + np.diag(1.0 / np.maximum(precision, 1e-12))
        return OrderPosterior(self.mean, self.cov - S_x @ np.linalg.solve(inner, S_x.T))

    def after_many(self, a: Ints, b: Ints, precision: Floats) -> OrderPosterior:
        """`after` for more pairs than items: S' = (S^-1 + L)^-1 = S - S (I + L S)^-1 L S, with their Laplacian L."""
        N = len(self.mean)
        L = np.zeros((N, N))
        np.add.at(L, (a, b), -precision)
        L = L + L.T
        L[np.diag_indices(N)] -= L.sum(axis=0)
        L_S = L @ self.cov
        cov = self.cov - self.cov @ np.linalg.solve(np.eye(N) + L_S, L_S)
        return OrderPosterior(self.mean, (cov + cov.T) / 2.0)

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Samples (n, N) of the scores. The ridge makes the covariance positive definite, so Cholesky suffices."""
        ridge = SAMPLE_JITTER * float(np.trace(self.cov)) / max(len(self.mean), 1)
        root = square_root(self.cov + ridge * np.eye(len(self.mean)))
        return self.mean + rng.standard_normal((n, len(self.mean))) @ root.T


def centre(cov: Floats) -> Floats:
    """The covariance of the scores relative to their mean."""
    means = cov.mean(axis=0)
    return np.asarray(cov - means[:, None] - means[None, :] + means.mean()) if len(cov) else cov


def contrasts(M: Floats) -> Floats:
    """x' M x of all pairs x = e_i - e_j, (N, N)."""
    diagonal = np.diagonal(M)
    return np.asarray(np.maximum(diagonal[:, None] + diagonal[None, :] - 2.0 * M, 0.0))
