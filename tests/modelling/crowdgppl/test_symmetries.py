"""Symmetries: the order of a pair, the order of labels and the numbering of users and items do not matter."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels

from .crowds import fit, fit_sites, labels_from, make_crowd

CLOSE = {"rtol": 1e-5, "atol": 1e-6}  # sums are taken in another order, over some tens of iterations


def refit(crowd, labels, **settings):
    settings.setdefault("n_components", 4)
    return CrowdGPPL(**settings).fit(labels, X_items=crowd.X, **crowd.sizes)


@pytest.mark.parametrize(("y", "sign"), [(1.0, 1), (0.0, -1)])
@pytest.mark.parametrize("n_components", [0, 4])
def test_preferring_b_lowers_a(y, sign, n_components):
    model = CrowdGPPL(n_components=n_components).fit(labels_from((0, 0, 1, y), (1, 0, 1, y), (2, 0, 1, y)), n_items=3)
    t = model.predict_consensus()
    assert sign * (t[0] - t[1]) > 0
    assert sign * (model.predict_proba([0], [0], [1])[0] - 0.5) > 0
    assert sign * (model.predict_consensus_proba([0], [1])[0] - 0.5) > 0


@pytest.mark.parametrize("name", ["crowd", "with_ties", "with_features"])
def test_swapping_the_pair_and_flipping_the_label_changes_nothing(name, request):
    crowd = request.getfixturevalue(name)
    labels = crowd.labels
    swapped = PairwiseLabels(labels.u, labels.b, labels.a, 1 - labels.y)
    assert_allclose(refit(crowd, swapped).predict_utilities(), fit(crowd).predict_utilities(), **CLOSE)


def test_all_answers_reversed_reverse_the_consensus(crowd):
    labels = crowd.labels
    reversed_labels = PairwiseLabels(labels.u, labels.a, labels.b, 1 - labels.y)
    assert_allclose(refit(crowd, reversed_labels).predict_consensus(), -fit(crowd).predict_consensus(), **CLOSE)


def test_the_order_of_labels_does_not_matter(crowd):
    shuffled = crowd.labels.take(np.random.default_rng(0).permutation(len(crowd.labels)))
    assert_allclose(refit(crowd, shuffled).predict_utilities(), fit(crowd).predict_utilities(), **CLOSE)


def test_renaming_users_renames_their_utilities(crowd):
    names = np.random.default_rng(0).permutation(30)
    labels = crowd.labels
    renamed = refit(crowd, PairwiseLabels(names[labels.u], labels.a, labels.b, labels.y))
    assert_allclose(renamed.predict_utilities()[:, names], fit(crowd).predict_utilities(), **CLOSE)


def test_renaming_items_renames_their_scores(crowd):
    names = np.random.default_rng(0).permutation(12)
    labels = crowd.labels
    renamed = refit(crowd, PairwiseLabels(labels.u, names[labels.a], names[labels.b], labels.y))
    assert_allclose(renamed.predict_utilities()[names], fit(crowd).predict_utilities(), **CLOSE)


def test_probabilities_of_the_two_answers_add_up_to_one(with_ties):
    model, held = fit(with_ties), with_ties.held
    there, back = model.predict_proba(held.u, held.a, held.b), model.predict_proba(held.u, held.b, held.a)
    assert_allclose(there + back, 1.0, rtol=1e-12)
    for kind in ("typical", "mean", "majority"):
        there, back = (model.predict_consensus_proba(i, j, kind, 7) for i, j in ((held.a, held.b), (held.b, held.a)))
        assert_allclose(there + back, 1.0, rtol=1e-9)


@pytest.mark.parametrize(("v_t", "tau"), [(1.0, 0.5), (16.0, 4.0)])
def test_a_label_of_weight_two_is_the_label_twice(v_t, tau):
    """At given scales; two sites of one label and one site of its square differ by the error of EP."""
    crowd = make_crowd(seed=5, n_users=10, per_user=15)
    labels = crowd.labels
    weighted = PairwiseLabels(labels.u, labels.a, labels.b, labels.y, np.full(len(labels), 2.0))
    one, two = (fit_sites(each, v_t, tau, **crowd.sizes)[0] for each in (labels.joined(labels), weighted))
    assert np.abs((one.t - two.t) / np.sqrt(np.diagonal(one.S_t))).max() < 0.03
    assert_allclose(np.diagonal(one.S_t), np.diagonal(two.S_t), rtol=0.05)


def test_a_label_of_weight_two_is_the_label_twice_for_the_consensus(crowd):
    labels = crowd.labels
    weighted = PairwiseLabels(labels.u, labels.a, labels.b, labels.y, np.full(len(labels), 2.0))
    one, two = (refit(crowd, each, n_components=0) for each in (labels.joined(labels), weighted))
    assert_allclose(one.predict_consensus(), two.predict_consensus(), atol=0.01)


def test_a_label_of_weight_zero_changes_nothing():
    crowd = make_crowd(seed=5, n_users=10, per_user=15)
    labels, extra = crowd.labels, crowd.held
    weight = np.r_[np.ones(len(labels)), np.zeros(len(extra))]
    joined = labels.joined(extra)
    ignored = PairwiseLabels(joined.u, joined.a, joined.b, joined.y, weight)
    assert_allclose(refit(crowd, ignored).predict_utilities(), refit(crowd, labels).predict_utilities(), atol=0.05)
