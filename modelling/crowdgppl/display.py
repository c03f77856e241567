"""Components for people to look at: turned to principal axes, ordered by energy, with the paper's variances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from .arrays import FloatArray
from .posterior import Posterior
from .users import Users


@dataclass(frozen=True, eq=False)
class Axes:
    """The components as displayed; `item_turn` and `user_turn` lead there from the fitted ones."""

    items: FloatArray  # (C, N)
    users: FloatArray  # (C, U)
    energy: FloatArray  # (C,)
    variances: FloatArray  # (C,)
    prior_variances: FloatArray  # (C,) the same before any label
    item_turn: FloatArray  # (C, C): V' = V item_turn
    user_turn: FloatArray  # (C, C): W' = W user_turn


def principal_turn(V: FloatArray, users: Users) -> tuple[FloatArray, FloatArray]:
    """Turns (C, C) after which V' W'^T is unchanged, the items' axes are orthogonal and E[w'^2] has mean 1.

    The users' uncertainty is counted in: without it a component that nobody uses would be blown up until its means,
    nearly 0, had mean square 1, and its variance with them.
    """
    G = users.W.T @ users.W / len(users.W) + users.total_covariance / len(users.W)
    L = linalg.cholesky(G, lower=True)
    few = len(V) < V.shape[1]  # only then are the C axes of the items not among the first len(V)
    _, _, Qt = np.linalg.svd((V - V.mean(axis=0)) @ L, full_matrices=few)
    return fixed_signs(V, L @ Qt.T, linalg.solve_triangular(L.T, Qt.T, lower=False))


def fixed_signs(V: FloatArray, item_turn: FloatArray, user_turn: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each component's largest item value is positive, so that a picture does not flip by itself."""
    turned = V @ item_turn
    largest = turned[np.abs(turned).argmax(axis=0), np.arange(turned.shape[1])]
    signs = np.where(largest < 0, -1.0, 1.0)
    return item_turn * signs, user_turn * signs


def component_energy(V: FloatArray, W: FloatArray) -> FloatArray:
    """(C,) mean over users and items of (E[v] E[w])^2, v centred over items: squares of posterior means."""
    centred = V - V.mean(axis=0)
    return np.asarray((centred**2).mean(axis=0) * (W**2).mean(axis=0))


def gamma_variances(
    post: Posterior,
    item_turn: FloatArray,
    user_turn: FloatArray,
    v_prior: tuple[float, float],
    w_prior: tuple[float, float],
) -> FloatArray:
    """(C,) 1 / (E[s_v] E[s_w]) of the turned components under Gamma priors (eq:qs)."""
    mean = post.items.mean[:, 1:] @ item_turn
    traces = np.einsum("cmm->c", post.items.cov[1:])
    Ev = (mean**2).sum(axis=0) + (item_turn**2).T @ traces
    W = post.users.W @ user_turn
    Omega = post.users.total_covariance
    Ew = (W**2).sum(axis=0) + np.einsum("cj,cd,dj->j", user_turn, Omega, user_turn)
    return gamma_scale(v_prior, len(mean), Ev) * gamma_scale(w_prior, len(W), Ew)


def gamma_scale(prior: tuple[float, float], dimension: int, energy: FloatArray) -> FloatArray:
    """1 / E[s] of the Gamma posterior of eq:qs."""
    return np.asarray((prior[1] + 0.5 * energy) / (prior[0] + 0.5 * dimension))


def prior_variances(
    post: Posterior, turned: bool, v_prior: tuple[float, float], w_prior: tuple[float, float]
) -> FloatArray:
    """(C,) what the variances of the components are before any label, and stay for one that gets no data."""
    of_items, of_users = post.scale_items.prior_mean[1:], post.scale_users.prior_mean
    if not turned:
        return np.asarray(1.0 / (of_items * of_users))
    M, U = post.space.M, len(post.users.W)
    return gamma_scale(v_prior, M, M / of_items) * gamma_scale(w_prior, U, U / of_users)


def displayed(post: Posterior, turn: bool, v_prior: tuple[float, float], w_prior: tuple[float, float]) -> Axes:
    """The components of a posterior, turned where their scales are shared (then only their span is known)."""
    V, W = post.space.times(post.items.mean[:, 1:]), post.users.W
    C = V.shape[1]
    if C == 0:
        none, square = np.zeros(0), np.zeros((0, 0))
        return Axes(V.T, W.T, none, none, none, square, square)
    item_turn, user_turn = principal_turn(V, post.users) if turn else (np.eye(C), np.eye(C))
    energy = component_energy(V @ item_turn, W @ user_turn)
    if turn:
        order = np.argsort(-energy, kind="stable")
        item_turn, user_turn, energy = item_turn[:, order], user_turn[:, order], energy[order]
        variances = gamma_variances(post, item_turn, user_turn, v_prior, w_prior)
    else:
        variances = 1.0 / (post.scale_items.mean[1:] * post.scale_users.mean)
    prior = prior_variances(post, turn, v_prior, w_prior)
    return Axes((V @ item_turn).T, (W @ user_turn).T, energy, variances, prior, item_turn, user_turn)
