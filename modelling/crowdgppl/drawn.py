"""Predictions of a refined model: means and spreads over draws of the exact posterior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from .arrays import FloatArray, IntArray
from .intervals import Contrast
from .predict import Predictor, majority
from .refining import Draws

CHUNK_VALUES = 2_000_000  # numbers in one array of draws times pairs times components


@dataclass(frozen=True, eq=False)
class DrawnPredictor(Predictor):
    """Known users have drawn weights; a new one has t, traits and the prior of tastes in every draw.

    The draws may have directions of their own, in which the fit's means and covariances say nothing: whatever is asked
    of a predictor is answered here.
    """

    draws: Draws

    def consensus_draws(self, items: IntArray) -> FloatArray:
        """(D, n) t at these items, without what Psi leaves out of new ones."""
        return np.asarray(self.draws.B[:, 0] @ self.view.rows(items).T)

    def consensus_mean(self, items: IntArray) -> FloatArray:
        """t at these items."""
        return np.asarray(self.consensus_draws(items).mean(axis=0))

    def consensus_covariance(self, items: IntArray) -> FloatArray:
        """The covariance of t at these items."""
        F, _ = self.consensus_factors(items)
        if self.items.first:
            return np.zeros((len(items), len(items)))
        return np.asarray(F @ F.T + self.view.rest_covariance(items) * self.draws.variance[:, 0].mean())

    def consensus_factors(self, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """F (n, D) and r (n,): the same covariance as F F^T + diag(r)."""
        if self.items.first:
            return np.zeros((len(items), 0)), np.zeros(len(items))
        drawn = self.consensus_draws(items)
        F = (drawn - drawn.mean(axis=0)).T / np.sqrt(len(drawn))
        return F, self.view.rest_variances(items) * self.draws.variance[:, 0].mean()

    def weights(self, users: IntArray) -> tuple[FloatArray, FloatArray]:
        """(D, n, C) drawn weights, or what is expected of a new user, and the variance (n, C) around them."""
        known = users < self.draws.W.shape[1]
        drawn = self.draws.W[:, np.where(known, users, 0)]
        around = np.einsum("ucc->uc", self.Omega[users])
        return np.where(known[:, None], drawn, self.W[users]), np.where(known[:, None], 0.0, around)

    def utilities(self, users: IntArray, items: IntArray) -> FloatArray:
        """E[F], (items, users)."""
        rows, (W, _) = self.view.rows(items), self.weights(users)
        tastes = np.tensordot(self.draws.B[:, 1:], W, axes=((0, 1), (0, 2))) / len(W)  # (M, users)
        return np.asarray(rows @ (self.draws.B[:, 0].mean(axis=0)[:, None] + tastes))

    def personal_sd(self, users: IntArray, at: Contrast, own: bool) -> FloatArray:
        """(n, users): the deviations of utilities at these rows, or (own) of their differences from t."""
        D = self.draws.B @ at.rows.T  # (D, C + 1, n)
        t = 0.0 if own else D[:, 0]
        variance, left = np.zeros((len(at.rows), len(users))), self.draws.variance
        for place in range(len(users)):
            W, around = self.weights(users[place : place + 1])
            F = t + (D[:, 1:] * W[:, 0, :, None]).sum(axis=1)
            open_tastes = (np.square(D[:, 1:]) * around[0, :, None]).sum(axis=1).mean(axis=0)
            rest = ((np.square(W[:, 0]) + around[0]) * left[:, 1:]).sum(axis=1).mean()
            rest += 0.0 if own or self.items.first else left[:, 0].mean()
            variance[:, place] = F.var(axis=0) + open_tastes + rest * at.rest
        return np.asarray(np.sqrt(variance))

    def pairs(self, a: IntArray, b: IntArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Some pairs at a time: differences of t and the v_c in every draw (D, C + 1, k), and the variance left out."""
        size = max(1, CHUNK_VALUES // self.draws.B[:, :, 0].size)
        for start in range(0, len(a), size):
            rows = slice(start, start + size)
            X = self.view.rows(a[rows]) - self.view.rows(b[rows])
            yield rows, self.draws.B @ X.T, self.view.rest(a[rows], b[rows])

    def felt(self, u: IntArray, a: IntArray, b: IntArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Some pairs at a time: mean and variance of z = f_u(a) - f_u(b) in every draw, (D, k) each."""
        left = self.draws.variance
        for rows, D, rest in self.pairs(a, b):
            W, around = self.weights(u[rows])
            W = W.swapaxes(1, 2)
            second = np.square(W) + around.T
            v = (np.square(D[:, 1:]) * around.T).sum(axis=1)
            v = v + rest * (left[:, :1] * (1 - self.items.first) + (second * left[:, 1:, None]).sum(axis=1))
            yield rows, D[:, 0] + (D[:, 1:] * W).sum(axis=1), v

    def gaps(self, u: IntArray, a: IntArray, b: IntArray) -> FloatArray:
        """E[f_u(a) - f_u(b)]."""
        return self.moments(u, a, b)[0]

    def moments(self, u: IntArray, a: IntArray, b: IntArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of z = f_u(a) - f_u(b)."""
        mean, variance = np.zeros(len(u)), np.zeros(len(u))
        for rows, m, v in self.felt(u, a, b):
            mean[rows], variance[rows] = m.mean(axis=0), m.var(axis=0) + v.mean(axis=0)
        return mean, variance

    def proba(self, u: IntArray, a: IntArray, b: IntArray, sharpness: FloatArray | float = 1.0) -> FloatArray:
        """P(u says a rather than b): the mean over draws."""
        out, sharp = np.zeros(len(u)), np.broadcast_to(sharpness, len(u))
        for rows, m, v in self.felt(u, a, b):
            out[rows] = ndtr(sharp[rows] * m / np.sqrt(1.0 + np.square(sharp[rows]) * v)).mean(axis=0)
        return out

    def typical_proba(self, a: IntArray, b: IntArray) -> FloatArray:
        """A worker with w = 0."""
        out = np.zeros(len(a))
        for rows, D, rest in self.pairs(a, b):
            out[rows] = ndtr(D[:, 0] / np.sqrt(1.0 + rest * self.draws.variance[:, :1])).mean(axis=0)
        return out

    def mean_proba(self, a: IntArray, b: IntArray, n_workers: int) -> FloatArray:
        """P(the mean of n new workers' noisy utilities favours a)."""
        out = np.zeros(len(a))
        for rows, D, rest in self.pairs(a, b):
            spread = 1.0 + self._taste(D, rest)
            out[rows] = ndtr(D[:, 0] / np.sqrt(rest * self.draws.variance[:, :1] + spread / n_workers)).mean(axis=0)
        return out

    def majority_proba(self, a: IntArray, b: IntArray, n_workers: int, rng: np.random.Generator) -> FloatArray:
        """P(most of n new workers prefer a), ties between them counted half."""
        out = np.zeros(len(a))
        for rows, D, rest in self.pairs(a, b):
            spread = 1.0 + self._taste(D, rest) + rest * self.draws.variance[:, :1]
            out[rows] = majority(ndtr(D[:, 0] / np.sqrt(spread)), n_workers).mean(axis=0)
        return out

    def _taste(self, D: FloatArray, rest: FloatArray) -> FloatArray:
        """(D, k) the variance among new workers of what they prefer by."""
        open_items = rest * self.draws.variance[:, 1:, None]
        return np.asarray(((np.square(D[:, 1:]) + open_items) / self.s_w[:, None]).sum(axis=1))
