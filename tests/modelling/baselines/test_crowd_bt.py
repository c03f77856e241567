"""CrowdBT: worker accuracies; crowdBT-GP: its scores in a Gaussian process."""

import itertools

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit, log_expit
from scipy.stats import beta, kendalltau
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from modelling.baselines import BradleyTerry, CrowdBT, CrowdBTGP
from modelling.baselines.crowd_bt import label_information, meant_probability
from modelling.crowdgppl import Matern32, PairwiseLabels


def draw(rng, accuracies, n_items=8, per_user=120):
    """Labels of workers with these accuracies, and the true scores."""
    f, u = 2 * rng.standard_normal(n_items), np.repeat(np.arange(len(accuracies)), per_user)
    a = rng.integers(0, n_items, len(u))
    b = (a + rng.integers(1, n_items, len(u))) % n_items
    meant = rng.random(len(u)) < expit(f[a] - f[b])
    y = np.where(rng.random(len(u)) < np.array(accuracies)[u], meant, ~meant).astype(float)
    return PairwiseLabels(u=u, a=a, b=b, y=y), f


def log_posterior(f, eta, labels, ridge, prior):
    """Marginal over which answers are errors, written out."""
    p = expit(f[labels.a] - f[labels.b])
    q = eta[labels.u] * p + (1 - eta[labels.u]) * (1 - p)
    likelihood = np.sum(labels.y * np.log(q) + (1 - labels.y) * np.log(1 - q))
    return likelihood - 0.5 * ridge * f @ f + np.sum(beta.logpdf(eta, *prior))


def test_the_fit_is_a_stationary_point_of_the_marginal_posterior():
    labels, _ = draw(np.random.default_rng(0), [0.9, 0.8, 0.6])
    model = CrowdBT(prior=(4.0, 2.0)).fit(labels)
    assert 0 < model.accuracy.min() <= model.accuracy.max() < 1
    x = np.append(model.scores, model.accuracy)
    slope = approx_fprime(x, lambda x: log_posterior(x[:8], x[8:], labels, 1.0, (4.0, 2.0)), 1e-7)
    np.testing.assert_allclose(slope, 0, atol=0.02)


def test_the_e_step_enumerates_errors():
    z, eta = 0.7, 0.8
    joint = {
        meant: (eta if meant else 1 - eta) * expit(z if meant else -z) for meant in (True, False)
    }  # the answer is for the first item in either case
    assert meant_probability(np.array([z]), np.array([eta]))[0] == pytest.approx(joint[True] / sum(joint.values()))


def test_the_information_is_the_expected_squared_slope():
    z, eta, step = 0.4, 0.75, 1e-5

    def log_q(z, y):
        q = eta * expit(z) + (1 - eta) * expit(-z)
        return np.log(q if y else 1 - q)

    slopes = [(log_q(z + step, y) - log_q(z - step, y)) / (2 * step) for y in (True, False)]
    expected = sum(np.exp(log_q(z, y)) * slope**2 for y, slope in zip((True, False), slopes, strict=True))
    assert label_information(np.array([z]), np.array([eta]))[0] == pytest.approx(expected, rel=1e-6)


def test_accurate_and_inverted_workers_are_told_apart():
    labels, f = draw(np.random.default_rng(1), [0.95, 0.95, 0.95, 0.5, 0.05])
    model = CrowdBT().fit(labels)
    assert np.all(model.accuracy[:3] > 0.85)
    assert 0.3 < model.accuracy[3] < 0.7
    assert model.accuracy[4] < 0.3
    assert kendalltau(model.predict_consensus(), f).statistic > 0.8
    best, worst = np.argmax(f), np.argmin(f)
    assert model.predict_proba([0], [best], [worst])[0] > 0.85 > 0.35 > model.predict_proba([4], [best], [worst])[0]


def test_certain_accuracy_is_bradley_terry():
    """With accuracy 1 for all, the posterior mode is that of a logistic regression."""
    labels, _ = draw(np.random.default_rng(2), [1.0, 1.0])
    scores = CrowdBT(prior=(1e9, 1.0)).fit(labels).scores
    p = expit(scores[labels.a] - scores[labels.b])
    slope = np.bincount(labels.a, labels.y - p, 8) - np.bincount(labels.b, labels.y - p, 8) - scores
    np.testing.assert_allclose(slope, 0, atol=1e-4)
    np.testing.assert_allclose(scores, BradleyTerry().fit(labels).scores, atol=0.1)


def test_a_tie_is_half_an_answer_each_way():
    tied = PairwiseLabels(u=[0, 0], a=[0, 1], b=[1, 2], y=[0.5, 1.0])
    split = PairwiseLabels(u=[0, 0, 0], a=[0, 0, 1], b=[1, 1, 2], y=[1.0, 0.0, 1.0], weight=[0.5, 0.5, 1.0])
    np.testing.assert_allclose(CrowdBT().fit(tied).scores, CrowdBT().fit(split).scores, atol=1e-8)


def test_log_likelihood_of_small_data_is_largest_at_the_fit():
    """Enumerate a grid around the fit of two items and one worker."""
    labels = PairwiseLabels(u=np.zeros(5, int), a=np.zeros(5, int), b=np.ones(5, int), y=[1, 1, 1, 1, 0])
    model = CrowdBT(prior=(2.0, 1.5)).fit(labels)
    assert np.all(log_expit(model.scores) < 0)
    at = log_posterior(model.scores, model.accuracy, labels, 1.0, (2.0, 1.5))
    for df, de in itertools.product(np.linspace(-0.5, 0.5, 21), np.linspace(-0.1, 0.1, 21)):
        f, eta = model.scores + np.array([df, -df]), np.clip(model.accuracy + de, 1e-6, 1 - 1e-6)
        assert log_posterior(f, eta, labels, 1.0, (2.0, 1.5)) <= at + 1e-6


def test_the_gaussian_process_is_that_of_scikit_learn():
    """The same targets, noise and scale; the scale itself maximises the marginal likelihood there too."""
    rng = np.random.default_rng(3)
    labels, _ = draw(rng, [0.9, 0.8])
    X = rng.uniform(0, 1, (8, 2))
    model = CrowdBTGP(item_kernel=Matern32(length_scale=0.5)).fit(labels, X_items=X)
    new = rng.uniform(0, 1, (3, 2))
    mean, sd = model.predict_consensus(X_items=new, return_std=True)
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * Matern(0.5, "fixed", nu=1.5)
    other = GaussianProcessRegressor(kernel, alpha=model.variances).fit(X, model.scores)
    other_mean, other_sd = other.predict(new, return_std=True)
    assert model._regression.variance == pytest.approx(other.kernel_.k1.constant_value, rel=0.02)
    np.testing.assert_allclose(mean, other_mean, rtol=0.02, atol=0.01)
    np.testing.assert_allclose(sd, other_sd, rtol=0.02)


def test_without_features_it_is_refused():
    labels, _ = draw(np.random.default_rng(4), [0.9])
    with pytest.raises(ValueError, match="X_items"):
        CrowdBTGP().fit(labels)
