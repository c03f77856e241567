"""A fit fed by a source of mini-batches: only the items, the scales and the users' means outlive a batch.

The users of a batch begin at their prior and their labels without sites; a few inner steps make both again. So what
is known of a user depends on the items and on their own labels alone, not on when they were last visited, and a
prediction can make it again from the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from .arrays import FloatArray, IntArray
from .bound import expected_loglik, kl_items, kl_scales, kl_users
from .finish import add_consensus_evidence, consensus_prior, personal_directions, solved_consensus
from .inducing import ItemView
from .inference import Rules, relative_change, standardised, update_sites
from .items import pair_moments, pair_statistics
from .labels import PairwiseLabels
from .ledger import Ledger
from .posterior import Finish, Posterior
from .sources import LabelSource
from .start import begin
from .svi import EPOCHS, Steps, begin_natural, global_step
from .users import KeptMeans, Users

INNER = 4  # user and site steps of a batch, from nothing, before the items move
SAMPLE_LABELS = 12_000  # labels of random users by which a fit begins and chooses
SAMPLE_USERS = 200  # and at least so many users

Each = Callable[[int, int, float], None]  # batches done, most batches, change of z when it was last looked at


def numbered_from_zero(labels: PairwiseLabels, users: IntArray) -> PairwiseLabels:
    """The labels of some users, as if there were no others."""
    return PairwiseLabels(np.searchsorted(users, labels.u), labels.a, labels.b, labels.y, labels.weights)


def sample(source: LabelSource, batch_size: int, rng: np.random.Generator) -> PairwiseLabels:
    """Some users with all their labels, drawn at random and numbered from zero."""
    chosen: list[IntArray] = []
    labels = 0
    parts = []
    for users in source.user_batches(min(batch_size, SAMPLE_USERS), rng):
        part = source.of_users(users)
        parts.append(numbered_from_zero(part, users))
        chosen.append(users)
        labels += len(part)
        if labels >= SAMPLE_LABELS and sum(map(len, chosen)) >= SAMPLE_USERS:
            break
    before = np.cumsum([0, *map(len, chosen)])
    u = np.concatenate([part.u + first for part, first in zip(parts, before, strict=False)])
    a, b, y, weight = (np.concatenate([getattr(part, name) for part in parts]) for name in ("a", "b", "y", "weight"))
    return PairwiseLabels(u, a, b, y, weight)


def batch_posterior(world: Posterior, labels: PairwiseLabels, users: IntArray, rules: Rules) -> Posterior:
    """The users of a batch with their sites settled for the world's items, which it shares."""
    space, items, s = world.space, world.items, world.scale_items.mean
    ledger = Ledger.of(numbered_from_zero(labels, users), space.n_items, len(users))
    rest = ItemView(space).rest(ledger.pair_a, ledger.pair_b)
    lam, tau, m, v = (np.zeros(ledger.n_labels + 1) for _ in range(4))
    post = Posterior(
        space, ledger, items, Users.prior(len(users), world.s_w), world.scale_items, world.scale_users,
        lam, tau, m, v, rest, pair_moments(ledger, space, items, s, rest),
    )  # fmt: skip
    for _ in range(INNER):
        post.refresh_users()
        update_sites(post, rules)
    return post


def settled_batches(
    world: Posterior, source: LabelSource, rules: Rules, batch_size: int
) -> Iterator[tuple[IntArray, Posterior]]:
    """Every user with labels once, exact for the present items, a batch at a time."""
    for users in source.user_batches(batch_size, np.random.default_rng(0)):
        post = batch_posterior(world, source.of_users(users), users, rules)
        post.refresh_users()
        yield users, post


def begin_by_sample(world: Posterior, start: Posterior, rules: Rules, rng: np.random.Generator) -> None:
    """The world's items where a fit of a sample begins."""
    begin(start, rules, rng)
    world.items.mean[:], world.items.cov[:] = start.items.mean, start.items.cov
    world.scale_items, world.scale_users = start.scale_items, start.scale_users


def run_fed(
    world: Posterior, source: LabelSource, rules: Rules, steps: Steps, rng: np.random.Generator, each: Each
) -> tuple[int, bool]:
    """Epochs of batches until z rests for some users looked at after each; how many epochs, and whether it rested."""
    begin_natural(world)
    watched = next(iter(source.user_batches(steps.batch_size, rng)))
    look = source.of_users(watched)
    before = standardised(batch_posterior(world, look, watched, rules))
    epochs = min(EPOCHS, rules.max_iterations)
    per_epoch, taken, epoch, change = max(1, round(source.n_present / steps.batch_size)), 0, 0, float("inf")
    while epoch < epochs and change >= rules.tolerance:
        for users in source.user_batches(steps.batch_size, rng):
            fed_step(world, source, users, steps.rho(taken), rules)
            taken += 1
            each(taken, epochs * per_epoch, change)
        after = standardised(batch_posterior(world, look, watched, rules))
        before, change, epoch = after, relative_change(before, after), epoch + 1
    world.items.precision = world.items.shift = None
    return epoch, change < rules.tolerance


def fed_step(world: Posterior, source: LabelSource, users: IntArray, rho: float, rules: Rules) -> None:
    """One batch read, its users settled, and a step of size rho on all that is global."""
    post = batch_posterior(world, source.of_users(users), users, rules)
    factor = source.n_present / len(users)
    statistics = pair_statistics(post.ledger, post.lam, post.tau, post.users, factor=factor)
    global_step(post, statistics, factor * post.users.energy, source.n_present, rho)
    world.improper = post.improper


def finish_fed(
    world: Posterior, source: LabelSource, rules: Rules, batch_size: int, settle: bool, each: Each
) -> Finish:
    """The finish without a private rest: S_t from every user, t settled with it where wanted."""
    M = world.space.M
    if world.items.first or world.n_components == 0:
        S_t = np.zeros((M, M)) if world.items.first else world.items.cov[0].copy()
        return Finish(S_t, np.zeros((M, 0)), np.zeros(0), np.zeros(0), settled=settle)
    precision, shift = consensus_prior(world)
    Z = personal_directions(world)
    for done, (_, post) in enumerate(settled_batches(world, source, rules, batch_size)):
        add_consensus_evidence(post, Z, precision, shift)
        each(done, round(source.n_present / batch_size), 0.0)
    S_t, t = solved_consensus(precision, shift)
    if settle:
        world.items.mean[:, 0] = t
    return Finish(S_t, np.zeros((M, 0)), np.zeros(0), np.zeros(0), settled=settle)


def keep_means(world: Posterior, source: LabelSource, rules: Rules, batch_size: int, n_users: int, each: Each) -> None:
    """The means of all users for the final items, and the sum of their covariances."""
    C = world.n_components
    W, total = np.zeros((n_users, C)), (n_users - source.n_present) * np.diag(1.0 / world.s_w)
    for done, (users, post) in enumerate(settled_batches(world, source, rules, batch_size)):
        W[users] = post.users.W
        total += post.users.total_covariance
        each(done, round(source.n_present / batch_size), 0.0)
    world.users = KeptMeans(W, np.zeros((0, C, C)), np.zeros((0, C)), total)


def users_again(
    world: Posterior, source: LabelSource, rules: Rules, batch_size: int, users: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Means and covariances of these users (sorted), from their labels; the prior for those who have none."""
    out = Users.prior(len(users), world.s_w)
    for first in range(0, len(users), batch_size):
        batch = slice(first, first + batch_size)
        post = batch_posterior(world, source.of_users(users[batch]), users[batch], rules)
        post.refresh_users()
        out.W[batch], out.Omega[batch] = post.users.W, post.users.Omega
    return out.W, out.Omega


def lower_bound_fed(world: Posterior, source: LabelSource, rules: Rules, batch_size: int) -> float:
    """The evidence lower bound, its sums over labels and users made a batch at a time."""
    local = sum(expected_loglik(post) - kl_users(post) for _, post in settled_batches(world, source, rules, batch_size))
    return float(local - kl_items(world) - kl_scales(world))
