"""Predictions in which every known user has a Gaussian process of their own (the finish)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import FloatArray, IntArray
from .finish import chunks, explained, offsets, own_rows, variances_at
from .ledger import Bucket
from .posterior import Finish, Posterior
from .predict import CHUNK_PAIRS, Predictor

CHUNK_ROWS = 1024


@dataclass(frozen=True, eq=False)
class RestPredictor(Predictor):
    """A known user has their own GP; a new one has t, traits and the prior of tastes."""

    post: Posterior
    finish: Finish

    @property
    def t(self) -> FloatArray:
        """The common part of personal predictions."""
        return self.items.mean[:, 0]

    @property
    def Z(self) -> FloatArray:
        """(N, r) the items in the directions of the rest."""
        return self.post.space.times(self.finish.root)

    @property
    def rest_scale(self) -> float:
        """The prior variance of what Psi leaves out, consensus and personal part together."""
        personal = float((1.0 / self.s[1:] / self.s_w).sum())
        return personal + (0.0 if self.items.first else float(1.0 / self.s[0]))

    def known(self, users: IntArray) -> list[Bucket]:
        """Those of the users who have labels, once each, in chunks."""
        present = np.unique(users[users < len(self.post.users.W)])
        return list(chunks(self.post, self.finish.root.shape[1], present))

    def prior_means(self, users: IntArray) -> FloatArray:
        """(n, C) what traits say of these users' weights; a new user's W is just that."""
        g = self.post.users.g
        return np.where((users < len(g))[:, None], g[np.minimum(users, len(g) - 1)], self.W[users])

    def coefficients(self, users: IntArray) -> FloatArray:
        """(n, r): E_u^T alpha_u of each user, 0 for users without labels."""
        post, finish, Z = self.post, self.finish, self.Z
        out = np.zeros((len(self.W), Z.shape[1]))
        for bucket in self.known(users):
            E = own_rows(post, Z, bucket)
            lam, tau = finish.lam[bucket.slots], finish.tau[bucket.slots]
            alpha = explained(E, lam, tau - lam * offsets(post, self.t, bucket))
            out[bucket.users] = (E.swapaxes(1, 2) @ alpha[:, :, None])[:, :, 0]
        return np.asarray(out[users])

    def utilities(self, users: IntArray, items: IntArray) -> FloatArray:
        """E[F], (items, users)."""
        Psi = self.view.rows(items)
        traits = Psi @ self.items.mean[:, 1:] @ self.prior_means(users).T
        own = (Psi @ self.finish.root) @ self.coefficients(users).T
        return np.asarray((Psi @ self.t)[:, None] + traits + own)

    def gaps(self, u: IntArray, a: IntArray, b: IntArray) -> FloatArray:
        """E[f_u(a) - f_u(b)], some users at a time."""
        order, out = np.argsort(u, kind="stable"), np.zeros(len(u))
        for start in range(0, len(u), CHUNK_PAIRS):
            rows = order[start : start + CHUNK_PAIRS]
            out[rows] = self._gaps(u[rows], self.view.rows(a[rows]) - self.view.rows(b[rows]))
        return out

    def _gaps(self, u: IntArray, X: FloatArray) -> FloatArray:
        traits = ((X @ self.items.mean[:, 1:]) * self.prior_means(u)).sum(axis=1)
        return np.asarray(X @ self.t + traits + ((X @ self.finish.root) * self.coefficients(u)).sum(axis=1))

    def moments(self, u: IntArray, a: IntArray, b: IntArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of z = f_u(a) - f_u(b)."""
        X = self.view.rows(a) - self.view.rows(b)
        v = self.variances(u, X @ self.finish.root) + self.rest_scale * self.view.rest(a, b)
        return self._gaps(u, X), np.asarray(np.maximum(v, 0.0))

    def variances(self, u: IntArray, e: FloatArray) -> FloatArray:
        """The variance of each predicted pair in its user's own GP."""
        out = np.asarray((e * e).sum(axis=1))
        order, Z = np.argsort(u, kind="stable"), self.Z
        for bucket in self.known(u):
            place = np.full(len(self.W), -1)
            place[bucket.users] = np.arange(len(bucket.users))
            rows = order[place[u[order]] >= 0]
            E, lam = own_rows(self.post, Z, bucket), self.finish.lam[bucket.slots]
            for start in range(0, len(rows), CHUNK_ROWS):
                each = rows[start : start + CHUNK_ROWS]
                out[each] = variances_at(E, lam, place[u[each]], e[each])
        return out
