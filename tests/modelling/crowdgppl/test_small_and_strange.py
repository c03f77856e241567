"""Studies at their smallest and oddest: every one must fit, predict and be kept, without a warning."""

import numpy as np
import pytest

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels


def labels_of(rows, weight=None):
    u, a, b, y = (np.array(column) for column in zip(*rows, strict=True))
    return PairwiseLabels(u, a, b, y.astype(float), weight)


CASES = {
    "two items and one label": (labels_of([(0, 0, 1, 1)]), {}),
    "one user": (labels_of([(0, 0, 1, 1), (0, 1, 2, 1), (0, 2, 0, 0)]), {}),
    "nothing but ties": (labels_of([(0, 0, 1, 0.5), (1, 1, 2, 0.5), (0, 2, 0, 0.5), (1, 0, 1, 0.5)]), {}),
    "identical items": (labels_of([(0, 0, 1, 1), (1, 1, 2, 0), (0, 2, 0, 1)]), {"X_items": np.ones((3, 2))}),
    "users and items without labels": (labels_of([(0, 0, 1, 1), (1, 1, 2, 0)]), {"n_items": 9, "n_users": 8}),
    "groups that never meet": (labels_of([(0, 0, 1, 1), (1, 2, 3, 0), (2, 0, 1, 1), (3, 2, 3, 1)]), {}),
    "the same label many times": (labels_of([(0, 0, 1, 1)] * 60 + [(1, 0, 1, 1)] * 60), {}),
    "flat contradiction": (labels_of([(0, 0, 1, 1), (0, 0, 1, 0)] * 20), {}),
    "a label that counts for nothing": (labels_of([(0, 0, 1, 1), (1, 1, 2, 0)], np.array([0.0, 1.0])), {}),
    "a constant feature": (labels_of([(0, 0, 1, 1), (1, 1, 2, 0)]), {"X_items": np.c_[np.arange(3.0), np.ones(3)]}),
}


@pytest.mark.parametrize("likelihood", ["ep", "vb", "linear"])
@pytest.mark.parametrize("case", CASES)
def test_a_strange_study_is_fitted_predicted_and_kept(case, likelihood):
    labels, where = CASES[case]
    for choices in ({"consensus": False}, {"n_components": 0}, {"scales": "ard"}, {"finish": True}):
        model = CrowdGPPL(likelihood=likelihood, personal_variance=5.0, max_iterations=8, **choices)
        model.fit(labels, **where)
        p = model.predict_proba(labels.u, labels.a, labels.b)
        F, sd = model.predict_utilities(return_std=True)
        assert np.all((p > 0) & (p < 1))
        assert np.isfinite(F).all()
        assert (sd >= 0).all()
        assert np.isfinite(model.component_energy_).all()
        assert np.isfinite(model.lower_bounds_).all()
        again = CrowdGPPL.from_state(model.to_state())
        assert np.array_equal(again.predict_utilities(), F)


@pytest.mark.parametrize("case", CASES)
def test_a_strange_study_can_choose_its_scale(case):
    labels, where = CASES[case]
    p = CrowdGPPL(n_components=3).fit(labels, **where).predict_proba(labels.u, labels.a, labels.b)
    assert np.all((p > 0) & (p < 1))


def test_identical_texts_differ_by_nothing_and_with_no_doubt():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 4))
    X[5] = X[2]
    u, a = np.repeat(np.arange(6), 10), rng.integers(0, 8, 60)
    b = (a + rng.integers(1, 8, 60)) % 8
    labels = PairwiseLabels(u, a, b, rng.integers(0, 2, 60).astype(float))
    for inducing in ("spectral", "kmeans"):
        for finish in (False, True):
            model = CrowdGPPL(4, 5, inducing=inducing, personal_variance=5.0, finish=finish).fit(labels, X_items=X)
            mean, cov = model.predict_consensus(items=[2, 5], return_cov=True)
            assert mean[0] == pytest.approx(mean[1], abs=1e-9)
            assert cov[0, 0] + cov[1, 1] - 2 * cov[0, 1] == pytest.approx(0, abs=1e-9)
            assert model.predict_proba([0, 3], [2, 2], [5, 5]) == pytest.approx([0.5, 0.5], abs=1e-9)
            assert model.predict_consensus_proba([2], [5]) == pytest.approx([0.5], abs=1e-9)


def test_a_user_without_labels_is_the_consensus_with_the_doubt_of_a_stranger():
    labels = labels_of([(0, 0, 1, 1), (0, 1, 2, 1), (1, 0, 1, 1), (1, 0, 2, 1)] * 5)
    model = CrowdGPPL(personal_variance=5.0).fit(labels, n_users=3)
    assert model.predict_utilities(users=[2])[:, 0] == pytest.approx(model.predict_consensus())
    _, sd = model.predict_utilities(return_std=True)
    assert np.all(sd[:, 2] > sd[:, 0])


def test_a_new_user_is_predicted_like_one_without_labels():
    labels = labels_of([(0, 0, 1, 1), (0, 1, 2, 1), (1, 0, 1, 0), (1, 0, 2, 1)] * 5)
    for finish in (False, True):
        model = CrowdGPPL(personal_variance=5.0, finish=finish).fit(labels, n_users=3)
        known = model.predict_proba([2], [0], [1])
        new = model.predict_proba([3], [0], [1], X_users=np.zeros((1, 1)))
        assert known == pytest.approx(new)
