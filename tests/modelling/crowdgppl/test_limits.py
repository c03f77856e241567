"""Small and degenerate studies, and limits in which the model reduces to a simpler one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels

from .crowds import fit, labels_from, make_crowd

STUDIES = {
    "two items and one label": (labels_from((0, 0, 1, 1)), {}),
    "one user": (labels_from((0, 0, 1, 1), (0, 1, 2, 1), (0, 2, 0, 0)), {}),
    "only ties": (labels_from((0, 0, 1, 0.5), (1, 1, 2, 0.5), (0, 2, 0, 0.5), (1, 0, 1, 0.5)), {}),
    "separable": (labels_from(*[(u, i, i + 1, 1) for u in range(5) for i in range(6)] * 5), {}),
    "disconnected": (labels_from((0, 0, 1, 1), (1, 2, 3, 0), (2, 0, 1, 1), (3, 2, 3, 1)), {}),
    "constant features": (labels_from((0, 0, 1, 1), (1, 1, 2, 0), (2, 2, 0, 1)), {"X_items": np.ones((3, 2))}),
    "one constant feature": (
        labels_from((0, 0, 1, 1), (1, 1, 2, 0)),
        {"X_items": np.c_[np.arange(3.0), np.ones(3)]},
    ),
    "users and items without labels": (labels_from((0, 0, 1, 1), (1, 1, 2, 0)), {"n_items": 9, "n_users": 8}),
    "one label many times": (labels_from(*[(0, 0, 1, 1)] * 60, *[(1, 0, 1, 1)] * 60), {}),
    "contradiction": (labels_from(*[(0, 0, 1, 1), (0, 0, 1, 0)] * 20), {}),
    "a label of weight zero": (labels_from((0, 0, 1, 1), (1, 1, 2, 0), weight=np.array([0.0, 1.0])), {}),
}


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("choices", [{}, {"n_components": 0}, {"consensus": False}, {"batch_size": 1}])
def test_a_degenerate_study_gives_finite_results(study, choices):
    labels, where = STUDIES[study]
    model = CrowdGPPL(**choices).fit(labels, **where)
    p = model.predict_proba(labels.u, labels.a, labels.b)
    F, sd = model.predict_utilities(return_std=True)
    assert np.all((p > 0) & (p < 1))
    assert np.isfinite(F).all()
    assert (sd >= 0).all()
    assert np.isfinite(model.lower_bounds_).all()
    again = CrowdGPPL.from_state(model.to_state())
    assert np.array_equal(again.predict_utilities(), F)


def test_only_ties_leave_all_items_equal():
    labels, _ = STUDIES["only ties"]
    assert_allclose(CrowdGPPL().fit(labels).predict_utilities(), 0.0, atol=1e-9)


def test_a_separable_study_is_in_order_with_finite_scores():
    labels, _ = STUDIES["separable"]
    t = CrowdGPPL().fit(labels).predict_consensus()
    assert np.all(np.diff(t) < 0)
    assert np.abs(t).max() < 50


def test_disconnected_groups_are_scored_apart():
    """At fixed scales, labels in one group do not move scores in the other."""
    group = [(u, a, a + 1, 1.0) for u in range(4) for a in range(3)] * 3
    other = [(u, a + 4, b + 4, y) for u, a, b, y in group]
    turned = [(u, a, b, 1 - y) for u, a, b, y in other]
    one = CrowdGPPL(n_components=0).fit(labels_from(*group, *other)).predict_consensus()
    two = CrowdGPPL(n_components=0).fit(labels_from(*group, *turned)).predict_consensus()
    assert_allclose(one[:4], two[:4], atol=1e-6)
    assert_allclose(one[4:], -two[4:], atol=1e-6)


def test_constant_features_are_no_features():
    crowd = make_crowd(seed=6)
    plain = CrowdGPPL(n_components=4).fit(crowd.labels)
    constant = CrowdGPPL(n_components=4).fit(crowd.labels, X_items=np.ones((12, 3)))
    p, q = (model.predict_proba(crowd.held.u, crowd.held.a, crowd.held.b) for model in (plain, constant))
    assert_allclose(p, q, atol=0.04)  # the priors of the scales differ


def test_one_batch_of_all_users_is_the_full_batch(crowd):
    whole, one_batch = fit(crowd), fit(crowd, batch_size=30)
    assert np.array_equal(whole.predict_utilities(), one_batch.predict_utilities())


def test_without_components_all_users_share_the_consensus(crowd):
    model = fit(crowd, n_components=0)
    F, t = model.predict_utilities(), model.predict_consensus()
    assert_allclose(F, np.repeat((t - t.mean())[:, None], 30, axis=1), atol=1e-12)
    assert model.component_variances_.shape == (0,)
    held = crowd.held
    personal, shared = model.predict_proba(held.u, held.a, held.b), model.predict_consensus_proba(held.a, held.b)
    assert_allclose(personal, shared, rtol=1e-12)


def test_without_components_only_the_labels_count_not_who_gave_them(crowd):
    labels = crowd.labels
    one_user = PairwiseLabels(0 * labels.u, labels.a, labels.b, labels.y)
    left, right = (CrowdGPPL(n_components=0).fit(each).predict_consensus() for each in (labels, one_user))
    assert_allclose(left, right, atol=1e-6)


def test_without_consensus_the_scores_are_personal(crowd):
    model = fit(crowd, consensus=False)
    assert not model.predict_consensus().any()
    truth = crowd.F - crowd.F.mean(axis=0)
    assert np.corrcoef(model.predict_utilities().ravel(), truth.ravel())[0, 1] > 0.8


def test_one_answer_each_to_one_question_is_no_evidence_of_tastes():
    """Two items, ten users 6:4, one label each: a user's own answer is predicted with about .6."""
    labels = labels_from(*[(u, 0, 1, float(u < 6)) for u in range(10)])
    p = CrowdGPPL().fit(labels).predict_proba(np.arange(10), np.zeros(10, int), np.ones(10, int))
    assert np.all((p[:6] > 0.5) & (p[:6] < 0.75))
    assert np.all(p[6:] < p[0])


def test_with_many_votes_the_ranking_follows_the_votes_whatever_the_features_say():
    """Two items with equal features, one of which always wins."""
    X = np.repeat(np.arange(5.0), 2)[:, None]
    rng = np.random.default_rng(0)
    rows = [(u, a, b, float(a % 2 < b % 2)) for u in range(20) for a, b in rng.permutation(10).reshape(5, 2)
            if a % 2 != b % 2] * 4  # fmt: skip
    t = CrowdGPPL().fit(labels_from(*rows), X_items=X).predict_consensus()
    assert t[::2].min() > t[1::2].max()
