"""Random crowds follow the generative model."""

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.simulated_crowds import draw_crowd, draw_functions, draw_labels, grid, matern_32


def test_utilities_are_consensus_plus_components():
    crowd = draw_crowd(np.random.default_rng(0), n_users=7, n_labels=50, n_components=3, X_items=grid(4))
    assert crowd.F.shape == (16, 7)
    np.testing.assert_allclose(crowd.F[:, 2], crowd.t + crowd.V.T @ crowd.W[:, 2])
    assert len(crowd.labels) == 50
    assert np.all(crowd.labels.a != crowd.labels.b)


def test_the_same_seed_draws_the_same_crowd():
    one, two = (
        draw_crowd(np.random.default_rng(5), n_users=4, n_labels=30, n_components=2, n_items=6) for _ in range(2)
    )
    np.testing.assert_array_equal(one.labels.y, two.labels.y)
    np.testing.assert_array_equal(one.F, two.F)


def test_labels_follow_the_probit():
    F = np.array([[0.7, -0.4], [0.0, 0.0]])
    labels = draw_labels(np.random.default_rng(1), F, 40_000)
    for user in (0, 1):
        theirs = labels.u == user
        first = np.where(labels.a[theirs] == 0, labels.y[theirs], 1 - labels.y[theirs])
        assert abs(first.mean() - norm.cdf(F[0, user])) < 0.01


def test_pairs_of_a_user_are_distinct():
    labels = draw_labels(np.random.default_rng(2), np.zeros((10, 30)), 30 * 45)
    low, high = np.minimum(labels.a, labels.b), np.maximum(labels.a, labels.b)
    assert len({*zip(labels.u, low, high, strict=True)}) == 30 * 45


def test_the_tie_margin_determines_the_share_of_ties():
    F = np.zeros((5, 3))
    assert not np.any(draw_labels(np.random.default_rng(3), F, 500).y == 0.5)
    tied = np.mean(draw_labels(np.random.default_rng(3), F, 5_000, tie_margin=0.5).y == 0.5)
    assert abs(tied - (norm.cdf(0.5) - norm.cdf(-0.5))) < 0.02


def test_only_labelled_items_are_compared():
    crowd = draw_crowd(
        np.random.default_rng(4), n_users=5, n_labels=200, n_components=2, X_items=grid(5),
        labelled_items=np.array([3, 8, 21]),
    )  # fmt: skip
    assert set(crowd.labels.a) | set(crowd.labels.b) == {3, 8, 21}


def test_sampled_functions_have_the_requested_covariance():
    X = grid(3)
    draws = draw_functions(np.random.default_rng(6), X, 9, np.full(40_000, 4.0), lengthscale=0.5)
    np.testing.assert_allclose(np.cov(draws.T), matern_32(X, 0.5) / 4.0, atol=0.01)


def test_without_components_all_users_share_the_consensus():
    crowd = draw_crowd(np.random.default_rng(7), n_users=3, n_labels=0, n_components=0, n_items=4)
    np.testing.assert_array_equal(crowd.F, np.repeat(crowd.t[:, None], 3, axis=1))


@pytest.mark.parametrize("bad", [{"n_items": None}, {"n_items": 4, "s_v": -1.0}, {"n_items": 1}])
def test_invalid_arguments_are_refused(bad):
    with pytest.raises(ValueError):
        draw_crowd(np.random.default_rng(8), n_users=3, n_labels=5, n_components=2, **bad)
