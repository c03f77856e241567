"""Moments and sites of one label against dense quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import trapezoid
from scipy.special import log_ndtr, ndtr

from modelling.crowdgppl import likelihood as lk

VARIANCES = (0.1, 1.0, 10.0, 100.0)
MEANS = np.array([-30.0, -6.0, -1.5, 0.0, 0.4, 3.0, 12.0])


def log_tie(z, margin):
    """log P(tie | z) = log(Phi(z + margin) - Phi(z - margin))."""
    high, low = log_ndtr(margin - np.abs(z)), log_ndtr(-margin - np.abs(z))
    return high + np.log1p(-np.exp(low - high))


def dense(m, v, up, down):
    """Log mass, mean and variance of N(m, v) Phi^up (1 - Phi)^down on a fine grid."""
    z = np.linspace(min(m, 0) - 14 * np.sqrt(v) - 1, max(m, 0) + 14 * np.sqrt(v) + 1, 40_001)
    log = -0.5 * (z - m) ** 2 / v + up * log_ndtr(z) + down * log_ndtr(-z)
    top = log.max()
    p = np.exp(log - top)
    mass = trapezoid(p, z)
    mean = trapezoid(p * z, z) / mass
    variance = trapezoid(p * (z - mean) ** 2, z) / mass
    return np.log(mass) + top - 0.5 * np.log(2 * np.pi * v), mean, variance


@pytest.mark.parametrize("v", VARIANCES)
@pytest.mark.parametrize(("y", "weight"), [(1.0, 1.0), (0.0, 1.0), (0.5, 1.0), (0.8, 1.0), (0.5, 3.0), (1.0, 2.5)])
def test_tilted_moments_equal_dense_quadrature(v, y, weight):
    log_z, mean, variance = lk.tilted_moments(MEANS, np.full(7, v), np.full(7, y), np.full(7, weight))
    truth = np.array([dense(m, v, weight * y, weight * (1 - y)) for m in MEANS]).T
    tolerance = 1e-4
    assert_allclose(log_z, truth[0], rtol=1e-6, atol=tolerance)
    assert_allclose((mean - truth[1]) / np.sqrt(truth[2]), 0.0, atol=tolerance)
    assert_allclose(variance, truth[2], rtol=max(tolerance, 1e-4))


@pytest.mark.parametrize("v", VARIANCES)
@pytest.mark.parametrize("weight", [1.0, 2.5])
@pytest.mark.parametrize("y", [0.0, 0.5, 1.0])
def test_tilted_moments_with_a_margin_for_ties_equal_dense_quadrature(v, weight, y):
    margin, means = 0.7, np.array([-4.0, 0.0, 1.5])
    found = lk.tilted_moments(means, np.full(3, v), np.full(3, y), np.full(3, weight), lk.Response(margin))
    for m, log_z, mean, variance in zip(means, *found, strict=True):
        z = np.linspace(m - 12 * np.sqrt(v), m + 12 * np.sqrt(v), 100_001)
        answer = {0.0: log_ndtr(-z - margin), 0.5: log_tie(z, margin), 1.0: log_ndtr(z - margin)}[y]
        density = np.exp(weight * answer - 0.5 * (z - m) ** 2 / v) / np.sqrt(2 * np.pi * v)
        mass = trapezoid(density, z)
        centre = trapezoid(density * z, z) / mass
        truth = (np.log(mass), centre, trapezoid(density * (z - centre) ** 2, z) / mass)
        assert_allclose((log_z, mean, variance), truth, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("v", VARIANCES)
@pytest.mark.parametrize("weight", [1.0, 2.5])
@pytest.mark.parametrize("y", [0.0, 0.5, 1.0])
def test_tilted_moments_with_lapses_equal_dense_quadrature(v, weight, y):
    lapse, ties, margin, means = 0.1, 0.3, 0.7, np.array([-6.0, -1.0, 0.0, 1.5])
    given = np.full(4, v), np.full(4, y), np.full(4, weight), lk.Response(margin, lapse, ties)
    for m, log_z, mean, variance in zip(means, *lk.tilted_moments(means, *given), strict=True):
        z = np.linspace(m - 12 * np.sqrt(v), m + 12 * np.sqrt(v), 100_001)
        tie = np.exp(log_tie(z, margin))
        meant = {0.0: ndtr(-z - margin), 0.5: tie, 1.0: ndtr(z - margin)}[y]
        p = lapse * (ties if y == 0.5 else 0.5 * (1.0 - ties)) + (1.0 - lapse) * meant
        density = p**weight * np.exp(-0.5 * (z - m) ** 2 / v) / np.sqrt(2 * np.pi * v)
        mass = trapezoid(density, z)
        centre = trapezoid(density * z, z) / mass
        truth = (np.log(mass), centre, trapezoid(density * (z - centre) ** 2, z) / mass)
        assert_allclose((log_z, mean, variance), truth, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("response", [lk.Response(0.6), lk.Response(0.6, 0.2, 0.4)])
def test_the_probabilities_of_the_three_answers_add_up_to_one(response):
    z = np.linspace(-6, 6, 41)
    total = sum(np.exp(lk.log_likelihood(z, np.full(41, y), response)) for y in (0.0, 0.5, 1.0))
    assert_allclose(total, 1.0, rtol=1e-12)


def test_an_answer_that_is_almost_certainly_a_lapse_leaves_the_cavity_as_it_is():
    m, v = np.array([-20.0]), np.array([1.0])
    lam, eta = lk.matched_site(m, v, np.ones(1), np.ones(1), response=lk.Response(lapse=0.02))
    assert lam[0] == 0.0
    assert eta[0] == pytest.approx(0.0, abs=1e-9)


def test_the_expected_lapses_are_those_of_bayes_theorem():
    """One answer against a clear preference and one for it; P(lapse | answer) = lapse / 2 / P(answer)."""
    m, v, y = np.array([-3.0, 3.0]), np.full(2, 1.0), np.ones(2)
    p = 0.05 + 0.9 * ndtr(m / np.sqrt(2.0))
    n_lapses, n = lk.expected_lapses(m, v, y, np.ones(2), lk.Response(lapse=0.1))
    assert n == 2
    assert n_lapses == pytest.approx((0.05 / p).sum())


def test_the_gradient_in_the_margin_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    m, v, y = rng.normal(size=30), rng.uniform(0.1, 4, 30), rng.choice([0.0, 0.5, 1.0], 30)

    def response(margin):
        return lk.Response(margin, 0.1, 0.3)

    above, below = (lk.tilted_moments(m, v, y, np.ones(30), response(0.5 + step))[0].sum() for step in (1e-5, -1e-5))
    assert lk.margin_gradient(m, v, y, np.ones(30), response(0.5))[0] == pytest.approx((above - below) / 2e-5, rel=1e-5)


@pytest.mark.parametrize("v", VARIANCES)
@pytest.mark.parametrize("y", [0.0, 0.5, 1.0])
def test_the_site_gives_the_cavity_the_moments_of_the_label(v, y):
    variances, answers = np.full(7, v), np.full(7, y)
    lam, eta = lk.matched_site(MEANS, variances, answers, np.ones(7))
    _, mean, variance = lk.tilted_moments(MEANS, variances, answers, np.ones(7))
    assert_allclose(1 / (1 / v + lam), variance, rtol=1e-6)
    assert_allclose((MEANS / v + eta) / (1 / v + lam), mean, rtol=1e-6, atol=1e-6)


def test_removing_a_site_leaves_the_cavity():
    m, v, lam, eta = np.array([0.7]), np.array([2.0]), np.array([0.4]), np.array([0.3])
    with_site = 1 / (1 / v + lam)
    mean, variance = lk.cavity(with_site * (m / v + eta), with_site, lam, eta)
    assert_allclose((mean, variance), (m, v))


def test_the_integral_of_a_site_equals_dense_quadrature():
    m, v, lam, eta = 0.7, 2.0, 0.4, 0.3
    z = np.linspace(-20, 20, 40_001)
    density = np.exp(-0.5 * (z - m) ** 2 / v + eta * z - 0.5 * lam * z**2) / np.sqrt(2 * np.pi * v)
    found = lk.log_site_integral(*(np.array([x]) for x in (m, v, lam, eta)))
    assert_allclose(found, np.log(trapezoid(density, z)), rtol=1e-8)


def test_the_site_of_an_unreliable_worker_is_that_of_a_scaled_difference():
    """Moments of N(z; m, v) Phi(a z), found in x = a z."""
    m, v, a = np.array([0.7]), np.array([2.0]), 0.3
    lam, eta = lk.matched_site(m, v, np.ones(1), np.ones(1), a)
    _, mean, variance = dense(a * 0.7, a**2 * 2.0, 1.0, 0.0)
    assert_allclose(1 / (1 / v + lam), variance / a**2, rtol=1e-5)
    assert_allclose((m / v + eta) / (1 / v + lam), mean / a, rtol=1e-5)


def test_far_in_the_tails_nothing_overflows():
    m, y = np.array([-1e6, 1e6, -1e6, 1e6]), np.array([1.0, 1.0, 0.5, 0.5])
    lam, eta = lk.matched_site(m, np.full(4, 1e3), y, np.ones(4))
    assert np.isfinite(lam).all()
    assert np.isfinite(eta).all()
    assert (lam >= 0).all()


@pytest.mark.parametrize("m", [-30.0, 10.0])
def test_a_nearly_certain_cavity_stays_where_it_is(m):
    weights = np.array([1.0, 2.0, 40.0])
    _, mean, variance = lk.tilted_moments(np.full(3, m), np.full(3, 1e-6), np.full(3, 0.5), weights)
    assert_allclose(mean, m - 1e-6 * m * weights / 2, atol=1e-5)
    assert_allclose(variance, 1e-6, rtol=1e-3)
