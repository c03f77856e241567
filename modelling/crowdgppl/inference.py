"""Coordinate ascent over users, sites, items and scales (al:crowdgppl, with users as local variables)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .arrays import FloatArray, IntArray
from .items import item_step, pair_statistics
from .likelihood import ep_sites, linear_sites, vb_sites
from .posterior import Posterior
from .scales import best_exchange
from .traits import EVERY, FIRST_ITERATION, learn_traits
from .users import reset_without_labels

VB_DAMPING = 0.5  # undamped VB sites can lower the bound. See test_damped_vb_never_lowers_the_bound
NEGLIGIBLE = 1e-2  # rms of z, in units of the label noise, below which nothing is being said


@dataclass(frozen=True)
class Rules:
    """How a fit proceeds; the same for all its iterations."""

    likelihood: str = "ep"
    tolerance: float = 1e-2
    max_iterations: int = 25
    exchange: bool = True


def update_sites(post: Posterior, rules: Rules, rows: IntArray | slice = slice(None)) -> None:
    """New sites of these labels from the moments of z.

    Phi(a z) is the plain likelihood of a z, so a site of a z is found as ever, and lam a^2, tau a is that of z.
    """
    a = post.sharpness(rows)
    m, v, lam, tau = a * post.m[rows], a * a * post.v[rows], post.lam[rows] / (a * a), post.tau[rows] / a
    y, weight = post.ledger.y[rows], post.ledger.weight[rows]
    if rules.likelihood == "ep":
        new_lam, new_tau, post.improper = ep_sites(m, v, lam, tau, y, weight)
    elif rules.likelihood == "vb":
        new_lam, new_tau = vb_sites(m, v, y, weight)
        keep = np.where(lam > 0, VB_DAMPING, 0.0)
        new_lam, new_tau = keep * lam + (1.0 - keep) * new_lam, keep * tau + (1.0 - keep) * new_tau
    else:
        new_lam, new_tau = linear_sites(m, y, weight, prior_variance(post))
    post.lam[rows], post.tau[rows] = a * a * new_lam, a * new_tau


def update_in_place(
    lam: FloatArray,
    tau: FloatArray,
    m: FloatArray,
    v: FloatArray,
    y: FloatArray,
    weight: FloatArray,
    likelihood: str,
    damping: float,
    a: FloatArray | float = 1.0,
) -> None:
    """Sites of any shape moved a share `damping` of the way to their new values; `a` as in `update_sites`."""
    flat = [each.ravel() for each in (a * m, a * a * v, lam / (a * a), tau / a, y, weight)]
    if likelihood == "vb":
        new_lam, new_tau = vb_sites(flat[0], flat[1], flat[4], flat[5])
    else:
        new_lam, new_tau, _ = ep_sites(*flat)
    lam += damping * (a * a * new_lam.reshape(lam.shape) - lam)
    tau += damping * (a * new_tau.reshape(tau.shape) - tau)


def prior_variance(post: Posterior) -> float:
    """The variance of z under the prior, for items that share nothing."""
    s, s_w = post.scale_items.mean, post.s_w
    total = (1.0 / s[1:] / s_w).sum() + (1.0 / s[0] if post.items.first == 0 else 0.0)
    return float(2.0 * total)


def update_item_scales(post: Posterior, rho: float = 1.0) -> None:
    """eq:qs for t and the v_c."""
    post.scale_items.update(post.space.M, post.items.energy, rho)


def update_user_scales(post: Posterior) -> None:
    """eq:qs for the w_c, where they are learned at all."""
    if post.scale_users.learned.any():
        post.scale_users.update(len(post.users.W), post.users.energy)


def exchange_scales(post: Posterior, user_energy: FloatArray | None = None, n_users: int | None = None) -> FloatArray:
    """v_c -> k v_c and w_c -> w_c / k, by the k that raises the bound most; returns k.

    The users' energy may be an estimate from a batch of them.
    """
    users, items = post.users, post.items
    M, U = post.space.M, len(users.W) if n_users is None else n_users
    energy = users.energy if user_energy is None else user_energy
    k = best_exchange(post.scale_items, post.scale_users, items.energy[1:], energy, M, U)
    items.rescale(k)
    users.rescale(k)
    if post.traits is not None:
        post.traits.rescale(k)
    return k


def consider_traits(post: Posterior, iteration: int) -> None:
    """What the traits say of the users, looked at again every second iteration.

    First the users are made exact again: the exchange of scales has moved them away from their prior, and what the
    labels alone say is read from the difference. See test_what_labels_say_of_a_weight_does_not_depend_on_its_prior.
    """
    if post.traits is None or iteration < FIRST_ITERATION or (iteration - FIRST_ITERATION) % EVERY:
        return
    post.refresh_users()
    learn_traits(post.traits, post.users, post.own_s_w, post.scale_users.mean)
    reset_without_labels(post.ledger, post.users, post.own_s_w)


def iterate(post: Posterior, rules: Rules) -> float:
    """One full iteration; the rms change of the standardised z relative to its rms."""
    before = standardised(post)
    post.refresh_users()
    update_sites(post, rules)
    reset_without_labels(post.ledger, post.users, post.own_s_w)
    update_user_scales(post)
    post.pairs.drop_copies()  # a million pairs need that room for their statistics
    statistics = pair_statistics(post.ledger, post.lam, post.tau, post.users)
    item_step(post.space, post.ledger, post.items, post.scale_items.mean, statistics)
    if rules.exchange and post.n_components:
        exchange_scales(post)
        update_user_scales(post)
    update_item_scales(post)
    post.refresh_pairs()
    return relative_change(before, standardised(post))


def standardised(post: Posterior) -> FloatArray:
    """z / sqrt(1 + v) of every label: what a prediction depends on."""
    return np.asarray(post.m[:-1] / np.sqrt(1.0 + post.v[:-1]))


def relative_change(before: FloatArray, after: FloatArray) -> float:
    """rms(after - before) / rms(after); differences far below the label noise count as rest."""
    if not len(after):
        return 0.0
    size = max(float(np.sqrt(np.mean(after * after))), NEGLIGIBLE)
    return float(np.sqrt(np.mean((after - before) ** 2))) / size


def run(post: Posterior, rules: Rules, each: Callable[[int, float], None] | None = None) -> tuple[int, bool]:
    """Iterations until z rests, then one user step; how many, and whether it converged."""
    converged, done = False, 0
    for done in range(1, rules.max_iterations + 1):
        change = iterate(post, rules)
        consider_traits(post, done)
        if each is not None:
            each(done, change)
        if done > 1 and change < rules.tolerance:
            converged = True
            break
    post.refresh_users()
    reset_without_labels(post.ledger, post.users, post.own_s_w)
    return done, converged
