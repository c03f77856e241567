"""Moments of utilities and of differences between items, for the consensus and for users."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import bdtr

from .arrays import FloatArray, IntArray
from .item_prior import times
from .labels import LabelStore, chunks_of_users
from .likelihood import Response
from .posterior import Posterior
from .users import UserSolution, Visit

POINTS, POINT_WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
POINT_WEIGHTS = POINT_WEIGHTS / POINT_WEIGHTS.sum()
SCALE_POINTS, SCALE_WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
SCALE_WEIGHTS = SCALE_WEIGHTS / SCALE_WEIGHTS.sum()


@dataclass(frozen=True)
class Focus:
    """The pairs of items (a, b) to predict for each user, and the number of a user's labels to use."""

    pairs: dict[int, tuple[IntArray, IntArray]]
    size: int


def contrast_variance(M: FloatArray, a: IntArray, b: IntArray) -> FloatArray:
    """x' M x of pairs x = e_a - e_b."""
    return np.asarray(np.maximum(M[a, a] + M[b, b] - 2.0 * M[a, b], 0.0))


def consensus_covariance(post: Posterior) -> FloatArray:
    """Covariance of t with the uncertainty of the common scale: t is known up to a factor exp(+-scale_sd)."""
    t = post.t - post.t.mean()
    return np.asarray(post.S_t + post.scale_sd**2 * np.outer(t, t))


def solved_users(
    post: Posterior, store: LabelStore, users: IntArray, focus: Focus | None = None
) -> Iterator[tuple[int, Visit, UserSolution, int]]:
    """Yield each of these users who has labels, with the solution of their block and their index in it.

    With a `focus` only the labels of large blocks that are related to these pairs are used.
    """
    counts = store.count_labels(users[users < store.n_users])
    known, counts = users[users < store.n_users][counts > 0], counts[counts > 0]
    largest = post.n_items if focus is None else focus.size
    for chunk in chunks_of_users(known, counts, largest):
        batch = store.load(chunk)
        if focus is not None:
            pairs = [focus.pairs[user] for user in chunk.tolist()]
            batch = batch.select(batch.related_labels(pairs, post.n_items, focus.size))
        visit = Visit(batch, post)
        visit.integrate_users(post)
        for solution in visit.solutions:
            for place, user in enumerate(solution.block.users):
                yield int(chunk[user]), visit, solution, place


def personal_differences(
    post: Posterior, store: LabelStore, u: IntArray, a: IntArray, b: IntArray, weights_new: FloatArray | None = None,
    most: int | None = None,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Means and variances of z = f_ua - f_ub at the learned scale.

    `weights_new` are prior means of users beyond the known ones.
    For users with more than `most` labels on as many items, only labels related to these pairs are used.
    """
    mean, variance = post.t[a] - post.t[b], contrast_variance(post.S_t, a, b)
    if not post.personal:
        return mean, variance
    A = post.A
    prior = prior_weights(post, u, weights_new)
    if prior is not None:
        mean = mean + ((post.Psi[a] - post.Psi[b]) * prior).sum(axis=1)
    variance = variance + contrast_variance(A, a, b)
    order = np.argsort(u, kind="stable")
    users, first = np.unique(u[order], return_index=True)
    rows_of = dict(zip(users.tolist(), np.split(order, first[1:]), strict=True))
    focus = None if most is None else Focus({user: (a[rows], b[rows]) for user, rows in rows_of.items()}, most)
    for user, visit, solution, place in solved_users(post, store, users, focus):
        rows = rows_of[user]
        block, J = solution.block, solution.J[place]
        A_x = block.cross(place, A, a[rows], b[rows])
        S_x = block.cross(place, post.S_t, a[rows], b[rows])
        Y = block.prior_of(place, post.S_t)
        gain = A_x @ J
        alpha = visit.alpha(solution, post)[place]
        mean[rows] += A_x @ alpha
        variance[rows] += (gain * (gain @ Y - 2.0 * S_x - A_x)).sum(axis=1)
    return mean, np.maximum(variance, 0.0)


def personal_utilities(
    post: Posterior, store: LabelStore, users: IntArray, weights_new: FloatArray | None = None
) -> FloatArray:
    """Posterior mean utilities (N, users), not centred."""
    F = np.repeat(post.t[:, None], len(users), axis=1)
    if not post.personal:
        return F
    prior = prior_weights(post, users, weights_new)
    if prior is not None:
        F += post.Psi @ prior.T
    known = np.flatnonzero(users < store.n_users)
    for chunk in chunks_of_users(known, store.count_labels(users[known]) + 1, post.n_items):
        distinct, place = np.unique(users[chunk], return_inverse=True)
        visit = Visit(store.load(distinct), post)
        visit.integrate_users(post)
        F[:, chunk] += (post.A @ visit.scores(post).T)[:, place]
    return F


def utility_variances(
    post: Posterior, store: LabelStore, users: IntArray, among: IntArray, own: bool = False
) -> FloatArray:
    """Variances (N, users) of each user's utilities, or of their own part p_u, relative to the mean over `among`.

    Computed at the learned scales.
    """
    c = np.zeros(post.n_items)
    c[among] = 1.0 / len(among)
    A = post.A if post.personal else np.zeros((post.n_items, post.n_items))
    prior = centred_variances(A if own else post.S_t + A, c)
    out = np.repeat(prior[:, None], len(users), axis=1)
    if not post.personal:
        return out
    columns: dict[int, list[int]] = {}
    for column, user in enumerate(users.tolist()):
        columns.setdefault(user, []).append(column)
    for user, _, solution, place in solved_users(post, store, np.unique(users)):
        J, block = solution.J[place], solution.block
        A_D, S_D = block.cross_items(place, A), block.cross_items(place, post.S_t)
        gain = A_D @ J
        gain -= c @ gain  # utilities relative to their mean
        A_D, S_D = A_D - c @ A_D, S_D - c @ S_D
        Y = block.prior_of(place, post.S_t)
        change = (gain * (gain @ Y - (0.0 if own else 2.0 * S_D) - A_D)).sum(axis=1)
        out[:, columns[user]] += change[:, None]
    return np.maximum(out, 0.0)


def component_weights(
    post: Posterior, store: LabelStore, users: IntArray, v: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means (C, users) and covariances (users, C, C) of the weights in components v (C, N) of unit weight variance."""
    C = len(v)
    mean, covariance = np.zeros((C, len(users))), np.repeat(np.eye(C)[None], len(users), axis=0)
    prior = prior_weights(post, users, None)
    if prior is not None:
        coordinates = times(post.taste_prior.K_inverse, v.T)  # v_c' K_A^-1 p = |v_c|^2 w_c, |v_c|^2 = v_c' K_A^-1 v_c
        mean += (coordinates.T @ post.Psi @ prior.T) / (v.T * coordinates).sum(axis=0)[:, None]
    columns: dict[int, list[int]] = {}
    for column, user in enumerate(users.tolist()):
        columns.setdefault(user, []).append(column)
    last = None
    for user, visit, solution, place in solved_users(post, store, np.unique(users)):
        if solution is not last:
            last, v_block, alpha = solution, solution.block.at(v.T), visit.alpha(solution, post)
        v_D = v_block[place].T  # (C, q)
        gain = v_D @ solution.J[place]
        mean[:, columns[user]] += (v_D @ alpha[place])[:, None]
        Y = solution.block.prior_of(place, post.S_t)
        covariance[columns[user]] += gain @ Y @ gain.T - gain @ v_D.T
    return mean, covariance


def centred_variances(M: FloatArray, c: FloatArray) -> FloatArray:
    """Variances of f_i - c'f when f has covariance M."""
    M_c = M @ c
    return np.asarray(np.maximum(np.diagonal(M) - 2.0 * M_c + c @ M_c, 0.0))


def prior_weights(post: Posterior, users: IntArray, weights_new: FloatArray | None) -> FloatArray | None:
    """Expected weights in the directions Psi from traits, of known and of new users."""
    if post.trait_weights is None:
        return None
    known = post.trait_weights
    n_new = max(0, int(users.max(initial=-1)) + 1 - len(known))
    new = np.zeros((n_new, known.shape[1]))
    if weights_new is not None:
        new[: len(weights_new)] = weights_new[:n_new]
    return np.asarray(np.vstack((known, new))[users])


class UtilityScale(Protocol):
    """How utilities become answers, and the sd of the log of their common scale."""

    @property
    def response(self) -> Response: ...

    @property
    def scale_sd(self) -> float: ...


def probability(scale: UtilityScale, mean: FloatArray, variance: FloatArray, n_answers: int = 1) -> FloatArray:
    """P(a) + P(tie) / 2 of the mean of n answers where z has this mean and variance.

    The common scale of all utilities is integrated out.
    """
    factors = np.exp(scale.scale_sd * SCALE_POINTS)[:, None]
    spread = np.sqrt(1.0 / n_answers + factors**2 * variance)
    return np.asarray(SCALE_WEIGHTS @ scale.response.probability(factors * mean, spread, n_answers))


def consensus_probability(post: Posterior, a: IntArray, b: IntArray, kind: str, n_workers: int) -> FloatArray:
    """P(a) + P(tie) / 2 by a typical worker, by the mean utility of n new workers, or by their majority."""
    mean, variance = post.t[a] - post.t[b], contrast_variance(post.S_t, a, b)
    taste = contrast_variance(post.A, a, b) if post.personal else np.zeros(len(a))
    return crowd_probability(post, mean, variance, taste, kind, n_workers)


def crowd_probability(
    scale: UtilityScale, mean: FloatArray, variance: FloatArray, taste: FloatArray, kind: str, n_workers: int
) -> FloatArray:
    """`consensus_probability` of pairs with these moments of the consensus and this variance of tastes."""
    if kind == "typical":
        return probability(scale, mean, variance)
    if kind == "mean":
        return probability(scale, mean, variance + taste / n_workers, n_workers)
    if kind == "majority":
        z = mean[:, None] + np.sqrt(variance)[:, None] * POINTS
        chances = [
            majority(scale.response.probability(c * z, np.sqrt(1.0 + c**2 * taste)[:, None]), n_workers)
            for c in np.exp(scale.scale_sd * SCALE_POINTS)
        ]
        return np.asarray(np.tensordot(SCALE_WEIGHTS, chances, axes=1) @ POINT_WEIGHTS)
    raise ValueError(f"kind must be 'mean', 'typical' or 'majority', not {kind!r}.")


def majority(chance: FloatArray, n: int) -> FloatArray:
    """Probability that more than half of n workers, each with this probability, prefer a; a draw counts half."""
    above = 1.0 - bdtr(np.full(chance.shape, n // 2), n, chance)
    if n % 2:
        return np.asarray(above)
    draw = bdtr(np.full(chance.shape, n // 2), n, chance) - bdtr(np.full(chance.shape, n // 2 - 1), n, chance)
    return np.asarray(above + 0.5 * draw)
