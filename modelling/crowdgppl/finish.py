"""The finish: what mean field leaves uncertain about tastes becomes a private rest of each user.

After a fit, a user's personal part is p_u ~ N(0, A) with A = sum_c (m_c m_c^T + S_c) / s_w,c. Integrating it out
gives the covariance S_t behind the intervals of the consensus; with it each user is a plain GP with exact EP.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import linalg

from .arrays import FloatArray, IntArray
from .inducing import ItemView, leading
from .inference import Rules, update_in_place
from .items import inverse_from
from .ledger import Bucket
from .posterior import Finish, Posterior

REST_SWEEPS = 8
REST_DAMPING = 0.7


def personal_covariance(post: Posterior, share: float = 1.0) -> FloatArray:
    """A (M, M): the covariance of a user's personal part, with this share of the uncertainty of the v_c."""
    scaled = post.items.mean[:, 1:] / np.sqrt(post.s_w)
    return np.asarray(scaled @ scaled.T + np.tensordot(share / post.s_w, post.items.cov[1:], axes=1))


def own_rows(post: Posterior, Z: FloatArray, bucket: Bucket) -> FloatArray:
    """(k, n, r) differences of Z = Psi root over the labels of a bucket; rows of absent labels are zero."""
    q = post.ledger.q[bucket.slots]
    E = Z[post.ledger.pair_a[q]] - Z[post.ledger.pair_b[q]]
    E[bucket.slots == post.ledger.n_labels] = 0.0
    return np.asarray(E)


def chunks(post: Posterior, width: int, users: IntArray | None = None) -> Iterator[Bucket]:
    """The users' labels in pieces that fit the cache."""
    for bucket in post.ledger.buckets if users is None else post.ledger.buckets_of(users):
        yield from bucket.chunks(width)


def offsets(post: Posterior, t: FloatArray, bucket: Bucket) -> FloatArray:
    """(k, n) what is expected of each label before the user's own rest: t, and traits where there are some."""
    q = post.ledger.q[bucket.slots]
    T = post.space.times(t)
    known = T[post.ledger.pair_a[q]] - T[post.ledger.pair_b[q]]
    traits = post.users.g[bucket.users]
    return np.asarray(known + (post.pairs.d[q][:, :, 1:] @ traits[:, :, None])[:, :, 0])


def residual_precision(E: FloatArray, lam: FloatArray) -> FloatArray:
    """(k, n, n): (E E^T + Lam^-1)^-1, also where some lam are 0."""
    root = np.sqrt(lam)
    scaled = root[:, :, None] * E
    B = scaled @ scaled.swapaxes(1, 2)
    n = B.shape[1]
    B[:, np.arange(n), np.arange(n)] += 1.0
    return np.asarray(root[:, :, None] * np.linalg.inv(B) * root[:, None, :])


def whitened_covariance(E: FloatArray, lam: FloatArray) -> FloatArray:
    """(k, r, r): (I + E^T Lam E)^-1, for users with more labels than directions."""
    P = E.swapaxes(1, 2) @ (lam[:, :, None] * E)
    r = P.shape[1]
    P[:, np.arange(r), np.arange(r)] += 1.0
    return np.asarray(np.linalg.inv(P))


def apply_precision(E: FloatArray, lam: FloatArray, X: FloatArray) -> FloatArray:
    """(E E^T + Lam^-1)^-1 X for each user, X (k, n, j), by the smaller of the two systems."""
    if E.shape[1] <= E.shape[2]:
        return np.asarray(residual_precision(E, lam) @ X)
    weighted = lam[:, :, None] * X
    inner = whitened_covariance(E, lam) @ (E.swapaxes(1, 2) @ weighted)
    return np.asarray(weighted - lam[:, :, None] * (E @ inner))


def consensus_with_tastes_integrated(post: Posterior) -> tuple[FloatArray, FloatArray]:
    """S_t (M, M) and t (M,) with every user's personal part integrated out."""
    precision, shift = consensus_prior(post)
    add_consensus_evidence(post, personal_directions(post), precision, shift)
    return solved_consensus(precision, shift)


def consensus_prior(post: Posterior) -> tuple[FloatArray, FloatArray]:
    """Precision and shift of t before any label."""
    return post.scale_items.mean[0] * np.eye(post.space.M), np.zeros(post.space.M)


def personal_directions(post: Posterior) -> FloatArray:
    """(N, r) the items in the directions of a user's personal part: its covariance over items is Z Z^T."""
    F, root_values = leading(personal_covariance(post), post.space.M, scale=None)
    return post.space.times(F * root_values)


def add_consensus_evidence(post: Posterior, Z: FloatArray, precision: FloatArray, shift: FloatArray) -> None:
    """What the labels of a posterior say of t, tastes integrated out, added in place: users are a sum."""
    view = ItemView(post.space)
    for bucket in chunks(post, max(post.space.M, Z.shape[1])):
        q = post.ledger.q[bucket.slots]
        k, n = q.shape
        X = view.rows(post.ledger.pair_a[q].ravel()) - view.rows(post.ledger.pair_b[q].ravel())
        E = own_rows(post, Z, bucket)
        lam, tau = post.lam[bucket.slots], post.tau[bucket.slots]
        target = tau - lam * offsets(post, np.zeros(post.space.M), bucket)
        K_target = E @ (E.swapaxes(1, 2) @ target[:, :, None])
        solved = apply_precision(E, lam, np.concatenate((X.reshape(k, n, -1), K_target), axis=2)).reshape(k * n, -1)
        precision += X.T @ solved[:, :-1]
        shift += X.T @ (target.ravel() - solved[:, -1])


def solved_consensus(precision: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Covariance and mean of t from its natural parameters."""
    factor = linalg.cholesky(0.5 * (precision + precision.T), lower=True)
    return inverse_from(factor), np.asarray(linalg.cho_solve((factor, True), shift))


def variances_at(E: FloatArray, lam: FloatArray, own: IntArray, rows: FloatArray) -> FloatArray:
    """The variance left at single rows (j, r), row i belonging to user own[i] of the bucket."""
    if E.shape[1] > E.shape[2]:
        Omega = whitened_covariance(E, lam)
        return np.asarray(((rows[:, None, :] @ Omega[own])[:, 0] * rows).sum(axis=1))
    N = residual_precision(E, lam)
    across = (E[own] @ rows[:, :, None])[:, :, 0]
    removed = ((across[:, None, :] @ N[own])[:, 0] * across).sum(axis=1)
    return np.asarray((rows * rows).sum(axis=1) - removed)


def explained(E: FloatArray, lam: FloatArray, target: FloatArray) -> FloatArray:
    """(K + Lam^-1)^-1 Lam^-1 target = target - N K target, (k, n), without dividing by lam."""
    KT = (E @ (E.swapaxes(1, 2) @ target[:, :, None]))[:, :, 0]
    return np.asarray(target - apply_precision(E, lam, KT[:, :, None])[:, :, 0])


def rest_moments(
    E: FloatArray, K: FloatArray | None, lam: FloatArray, target: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of each label's z around its offset, in the user's own GP."""
    if K is None:
        Omega = whitened_covariance(E, lam)
        mean = E @ (Omega @ (E.swapaxes(1, 2) @ target[:, :, None]))
        return mean[:, :, 0], np.asarray(((E @ Omega) * E).sum(axis=2))
    N = residual_precision(E, lam)
    KN = K @ N
    KT = (K @ target[:, :, None])[:, :, 0]
    mean = KT - (KN @ KT[:, :, None])[:, :, 0]
    return mean, np.asarray(np.einsum("knn->kn", K) - (KN * K).sum(axis=2))


def settle_rest(post: Posterior, finish: Finish, rules: Rules, users: IntArray | None = None) -> None:
    """Exact EP in each user's own GP (a plain GP: its cavities are proper), sites in place."""
    t, Z = post.items.mean[:, 0], post.space.times(finish.root)
    for bucket in chunks(post, Z.shape[1], users):
        E = own_rows(post, Z, bucket)
        K = E @ E.swapaxes(1, 2) if E.shape[1] <= E.shape[2] else None
        offset = offsets(post, t, bucket)
        lam, tau = finish.lam[bucket.slots], finish.tau[bucket.slots]
        y, weight, a = post.ledger.y[bucket.slots], post.ledger.weight[bucket.slots], post.sharpness(bucket.slots)
        for _ in range(REST_SWEEPS):
            mean, variance = rest_moments(E, K, lam, tau - lam * offset)
            update_in_place(lam, tau, offset + mean, variance, y, weight, rules.likelihood, REST_DAMPING, a)
        finish.lam[bucket.slots], finish.tau[bucket.slots] = lam, tau
    finish.lam[-1] = finish.tau[-1] = 0.0


def finished(post: Posterior, rules: Rules, personal: bool, settle: bool = True, share: float = 1.0) -> Finish:
    """The finish of a fitted posterior: S_t; t settled with it, and a private rest, where they are wanted."""
    M = post.space.M
    S_t, t = consensus_of(post)
    if settle and post.n_components:
        settle_consensus(post, t)
    if not personal or post.n_components == 0:
        return Finish(S_t, np.zeros((M, 0)), np.zeros(0), np.zeros(0), settled=settle, share=share)
    root = rest_root(post, S_t)
    finish = Finish(S_t, root, post.lam.copy(), post.tau.copy(), personal=True, settled=settle, share=share)
    settle_rest(post, finish, rules)
    return finish


def consensus_of(post: Posterior) -> tuple[FloatArray, FloatArray]:
    """S_t and t: tastes integrated out where there are some; nothing where there is no consensus."""
    M = post.space.M
    if post.items.first:
        return np.zeros((M, M)), np.zeros(M)
    if post.n_components == 0:
        return post.items.cov[0].copy(), post.items.mean[:, 0]
    return consensus_with_tastes_integrated(post)


def rest_root(post: Posterior, S_t: FloatArray, share: float = 1.0) -> FloatArray:
    """(M, r): a root of A + S_t, the covariance of a user's own GP."""
    E, values = leading(personal_covariance(post, share) + S_t, post.space.M)
    return np.asarray(E * values)


def refresh_intervals(post: Posterior) -> None:
    """S_t of the present sites: small updates leave it for when it is asked for."""
    if post.finish is not None and post.finish.stale:
        post.finish.S_t = consensus_of(post)[0]
        post.finish.stale = False


def settle_consensus(post: Posterior, t: FloatArray) -> None:
    """t moved to its mean with tastes integrated out, and the users made exact for it.

    Departure: mean field takes the users' weights for known, and credits t with what their average explains.
    See test_the_consensus_is_nearer_to_the_truth_with_tastes_integrated_out.
    """
    post.items.mean[:, 0] = t
    post.refresh_pairs()
    post.refresh_users()
