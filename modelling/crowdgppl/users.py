"""The user step: given the items, each user's weights are a small exact Gaussian, jointly over components."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .arrays import FloatArray, IntArray
from .ledger import Bucket, Ledger

LEAST_PRECISION = 1e-20  # of a site, so that one that says nothing can be divided by


class PairMoments:
    """What the items say of each unordered pair, column 0 being t: differences d and their variances V.

    V may be given as what makes it: a model that is only read never asks for it.
    """

    def __init__(self, d: FloatArray, V: FloatArray | Callable[[], FloatArray]) -> None:
        self.d = d  # (Qn, C + 1)
        self._V = V

    @property
    def V(self) -> FloatArray:
        """(Qn, C + 1)"""
        if callable(self._V):
            self._V = self._V()
        return self._V

    @cached_property
    def e(self) -> FloatArray:
        """(Qn, C) the differences of the v_c, contiguous."""
        return np.ascontiguousarray(self.d[:, 1:])

    @cached_property
    def V_taste(self) -> FloatArray:
        """(Qn, C) their variances, contiguous."""
        return np.ascontiguousarray(self.V[:, 1:])

    def drop_copies(self) -> None:
        """The contiguous parts are given back; who asks for them again gets them made again."""
        for name in ("e", "V_taste"):
            self.__dict__.pop(name, None)

    def copy(self) -> PairMoments:
        """The same moments, independent of these."""
        return PairMoments(self.d.copy(), self.V.copy())


@dataclass
class Users:
    """q(w_u) = N(W_u, Omega_u), with prior N(g_u, 1 / s_w); users without labels keep the prior."""

    W: FloatArray  # (U, C)
    Omega: FloatArray  # (U, C, C)
    g: FloatArray  # (U, C) prior means: zero without traits

    @classmethod
    def prior(cls, n_users: int, s_w: FloatArray) -> Users:
        """Users before any label."""
        C = len(s_w)
        Omega = np.zeros((n_users, C, C))
        Omega[:, np.arange(C), np.arange(C)] = 1.0 / s_w
        return cls(np.zeros((n_users, C)), Omega, np.zeros((n_users, C)))

    def rescale(self, k: FloatArray) -> None:
        """w_c -> w_c / k_c."""
        self.W /= k
        self.g /= k
        self.Omega /= k[:, None] * k

    def grown(self, n_users: int, s_w: FloatArray) -> Users:
        """With new users at the prior."""
        new = Users.prior(n_users - len(self.W), s_w)
        return Users(
            np.concatenate((self.W, new.W)), np.concatenate((self.Omega, new.Omega)), np.concatenate((self.g, new.g))
        )

    def copy(self) -> Users:
        """The same users, independent of these."""
        return Users(self.W.copy(), self.Omega.copy(), self.g.copy())

    @property
    def variances(self) -> FloatArray:
        """(U, C) the diagonals of Omega."""
        return np.asarray(np.einsum("ucc->uc", self.Omega))

    @property
    def total_covariance(self) -> FloatArray:
        """(C, C) the sum of Omega over users."""
        return np.asarray(self.Omega.sum(axis=0))

    @property
    def energy(self) -> FloatArray:
        """(C,) sum over users of E[w^2]."""
        return np.asarray((self.W**2).sum(axis=0) + self.variances.sum(axis=0))


@dataclass
class KeptMeans(Users):
    """Users of whom only the means are kept: Omega and g are empty, and made again from the labels when needed."""

    total: FloatArray  # (C, C)

    @property
    def total_covariance(self) -> FloatArray:
        return self.total


def weights_given_items(
    e: FloatArray, V: FloatArray, lam: FloatArray, target: FloatArray, s_w: FloatArray, g: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean (k, C) and covariance (k, C, C) of the weights of k users with n labels each, and e^T Omega e (k, n).

    eq:Sigma and eq:what. Departure: Omega_u is full over components, not diagonal, and exact given the
    items. See test_the_user_step_equals_dense_algebra and test_joint_users_predict_better_than_separate_ones.
    """
    h = s_w + (lam[:, None, :] @ V)[:, 0]
    shift = (target[:, None, :] @ e)[:, 0] + s_w * g
    Omega, spread = few_labels(e, lam, h) if e.shape[1] < e.shape[2] else many_labels(e, lam, h)
    return (Omega @ shift[:, :, None])[:, :, 0], Omega, spread


def few_labels(e: FloatArray, lam: FloatArray, h: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Omega = (diag(h) + e^T Lam e)^-1 through an n x n inverse, and e Omega e^T on its diagonal.

    With a = Lam^1/2 e, a Omega = (I + a diag(1/h) a^T)^-1 a diag(1/h): one product serves both.
    """
    _, n, C = e.shape
    root = np.sqrt(np.maximum(lam, LEAST_PRECISION))[:, :, None]
    a = root * e
    ah = a / h[:, None, :]
    G = ah @ a.swapaxes(1, 2)
    G[:, np.arange(n), np.arange(n)] += 1.0
    a_Omega: FloatArray = np.linalg.inv(G) @ ah
    Omega: FloatArray = ah.swapaxes(1, 2) @ -a_Omega
    Omega[:, np.arange(C), np.arange(C)] += 1.0 / h
    return Omega, np.asarray(np.einsum("knc,knc->kn", e, a_Omega) / root[:, :, 0])


def many_labels(e: FloatArray, lam: FloatArray, h: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same through a C x C inverse."""
    C = e.shape[2]
    precision = e.swapaxes(1, 2) @ (lam[:, :, None] * e)
    precision[:, np.arange(C), np.arange(C)] += h
    Omega: FloatArray = np.asarray(np.linalg.inv(precision))
    return Omega, np.asarray(((e @ Omega) * e).sum(axis=2))


def update_bucket(
    bucket: Bucket,
    ledger: Ledger,
    pairs: PairMoments,
    sites: tuple[FloatArray, FloatArray],
    s_w: FloatArray,
    users: Users,
    moments: tuple[FloatArray, FloatArray],
) -> None:
    """The weights of one bucket of users and the moments of their labels' z, in place."""
    lam, tau = sites
    m, v = moments
    q = ledger.q[bucket.slots]
    d_0, V_0 = pairs.d[:, 0][q], pairs.V[:, 0][q]
    e, V = np.take(pairs.e, q, axis=0), np.take(pairs.V_taste, q, axis=0)
    lam_u, tau_u = lam[bucket.slots], tau[bucket.slots]
    own = s_w if s_w.ndim == 1 else s_w[bucket.users]
    W, Omega, spread = weights_given_items(e, V, lam_u, tau_u - lam_u * d_0, own, users.g[bucket.users])
    users.W[bucket.users] = W
    users.Omega[bucket.users] = Omega
    second = W * W + np.einsum("ucc->uc", Omega)
    m[bucket.slots] = d_0 + (e @ W[:, :, None])[:, :, 0]
    v[bucket.slots] = V_0 + (V @ second[:, :, None])[:, :, 0] + spread


def user_step(
    ledger: Ledger,
    pairs: PairMoments,
    sites: tuple[FloatArray, FloatArray],
    s_w: FloatArray,
    users: Users,
    moments: tuple[FloatArray, FloatArray],
    buckets: Iterable[Bucket] | None = None,
) -> None:
    """Exact weights of all users (or those in these buckets), and the moments m, v of z for their labels.

    `s_w` is the prior precision of the weights: (C,) of everybody, or (U, C) of each user.
    """
    m, v = moments
    C = s_w.shape[-1]
    if C == 0:
        m[:] = pairs.d[ledger.q, 0]
        v[:] = pairs.V[ledger.q, 0]
        return
    for bucket in ledger.buckets if buckets is None else buckets:
        for chunk in bucket.chunks(C):
            update_bucket(chunk, ledger, pairs, sites, s_w, users, moments)


def present_moments(ledger: Ledger, pairs: PairMoments, users: Users) -> tuple[FloatArray, FloatArray]:
    """m and v of every label's z under items and users as they stand, nothing moved."""
    m, v = np.zeros(ledger.n_labels + 1), np.zeros(ledger.n_labels + 1)
    for bucket in ledger.buckets:
        for chunk in bucket.chunks(max(users.W.shape[1], 1)):
            q, W, Omega = ledger.q[chunk.slots], users.W[chunk.users], users.Omega[chunk.users]
            e, second = pairs.e[q], W * W + np.einsum("ucc->uc", Omega)
            m[chunk.slots] = pairs.d[:, 0][q] + (e @ W[:, :, None])[:, :, 0]
            spread = (pairs.V_taste[q] @ second[:, :, None])[:, :, 0]
            v[chunk.slots] = pairs.V[:, 0][q] + spread + ((e @ Omega) * e).sum(axis=2)
    return m, v


def reset_without_labels(ledger: Ledger, users: Users, s_w: FloatArray) -> None:
    """Users without labels are at their prior, which may have moved."""
    absent: IntArray = np.flatnonzero(ledger.counts == 0)
    if len(absent) and s_w.shape[-1]:
        users.W[absent] = users.g[absent]
        own = s_w if s_w.ndim == 1 else s_w[absent]
        users.Omega[absent] = np.eye(s_w.shape[-1]) / own[..., None]
