"""New labels, users and items into a fitted posterior, and retracted labels out of it, without a refit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import linalg

from .arrays import FloatArray, IntArray
from .finish import finished, settle_rest
from .inducing import ItemView
from .inference import Rules, run, update_item_scales, update_sites
from .items import Items, item_step, kept_statistics, mean_gradient, pair_statistics
from .labels import PairwiseLabels
from .ledger import Ledger
from .posterior import Posterior
from .users import reset_without_labels, user_step

INNER = 3  # user and site steps of the affected users before the items move
LARGE = 0.02  # from this share of changed labels on, full iterations follow
WARM_ITERATIONS = 10
SLICE = 50  # every update also makes one in so many of the other users exact again
SITES = ("lam", "tau", "m", "v")


def with_labels(post: Posterior, labels: PairwiseLabels) -> None:
    """The labels join the ledger with sites that say nothing yet."""
    before = post.ledger
    post.ledger = Ledger.of(before.labels.joined(labels), post.space.n_items, len(post.users.W))
    quiet = np.zeros(len(labels) + 1)
    for name in SITES:
        setattr(post, name, np.concatenate((getattr(post, name)[:-1], quiet)))
    if post.finish is not None and post.finish.personal:
        post.finish.lam = np.concatenate((post.finish.lam[:-1], quiet))
        post.finish.tau = np.concatenate((post.finish.tau[:-1], quiet))
    refresh_rest(post, before)


def without_labels(post: Posterior, rows: IntArray) -> None:
    """The labels at these rows leave the ledger; their sites are exactly gone."""
    post.kept = None
    keep = np.ones(post.ledger.n_labels + 1, dtype=bool)
    keep[rows] = False
    ledger = post.ledger
    post.ledger = Ledger.of(ledger.labels.take(np.flatnonzero(keep[:-1])), ledger.n_items, ledger.n_users)
    for name in SITES:
        setattr(post, name, getattr(post, name)[keep])
    if post.finish is not None and post.finish.personal:
        post.finish.lam, post.finish.tau = post.finish.lam[keep], post.finish.tau[keep]
    if post.reliability is not None:
        post.reliability.foretold = post.reliability.foretold[keep[:-1]]
    refresh_rest(post, ledger)


def refresh_rest(post: Posterior, before: Ledger) -> None:
    """What belongs to the pairs, after the ledger changed. What a known pair leaves out has not, unless items came."""
    ledger, view, N = post.ledger, ItemView(post.space), post.space.n_items
    codes, known = ledger.pair_a * N + ledger.pair_b, before.pair_a * N + before.pair_b
    new = np.ones(len(codes), dtype=bool) if before.n_items < N else ~np.isin(codes, known, assume_unique=True)
    rest = np.zeros(len(codes))
    rest[~new] = post.rest[np.searchsorted(known, codes[~new])]
    rest[new] = view.rest(ledger.pair_a[new], ledger.pair_b[new])
    post.rest = rest
    post.refresh_pairs()


def grow_items(post: Posterior, X_new: FloatArray | None, n_new: int, room: int) -> None:
    """New items, each with directions of its own as far as there is room; they start at the prior."""
    old = post.space.M
    post.space = post.space.extended(X_new, n_new, room)
    s, M = post.scale_items.mean, post.space.M
    mean = np.vstack((post.items.mean, np.zeros((M - old, len(s)))))
    cov = np.stack([grown_covariance(S, M, 1.0 / s[c]) for c, S in enumerate(post.items.cov)])
    cov[: post.items.first] = 0.0
    post.items = Items(mean, cov, post.items.first)
    if post.held is not None:
        post.held = np.vstack((post.held, np.zeros((M - old, len(s)))))
    if post.finish is not None:
        post.finish.S_t = grown_covariance(post.finish.S_t, M, 0.0 if post.items.first else 1.0 / s[0])
        prior = (0.0 if post.items.first else 1.0 / s[0]) + (1.0 / (s[1:] * post.s_w)).sum()
        post.finish.root = linalg.block_diag(post.finish.root, np.sqrt(prior) * np.eye(M - old))


def grown_covariance(S: FloatArray, M: int, variance: float) -> FloatArray:
    """A covariance with new independent directions of this variance."""
    out = variance * np.eye(M)
    out[: len(S), : len(S)] = S
    return out


def grow_users(post: Posterior, n_users: int, X_new: FloatArray | None) -> None:
    """New users at the prior, or at what their traits say."""
    old = len(post.users.W)
    post.users = post.users.grown(n_users, post.s_w)
    if post.reliability is not None:
        post.reliability = post.reliability.grown(n_users)
    if post.traits is None or X_new is None:
        return
    post.traits = post.traits.grown(X_new)
    mean, _ = post.traits.expect(X_new, post.scale_users.mean)
    post.users.W[old:] = post.users.g[old:] = mean
    reset_without_labels(replace(post.ledger, n_users=n_users), post.users, post.own_s_w)


def find_rows(ledger: Ledger, labels: PairwiseLabels) -> IntArray:
    """The row of each label in the ledger, the latest where it was given more than once."""
    known = ledger.labels
    places: dict[tuple[int, int, int, float, float], list[int]] = {}
    for row in np.flatnonzero(np.isin(known.u, labels.u)):
        places.setdefault(label_key(known, int(row)), []).append(int(row))
    rows = []
    for position in range(len(labels)):
        matches = places.get(label_key(labels, position))
        if not matches:
            raise ValueError(f"Label {position} cannot be forgotten: the model has not seen it, or forgot it already.")
        rows.append(matches.pop())
    return np.array(rows, dtype=np.int64)


def label_key(labels: PairwiseLabels, row: int) -> tuple[int, int, int, float, float]:
    """Who answered what on which pair, whichever item came first."""
    u, a, b = int(labels.u[row]), int(labels.a[row]), int(labels.b[row])
    y, weight = float(labels.y[row]), float(labels.weights[row])
    return (u, a, b, y, weight) if a < b else (u, b, a, 1.0 - y, weight)


def settle_users(post: Posterior, users: IntArray, rules: Rules, inner: int = INNER) -> None:
    """These users and the sites of their labels brought to rest, items held."""
    buckets, rows = post.ledger.buckets_of(users), post.ledger.rows_of(users)
    for step in range(inner + 1):
        user_step(post.ledger, post.pairs, post.sites, post.own_s_w, post.users, post.moments, buckets)
        if step < inner:
            update_sites(post, rules, rows)


def hold(post: Posterior, converged: bool) -> None:
    """The slope that full iterations and the finish left is not followed by the updates after them.

    A fit stops where it predicts best, short of the top of the bound. Many small item steps would go on from there,
    whatever the new labels say. See test_updates_without_news_leave_the_items_where_the_fit_stopped. What had not
    come to rest is not held, but for a settled t.
    """
    if post.n_components == 0:
        post.held = None
        return
    statistics = pair_statistics(post.ledger, post.lam, post.tau, post.users)
    post.held = mean_gradient(post.space, post.ledger, post.items, post.scale_items.mean, statistics)
    if not converged:
        post.held[:, int(post.finish is not None and post.finish.settled) :] = 0.0


def move_items(post: Posterior, moved: IntArray) -> None:
    """One item step on the present sites of all labels, of which those of these users have moved."""
    if post.kept is not None:
        post.kept.stale = np.union1d(post.kept.stale, moved)
    statistics, post.kept = kept_statistics(post.ledger, post.lam, post.tau, post.users, post.kept)
    item_step(post.space, post.ledger, post.items, post.scale_items.mean, statistics, sweeps=1, held=post.held)
    update_item_scales(post)
    post.refresh_pairs()


def next_slice(post: Posterior, cursor: int) -> tuple[IntArray, int]:
    """The users whose turn it is to be made exact again, and where the next turn begins."""
    active = np.flatnonzero(post.ledger.counts)
    size = -(-len(active) // SLICE)
    places = (cursor + np.arange(size)) % max(len(active), 1)
    return active[places], int((cursor + size) % max(len(active), 1))


def update(post: Posterior, users: IntArray, changed: int, cursor: int, rules: Rules) -> int:
    """The posterior after `changed` labels of these users came or went; returns the cursor of the next slice."""
    reset_without_labels(post.ledger, post.users, post.own_s_w)
    if post.reliability is not None:
        post.reliability.learn(post.ledger.u, users)
    if post.n_components == 0 or changed >= LARGE * max(post.ledger.n_labels, 1):
        settle_users(post, users, rules)
        most = rules.max_iterations if post.n_components == 0 else WARM_ITERATIONS
        post.kept = None
        _, converged = run(post, replace(rules, max_iterations=most))
        if post.finish is not None:
            post.finish = finished(post, rules, post.finish.personal, post.finish.settled, post.finish.share)
        hold(post, converged)
        return cursor
    settle_users(post, users, rules)
    move_items(post, users)
    turn, cursor = next_slice(post, cursor)
    turn = np.union1d(users, turn)
    settle_users(post, turn, rules, inner=1)
    if post.kept is not None:
        post.kept.stale = turn
    if post.finish is not None:
        post.finish.stale = True
        if post.finish.personal:
            settle_rest(post, post.finish, rules, users)
    return cursor
