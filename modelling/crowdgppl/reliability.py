"""Worker reliability: y ~ Bernoulli(Phi(a_u z)), a_u the sharpness of a worker.

A worker judges like the crowd (a_u = 1) or answers at random (a_u near 0); a_u is the posterior mean of the two. Each
answer is predicted from its cavity: by everything except itself, including the worker's other answers. A worker who
dissents is self-consistent and stays sharp; random answers cannot be predicted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from .arrays import FloatArray, IntArray
from .labels import LabelStore, UserBatch, chunks_of_users
from .posterior import Posterior
from .shards import Executor, Shard, without_users

RANDOM = 0.05  # sharpness of a worker who answers at random; not 0, because it is a divisor
PRIOR = (1.0, 9.0)  # pseudo-counts of random and other workers
SHARP = (0.5, 0.7, 1.0)  # candidates for the sharpness of the crowd under cross-prediction
STEPS = 100  # EM steps for the share of random workers
TOLERANCE = 0.02  # smaller changes of a sharpness do not require new sites


def learn_sharpness(post: Posterior, store: LabelStore, executor: Executor) -> bool:
    """Set the sharpness of every user from cross-predictions of their answers; return whether any changed."""
    users = store.active_users()
    before = np.ones(post.n_users) if post.sharpness is None else post.sharpness
    post.sharpness = None  # predict at full sharpness: otherwise a worker's low sharpness would confirm itself
    random, sharp = log_predictions(post, store, users, executor)
    post.sharpness = before
    found = [fit_share(random, sharp[:, k]) for k in range(len(SHARP))]
    typical = int(np.argmax([evidence for _, evidence in found]))
    share = post.random_share = found[typical][0]
    post.crowd_sharpness = SHARP[typical]
    after = np.full(post.n_users, 1.0 - (1.0 - RANDOM) * share)
    after[users] = mean_sharpness(random, sharp[:, typical], share)
    post.sharpness = after
    return bool(np.abs(after - before).max(initial=0.0) > TOLERANCE)


def update_sharpness(post: Posterior, batch: UserBatch) -> bool:
    """Set the sharpness of these users, without changing the share of random users; return whether any changed."""
    if post.sharpness is None:
        return False
    before = post.sharpness
    post.sharpness = None
    random, sharp = shard_predictions(Shard.of(batch, post), post, (post.crowd_sharpness,))
    post.sharpness = before.copy()
    post.sharpness[batch.users] = mean_sharpness(random, sharp[:, 0], post.random_share)
    return bool(np.abs(post.sharpness - before).max(initial=0.0) > TOLERANCE)


def mean_sharpness(random: FloatArray, sharp: FloatArray, share: float) -> FloatArray:
    """Posterior mean of a_u given the log probabilities of a user's answers if random and if not."""
    chance = expit(random - sharp + np.log(share) - np.log1p(-share))
    return np.asarray(1.0 - (1.0 - RANDOM) * chance)


def log_predictions(
    post: Posterior, store: LabelStore, users: IntArray, executor: Executor
) -> tuple[FloatArray, FloatArray]:
    """Log probability of each user's answers if random (U,), and at each sharpness of SHARP (U, K)."""
    random, sharp = np.zeros(len(users)), np.zeros((len(users), len(SHARP)))
    chunks = chunks_of_users(np.arange(len(users)), store.count_labels(users), post.n_items)
    shards = (Shard.of(store.load(users[chunk]), post) for chunk in chunks)
    parts = executor.stream(shard_predictions, shards, executor.share(without_users(post)), SHARP)
    for chunk, part in zip(chunks, parts, strict=True):
        random[chunk], sharp[chunk] = part
    return random, sharp


def shard_predictions(shard: Shard, post: Posterior, sharpness: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """`log_predictions` of the users of a shard."""
    batch = shard.batch
    visit = shard.visit(post)
    visit.integrate_users(post)
    visit.find_marginals(post)
    random, sharp = np.zeros(len(batch.users)), np.zeros((len(batch.users), len(sharpness)))
    weight = batch.weight * np.abs(2.0 * batch.y - 1.0)  # ties do not show whether a worker answers at random
    for a, out in ((RANDOM, random), *((a, sharp[:, k]) for k, a in enumerate(sharpness))):
        x = (a * np.sign(batch.y - 0.5) * visit.cavity_m - post.response.margin) / np.sqrt(1.0 + a * a * visit.cavity_v)
        out += np.bincount(batch.row, weight * post.response.log_decided(x), len(out))
    return random, sharp


def fit_share(random: FloatArray, sharp: FloatArray) -> tuple[float, float]:
    """Return the share of random workers that maximises the evidence, and that evidence."""
    share = PRIOR[0] / sum(PRIOR)
    for _ in range(STEPS):
        chance = expit(random - sharp + np.log(share) - np.log1p(-share))
        share = (PRIOR[0] + float(chance.sum())) / (sum(PRIOR) + len(random))
    evidence = np.logaddexp(np.log(share) + random, np.log1p(-share) + sharp).sum()
    return share, float(evidence + PRIOR[0] * np.log(share) + PRIOR[1] * np.log1p(-share))
