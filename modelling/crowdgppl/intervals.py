"""How sure each user's utilities are: t and every user's personal part as one Gaussian, nothing counted twice.

Given the sites of the fit and p_u ~ N(0, A), the labels of u say of p_u what they leave over once t is known, and S_t
says how well t is known from everybody. With K_u = A X_u^T N_u X_u and P_u = A - A X_u^T N_u X_u A

    cov(t + p_u) = (I - K_u) S_t (I - K_u)^T + P_u,      cov(p_u) = K_u S_t K_u^T + P_u.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .arrays import FloatArray, IntArray
from .finish import apply_precision, chunks, own_rows, personal_covariance
from .inducing import ItemView, leading
from .posterior import Posterior


@dataclass(frozen=True, eq=False)
class Contrast:
    """Items in whitened rows (n, M), and the variance (n,) that Psi leaves out of each, for s = 1."""

    rows: FloatArray
    rest: FloatArray

    @classmethod
    def of(cls, view: ItemView, items: IntArray, among: IntArray | None) -> Contrast:
        """The items themselves, or how far each is from the mean of those `among` which it stands."""
        if among is None:
            return cls(view.rows(items), view.rest_variances(items))
        centre = view.centre(among)
        return cls(view.rows(items) - centre.row, view.rest_from(centre, items))


@dataclass(frozen=True, eq=False)
class PersonalIntervals:
    """Standard deviations of users' utilities, t + p_u, or of what is their own in them, p_u."""

    post: Posterior
    S_t: FloatArray  # (M, M)
    share: float  # of the uncertainty of the v_c that is taken for a private rest of each user
    Omega: FloatArray  # (U, C, C) of known users and strangers; only that of strangers is used

    def sd(self, users: IntArray, at: Contrast, own: bool = False) -> FloatArray:
        """(n, users): the deviations of utilities at these rows, or (own) of their differences from t."""
        every = np.unique(users)
        variance = np.zeros((len(every), len(at.rows)))
        for user, each in self._variances(every, at.rows, own):
            variance[np.searchsorted(every, user)] = each
        known = variance[np.searchsorted(every, users)].T
        return np.asarray(np.sqrt(np.maximum(known + (self._rest_scale(own) * at.rest)[:, None], 0.0)))

    def _variances(self, users: IntArray, rows: FloatArray, own: bool) -> Iterator[tuple[int, FloatArray]]:
        """Each user once with the variances at the rows: those with labels, those without, and strangers."""
        counts = np.concatenate((self.post.ledger.counts, np.zeros(len(self.Omega) - len(self.post.users.W), int)))
        judged = users[counts[users] > 0] if self.post.n_components else users[:0]
        A = personal_covariance(self.post, self.share)
        common, alone = np.zeros(len(rows)) if own else quadratic(rows, self.S_t), quadratic(rows, A)
        for user in np.setdiff1d(users, judged).tolist():
            known = user < len(self.post.users.W)
            yield user, common + (alone if known else quadratic(rows, self._stranger(self.Omega[user])))
        if not len(judged):
            return
        F, values = leading(A, self.post.space.M)
        F = F * values
        Z, F_rows = self.post.space.times(F), rows @ F
        for bucket in chunks(self.post, max(F.shape), judged):
            X, E = self._label_rows(bucket.slots), own_rows(self.post, Z, bucket)
            across = E.swapaxes(1, 2) @ apply_precision(E, self.post.lam[bucket.slots], np.concatenate((X, E), axis=2))
            for user, each in zip(bucket.users.tolist(), across, strict=True):
                follows = F_rows @ each[:, : X.shape[2]]  # K_u at the rows
                left = np.eye(F.shape[1]) - each[:, X.shape[2] :]
                yield user, quadratic(follows if own else rows - follows, self.S_t) + quadratic(F_rows, left)

    def _label_rows(self, slots: IntArray) -> FloatArray:
        """(k, n, M): X_u of some users; rows of absent labels have no weight."""
        ledger, view = self.post.ledger, ItemView(self.post.space)
        q = ledger.q[slots]
        X = view.rows(ledger.pair_a[q].ravel()) - view.rows(ledger.pair_b[q].ravel())
        return np.asarray(X.reshape(*q.shape, -1))

    def _stranger(self, Omega: FloatArray) -> FloatArray:
        """The covariance of the personal part of somebody whose weights have this one: what traits leave open."""
        B, S = self.post.items.mean[:, 1:], self.post.items.cov[1:]
        return np.asarray(B @ Omega @ B.T + np.tensordot(self.share * Omega.diagonal(), S, axes=1))

    def _rest_scale(self, own: bool) -> float:
        """The prior variance of what Psi leaves out."""
        s = self.post.scale_items.mean
        personal = self.share * float((1.0 / s[1:] / self.post.s_w).sum())
        return personal + (0.0 if own or self.post.items.first else float(1.0 / s[0]))


def quadratic(rows: FloatArray, S: FloatArray) -> FloatArray:
    """row^T S row of each row."""
    return np.asarray(((rows @ S) * rows).sum(axis=1))
