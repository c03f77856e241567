"""The bound: its terms by another route, its slopes, and that it rises."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from modelling.crowdgppl.bound import kl_gamma, kl_gaussian, kl_users, lower_bound
from modelling.crowdgppl.inference import Rules, exchange_scales, iterate, run
from modelling.crowdgppl.scales import Scales, best_exchange

from .crowds import fitted, make_crowd
from .test_limits import started


def some_scales(learned=True):
    shape, rate = np.array([2.0, 5.0]), np.array([3.0, 0.5])
    scales = Scales.prior(shape, rate, np.array([learned, learned]))
    scales.update(7.0, np.array([4.0, 9.0]))
    return scales


def test_the_bound_equals_its_terms_by_sampling():
    """KL(q || p) of one Gaussian with a Gamma scale, as a mean of log ratios over draws."""
    rng = np.random.default_rng(0)
    n, M = 400_000, 3
    s = Scales.prior(np.array([2.0]), np.array([3.0]), np.array([True]))
    s.update(M, np.array([5.0]))
    mean, S = np.array([0.5, -1.0, 0.3]), np.diag([0.4, 0.9, 0.2]) + 0.05
    x = rng.multivariate_normal(mean, S, size=n)
    scale = rng.gamma(s.shape[0], 1 / s.rate[0], size=n)
    prior = 0.5 * M * np.log(scale / (2 * np.pi)) - 0.5 * scale * (x**2).sum(axis=1)
    ratio = stats.multivariate_normal(mean, S).logpdf(x) - prior
    gamma_ratio = stats.gamma(s.shape[0], scale=1 / s.rate[0]).logpdf(scale) - stats.gamma(2.0, scale=1 / 3.0).logpdf(
        scale
    )
    energy, log_det = np.array([mean @ mean + np.trace(S)]), np.array([np.linalg.slogdet(S)[1]])
    assert kl_gaussian(energy, log_det, s, M) == pytest.approx(ratio.mean(), abs=0.02)
    assert kl_gamma(s) == pytest.approx(gamma_ratio.mean(), abs=0.02)


def test_a_scale_at_its_prior_costs_nothing_and_a_fixed_one_never_does():
    prior = Scales.prior(np.array([2.0]), np.array([3.0]), np.array([True]))
    assert kl_gamma(prior) == pytest.approx(0, abs=1e-12)
    assert kl_gamma(some_scales(learned=False)) == 0


def test_users_at_their_prior_cost_nothing():
    post = started(make_crowd(seed=1))
    assert kl_users(post) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("likelihood", ["ep", "vb", "linear"])
def test_a_whole_fit_ends_above_where_it_began(crowd, likelihood):
    bounds = fitted(crowd.labels, likelihood=likelihood, track_bound=True).lower_bounds_
    assert bounds[-1] > bounds[0]


@pytest.mark.parametrize("seed", range(3))
def test_damped_vb_never_lowers_the_bound(seed):
    """The exchange of scales is part of it, and so are learned scales; the finish comes after the last iteration."""
    crowd = make_crowd(seed=seed, ties=0.1)
    for scales in ("shared", "ard"):
        model = fitted(crowd.labels, likelihood="vb", scales=scales, track_bound=True, max_iterations=25, tolerance=0.0)
        *iterations, _ = model.lower_bounds_
        assert len(iterations) == 25
        assert np.diff(iterations).min() > -1e-6 * abs(iterations[-1])


def test_the_scale_update_is_the_stationary_point_of_the_bound(crowd):
    """Finite differences of the bound in shape and rate of s_t vanish after its update, beta being a rate."""
    post = fitted(crowd.labels, likelihood="vb")._post
    post.scale_items.update(post.space.M, post.items.energy)
    h = 1e-4

    def slope(name):
        values = getattr(post.scale_items, name)
        centre = values[0]
        sides = []
        for sign in (1, -1):
            values[0] = centre * (1 + sign * h)
            sides.append(lower_bound(post))
        values[0] = centre
        return (sides[0] - sides[1]) / (2 * h)

    assert slope("shape") == pytest.approx(0, abs=1e-3)
    assert slope("rate") == pytest.approx(0, abs=1e-3)


def test_converged_vb_is_a_stationary_point_in_the_item_means(crowd):
    """Finite differences of the whole bound in t and a v_c, users and sites following nothing."""
    post = fitted(crowd.labels, likelihood="vb", n_components=1)._post
    run(post, Rules("vb", tolerance=1e-6, max_iterations=150))
    centre = post.items.mean.copy()
    curvature = 1.0 / post.items.cov[0].diagonal().mean()

    def bound_at(mean):
        post.items.mean = mean
        post.refresh_pairs()
        return lower_bound(post)

    for i, c in ((0, 0), (5, 0), (3, 1)):
        step = np.zeros_like(centre)
        step[i, c] = 1e-4
        slope = (bound_at(centre + step) - bound_at(centre - step)) / 2e-4
        assert abs(slope) < 0.02 * curvature


def exchange_objective(k, s_v, s_w, Ev, Ew, M, U):
    """The terms of the bound that v -> k v, w -> w / k changes, learned scales at their best."""
    a_v, b_v, a_w, b_w = s_v.prior_shape[1], s_v.prior_rate[1], s_w.prior_shape[0], s_w.prior_rate[0]
    if not s_w.learned[0]:
        return -0.5 * s_v.mean[1] * Ev * k**2 - 0.5 * s_w.mean[0] * Ew / k**2 + (M - U) * np.log(k)
    shapes = -(a_v + M / 2) * np.log(b_v + 0.5 * k**2 * Ev) - (a_w + U / 2) * np.log(b_w + 0.5 * Ew / k**2)
    return shapes + (M - U) * np.log(k)


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize(("M", "U"), [(10, 40), (40, 10), (12, 12)])
def test_the_exchange_of_scales_is_the_best_one(learned, M, U):
    s_v = Scales.prior(np.array([1.0, 2.0]), np.array([1.0, 3.0]), np.array([True, learned]))
    s_w = Scales.prior(np.array([1.5]), np.array([0.7]), np.array([learned]))
    Ev, Ew = np.array([9.0]), np.array([2.0])
    k = best_exchange(s_v, s_w, Ev, Ew, M, U)[0]
    grid = k * np.exp(np.linspace(-1, 1, 2001))
    values = [exchange_objective(x, s_v, s_w, Ev[0], Ew[0], M, U) for x in grid]
    assert grid[int(np.argmax(values))] == pytest.approx(k, rel=2e-3)


def test_the_exchange_of_scales_leaves_every_z_where_it_was(crowd):
    post = started(crowd)
    for _ in range(3):
        iterate(post, Rules())
    post.refresh_users()
    before = post.items.mean[:, 1:] @ post.users.W.T
    exchange_scales(post)
    assert_allclose(post.items.mean[:, 1:] @ post.users.W.T, before, rtol=1e-10, atol=1e-12)
