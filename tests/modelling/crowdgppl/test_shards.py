"""Users in shards: the same sums as in one visit, wherever the shards are worked on."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from modelling.crowdgppl import CrowdGPPL, LocalExecutor
from modelling.crowdgppl import shards as sharding
from modelling.crowdgppl.likelihood import Response
from modelling.crowdgppl.shards import ShardedVisit, split_batch
from modelling.crowdgppl.users import Visit

from .crowds import Crowd

RTOL = 1e-9  # sums in another order


class ElsewhereExecutor(LocalExecutor):
    """Sends every argument and result through pickle, as between machines, and counts what it sent."""

    def __init__(self) -> None:
        self.n_calls, self.largest = 0, 0

    def _send(self, value: Any) -> Any:
        content = pickle.dumps(value)
        self.largest = max(self.largest, len(content))
        return pickle.loads(content)

    def map(self, function: Callable[..., Any], shards: Sequence[Any], *shared: Any) -> list[Any]:
        return list(self.stream(function, shards, *shared))

    def stream(self, function: Callable[..., Any], shards: Iterable[Any], *shared: Any) -> Iterator[Any]:
        for shard in shards:
            self.n_calls += 1
            yield self._send(self._send(function)(self._send(shard), *self._send(shared)))


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharding, "SHARD_LABELS", 100)
    monkeypatch.setattr(sharding, "CHUNK_LABELS_PER_ITEM", 0)


def fitted(crowd: Crowd, **settings: Any) -> CrowdGPPL:
    model = CrowdGPPL(n_components=4, batch_size=10, **settings)
    return model.fit(crowd.labels, X_items=crowd.X, **crowd.sizes)


def test_shards_hold_whole_users_in_order(small_shards: None, crowd: Crowd) -> None:
    store = fitted(crowd).store
    batch = store.load(store.active_users())
    parts = split_batch(batch, 12)
    assert len(parts) == 6
    assert np.array_equal(np.concatenate([part.users for part in parts]), batch.users)
    for name in ("a", "b", "y", "weight", "lam", "eta", "counts"):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(batch, name))


@pytest.mark.parametrize("name", ["crowd", "with_ties", "with_features"])
def test_sums_of_shards_are_those_of_one_visit(name: str, small_shards: None, request: pytest.FixtureRequest) -> None:
    crowd = request.getfixturevalue(name)
    model = fitted(crowd)
    post, users = model._post, model.store.active_users()
    one, sharded = Visit(model.store.load(users), post), ShardedVisit(model.store.load(users), post, LocalExecutor())
    for visit in (one, sharded):
        visit.refresh_sites(post, 2, 0.8)
    stats, found = one.integrate_users(post), sharded.integrate_users(post)
    for visit, sums in ((one, stats), (sharded, found)):
        visit.find_marginals(post, sums)
    assert len(sharded.shards) == 6
    assert np.allclose(sharded.batch.lam, one.batch.lam, rtol=RTOL)
    for field in ("n_users", "n_people", "H", "h", "gradient_tau", "fisher_tau", "gradient_A"):
        assert np.allclose(getattr(found, field), getattr(stats, field), rtol=RTOL, atol=1e-9), field
    assert np.allclose(found.J_users.sum(axis=0), stats.J_users.sum(axis=0), rtol=RTOL)
    assert np.allclose(found.excess, one.excess(post), rtol=RTOL, atol=1e-9)
    response = Response(0.3, 0.05, 0.2)
    assert np.allclose(sharded.response_statistics(response), one.response_statistics(response), rtol=RTOL)


@pytest.mark.parametrize("name", ["crowd", "with_ties", "with_features"])
@pytest.mark.parametrize("reliability", [False, True])
def test_a_fit_elsewhere_is_the_same_bit_for_bit(
    name: str, reliability: bool, small_shards: None, request: pytest.FixtureRequest
) -> None:
    crowd, elsewhere = request.getfixturevalue(name), ElsewhereExecutor()
    here, there = fitted(crowd, reliability=reliability), fitted(crowd, reliability=reliability, executor=elsewhere)
    assert elsewhere.n_calls > 10
    assert np.array_equal(there.predict_utilities(), here.predict_utilities())


def test_a_step_can_be_repeated_on_a_visit_that_it_changed(small_shards: None, crowd: Crowd) -> None:
    class Twice(LocalExecutor):
        def map(self, function: Callable[..., Any], shards: Sequence[Any], *shared: Any) -> list[Any]:
            super().map(function, shards, *shared)
            return super().map(function, shards, *shared)

    assert np.array_equal(fitted(crowd, executor=Twice()).predict_utilities(), fitted(crowd).predict_utilities())


def test_what_travels_does_not_grow_with_the_number_of_users(small_shards: None, crowd: Crowd) -> None:
    elsewhere = ElsewhereExecutor()
    model = CrowdGPPL(n_components=4, batch_size=10, reliability=True, executor=elsewhere)
    model.fit(crowd.labels, n_items=crowd.sizes["n_items"], n_users=100_000)
    assert elsewhere.largest < 8 * 100_000
