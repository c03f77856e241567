"""Sums over users by map and reduce: users are split into shards, and an executor processes the shards.

The shards depend on the labels alone, so the result is the same in one process and on any number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from .arrays import FloatArray
from .labels import CHUNK_LABELS_PER_ITEM, UserBatch
from .likelihood import Response
from .posterior import Posterior
from .users import SAMPLED_USERS, Statistics, Visit

SHARD_LABELS = 10_000


class Executor(Protocol):
    """Runs functions on shards; they are pure and defined at module level, so any process can repeat them."""

    @property
    def n_processes(self) -> int:
        """The number of shards that are processed at once."""
        ...

    def share(self, value: Any) -> Any:
        """Return a handle for a value that many shards need."""
        ...

    def map(self, function: Callable[..., Any], shards: Sequence[Any], *shared: Any) -> list[Any]:
        """Start function(shard, *shared) for each shard or its handle; return handles for the results."""
        ...

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        """Return the results of these handles."""
        ...

    def stream(self, function: Callable[..., Any], shards: Iterable[Any], *shared: Any) -> Iterator[Any]:
        """Yield function(shard, *shared) in the order of the shards, reading a few shards ahead."""
        ...


class LocalExecutor:
    """Processes one shard after the other in this process; a handle is the value itself."""

    n_processes = 1

    def share(self, value: Any) -> Any:
        return value

    def map(self, function: Callable[..., Any], shards: Sequence[Any], *shared: Any) -> list[Any]:
        return [function(shard, *shared) for shard in shards]

    def gather(self, handles: Sequence[Any]) -> list[Any]:
        return list(handles)

    def stream(self, function: Callable[..., Any], shards: Iterable[Any], *shared: Any) -> Iterator[Any]:
        return (function(shard, *shared) for shard in shards)


@dataclass(eq=False)
class Shard:
    """Some users with their labels and the parts of the posterior that belong to them."""

    batch: UserBatch  # users are numbered within the shard
    sharpness: FloatArray | None = None
    trait_weights: FloatArray | None = None

    @classmethod
    def of(cls, batch: UserBatch, post: Posterior) -> Shard:
        sharpness = None if post.sharpness is None else post.sharpness_of(batch.users)
        own = replace(batch, users=np.arange(len(batch.users)))
        return cls(own, sharpness, post.trait_weights_of(batch.users))

    def visit(self, post: Posterior, largest: int | None = None, sampled: int = SAMPLED_USERS) -> Visit:
        """Visit these users; `post` is from `without_users`."""
        own = replace(post, sharpness=self.sharpness, trait_weights=self.trait_weights)
        return Visit(replace(self.batch), own, largest, sampled)


def without_users(post: Posterior) -> Posterior:
    """Copy the posterior without the sums over users and without anything that grows with their number."""
    no_sums = np.zeros((0, 0))
    return replace(
        post, prior=post.taste_prior, H=no_sums, h=np.zeros(0), sharpness=None, trait_weights=None, _A=None
    )  # fmt: skip


def split_batch(batch: UserBatch, n_items: int) -> list[UserBatch]:
    """Split a batch into shards of about equal numbers of labels, in the order of its users."""
    most = max(SHARD_LABELS, CHUNK_LABELS_PER_ITEM * n_items)
    n_shards = max(1, min(-(-len(batch) // most), len(batch.users)))
    middle = 0.5 * (batch.start[:-1] + batch.start[1:])
    place = np.minimum((middle * n_shards / max(len(batch), 1)).astype(np.int64), n_shards - 1)
    ends = [0, *(np.flatnonzero(np.diff(place)) + 1).tolist(), len(place)]
    return [batch.users_between(first, last) for first, last in pairwise(ends)]


class ShardedVisit:
    """A `Visit` of many users in shards: matrices stay on the process that computed them; only sums are returned."""

    def __init__(self, batch: UserBatch, post: Posterior, executor: Executor, largest: int | None = None) -> None:
        self.batch, self.executor, self.largest = batch, executor, largest
        self.shards = [Shard.of(part, post) for part in split_batch(batch, post.n_items)]
        self.visits: list[Any] = []  # handles of a Visit and a result for each shard
        self.refresh = (0, 0.0)
        self.before = Statistics(0.0, 0.0, np.zeros((0, 0)), np.zeros(0))  # H and h of the sites in the batch

    def refresh_sites(self, post: Posterior, steps: int, damping: float) -> None:
        """Update the sites a few times at the current q(t), before the users are integrated out."""
        self.refresh = steps, damping

    def integrate_users(self, post: Posterior) -> Statistics:
        """Integrate p_u out of every user; return H and h for the step of t. Afterwards `batch` has the sites."""
        self.visits, sampled = self.shards, -(-SAMPLED_USERS // len(self.shards))
        shared = self.executor.share(without_users(post))
        parts = self._step(integrated, shared, self.largest, sampled, *self.refresh)
        self.batch.lam = np.concatenate([lam for _, _, lam, _ in parts])
        self.batch.eta = np.concatenate([eta for _, _, _, eta in parts])
        self.before = Statistics.total([before for before, _, _, _ in parts])
        return Statistics.total([stats for _, stats, _, _ in parts])

    def find_marginals(self, post: Posterior, stats: Statistics) -> None:
        """Moments of z of every label given q(t); add the gradients of the evidence to stats."""
        found = Statistics.total(self._step(with_marginals, self.executor.share(without_users(post))))
        for name in ("excess", "gradient_tau", "fisher_tau", "gradient_A", "J_users"):
            setattr(stats, name, getattr(found, name))

    def log_evidence(self) -> float:
        """Log evidence of the labels of these users, without the part of t."""
        return float(sum(self._step(with_log_evidence)))

    def response_statistics(self, response: Response) -> FloatArray:
        """Gradient of the evidence in the margin of ties and the sum of its squares; expected lapses and answers."""
        return np.asarray(sum(self._step(with_response_statistics, response)))

    def _step(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """Apply a function to the visit of each shard and return its results; the visits stay where they are."""
        self.visits = self.executor.map(function, self.visits, *shared)
        return self.executor.gather(self.executor.map(result_of, self.visits))


# Steps of one shard. A step may be repeated on a visit that it has already changed: the result is the same.


def result_of(step: tuple[Visit, Any]) -> Any:
    return step[1]


def integrated(
    shard: Shard, post: Posterior, largest: int | None, sampled: int, steps: int, damping: float
) -> tuple[Visit, tuple[Statistics, Statistics, FloatArray, FloatArray]]:
    visit = shard.visit(post, largest, sampled)
    before = visit.refresh_sites(post, steps, damping)
    return visit, (before, visit.integrate_users(post), visit.batch.lam, visit.batch.eta)


def with_marginals(step: tuple[Visit, Any], post: Posterior) -> tuple[Visit, Statistics]:
    visit, stats = step[0], Statistics(0.0, 0.0, np.zeros((0, 0)), np.zeros(0))
    visit.find_marginals(post, stats)
    return visit, stats


def with_log_evidence(step: tuple[Visit, Any]) -> tuple[Visit, float]:
    return step[0], step[0].log_evidence()


def with_response_statistics(step: tuple[Visit, Any], response: Response) -> tuple[Visit, FloatArray]:
    return step[0], step[0].response_statistics(response)
