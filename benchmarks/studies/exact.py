"""A tiny crowd's exact posterior by a long Gibbs run, given the prior covariances of t and of personal deviations.

The noise of each answer is sampled (Albert and Chib 1993): given the noisy differences, t and all deviations are
jointly Gaussian with a covariance that does not change, so one factorisation serves the whole run. No ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

SAMPLES, BURN_IN, CHAINS = 20_000, 1_000, 4


@dataclass(frozen=True)
class Samples:
    """Draws (n, N) of the consensus and (n, U, N) of the utilities t + p_u."""

    t: np.ndarray
    F: np.ndarray


def sample_posterior(
    labels: Any, cov_t: np.ndarray, A: np.ndarray, n_users: int, seed: int = 0, n: int = SAMPLES
) -> Samples:
    """Sample t ~ N(0, cov_t), p_u ~ N(0, A) given labels with y 0 or 1; n draws over CHAINS chains."""
    if not np.isin(labels.y, (0.0, 1.0)).all():
        raise ValueError("The sampler takes no ties.")
    N, P = len(cov_t), len(labels.y)
    size = N * (1 + n_users)
    prior = np.zeros((size, size))
    prior[:N, :N] = cov_t
    for u in range(n_users):
        at = slice(N * (1 + u), N * (2 + u))
        prior[at, at] = A
    X, rows = np.zeros((P, size)), np.arange(P)
    for shift in (0, N * (1 + labels.u)):
        X[rows, labels.a + shift] += 1
        X[rows, labels.b + shift] -= 1
    sign = (2 * labels.y - 1)[:, None]
    # posterior covariance S = prior - prior X' (I + X prior X')^-1 X prior, mean = S X' z
    gain = np.linalg.solve(np.eye(P) + X @ prior @ X.T, X @ prior)
    S = prior - prior @ X.T @ gain
    values, vectors = np.linalg.eigh(0.5 * (S + S.T))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    mean_of = S @ X.T
    rng = np.random.default_rng(seed)
    f = np.zeros((size, CHAINS))
    kept = np.zeros((n // CHAINS, CHAINS, size))
    for step in range(-BURN_IN, len(kept)):
        m = sign * (X @ f)  # noisy difference times sign is N(m, 1), given that it is positive
        low = ndtr(-m)
        z = sign * (m + ndtri(np.clip(low + (1 - low) * rng.random(m.shape), 1e-15, 1 - 1e-15)))
        f = mean_of @ z + root @ rng.standard_normal((size, CHAINS))
        if step >= 0:
            kept[step] = f.T
    f = kept.reshape(-1, size)
    t, p = f[:, :N], f[:, N:].reshape(-1, n_users, N)
    return Samples(t, t[:, None, :] + p)


def difference_moments(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of all differences of columns a < b."""
    a, b = np.triu_indices(samples.shape[-1], 1)
    gaps = samples[..., a] - samples[..., b]
    return gaps.mean(axis=0), gaps.std(axis=0)
