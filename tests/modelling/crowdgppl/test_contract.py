"""The contract: what is refused and how it is said, what is returned, and that nothing leaks."""

import warnings

import numpy as np
import pytest

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels

from .crowds import fitted


def arrays(**changes):
    whole = {"u": [0, 1], "a": [0, 1], "b": [1, 2], "y": [1.0, 0.0]} | changes
    return {name: np.array(value) for name, value in whole.items()}


@pytest.mark.parametrize(
    ("changes", "words"),
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
def test_labels_that_make_no_sense_are_refused_in_plain_words(changes, words):
    with pytest.raises(ValueError, match=words):
        PairwiseLabels(**arrays(**changes))


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"likelihood": "probit"}, "likelihood"),
        ({"scales": "free"}, "scales"),
        ({"n_components": -1}, "n_components"),
        ({"personal_variance": 0.0}, "personal_variance"),
        ({"personal_variance": "big"}, "personal_variance"),
        ({"inducing": "grid"}, "inducing"),
        ({"t_prior": (1.0, 0.0)}, "t_prior"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_settings_that_make_no_sense_are_refused(choices, words):
    with pytest.raises(ValueError, match=words):
        CrowdGPPL(**choices)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"n_items": 2}, "only 2"),
        ({"n_users": 1}, "only 1"),
        ({"X_items": np.zeros(3)}, "X_items"),
        ({"X_items": np.full((3, 2), np.nan)}, "missing or infinite"),
        ({"X_items": np.zeros((3, 2)), "n_items": 4}, "n_items is 4"),
    ],
)
def test_sizes_that_do_not_fit_the_labels_are_refused(where, words):
    with pytest.raises(ValueError, match=words):
        CrowdGPPL().fit(PairwiseLabels(**arrays()), **where)


def test_no_labels_are_refused():
    none = np.zeros(0, dtype=int)
    with pytest.raises(ValueError, match="no labels"):
        CrowdGPPL().fit(PairwiseLabels(none, none, none, np.zeros(0)))


def test_a_model_that_was_not_fitted_says_so():
    with pytest.raises(ValueError, match="not been fitted"):
        CrowdGPPL().predict_consensus()


def test_unknown_indices_are_refused(crowd):
    model = fitted(crowd.labels)
    with pytest.raises(ValueError, match="index 30"):
        model.predict_proba([30], [0], [1])
    with pytest.raises(ValueError, match="index 12"):
        model.predict_consensus(items=[12])
    with pytest.raises(ValueError, match="same length"):
        model.predict_proba([0, 1], [0], [1])
    with pytest.raises(ValueError, match="n_workers"):
        model.predict_consensus_proba([0], [1], kind="majority")


def test_shapes_are_those_of_the_contract(crowd):
    model = fitted(crowd.labels)
    assert model.predict_consensus().shape == (12,)
    assert model.predict_utilities().shape == (12, 30)
    assert model.predict_utilities(users=[3, 4], items=[0]).shape == (1, 2)
    assert model.item_components_.shape == (4, 12)
    assert model.user_components_.shape == (4, 30)
    assert model.component_variances_.shape == model.component_energy_.shape == (4,)
    mean, cov = model.predict_consensus(items=[1, 2, 3], return_cov=True)
    assert (mean.shape, cov.shape) == ((3,), (3, 3))


def test_new_items_follow_the_known_ones_and_can_be_compared_with_them(crowd):
    X = np.random.default_rng(0).normal(size=(12, 2))
    model = fitted(crowd.labels, X_items=X)
    assert model.predict_consensus(X_items=X[:3]).shape == (3,)
    assert model.predict_consensus(X_items=X[:1])[0] == pytest.approx(model.predict_consensus()[0], rel=1e-6)
    p = model.predict_proba([0], [12], [0], X_items=X[:1])
    assert p == pytest.approx([0.5], abs=1e-6)


def test_progress_is_told_once_per_iteration(crowd):
    told = []
    model = fitted(crowd.labels, progress=lambda *each: told.append(each))
    assert [each[1] for each in told] == list(range(1, model.n_iter_ + 1))
    assert {each[0] for each in told} == {"fit"}


def test_no_warning_leaks_and_the_global_random_state_rests(crowd):
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CrowdGPPL(n_components=3).fit(crowd.labels).predict_utilities(return_std=True)
    assert np.array_equal(before, np.random.get_state()[1])


def test_the_same_seed_gives_the_same_bits(crowd):
    left, right = (CrowdGPPL(n_components=3, random_state=5).fit(crowd.labels) for _ in range(2))
    assert np.array_equal(left.predict_utilities(), right.predict_utilities())
    stochastic = [fitted(crowd.labels, batch_size=7, random_state=5).predict_utilities() for _ in range(2)]
    assert np.array_equal(*stochastic)


def test_the_majority_of_one_worker_is_the_mean_of_one_worker(crowd):
    model = fitted(crowd.labels)
    a, b = np.array([0, 3, 5]), np.array([1, 4, 7])
    majority = model.predict_consensus_proba(a, b, "majority", 1)
    mean = model.predict_consensus_proba(a, b, "mean", 1)
    assert majority == pytest.approx(mean, abs=0.02)


def test_more_workers_make_the_consensus_surer(crowd):
    model = fitted(crowd.labels)
    t = model.predict_consensus()
    best, worst = [int(t.argmax())], [int(t.argmin())]
    for kind in ("mean", "majority"):
        few, many = (model.predict_consensus_proba(best, worst, kind, n)[0] for n in (1, 101))
        assert 0.5 < few < many < 1.0
