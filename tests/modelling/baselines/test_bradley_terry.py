"""Bradley-Terry with ties and a prior."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from modelling.baselines import BradleyTerry
from modelling.baselines.bradley_terry import _posterior
from modelling.crowdgppl import Matern32, PairwiseLabels


def labels(*rows):
    a, b, y = zip(*rows, strict=True)
    return PairwiseLabels(u=np.zeros(len(a), int), a=np.array(a), b=np.array(b), y=np.array(y, dtype=float))


def test_islands_of_items_are_scored_each_around_zero():
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
    np.testing.assert_allclose(H, -slope, atol=1e-5)


def test_items_without_labels_follow_their_features():
    X = np.linspace(0, 1, 6)[:, None]
    rows = [(i + 1, i, 1) for i in range(4)] * 5
    scores = BradleyTerry(item_kernel=Matern32()).fit(labels(*rows), X_items=X).predict_consensus()
    assert scores[5] > scores[2]
    assert BradleyTerry().fit(labels(*rows), X_items=X).predict_consensus()[5] == 0
