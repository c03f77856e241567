"""The truth on tiny crowds: many long Gibbs chains (Albert and Chib 1993) for the model of crowdGPPL, scales held.

Nothing here is shared with the engine: items are independent, every block of unknowns is drawn from its exact
conditional, and the spread between chains says how far the averages can be trusted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri


@dataclass(frozen=True)
class Drawn:
    """Averages over draws of some quantities, and their Monte Carlo errors, from the spread between chains."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray) -> Drawn:
        """From each chain's mean of the quantities and of their squares, (chains, ...)."""
        mean = first.mean(axis=0)
        sd = np.sqrt(second.mean(axis=0) - mean**2)
        around = second - 2 * first * mean + mean**2  # each chain's mean square distance from the common mean
        root = np.sqrt(len(first))
        return cls(mean, sd, first.std(axis=0, ddof=1) / root, around.std(axis=0, ddof=1) / root / (2 * sd))


@dataclass(frozen=True)
class Truth:
    """The posterior of all differences of consensus (i < j) and of every user's differences (pairs, users)."""

    consensus: Drawn
    personal: Drawn


def gibbs(labels, n_items, n_users, components, s_t, s_v, draws, chains=64, burn=300, seed=0):
    """t, V and W given plain answers, w_u ~ N(0, I), t ~ N(0, I / s_t), v_c ~ N(0, I / s_v).

    s_t may be the shape and rate of a Gamma prior: then it is drawn too.
    """
    s_t, t_prior = (1.0, s_t) if isinstance(s_t, tuple) else (s_t, None)
    rng = np.random.default_rng(seed)
    X = np.zeros((len(labels), n_items))
    X[np.arange(len(labels)), labels.a] = 1
    X[np.arange(len(labels)), labels.b] = -1
    scales = np.append(s_t, np.full(components, s_v))
    prior = np.tile(np.diag(np.repeat(scales, n_items)), (chains, 1, 1))
    B = rng.standard_normal((chains, components + 1, n_items)) / np.sqrt(scales)[:, None]
    W = np.ones((chains, n_users, components + 1))
    W[:, :, 1:] = rng.standard_normal((chains, n_users, components))
    i, j = np.triu_indices(n_items, 1)
    sums = [np.zeros((chains, len(i))) for _ in range(2)] + [np.zeros((chains, len(i), n_users)) for _ in range(2)]
    for sweep in range(burn + draws):
        z = _latent(rng, _felt(X, B, W, labels), 2 * labels.y - 1)
        B = _items(rng, X, W[:, labels.u], z, prior).reshape(B.shape)
        if t_prior:
            drawn = rng.gamma(t_prior[0] + n_items / 2, 1 / (t_prior[1] + (B[:, 0] ** 2).sum(axis=1) / 2))
            prior[:, np.arange(n_items), np.arange(n_items)] = drawn[:, None]
        if components:
            _users(rng, X @ B.swapaxes(1, 2), z, labels.u, W)
        if sweep >= burn:
            t, F = B[:, 0], B.swapaxes(1, 2) @ W.swapaxes(1, 2)
            dt, dF = t[:, i] - t[:, j], F[:, i] - F[:, j]
            for total, each in zip(sums, (dt, dt**2, dF, dF**2), strict=True):
                total += each / draws
    return Truth(Drawn.of(sums[0], sums[1]), Drawn.of(sums[2], sums[3]))


def _felt(X, B, W, labels):
    """(chains, P) the latent difference of every label without its noise."""
    return ((X @ B.swapaxes(1, 2)) * W[:, labels.u]).sum(axis=2)


def _latent(rng, mean, sign):
    """z ~ N(mean, 1) on the side that the label names."""
    beyond = ndtr(sign * mean) * rng.random(mean.shape)
    return mean - sign * ndtri(np.clip(beyond, 1e-300, 1 - 1e-16))


def _items(rng, X, W, z, prior):
    """t and all v_c together, (chains, (C + 1) N)."""
    J = (W[:, :, :, None] * X[:, None, :]).reshape(len(W), len(X), -1)
    return _gaussian(rng, prior + J.swapaxes(1, 2) @ J, (z[:, None, :] @ J)[:, 0])


def _users(rng, D, z, u, W):
    """Every user's weights given the items, in place."""
    C = D.shape[2] - 1
    for user in range(W.shape[1]):
        d = D[:, u == user]
        e, left = d[:, :, 1:], z[:, u == user] - d[:, :, 0]
        W[:, user, 1:] = _gaussian(rng, np.eye(C) + e.swapaxes(1, 2) @ e, (left[:, None, :] @ e)[:, 0])


def _gaussian(rng, precision, shift):
    """One draw of N(precision^-1 shift, precision^-1) in each chain."""
    root = np.linalg.cholesky(precision)
    half = np.linalg.solve(root, shift[:, :, None])
    return np.linalg.solve(root.swapaxes(1, 2), half + rng.standard_normal(half.shape))[:, :, 0]
