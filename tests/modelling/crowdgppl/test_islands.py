"""Items compared only among themselves: the same numbers as without using it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from modelling.crowdgppl import PairwiseLabels, items
from modelling.crowdgppl.inducing import spectral_space
from modelling.crowdgppl.kernels import Matern32
from modelling.crowdgppl.ledger import Ledger

SIZES = (5, 9, 1, 7)  # items of each topic; the third has one text and no pair


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def topics(rng):
    """Labels within topics of which each has its items anywhere in the numbering."""
    topic = rng.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
    a, b = np.triu_indices(len(topic), 1)
    within = topic[a] == topic[b]
    a, b = a[within], b[within]
    labels = PairwiseLabels(np.zeros(len(a), dtype=int), a, b, np.ones(len(a)))
    return topic, Ledger.of(labels, len(topic), 1)


def test_islands_are_the_topics(topics):
    topic, ledger = topics
    assert ledger.islands.items.shape == (3, 9)
    for row in ledger.islands.items:
        size = SIZES[topic[row[1]]]
        assert set(row[:size]) == set(np.flatnonzero(topic == topic[row[1]]))


def test_islands_leave_evidence_and_variances_as_they_are(topics, rng, monkeypatch):
    _, ledger = topics
    X = rng.normal(size=(sum(SIZES), 3))
    space = spectral_space(X, Matern32().fit(X), 8)
    weights, root = rng.uniform(0.1, 2.0, ledger.n_pairs), rng.normal(size=(8, 8))
    S = root @ root.T
    dense = items.evidence(space, ledger, weights)
    monkeypatch.setattr(items, "DENSE_ITEMS", 0)
    assert_allclose(items.evidence(space, ledger, weights), dense, rtol=1e-12, atol=1e-12)
    difference = space.Psi[ledger.pair_a] - space.Psi[ledger.pair_b]
    by_pair = np.einsum("qm,mk,qk->q", difference, S, difference)
    assert_allclose(items.pair_variances(space, S, ledger), by_pair, rtol=1e-10, atol=1e-12)


def test_few_pairs_among_many_items_make_no_island():
    """A long chain would be one large, nearly empty matrix."""
    a = np.arange(99)
    labels = PairwiseLabels(np.zeros(99, dtype=int), a, a + 1, np.ones(99))
    assert Ledger.of(labels, 100, 1).islands is None


def test_without_labels_there_is_no_island(topics):
    _, ledger = topics
    none = ledger.labels.take(np.zeros(0, dtype=int))
    assert Ledger.of(none, 22, 1).islands is None
