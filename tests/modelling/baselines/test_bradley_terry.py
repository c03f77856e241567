"""Bradley-Terry with ties and a prior."""

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from modelling.baselines import BradleyTerry
from modelling.baselines.bradley_terry import _posterior, merge_labels
from modelling.crowdgppl import Matern32, PairwiseLabels


def labels(*rows):
    a, b, y = zip(*rows, strict=True)
    return PairwiseLabels(u=np.zeros(len(a), int), a=np.array(a), b=np.array(b), y=np.array(y, dtype=float))


def test_disconnected_items_are_scored_around_zero():
    model = BradleyTerry().fit(labels((0, 1, 1), (2, 3, 1), (2, 3, 1)))
    scores = model.predict_consensus()
    assert scores[0] + scores[1] == pytest.approx(0, abs=1e-9)
    assert scores[2] > scores[0] > 0


def test_an_item_that_always_wins_has_a_finite_score():
    scores = BradleyTerry().fit(labels(*[(0, 1, 1)] * 1000)).predict_consensus()
    assert np.isfinite(scores).all()
    assert scores[0] > 2


def test_ties_pull_items_together():
    apart = BradleyTerry().fit(labels((0, 1, 1), (0, 1, 1))).predict_consensus()
    tied = BradleyTerry().fit(labels((0, 1, 1), (0, 1, 1), (0, 1, 0.5), (0, 1, 0.5))).predict_consensus()
    assert 0 < tied[0] - tied[1] < apart[0] - apart[1]


def test_the_gradient_is_that_of_the_posterior():
    some = labels((0, 1, 1), (1, 2, 0.5), (2, 0, 0.25), (1, 2, 0))
    theta, prior = np.array([0.3, -0.2, 0.5, 0.1]), np.array([1.0, 1.0, 1.0, 0.1])
    _, gradient, H = _posterior(theta, some, prior)
    np.testing.assert_allclose(gradient, approx_fprime(theta, lambda x: _posterior(x, some, prior)[0]), atol=1e-5)
    slope = approx_fprime(theta, lambda x: _posterior(x, some, prior)[1])
    np.testing.assert_allclose(H.toarray(), -slope, atol=1e-5)


def test_items_without_labels_follow_their_features():
    X = np.linspace(0, 1, 6)[:, None]
    rows = [(i + 1, i, 1) for i in range(4)] * 5
    scores = BradleyTerry(item_kernel=Matern32()).fit(labels(*rows), X_items=X).predict_consensus()
    assert scores[5] > scores[2]
    assert BradleyTerry().fit(labels(*rows), X_items=X).predict_consensus()[5] == 0


def random_labels(rng, n_items, n_labels):
    a = rng.integers(0, n_items, n_labels)
    b = (a + rng.integers(1, n_items, n_labels)) % n_items
    t = rng.standard_normal(n_items)
    y = (rng.random(n_labels) < 1 / (1 + np.exp(t[b] - t[a]))).astype(float)
    return PairwiseLabels(u=np.zeros(n_labels, int), a=a, b=b, y=y)


def test_merged_labels_have_the_same_posterior():
    some = labels((0, 1, 1), (1, 0, 0), (2, 1, 0.5), (1, 2, 0.5), (0, 2, 0.25))
    merged, theta, prior = merge_labels(some), np.array([0.3, -0.2, 0.5, 0.1]), np.ones(4)
    assert len(merged) == 3
    for one, two in zip(_posterior(theta, some, prior)[:2], _posterior(theta, merged, prior)[:2], strict=True):
        np.testing.assert_allclose(one, two)


def test_the_variance_of_a_difference_is_close_to_that_of_the_whole_hessian():
    some = random_labels(np.random.default_rng(0), 40, 800)
    model = BradleyTerry().fit(some)
    theta = np.append(model.scores, model.tie_rate)
    cov = np.linalg.inv(_posterior(theta, some, np.append(np.ones(40), 0.1))[2].toarray())
    exact = cov[some.a, some.a] + cov[some.b, some.b] - 2 * cov[some.a, some.b]
    np.testing.assert_allclose(model.variances[some.a] + model.variances[some.b], exact, rtol=0.15)


def test_ten_thousand_items_need_no_matrix_of_all_items():
    some = random_labels(np.random.default_rng(1), 10_000, 40_000)
    tracemalloc.start()
    model = BradleyTerry().fit(some)
    p = model.predict_consensus_proba(some.a[:500], some.b[:500])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
    assert np.mean((p > 0.5) == (some.y[:500] > 0.5)) > 0.7
