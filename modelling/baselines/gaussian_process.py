"""Gaussian process algebra shared by several baselines: conditioning on sites, and regression on noisy scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.optimize import minimize_scalar

from modelling.crowdgppl.arrays import FloatArray
from modelling.crowdgppl.kernels import Kernel
from modelling.crowdgppl.likelihood import cavity, matched_site

DAMPING = 0.8
LOG_VARIANCES = (-7.0, 7.0)  # range searched for the prior variance of a regression


def site_precision(K: FloatArray, lam: FloatArray) -> FloatArray:
    """N = (K + diag(lam)^-1)^-1; entries of lam may be 0."""
    root = np.sqrt(lam)
    factor = linalg.cholesky(np.eye(len(K)) + root[:, None] * K * root, lower=True)
    half = linalg.solve_triangular(factor, np.diag(root), lower=True)
    return np.asarray(half.T @ half)


def condition(K: FloatArray, lam: FloatArray, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """N and alpha of a process observed through sites exp(eta z - lam z^2 / 2): its mean is K alpha."""
    N = site_precision(K, lam)
    return N, eta - N @ (K @ eta)


def excess_energy(K: FloatArray, N: FloatArray, alpha: FloatArray) -> float:
    """E[f' K^-1 f] minus the number of points, for the posterior of the whole process."""
    return float(alpha @ K @ alpha - np.sum(N * K))


def updated_sites(
    K: FloatArray, lam: FloatArray, eta: FloatArray, y: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """One damped, parallel sweep of expectation propagation over labels with the probit likelihood."""
    N, alpha = condition(K, lam, eta)
    variance = np.diagonal(K) - np.sum((K @ N) * K, axis=1)
    new_lam, new_eta = matched_site(*cavity(K @ alpha, variance, lam, eta), y, weight)
    return lam + DAMPING * (new_lam - lam), eta + DAMPING * (new_eta - eta)


@dataclass(frozen=True)
class Regression:
    """A GP through scores with known noise variances; the prior variance maximises the marginal likelihood."""

    kernel: Kernel
    X: FloatArray
    variance: float
    factor: FloatArray  # Cholesky factor of variance K + diag(noise)
    weights: FloatArray

    @classmethod
    def fit(cls, kernel: Kernel, X: FloatArray, scores: FloatArray, noise: FloatArray) -> Regression:
        """Fit the regression; `kernel` must already be fitted to the features."""
        K = kernel(X)

        def loss(log_variance: float) -> float:
            return -log_marginal(np.exp(log_variance) * K + np.diag(noise), scores)

        variance = float(np.exp(minimize_scalar(loss, bounds=LOG_VARIANCES, method="bounded").x))
        factor = linalg.cholesky(variance * K + np.diag(noise), lower=True)
        return cls(kernel, X, variance, factor, linalg.cho_solve((factor, True), scores))

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean (n,) and covariance (n, n) at these rows."""
        across = self.variance * self.kernel(X, self.X)
        half = linalg.solve_triangular(self.factor, across.T, lower=True)
        return across @ self.weights, self.variance * self.kernel(X) - half.T @ half


def log_marginal(cov: FloatArray, y: FloatArray) -> float:
    """log N(y; 0, cov)."""
    factor = linalg.cholesky(cov, lower=True)
    white = linalg.solve_triangular(factor, y, lower=True)
    return float(-0.5 * white @ white - np.log(np.diagonal(factor)).sum() - 0.5 * len(y) * np.log(2.0 * np.pi))
