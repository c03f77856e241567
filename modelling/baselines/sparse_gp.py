"""The variational factors of `factor_model`: Gaussian processes at inducing points, in natural parameters.

Equations are named by the labels in the LaTeX source of the paper; docs/model.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import linalg

from modelling.crowdgppl.arrays import FloatArray, IntArray
from modelling.crowdgppl.kernels import Kernel

JITTER = 1e-6  # added to the diagonal of K_mm
USER_JITTER = 1e-4  # one-hot traits make L_mm nearly singular


@dataclass
class GammaScale:
    """q(s) = Gamma(shape, rate).

    Departure from the paper: beta is a rate, E[s] = shape / rate, although the text calls it a scale.
    See test_the_scale_of_a_factor_is_a_rate.
    """

    prior_shape: float
    prior_rate: float
    shape: float = field(init=False)
    rate: float = field(init=False)

    def __post_init__(self) -> None:
        self.shape, self.rate = self.prior_shape, self.prior_rate

    @property
    def mean(self) -> float:
        return self.shape / self.rate

    def update(self, dimension: int, energy: float) -> None:
        """Update q(s) by eq:qs, with energy = tr(K_mm^-1 (S + m m^T))."""
        self.shape = self.prior_shape + 0.5 * dimension
        self.rate = self.prior_rate + 0.5 * energy


@dataclass(frozen=True)
class InducingPoints:
    """Inducing points, and the projection A = K_nm K_mm^-1 to other points."""

    kernel: Kernel
    locations: FloatArray  # (M, D)
    K_mm_inv: FloatArray  # from the Cholesky factor of K_mm
    jitter: float

    @classmethod
    def choose(cls, X: FloatArray, kernel: Kernel, M: int | None, seed: int, jitter: float = JITTER) -> InducingPoints:
        """K-means++ centres, or the distinct rows if there are at most M."""
        return cls.at(cluster_centres(X, len(X) if M is None else M, seed), kernel.fit(X), jitter)

    @classmethod
    def at(cls, locations: FloatArray, kernel: Kernel, jitter: float = JITTER) -> InducingPoints:
        """Inducing points at these locations; the kernel is already fitted."""
        K_mm = kernel(locations) + jitter * np.eye(len(locations))
        inverse = linalg.cho_solve(linalg.cho_factor(K_mm, lower=True), np.eye(len(locations)))
        return cls(kernel, locations, 0.5 * (inverse + inverse.T), jitter)

    def A(self, X: FloatArray) -> FloatArray:
        """Return A (n, M): the process at X is A times its values at the inducing points, plus the prior residual."""
        return np.asarray(self.kernel(X, self.locations) @ self.K_mm_inv)

    def residual(self, X: FloatArray) -> FloatArray:
        """Return the prior residual K** - A K_mm A^T (n, n), for s = 1."""
        across = self.kernel(X, self.locations)
        return np.asarray(self.kernel(X) - across @ self.K_mm_inv @ across.T)

    def residual_diagonal(self, X: FloatArray) -> FloatArray:
        """Return the diagonal of `residual` (n,)."""
        across = self.kernel(X, self.locations)
        known = np.sum((across @ self.K_mm_inv) * across, axis=1)
        return np.asarray(np.maximum(self.kernel.diagonal(X) - known, 0.0))

    def prior_differences(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the prior variance (n,) of the difference between each row of X and of Y, for s = 1."""
        return np.asarray(self.kernel.diagonal(X) + self.kernel.diagonal(Y) - 2.0 * self.kernel.paired(X, Y))

    def residual_differences(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the part (n,) of `prior_differences` that the inducing points do not explain."""
        across = self.kernel(X, self.locations) - self.kernel(Y, self.locations)
        known = np.sum((across @ self.K_mm_inv) * across, axis=1)
        return np.asarray(np.maximum(self.prior_differences(X, Y) - known, 0.0))


@dataclass
class InducedGP:
    """N(mean, cov) at inducing points, held as precision and shift; `step` starts from `previous`."""

    K_mm_inv: FloatArray
    scale: GammaScale
    precision: FloatArray = field(init=False)
    shift: FloatArray = field(init=False)
    mean: FloatArray = field(init=False)
    cov: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.precision = self.scale.mean * self.K_mm_inv
        self.shift = np.zeros(len(self.K_mm_inv))
        self.solve()
        self.begin_step()

    def start_at(self, mean: FloatArray) -> None:
        """Set the mean, keeping the precision."""
        self.shift = self.precision @ mean
        self.solve()

    def begin_step(self) -> None:
        """Make the following steps start from the current parameters, so that repeated steps do not compound."""
        self.previous = (self.precision, self.shift)

    def step(self, rows: FloatArray, precision: FloatArray, shift: FloatArray, rho: float) -> None:
        """Take a step of eq:Sv, eq:hatv, eq:St, eq:hatt, eq:Sigma or eq:what: one equation with different design rows.

        Each label adds exp(shift x - precision x^2 / 2) with x = rows m; rows (P_i, M), the others (P_i,).

        Departure from the paper: the printed S^(t) lacks an inverse, v-hat has an S too many, w-hat lacks an
        inverse and an A_w.
        See test_one_full_step_is_the_batch_posterior.
        """
        prior = self.scale.mean * self.K_mm_inv
        evidence = rows.T @ (precision[:, None] * rows)
        old_precision, old_shift = self.previous
        self.precision = (1 - rho) * old_precision + rho * (prior + evidence)
        self.shift = (1 - rho) * old_shift + rho * (rows.T @ shift)
        self.solve()

    def solve(self) -> None:
        """Compute mean and covariance from precision and shift."""
        factor = linalg.cho_factor(self.precision, lower=True)
        self.cov = np.asarray(linalg.cho_solve(factor, np.eye(len(self.shift))))
        self.mean = self.cov @ self.shift

    def update_scale(self) -> None:
        """Update q(s) given the current mean and covariance."""
        energy = float(np.sum(self.K_mm_inv * self.cov) + self.mean @ self.K_mm_inv @ self.mean)
        self.scale.update(len(self.mean), energy)


@dataclass
class IndependentGP:
    """An InducedGP with L = I: the points are independent, so precision and covariance are vectors."""

    n_points: int
    scale: GammaScale
    precision: FloatArray = field(init=False)
    shift: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.precision = np.full(self.n_points, self.scale.mean)
        self.shift = np.zeros(self.n_points)
        self.begin_step()

    @property
    def mean(self) -> FloatArray:
        return self.shift / self.precision

    @property
    def variance(self) -> FloatArray:
        return 1.0 / self.precision

    def start_at(self, mean: FloatArray) -> None:
        """Set the mean, keeping the precision."""
        self.shift = self.precision * mean

    def begin_step(self) -> None:
        """Make the following steps start from the current parameters."""
        self.previous = (self.precision, self.shift)

    def step_points(self, u: IntArray, precision: FloatArray, shift: FloatArray, rho: float) -> None:
        """Take a step of eq:Sigma and eq:what; points outside the batch decay towards the prior, as in the paper."""
        old_precision, old_shift = self.previous
        evidence = np.bincount(u, precision, self.n_points)
        self.precision = (1 - rho) * old_precision + rho * (self.scale.mean + evidence)
        self.shift = (1 - rho) * old_shift + rho * np.bincount(u, shift, self.n_points)

    def update_scale(self) -> None:
        """Update q(s) given the current means and variances."""
        self.scale.update(self.n_points, float(np.sum(self.mean**2 + self.variance)))


def cluster_centres(X: FloatArray, M: int, seed: int) -> FloatArray:
    """K-means++ centres of the rows, or the distinct rows themselves if there are at most M."""
    distinct = np.unique(X, axis=0)
    if len(distinct) <= M:
        return np.asarray(distinct)
    from sklearn.cluster import KMeans  # heavy to import, and most fits need no clusters

    centres = KMeans(n_clusters=M, n_init=1, max_iter=20, random_state=seed).fit(X).cluster_centers_
    return np.asarray(centres, dtype=np.float64)
