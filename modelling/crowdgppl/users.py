"""The user step: given the items, each user's weights are a small exact Gaussian, jointly over components."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .arrays import FloatArray, IntArray
from .ledger import Bucket, Ledger


@dataclass
class PairMoments:
    """What the items say of each unordered pair, column 0 being t: differences d and their variances V."""

    d: FloatArray  # (Qn, C + 1)
    V: FloatArray  # (Qn, C + 1)


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
    def energy(self) -> FloatArray:
        """(C,) sum over users of E[(w - g)^2]."""
        return np.asarray(((self.W - self.g) ** 2).sum(axis=0) + self.variances.sum(axis=0))


def weights_given_items(
    e: FloatArray, V: FloatArray, lam: FloatArray, target: FloatArray, s_w: FloatArray, g: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean (k, C) and covariance (k, C, C) of the weights of k users with n labels each.

    eq:Sigma and eq:what. Departure: Omega_u is full over components, not diagonal, and exact given the
    items. See test_the_user_step_equals_dense_algebra and test_joint_users_predict_better_than_separate_ones.
    """
    h = s_w + (lam[:, None, :] @ V)[:, 0]
    shift = (target[:, None, :] @ e)[:, 0] + s_w * g
    _, n, C = e.shape
    f = np.sqrt(lam)[:, :, None] * e
    if n < C:
        fh = f / h[:, None, :]
        G = fh @ f.swapaxes(1, 2)
        G[:, np.arange(n), np.arange(n)] += 1.0
        Omega: FloatArray = -(fh.swapaxes(1, 2) @ (np.linalg.inv(G) @ fh))
        Omega[:, np.arange(C), np.arange(C)] += 1.0 / h
    else:
        precision = f.swapaxes(1, 2) @ f
        precision[:, np.arange(C), np.arange(C)] += h
        Omega = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    return (Omega @ shift[:, :, None])[:, :, 0], Omega


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
    d, V = pairs.d[q], pairs.V[q]
    d_0, e = d[:, :, 0], np.ascontiguousarray(d[:, :, 1:])
    lam_u, tau_u = lam[bucket.slots], tau[bucket.slots]
    W, Omega = weights_given_items(e, V[:, :, 1:], lam_u, tau_u - lam_u * d_0, s_w, users.g[bucket.users])
    users.W[bucket.users] = W
    users.Omega[bucket.users] = Omega
    second = W * W + np.einsum("ucc->uc", Omega)
    m[bucket.slots] = d_0 + (e @ W[:, :, None])[:, :, 0]
    spread = V[:, :, 0] + (V[:, :, 1:] @ second[:, :, None])[:, :, 0]
    v[bucket.slots] = spread + ((e @ Omega) * e).sum(axis=2)


def user_step(
    ledger: Ledger,
    pairs: PairMoments,
    sites: tuple[FloatArray, FloatArray],
    s_w: FloatArray,
    users: Users,
    moments: tuple[FloatArray, FloatArray],
    buckets: Iterable[Bucket] | None = None,
) -> None:
    """Exact weights of all users (or those in these buckets), and the moments m, v of z for their labels."""
    m, v = moments
    if len(s_w) == 0:
        m[:] = pairs.d[ledger.q, 0]
        v[:] = pairs.V[ledger.q, 0]
        return
    for bucket in ledger.buckets if buckets is None else buckets:
        for chunk in bucket.chunks(len(s_w)):
            update_bucket(chunk, ledger, pairs, sites, s_w, users, moments)


def reset_without_labels(ledger: Ledger, users: Users, s_w: FloatArray) -> None:
    """Users without labels are at their prior, which may have moved."""
    absent: IntArray = np.flatnonzero(ledger.counts == 0)
    if len(absent) and len(s_w):
        users.W[absent] = users.g[absent]
        users.Omega[absent] = np.diag(1.0 / s_w)
