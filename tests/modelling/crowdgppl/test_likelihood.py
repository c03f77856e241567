"""Sites against dense quadrature: the second route to every moment."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr, ndtr

from modelling.crowdgppl import likelihood as lk

VARIANCES = (0.1, 1.0, 10.0, 100.0)
MEANS = np.array([-30.0, -6.0, -1.5, 0.0, 0.4, 3.0, 12.0])
RTOL = 1e-6  # Gauss rules against a trapezium of 40,001 points


def dense(m, v, up, down):
    """Mean and variance of N(m, v) Phi^up (1 - Phi)^down on a fine grid around its top."""
    z = np.linspace(min(m, 0) - 14 * np.sqrt(v) - 1, max(m, 0) + 14 * np.sqrt(v) + 1, 40_001)
    log = -0.5 * (z - m) ** 2 / v + up * log_ndtr(z) + down * log_ndtr(-z)
    p = np.exp(log - log.max())
    p /= p.sum()
    mean = (p * z).sum()
    return mean, (p * (z - mean) ** 2).sum()


@pytest.mark.parametrize("v", VARIANCES)
@pytest.mark.parametrize(("y", "weight"), [(0.5, 1.0), (0.8, 1.0), (0.5, 3.0), (1.0, 2.5), (0.0, 0.3)])
def test_ties_and_weights_have_the_moments_of_dense_quadrature(v, y, weight):
    mean, variance = lk.tilted_moments(MEANS, np.full(7, v), np.full(7, weight * y), np.full(7, weight * (1 - y)))
    truth = np.array([dense(m, v, weight * y, weight * (1 - y)) for m in MEANS])
    assert_allclose(mean, truth[:, 0], rtol=RTOL, atol=1e-7)
    assert_allclose(variance, truth[:, 1], rtol=RTOL)


@pytest.mark.parametrize("m", [-30.0, 10.0])
def test_a_cavity_that_is_nearly_certain_stays_where_it_is(m):
    """The top is found at once, and rounding must not send the search elsewhere."""
    powers = np.array([0.5, 1.0, 20.0])
    mean, variance = lk.tilted_moments(np.full(3, m), np.full(3, 1e-6), powers, powers)
    assert_allclose(mean, m - 1e-6 * m * powers, atol=1e-5)
    assert_allclose(variance, 1e-6, rtol=1e-3)


@pytest.mark.parametrize("v", VARIANCES)
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_the_closed_form_of_a_plain_answer_has_the_moments_of_dense_quadrature(v, y):
    lam, tau = lk.probit_site(MEANS, np.full(7, v), np.full(7, y), np.ones(7))
    variance = 1 / (1 / v + lam)
    mean = variance * (MEANS / v + tau)
    truth = np.array([dense(m, v, y, 1 - y) for m in MEANS])
    assert_allclose(mean, truth[:, 0], rtol=1e-5, atol=1e-6)
    assert_allclose(variance, truth[:, 1], rtol=1e-5)


def test_a_tie_is_not_the_average_of_two_answers():
    """Averaged probit sites vanish as the cavity widens; the true tie keeps its say."""
    m, v = np.zeros(1), np.full(1, 4.0)
    tie, _ = lk.power_site(m, v, np.full(1, 0.5), np.ones(1))
    averaged = np.mean([lk.probit_site(m, v, np.full(1, y), np.ones(1))[0] for y in (0.0, 1.0)])
    assert tie[0] > 2 * averaged


@pytest.mark.parametrize("v", VARIANCES)
def test_expectations_under_q_equal_dense_quadrature(v):
    z = np.linspace(-12, 12, 40_001)
    weights = np.exp(-0.5 * z**2)
    weights /= weights.sum()
    y = np.linspace(0, 1, 7)
    value = lk.expected_log(MEANS, np.full(7, v), y)
    slope, curvature = lk.expected_slopes(MEANS, np.full(7, v), y)
    for i, m in enumerate(MEANS):
        x = m + np.sqrt(v) * z
        r, s = lk.hazard(x), lk.hazard(-x)
        assert value[i] == pytest.approx((weights * (y[i] * log_ndtr(x) + (1 - y[i]) * log_ndtr(-x))).sum(), rel=RTOL)
        assert slope[i] == pytest.approx((weights * (y[i] * r - (1 - y[i]) * s)).sum(), rel=1e-5, abs=1e-7)
        bend = y[i] * r * (r + x) + (1 - y[i]) * s * (s - x)
        assert curvature[i] == pytest.approx((weights * bend).sum(), rel=1e-5, abs=1e-7)


def test_vb_sites_are_the_slopes_of_the_expected_log_likelihood():
    """Finite differences in m and v: dE/dm = slope, dE/dv = -curvature / 2."""
    m, v, y = np.array([-2.0, 0.3, 4.0]), np.array([0.5, 3.0, 30.0]), np.array([1.0, 0.5, 0.0])
    slope, curvature = lk.expected_slopes(m, v, y)
    h = 1e-4
    in_m = (lk.expected_log(m + h, v, y) - lk.expected_log(m - h, v, y)) / (2 * h)
    in_v = (lk.expected_log(m, v + h, y) - lk.expected_log(m, v - h, y)) / (2 * h)
    assert_allclose(slope, in_m, rtol=1e-5)
    assert_allclose(-0.5 * curvature, in_v, rtol=1e-4)


def test_the_linear_site_has_the_slope_of_phi_whatever_the_answer():
    m = np.array([0.7, 0.7])
    lam, tau = lk.linear_sites(m, np.array([1.0, 0.0]), np.ones(2), prior_variance=2.0)
    residual = tau - lam * m
    h = 1e-6
    slope = (ndtr(0.7 + h) - ndtr(0.7 - h)) / (2 * h)
    Q = lk.beta_bernoulli(np.array([1.0, 0.0]), 2.0)
    assert_allclose(lam, slope**2 / Q, rtol=1e-6)
    assert residual[0] > 0 > residual[1]


def test_an_improper_cavity_keeps_its_old_site():
    lam, tau, improper = lk.ep_sites(
        m=np.zeros(2), v=np.ones(2), lam=np.array([0.9999, 0.5]), tau=np.array([0.3, 0.3]), y=np.ones(2),
        weight=np.ones(2),
    )  # fmt: skip
    assert (lam[0], tau[0]) == (0.9999, 0.3)
    assert lam[1] != 0.5
    assert improper == 0.5


def test_far_in_the_tails_nothing_overflows():
    m = np.array([-1e6, 1e6, -1e6, 1e6])
    y = np.array([1.0, 1.0, 0.5, 0.5])
    lam, tau, _ = lk.ep_sites(m, np.full(4, 1e3), np.zeros(4), np.zeros(4), y, np.ones(4))
    assert np.isfinite(lam).all()
    assert np.isfinite(tau).all()
    assert (lam >= 0).all()
