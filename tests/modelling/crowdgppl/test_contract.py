"""The contract of the estimator: rejected arguments, shapes of results, no side effects."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels

from .crowds import fit, labels_from


@pytest.mark.parametrize(
    "choices",
    [
        {"n_components": -1},
        {"n_components": 0, "consensus": False},
        {"forgetting_rate": 0.5},
        {"delay": 0.5},
        {"batch_size": 0},
    ],
)
def test_invalid_settings_are_refused(choices):
    with pytest.raises(ValueError, match=next(iter(choices))):
        CrowdGPPL(**choices)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"n_items": 2}, "n_items is 2"),
        ({"n_users": 1}, "n_users is 1"),
        ({"X_items": np.zeros(3)}, "X_items"),
        ({"X_items": np.full((3, 2), np.nan)}, "missing or infinite"),
        ({"X_items": np.zeros((3, 2)), "n_items": 4}, "n_items is 4"),
    ],
)
def test_sizes_that_do_not_fit_the_labels_are_refused(where, message):
    with pytest.raises(ValueError, match=message):
        CrowdGPPL().fit(labels_from((0, 0, 1, 1), (1, 1, 2, 0)), **where)


def test_no_labels_are_refused():
    none = np.zeros(0, dtype=int)
    with pytest.raises(ValueError, match="no labels"):
        CrowdGPPL().fit(PairwiseLabels(none, none, none, np.zeros(0)))


def test_a_model_that_was_not_fitted_says_so():
    with pytest.raises(ValueError, match="not been fitted"):
        CrowdGPPL().predict_consensus()


def test_unknown_indices_are_refused(crowd):
    model = fit(crowd)
    with pytest.raises(ValueError, match="index 30"):
        model.predict_proba([30], [0], [1])
    with pytest.raises(ValueError, match="index 12"):
        model.predict_consensus(items=[12])
    with pytest.raises(ValueError, match="same length"):
        model.predict_proba([0, 1], [0], [1])
    with pytest.raises(ValueError, match="n_workers"):
        model.predict_consensus_proba([0], [1], n_workers=0)
    with pytest.raises(ValueError, match="kind"):
        model.predict_consensus_proba([0], [1], kind="best")


def test_results_have_the_shapes_of_the_contract(crowd):
    model = fit(crowd)
    C = len(model.component_variances_)
    assert 1 <= C <= 4
    assert model.predict_consensus().shape == (12,)
    assert model.predict_utilities().shape == (12, 30)
    assert model.predict_utilities(users=[3, 4], items=[0]).shape == (1, 2)
    assert model.item_components_.shape == (C, 12)
    assert model.user_components_.shape == (C, 30)
    mean, cov = model.predict_consensus(items=[1, 2, 3], return_cov=True)
    assert (mean.shape, cov.shape) == ((3,), (3, 3))


def test_new_items_follow_the_known_ones_and_can_be_compared_with_them(with_features):
    X, model = with_features.X, fit(with_features)
    assert model.predict_consensus(X_items=X[:3]).shape == (3,)
    model._post.scale_sd = 0.0  # at the scales found: their uncertainty grows with the size of a score
    mean, sd = model.predict_consensus(return_std=True)
    twin, twin_sd = model.predict_consensus(X_items=X[:1], return_std=True)
    assert abs(twin[0] - mean[0]) < 1.0  # predicted from the features, without the item's own part
    assert twin_sd[0] > sd[0]
    assert 0.2 < model.predict_proba([0], [20], [0], X_items=X[:1])[0] < 0.8
    with pytest.raises(ValueError, match="columns"):
        model.predict_consensus(X_items=np.zeros((1, 5)))


def test_far_from_all_items_the_prior_returns(with_features):
    model = fit(with_features)
    model._post.scale_sd = 0.0  # at the scales found
    mean, sd = model.predict_consensus(X_items=np.array([[1e4, 1e4]]), return_std=True)
    assert mean[0] == pytest.approx(0.0, abs=1e-6)
    assert sd[0] ** 2 == pytest.approx(model.hyperparameters_["consensus_variance"])


def test_progress_is_reported_in_every_iteration(crowd):
    reports = []
    model = fit(crowd, progress=reports.append)
    assert [report["iteration"] for report in reports] == list(range(1, model.n_iter_ + 1))


def test_no_warning_leaks_and_the_global_random_state_is_left_alone(crowd):
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(crowd).predict_utilities(return_std=True)
    assert np.array_equal(before, np.random.get_state()[1])


@pytest.mark.parametrize("batch_size", [None, 7])
def test_the_same_seed_gives_the_same_bits(crowd, batch_size):
    one, two = (fit(crowd, batch_size=batch_size, random_state=5).predict_utilities() for _ in range(2))
    assert np.array_equal(one, two)


def test_utilities_are_centred_over_the_items_or_over_those_asked_for(crowd):
    model = fit(crowd)
    assert_allclose(model.predict_utilities().mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(model.predict_utilities(items=[2, 3], among=[2, 3]).mean(axis=0), 0.0, atol=1e-12)


def test_utilities_probabilities_and_intervals_come_from_one_posterior(crowd):
    model = fit(crowd)
    u, a, b = np.array([0, 4, 9]), np.array([1, 2, 3]), np.array([5, 6, 7])
    mean, variance = model.predict_differences(u, a, b)
    for user, i, j, m, v in zip(u, a, b, mean, variance, strict=True):
        F, sd = model.predict_utilities(users=[user], items=[i], among=[j], return_std=True)
        assert_allclose((F[0, 0], sd[0, 0]), (m, np.sqrt(v)), rtol=1e-8)


def test_a_user_without_labels_is_the_consensus_with_more_uncertainty(crowd):
    model = CrowdGPPL(n_components=4).fit(crowd.labels, n_users=31)
    model._post.scale_sd = 0.0  # at the scales found: their uncertainty grows with the size of a utility
    t = model.predict_consensus()
    F, sd = model.predict_utilities(return_std=True)
    assert_allclose(F[:, 30], t - t.mean())
    assert np.all(sd[:, 30:] > sd[:, :30])
    stranger = model.predict_proba([31], [0], [1], X_users=np.zeros((1, 1)))
    assert_allclose(stranger, model.predict_proba([30], [0], [1]))
    assert_allclose(stranger, model.predict_consensus_proba([0], [1]))


def test_a_random_member_of_the_crowd_is_less_certain_than_a_typical_one(crowd):
    model = fit(crowd)
    t = model.predict_consensus()
    best, worst = [int(t.argmax())], [int(t.argmin())]
    typical = model.predict_consensus_proba(best, worst, "typical")[0]
    mean = model.predict_consensus_proba(best, worst)[0]
    assert 0.5 < mean < typical < 1.0
    assert model.predict_consensus_proba(best, worst, "majority", 1)[0] == pytest.approx(mean, abs=1e-6)
    for kind in ("mean", "majority"):
        few, many = (model.predict_consensus_proba(best, worst, kind, n)[0] for n in (1, 101))
        assert 0.5 < few < many < 1.0
