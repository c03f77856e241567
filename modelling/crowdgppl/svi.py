"""Stochastic variational inference over mini-batches of users (al:crowdgppl).

Departure: the paper samples labels and treats each user's weights as global, so that users outside a batch decay
towards the prior. Here a batch is some users with all their labels; their weights are exact given the items, and
only t, the v_c and the scales follow the natural gradient. See test_users_outside_a_batch_do_not_decay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .arrays import FloatArray, IntArray
from .inference import Rules, exchange_scales, relative_change, standardised, update_item_scales, update_sites
from .items import PairStatistics, item_step, pair_statistics
from .posterior import Posterior
from .users import reset_without_labels, user_step

EPOCHS = 5
INNER = 2  # user and site steps of a batch before the items move


@dataclass(frozen=True)
class Steps:
    """The step sizes rho_i = (i + delay)^-forgetting_rate, i from 0, and the users in a batch."""

    batch_size: int
    forgetting_rate: float
    delay: float

    def rho(self, i: int) -> float:
        """The size of step i."""
        return float(min(1.0, (i + self.delay) ** -self.forgetting_rate))


def begin_natural(post: Posterior) -> None:
    """Natural parameters of the items at the prior precision and the present means."""
    s, M = post.scale_items.mean, post.space.M
    post.items.precision = np.eye(M) * s[:, None, None]
    post.items.shift = post.items.mean * s


def batch_step(post: Posterior, users: IntArray, rho: float, rules: Rules) -> None:
    """Exact weights of these users, then a step of size rho on all that is global."""
    buckets, rows = post.ledger.buckets_of(users), post.ledger.rows_of(users)
    for _ in range(INNER):
        user_step(post.ledger, post.pairs, post.sites, post.own_s_w, post.users, post.moments, buckets)
        update_sites(post, rules, rows)
    active = int((post.ledger.counts > 0).sum())
    factor = active / max(len(users), 1)
    statistics = pair_statistics(post.ledger, post.lam, post.tau, post.users, [post.ledger.block_of(users)], factor)
    batch_energy = (post.users.W[users] ** 2 + post.users.variances[users]).sum(axis=0)
    global_step(post, statistics, factor * batch_energy, len(post.users.W), rho)
    post.refresh_pairs()


def global_step(post: Posterior, statistics: PairStatistics, user_energy: FloatArray, n_users: int, rho: float) -> None:
    """t, the v_c and the scales a step of size rho towards what a batch, scaled up to everybody, says."""
    item_step(post.space, post.ledger, post.items, post.scale_items.mean, statistics, rho)
    k = exchange_scales(post, user_energy, n_users)
    post.scale_users.update(n_users, user_energy / (k * k), rho)
    update_item_scales(post, rho)


def run_svi(
    post: Posterior,
    rules: Rules,
    steps: Steps,
    rng: np.random.Generator,
    each: Callable[[int, float], None] | None = None,
) -> tuple[int, bool]:
    """Epochs of batches until z rests; then every user exact for the final items."""
    begin_natural(post)
    taken, converged, epoch = 0, False, 0
    for epoch in range(1, EPOCHS + 1):
        before = standardised(post)
        for users in post.ledger.labels.user_batches(steps.batch_size, rng):
            batch_step(post, users, steps.rho(taken), rules)
            taken += 1
        change = relative_change(before, standardised(post))
        if each is not None:
            each(epoch, change)
        if change < rules.tolerance:
            converged = True
            break
    settle_all(post, rules)
    return epoch, converged


def settle_all(post: Posterior, rules: Rules) -> None:
    """Every user and site at rest for the present items; natural parameters are no longer needed."""
    post.items.precision = post.items.shift = None
    for _ in range(INNER):
        post.refresh_users()
        update_sites(post, rules)
    post.refresh_users()
    reset_without_labels(post.ledger, post.users, post.own_s_w)
