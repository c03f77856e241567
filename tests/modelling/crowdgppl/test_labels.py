"""Labels and the store that keeps them with their sites."""

import numpy as np
import pytest

from modelling.crowdgppl import ArrayStore, PairwiseLabels
from modelling.crowdgppl.labels import batches_of_users

from .crowds import labels_from


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": [1.0, 2.0]}, "between 0"),
        ({"y": [1.0, np.nan]}, "missing or infinite"),
        ({"a": [1, 1]}, "compared with itself"),
        ({"u": [0]}, "same length"),
        ({"u": [0, -1]}, "negative index"),
        ({"u": [0.5, 1.0]}, "whole numbers"),
        ({"weight": [1.0, -1.0]}, "must not be negative"),
        ({"weight": [1.0, 1e9]}, "must not be above 1,000,000"),
        ({"a": [[0, 1]]}, "one-dimensional"),
    ],
)
def test_invalid_labels_are_refused(changes, message):
    columns = {"u": [0, 1], "a": [0, 1], "b": [1, 2], "y": [1.0, 0.0]} | changes
    with pytest.raises(ValueError, match=message):
        PairwiseLabels(**{name: np.array(value) for name, value in columns.items()})


def test_a_store_returns_the_labels_of_a_user_with_their_sites():
    store = ArrayStore(labels_from((2, 0, 1, 1), (0, 1, 2, 0), (2, 2, 0, 0.5)), 4)
    assert store.active_users().tolist() == [0, 2]
    batch = store.load(np.array([2, 3, 0]))
    assert batch.counts.tolist() == [2, 0, 1]
    assert batch.row.tolist() == [0, 0, 2]
    assert batch.a.tolist() == [0, 2, 1]
    assert batch.new_labels().all()
    batch.lam, batch.eta = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    store.save_sites(batch)
    assert store.load(np.array([0, 2])).lam.tolist() == [3.0, 1.0, 2.0]


def test_new_labels_have_no_site_and_the_others_keep_theirs():
    store = ArrayStore(labels_from((0, 0, 1, 1), (2, 1, 2, 0)), 3)
    batch = store.load(np.array([0, 2]))
    batch.lam = np.array([1.0, 2.0])
    store.save_sites(batch)
    store.add(labels_from((0, 2, 1, 1), (4, 0, 2, 1)), 5)
    assert store.n_users == 5
    batch = store.load(np.arange(5))
    np.testing.assert_array_equal(batch.lam, [1.0, np.nan, 2.0, np.nan])


def test_removing_finds_a_label_also_from_the_other_side():
    store = ArrayStore(labels_from((0, 0, 1, 1), (0, 0, 1, 1), (1, 1, 2, 0.5)), 2)
    store.remove(labels_from((0, 1, 0, 0)))
    assert len(store) == 2
    with pytest.raises(ValueError, match="no label"):
        store.remove(labels_from((0, 0, 1, 1), (0, 0, 1, 1)))
    assert len(store) == 2


def test_batches_deal_every_user_once_per_epoch():
    users, counts, rng = np.arange(10), np.full(10, 5), np.random.default_rng(0)
    batches = batches_of_users(users, counts, 4, None, rng)
    assert sorted(np.concatenate(batches).tolist()) == list(range(10))
    assert max(len(batch) for batch in batches) <= 4
    assert len(batches_of_users(users, counts, None, None, rng)) == 1


def test_batches_hold_about_equal_numbers_of_labels():
    rng = np.random.default_rng(0)
    counts = rng.geometric(0.02, size=500)
    batches = batches_of_users(np.arange(500), counts, None, 1000, rng)
    assert sorted(np.concatenate(batches).tolist()) == list(range(500))
    assert max(counts[batch].sum() for batch in batches) < 1000 + counts.max()
