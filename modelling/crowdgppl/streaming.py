"""New labels, users and items into a fitted posterior, and retracted labels out of it, without a refit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .arrays import FloatArray, IntArray
from .inducing import ItemSpace, ItemView
from .inference import Rules, run, update_item_scales, update_sites
from .items import Items, item_step, pair_statistics
from .labels import PairwiseLabels
from .ledger import Ledger
from .posterior import Posterior
from .users import reset_without_labels, user_step

INNER = 3  # user and site steps of the affected users before the items move
LARGE = 0.02  # from this share of new labels on, full iterations follow
WARM_ITERATIONS = 10
SLICE = 20  # every update also makes one in so many of the other users exact again


def with_labels(post: Posterior, labels: PairwiseLabels) -> None:
    """The labels join the ledger with sites that say nothing yet."""
    count = len(labels)
    ledger = post.ledger
    post.ledger = Ledger.of(ledger.labels.joined(labels), post.space.n_items, len(post.users.W))
    for name in ("lam", "tau", "m", "v"):
        values = getattr(post, name)
        setattr(post, name, np.concatenate((values[:-1], np.zeros(count + 1))))
    refresh_rest(post)


def without_labels(post: Posterior, rows: IntArray) -> None:
    """The labels at these rows leave the ledger; their sites are exactly gone."""
    keep = np.ones(post.ledger.n_labels + 1, dtype=bool)
    keep[rows] = False
    ledger = post.ledger
    post.ledger = Ledger.of(ledger.labels.take(np.flatnonzero(keep[:-1])), ledger.n_items, ledger.n_users)
    for name in ("lam", "tau", "m", "v"):
        setattr(post, name, getattr(post, name)[keep])
    refresh_rest(post)


def refresh_rest(post: Posterior) -> None:
    """What belongs to the pairs, after the ledger changed."""
    view = ItemView(post.space, post.space.Psi, post.space.X)
    post.rest = view.rest(post.ledger.pair_a, post.ledger.pair_b)
    post.refresh_pairs()


def grow_items(post: Posterior, X_new: FloatArray | None, n_new: int, room: int) -> None:
    """New items, each with directions of its own as far as there is room; they start at the prior."""
    space = post.space.extended(X_new, n_new, room)
    post.items = grown(post.items, space, post.scale_items.mean)
    post.space = space
    post.ledger = replace(post.ledger, n_items=space.n_items)


def grown(items: Items, space: ItemSpace, s: FloatArray) -> Items:
    """The items with new whitened directions at the prior."""
    old, K = items.mean.shape
    M = space.M
    mean = np.vstack((items.mean, np.zeros((M - old, K))))
    cov = np.eye(M) / s[:, None, None]
    cov[: items.first] = 0.0
    cov[:, :old, :old] = items.cov
    return Items(mean, cov, items.first)


def grow_users(post: Posterior, n_users: int) -> None:
    """New users at the prior."""
    post.users = post.users.grown(n_users, post.s_w)
    post.ledger = replace(post.ledger, n_users=n_users)


def find_rows(ledger: Ledger, labels: PairwiseLabels) -> IntArray:
    """The row of each label in the ledger, the latest first where it was given twice."""
    places: dict[tuple[int, int, int, float, float], list[int]] = {}
    wanted = set(zip(labels.u.tolist(), strict=True))
    known = ledger.labels
    candidates = np.flatnonzero(np.isin(known.u, [u for (u,) in wanted]))
    for row in candidates:
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
    buckets = post.ledger.buckets_of(users)
    rows = post.ledger.rows_of(users)
    for step in range(inner + 1):
        user_step(post.ledger, post.pairs, post.sites, post.s_w, post.users, post.moments, buckets)
        if step < inner:
            update_sites(post, rules, rows)


def move_items(post: Posterior) -> None:
    """One item step on all labels' present sites."""
    statistics = pair_statistics(post.ledger, post.lam, post.tau, post.users)
    item_step(post.space, post.ledger, post.items, post.scale_items.mean, statistics, sweeps=1)
    update_item_scales(post)
    post.refresh_pairs()


def update(post: Posterior, users: IntArray, changed: int, cursor: int, rules: Rules) -> int:
    """The posterior after `changed` labels of these users came or went; where the next slice of users begins."""
    reset_without_labels(post.ledger, post.users, post.s_w)
    if post.n_components == 0 or changed >= LARGE * max(post.ledger.n_labels, 1):
        warm = replace(rules, max_iterations=max(WARM_ITERATIONS, rules.max_iterations * (post.n_components == 0)))
        settle_users(post, users, rules)
        run(post, warm)
        return cursor
    settle_users(post, users, rules)
    move_items(post)
    active = np.flatnonzero(post.ledger.counts)
    size = -(-len(active) // SLICE)
    turn = active[(cursor + np.arange(min(size, len(active)))) % max(len(active), 1)]
    settle_users(post, np.union1d(users, turn), rules, inner=1)
    return int((cursor + size) % max(len(active), 1))
