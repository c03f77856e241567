"""Predictions from a posterior: utilities, probabilities, consensus (eq:predict_crowd, eq:predict_z)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.special import bdtr, bdtrc, ndtr

from .arrays import FloatArray, IntArray
from .inducing import ItemView
from .items import Items

DRAWS = 256  # draws of (t, v) behind the probability of a majority
CHUNK_PAIRS = 4096


@dataclass(frozen=True, eq=False)
class Predictor:
    """Items and users, known or new, as Gaussians; everything a prediction needs and no labels."""

    view: ItemView
    items: Items
    s: FloatArray  # (C + 1,) E[s] of t and the v_c
    W: FloatArray  # (U, C)
    Omega: FloatArray  # (U, C, C)
    s_w: FloatArray  # (C,)
    S_t: FloatArray  # (M, M): covariance of t with which its intervals are given

    def consensus_mean(self, items: IntArray) -> FloatArray:
        """t at these items (eq:tstar)."""
        return self.view.rows(items) @ self.items.mean[:, 0]

    def consensus_covariance(self, items: IntArray) -> FloatArray:
        """The covariance of t at these items: Psi* S Psi*^T + (K** - Psi* Psi*^T) / s.

        Departure: K_mm is divided by E[s] like K**. See test_far_from_all_items_the_prior_returns.
        """
        Psi = self.view.rows(items)
        if self.items.first:
            return np.zeros((len(items), len(items)))
        return np.asarray(Psi @ self.S_t @ Psi.T + self.view.rest_covariance(items) / self.s[0])

    def consensus_factors(self, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """F (n, M) and r (n,): the same covariance as F F^T + diag(r), what Psi leaves out taken as each item's own."""
        if self.items.first:
            return np.zeros((len(items), 0)), np.zeros(len(items))
        F = self.view.rows(items) @ linalg.cholesky(self.S_t, lower=True)
        return F, self.view.rest_variances(items) / self.s[0]

    def utilities(self, users: IntArray, items: IntArray) -> FloatArray:
        """E[F], (items, users): eq:vw_plus_t."""
        D = self.view.rows(items) @ self.items.mean
        return np.asarray(D[:, :1] + D[:, 1:] @ self.W[users].T)

    def _differences(
        self, a: IntArray, b: IntArray, S_0: FloatArray | None = None, tastes: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """(n, C + 1) differences of t and the v_c between a and b, and their variances: all, or those of t alone."""
        used, places = np.unique(np.concatenate((a, b)), return_inverse=True)
        i, j = places[: len(a)], places[len(a) :]
        Psi, rest = self.view.rows(used), self.view.rest(a, b)
        D = Psi @ self.items.mean
        V = np.zeros((len(a), len(self.s)))
        for c in self.items.components if tastes else self.items.components[: 1 - self.items.first]:
            S = S_0 if c == 0 and S_0 is not None else self.items.cov[c]
            V[:, c] = difference_variances(Psi, S, i, j) + rest / self.s[c]
        return D[i] - D[j], np.asarray(np.maximum(V, 0.0))

    def gaps(self, u: IntArray, a: IntArray, b: IntArray) -> FloatArray:
        """E[f_u(a) - f_u(b)]."""
        used, places = np.unique(np.concatenate((a, b)), return_inverse=True)
        D = self.view.rows(used) @ self.items.mean
        d = D[places[: len(a)]] - D[places[len(a) :]]
        return np.asarray(d[:, 0] + (d[:, 1:] * self.W[u]).sum(axis=1))

    def moments(self, u: IntArray, a: IntArray, b: IntArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of z = f_u(a) - f_u(b)."""
        m, v = np.zeros(len(u)), np.zeros(len(u))
        for start in range(0, len(u), CHUNK_PAIRS):
            rows = slice(start, start + CHUNK_PAIRS)
            d, V = self._differences(a[rows], b[rows])
            W, Omega = self.W[u[rows]], self.Omega[u[rows]]
            second = W * W + np.einsum("ucc->uc", Omega)
            e = d[:, 1:]
            m[rows] = d[:, 0] + (e * W).sum(axis=1)
            v[rows] = V[:, 0] + (V[:, 1:] * second).sum(axis=1) + ((e[:, None, :] @ Omega)[:, 0] * e).sum(axis=1)
        return m, v

    def proba(self, u: IntArray, a: IntArray, b: IntArray, sharpness: FloatArray | float = 1.0) -> FloatArray:
        """P(u says a rather than b): eq:predict_z in eq:plphi, with the noise of each user."""
        m, v = self.moments(u, a, b)
        return np.asarray(ndtr(sharpness * m / np.sqrt(1.0 + sharpness * sharpness * v)))

    def typical_proba(self, a: IntArray, b: IntArray) -> FloatArray:
        """The paper's consensus: a worker with w = 0."""
        d, V = self._differences(a, b, self.S_t, tastes=False)
        return np.asarray(ndtr(d[:, 0] / np.sqrt(1.0 + V[:, 0])))

    def mean_proba(self, a: IntArray, b: IntArray, n_workers: int) -> FloatArray:
        """P(the mean of n new workers' noisy utilities favours a)."""
        d, V = self._differences(a, b, self.S_t)
        taste = ((d[:, 1:] ** 2 + V[:, 1:]) / self.s_w).sum(axis=1)
        return np.asarray(ndtr(d[:, 0] / np.sqrt(V[:, 0] + (1.0 + taste) / n_workers)))

    def majority_proba(self, a: IntArray, b: IntArray, n_workers: int, rng: np.random.Generator) -> FloatArray:
        """P(most of n new workers prefer a), ties between them counted half: a mean over draws of (t, v)."""
        noise = rng.standard_normal((DRAWS, len(self.s)))
        noise = np.vstack((noise, -noise))  # pairs of opposite draws: swapping a and b gives exactly 1 - p
        out = np.zeros(len(a))
        for start in range(0, len(a), CHUNK_PAIRS // 16):
            rows = slice(start, start + CHUNK_PAIRS // 16)
            d, V = self._differences(a[rows], b[rows], self.S_t)
            draws = d[:, None, :] + np.sqrt(V)[:, None, :] * noise
            spread = np.sqrt(1.0 + (draws[:, :, 1:] ** 2 / self.s_w).sum(axis=2))
            out[rows] = majority(ndtr(draws[:, :, 0] / spread), n_workers).mean(axis=1)
        return out


def difference_variances(Psi: FloatArray, S: FloatArray, i: IntArray, j: IntArray) -> FloatArray:
    """(Psi_i - Psi_j)^T S (Psi_i - Psi_j) for each pair of rows, the cheaper way round."""
    if len(Psi) ** 2 <= 4 * len(i):
        cov = Psi @ S @ Psi.T
        own = cov.diagonal()
        return np.asarray(own[i] + own[j] - 2.0 * cov[i, j])
    X = Psi[i] - Psi[j]
    return np.asarray(np.einsum("nm,nm->n", X @ S, X))


def majority(p: FloatArray, n: int) -> FloatArray:
    """P(more than half of n agree) + half P(exactly half), each with probability p."""
    above = bdtrc(float(n // 2), n, p)
    if n % 2:
        return np.asarray(above)
    exactly = bdtr(float(n // 2), n, p) - bdtr(float(n // 2 - 1), n, p)
    return np.asarray(above + 0.5 * exactly)
