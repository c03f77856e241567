"""What must not matter does not: the order of a pair, of the users, of the labels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from modelling.crowdgppl import PairwiseLabels

from .crowds import fitted

RTOL = 1e-7  # sums taken in another order


def mirrored(labels):
    return PairwiseLabels(labels.u, labels.b, labels.a, 1 - labels.y)


@pytest.mark.parametrize("likelihood", ["ep", "vb", "linear"])
def test_swapping_the_pair_and_flipping_the_label_changes_nothing(undecided, likelihood):
    left = fitted(undecided.labels, likelihood=likelihood)
    right = fitted(mirrored(undecided.labels), likelihood=likelihood)
    assert_allclose(left.predict_utilities(), right.predict_utilities(), rtol=RTOL, atol=1e-9)


def test_renaming_the_users_renames_their_predictions(crowd):
    new_name = np.random.default_rng(0).permutation(30)
    labels = crowd.labels
    renamed = PairwiseLabels(new_name[labels.u], labels.a, labels.b, labels.y)
    left, right = fitted(labels).predict_utilities(), fitted(renamed).predict_utilities()
    assert_allclose(left, right[:, new_name], rtol=1e-6, atol=1e-8)


def test_the_order_of_the_labels_does_not_matter(crowd):
    shuffled = crowd.labels.take(np.random.default_rng(0).permutation(len(crowd.labels)))
    left, right = fitted(crowd.labels).predict_utilities(), fitted(shuffled).predict_utilities()
    assert_allclose(left, right, rtol=1e-6, atol=1e-8)


def test_all_answers_reversed_reverse_the_consensus(crowd):
    labels = crowd.labels
    reversed_labels = PairwiseLabels(labels.u, labels.a, labels.b, 1 - labels.y)
    left, right = fitted(labels).predict_consensus(), fitted(reversed_labels).predict_consensus()
    assert_allclose(left, -right, rtol=1e-6, atol=1e-8)


def test_probabilities_of_a_over_b_and_b_over_a_add_up_to_one(crowd):
    model = fitted(crowd.labels, finish=True)
    u, a, b = crowd.held.u, crowd.held.a, crowd.held.b
    assert_allclose(model.predict_proba(u, a, b) + model.predict_proba(u, b, a), 1.0, rtol=1e-12)
    for kind in ("typical", "mean", "majority"):
        there, back = (model.predict_consensus_proba(i, j, kind, 7) for i, j in ((a, b), (b, a)))
        assert_allclose(there + back, 1.0, rtol=1e-12)
