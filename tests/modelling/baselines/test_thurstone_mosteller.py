"""Thurstone-Mosteller and Bradley-Terry against choix and against a dense optimiser."""

import choix
import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.stats import norm

from modelling.baselines import BradleyTerry, CrowdBT, ThurstoneMosteller
from modelling.baselines.newton import score_posterior
from modelling.baselines.thurstone_mosteller import probit_terms
from modelling.crowdgppl import PairwiseLabels


@pytest.fixture(scope="module")
def some():
    """Labels of 8 items without ties."""
    rng = np.random.default_rng(0)
    f, a = rng.standard_normal(8), rng.integers(0, 8, 150)
    b = (a + rng.integers(1, 8, 150)) % 8
    y = (rng.random(150) < norm.cdf(f[a] - f[b])).astype(float)
    return PairwiseLabels(u=np.zeros(150, int), a=a, b=b, y=y)


def wins(labels):
    """Winner and loser of each label, as choix takes them."""
    won = labels.y == 1
    return list(zip(np.where(won, labels.a, labels.b), np.where(won, labels.b, labels.a), strict=True))


def test_the_gradient_and_hessian_are_those_of_the_posterior():
    rng = np.random.default_rng(1)
    a, b, f = np.array([0, 1, 2, 1]), np.array([1, 2, 0, 2]), rng.standard_normal(3)
    y, weight = np.array([1.0, 0.5, 0.25, 0.0]), np.array([1.0, 2.0, 1.0, 0.5])

    def posterior(x):
        return score_posterior(x, a, b, probit_terms(x[a] - x[b], y, weight), ridge=0.3)

    np.testing.assert_allclose(posterior(f)[1], approx_fprime(f, lambda x: posterior(x)[0]), atol=1e-6)
    np.testing.assert_allclose(posterior(f)[2].toarray(), -approx_fprime(f, lambda x: posterior(x)[1]), atol=1e-6)


def test_the_mode_is_that_of_a_dense_optimiser(some):
    def loss(f):
        signs = 2 * some.y - 1
        return 0.5 * f @ f - norm.logcdf(signs * (f[some.a] - f[some.b])).sum()

    np.testing.assert_allclose(
        ThurstoneMosteller().fit(some).predict_consensus(), minimize(loss, np.zeros(8), tol=1e-10).x, atol=1e-4
    )


def test_scores_are_close_to_the_posterior_means_of_choix(some):
    """The mode is not the mean, so only close."""
    mean, _ = choix.ep_pairwise(8, wins(some), alpha=1.0, model="probit")
    np.testing.assert_allclose(ThurstoneMosteller().fit(some).predict_consensus(), mean, atol=0.05)


def test_bradley_terry_without_ties_is_that_of_choix(some):
    """choix penalises alpha |f|^2, without one half. The tolerance allows for the small probability of ties."""
    scores = BradleyTerry().fit(some).predict_consensus()
    np.testing.assert_allclose(scores, choix.opt_pairwise(8, wins(some), alpha=0.5), atol=0.02)


def test_crowd_bt_with_certain_workers_is_that_of_choix(some):
    scores = CrowdBT(prior=(1e9, 1.0)).fit(some).predict_consensus()
    np.testing.assert_allclose(scores, choix.opt_pairwise(8, wins(some), alpha=0.5), atol=1e-4)
