"""The slower pass on small data: draws of the exact posterior, against a long Gibbs run and by other second routes."""

import os

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr, ndtr

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels, SortedLabels, sampling
from modelling.crowdgppl.drawn import DrawnPredictor
from modelling.crowdgppl.intervals import Contrast
from modelling.crowdgppl.predict import Predictor
from modelling.crowdgppl.refining import Preferences, whole_space
from modelling.crowdgppl.sampling import effective_size, split_r_hat
from modelling.ranking import rank_draws

from .crowds import (
    OTHER_TINY_CROWDS,
    TINY_CROWDS,
    consensus_over_pairs,
    fitted,
    make_crowd,
    personal_over_pairs,
    tiny_crowd,
    tiny_model,
)  # fmt: skip
from .gibbs import gibbs
from .test_intervals import agrees
from .test_state import through_a_file

LONG = os.environ.get("DRILLS") == "long"


@pytest.fixture(scope="module")
def small():
    return make_crowd(seed=3, n_users=6, n_items=6, per_user=12, ties=0.1, variance=2.0, consensus=1.0, features=True)


def refined_anew(small):
    model = CrowdGPPL(n_components=3, t_prior=(20.0, 20.0)).fit(small.labels, X_items=small.X, n_users=6).refine()
    assert model.refined_ is not None
    return model


@pytest.fixture(scope="module")
def refined(small):
    return refined_anew(small)


def strange(labels, rng):
    """The same labels with shares of both answers and weights among them."""
    y = np.where(rng.random(len(labels)) < 0.3, rng.random(len(labels)), labels.y)
    return PairwiseLabels(labels.u, labels.a, labels.b, y, rng.uniform(0.0, 3.0, len(labels)))


# what is fitted beside the labels, and whether every taste has a scale of its own
TARGETS = {
    "plain": ({}, None),
    "own scales": ({}, 0.7),
    "features": ({"X_items": np.random.default_rng(0).uniform(size=(6, 2))}, 0.7),
    "traits": ({"X_users": np.random.default_rng(1).standard_normal((5, 2))}, 0.7),
    "reliability": ({"reliability": True}, None),
    "no consensus": ({"consensus": False}, 0.7),
    "ard": ({"scales": "ard"}, None),
    "gppl": ({"n_components": 0}, None),
}


def target_of(name, chains, rng):
    """The likelihood of some labels, ties, shares and weights among them, and where its chains begin."""
    crowd = make_crowd(seed=2, n_users=5, n_items=6, per_user=9, ties=0.3)
    settings, spread = TARGETS[name]
    post = fitted(strange(crowd.labels, rng), **settings)._post
    if name == "reliability":
        post.reliability.a[:] = rng.uniform(0.05, 1.0, 5)
    if name == "traits":
        post.users.g[:] = rng.standard_normal(post.users.g.shape)
    target = Preferences(post, post.space, chains, spread)
    return post, target, target.start(post, post.space, rng)


@pytest.mark.parametrize("name", TARGETS)
def test_the_slope_is_that_of_the_likelihood_of_the_labels(name):
    rng = np.random.default_rng(1)
    post, target, x = target_of(name, 2, rng)
    B, W = target.unpacked(x)
    labels, F = post.ledger.labels, B[0, 0, None] @ target.Psi.T + W[0] @ B[0, 1:] @ target.Psi.T
    z = post.sharpness(slice(None, -1)) * (F[labels.u, labels.a] - F[labels.u, labels.b])
    direct = labels.weights @ (labels.y * log_ndtr(z) + (1 - labels.y) * log_ndtr(-z))
    assert target.height(x)[0] == pytest.approx(direct, rel=1e-9)
    slope, h = target.slope(x), 1e-6
    for place in rng.permutation(x.shape[1])[:12]:
        step = np.zeros_like(x)
        step[:, place] = h
        numeric = (target.height(x + step) - target.height(x - step)) / (2 * h)
        assert_allclose(slope[:, place], numeric, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["ard", "own scales", "no consensus"])
def test_drawing_scales_anew_leaves_what_was_drawn_of_items_and_users(name):
    rng = np.random.default_rng(1)
    post, target, x = target_of(name, 3, rng)
    before, s = target.unpacked(x), target.s.copy()
    after = target.unpacked(target.renewed(x, rng))
    for left, right in zip(before, after, strict=True):
        assert_allclose(left, right, rtol=1e-9, atol=1e-12)
    assert np.array_equal((target.s != s).any(axis=0), post.scale_items.learned)


def test_draws_of_one_pair_are_those_of_quadrature():
    """Ties, shares and weights, which no Gibbs sampler knows."""
    y, weight = np.array([1.0, 0.5, 0.3, 1.0, 0.0]), np.array([1.0, 2.0, 1.0, 0.4, 1.5])
    zero = np.zeros(5, dtype=int)
    labels = PairwiseLabels(zero, zero, zero + 1, y, weight)
    model = CrowdGPPL(n_components=0, t_prior=(1e6, 1e6)).fit(labels).refine()
    z = np.linspace(-12, 12, 4001)
    log_p = -0.25 * z**2 + (weight * y).sum() * log_ndtr(z) + (weight * (1 - y)).sum() * log_ndtr(-z)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean, sd = p @ z, np.sqrt(p @ z**2 - (p @ z) ** 2)
    t, cov = model.predict_consensus(return_cov=True)
    assert t[0] - t[1] == pytest.approx(mean, abs=0.05 * sd)
    assert np.sqrt(cov[0, 0] + cov[1, 1] - 2 * cov[0, 1]) == pytest.approx(sd, rel=0.05)
    assert model.predict_proba([0], [0], [1])[0] == pytest.approx(p @ ndtr(z), abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("size", TINY_CROWDS + (OTHER_TINY_CROWDS if LONG else []))
def test_a_refined_model_agrees_with_a_long_gibbs_run_on_consensus_and_on_every_user(size):
    _, users, items, _, tastes = size
    crowd = tiny_crowd(*size)
    truth = gibbs(crowd.labels, items, users, components=tastes, s_t=1.0, s_v=1.0, draws=3000 if LONG else 900)
    model = tiny_model(crowd, tastes).refine()
    assert model.refined_.usable
    agrees(truth.consensus, *consensus_over_pairs(model, items))
    agrees(truth.personal, *personal_over_pairs(model, items))


@pytest.mark.slow
def test_a_scale_that_the_model_learns_is_drawn_too():
    crowd = make_crowd(seed=5, n_users=1, n_items=4, per_user=25, components=0, consensus=1.0)
    truth = gibbs(crowd.labels, 4, 1, components=0, s_t=(3.0, 1.0), s_v=1.0, draws=2000)
    model = CrowdGPPL(n_components=0, t_prior=(3.0, 1.0)).fit(crowd.labels, n_items=4).refine()
    assert model.refined_.usable
    agrees(truth.consensus, *consensus_over_pairs(model, 4))


@pytest.mark.slow
def test_directions_that_the_fit_left_out_are_drawn_too(small):
    coarse = fitted(small.labels, X_items=small.X, n_inducing_items=3, n_users=6)
    assert whole_space(coarse._post).M == 6
    fine = fitted(small.labels, X_items=small.X, n_users=6)
    assert whole_space(fine._post) is fine._post.space
    new = np.array([[0.3, 0.4], [9.0, 9.0]])
    for each in (coarse, fine):
        each.refine()
    mean, sd = fine.predict_utilities(X_items=new, return_std=True)
    other, other_sd = coarse.predict_utilities(X_items=new, return_std=True)
    assert_allclose(other, mean, atol=0.2 * sd.max())
    assert_allclose(other_sd, sd, rtol=0.15)
    again = through_a_file(coarse)
    assert np.array_equal(again.predict_utilities(X_items=new), other)


def every_prediction(model):
    u, a, b = np.array([0, 3, 5]), np.array([0, 1, 2]), np.array([3, 4, 5])
    new = {"X_items": np.array([[0.1, 0.9]])}
    yield from model.predict_consensus(return_cov=True)
    yield from model.predict_consensus(return_std=True, **new)
    yield from model.predict_consensus_factors(a)
    yield from model.predict_utilities(return_std=True, among=a)
    yield from model.predict_utilities(return_std=True, X_users=np.zeros((1, 1)), **new)
    yield from model.predict_differences(among=a)
    yield model.predict_proba(u, a, b)
    yield model.predict_proba([6, 0], [0, 6], [1, 2], X_users=np.zeros((1, 1)), **new)
    for kind in ("typical", "mean", "majority"):
        yield model.predict_consensus_proba(a, b, kind=kind, n_workers=5)
    yield model.draw_consensus(a)


def test_a_refined_model_is_the_same_after_it_was_kept_and_on_another_day(refined, small):
    again = through_a_file(refined)
    anew = refined_anew(small)
    assert again.refined_ == refined.refined_ == anew.refined_
    for left, right, third in zip(
        every_prediction(refined), every_prediction(again), every_prediction(anew), strict=True
    ):
        assert np.isfinite(left).all()
        assert np.array_equal(left, right)
        assert np.array_equal(left, third)


@pytest.fixture
def hasty(monkeypatch):
    """One round of draws is enough."""
    monkeypatch.setattr(sampling, "MOST_ROUNDS", 1)
    monkeypatch.setattr(sampling, "ADMISSIBLE_R_HAT", 2.0)
    monkeypatch.setattr(sampling, "LEAST", 0.0)


@pytest.mark.usefixtures("hasty")
def test_labels_that_come_or_go_make_draws_stale(small):
    plain, model = (fitted(small.labels, n_items=6, n_users=6) for _ in range(2))
    before, more = plain.predict_utilities(), small.held.take(np.arange(3))
    assert not np.allclose(model.refine().predict_utilities(), before)
    for step in ("partial_fit", "forget"):
        getattr(model.refine(), step)(more)
        getattr(plain, step)(more)
        assert model.refined_ is None
        assert np.array_equal(model.predict_utilities(), plain.predict_utilities())
        assert "draws_B" not in model.to_state()


@pytest.mark.usefixtures("hasty")
def test_draws_that_do_not_mix_change_nothing_and_say_so(small, monkeypatch):
    monkeypatch.setattr(sampling, "LEAST", 1e9)
    model = fitted(small.labels, n_items=6, n_users=6)
    before = model.predict_utilities()
    assert model.refine().refined_ is None
    assert np.array_equal(model.predict_utilities(), before)
    assert "did not mix" in model.warnings_[-1]
    assert through_a_file(model).warnings_ == model.warnings_


def test_what_cannot_be_refined_is_refused_in_words(crowd, small):
    with pytest.raises(ValueError, match="not been fitted"):
        CrowdGPPL().refine()
    with pytest.raises(ValueError, match="at most 500"):
        fitted(crowd.labels).refine()
    with pytest.raises(ValueError, match="items times users"):
        fitted(small.labels, n_items=6, n_users=200).refine()
    order = small.labels.take(np.argsort(small.labels.u, kind="stable"))
    source = SortedLabels(order.u, order.a, order.b, order.y)
    with pytest.raises(ValueError, match="keeps no labels"):
        CrowdGPPL(2, batch_size=3, personal_variance=1.0).fit(source).refine()
    emptied = fitted(small.labels, n_items=6, n_users=6).forget(small.labels)
    assert emptied.hindrance_ == "There are no labels to refine by."


@pytest.mark.usefixtures("hasty")
def test_refining_tells_how_far_it_is(small):
    told = []
    model = fitted(small.labels, n_items=6, n_users=6, progress=lambda *each: told.append(each)).refine()
    stages = [(done, most) for stage, done, most, _ in told if stage == "refine"]
    assert stages == [(n, stages[0][1]) for n in range(1, sampling.WARM_UP + model.refined_.trajectories + 1)]
    assert stages[-1][0] <= stages[-1][1]


def test_swapping_two_items_gives_the_other_probability(refined):
    u, a, b = np.array([0, 1, 6]), np.array([0, 2, 6]), np.array([1, 3, 0])
    new = {"X_items": np.array([[0.1, 0.9]])}
    p = refined.predict_proba(u, a, b, X_users=np.zeros((1, 1)), **new)
    assert_allclose(p + refined.predict_proba(u, b, a, X_users=np.zeros((1, 1)), **new), 1.0)
    for kind in ("typical", "mean", "majority"):
        q = refined.predict_consensus_proba(a, b, kind, 4, **new)
        assert_allclose(q + refined.predict_consensus_proba(b, a, kind, 4, **new), 1.0)


def test_far_from_all_items_the_prior_returns_in_every_draw(refined):
    far = {"X_items": np.array([[1e6, 1e6]])}
    mean, sd = refined.predict_consensus(return_std=True, **far)
    assert_allclose(mean, 0.0, atol=1e-6)
    assert_allclose(sd**2, refined._draws.variance[:, 0].mean(), rtol=1e-6)
    assert_allclose(refined.predict_proba([0], [6], [6], **far), 0.5)


def test_a_stranger_differs_from_the_crowd_as_users_do(refined):
    F = refined.predict_utilities(users=[6], X_users=np.zeros((1, 1)))
    assert_allclose(F[:, 0], refined.predict_consensus())
    everybody = {"users": np.arange(7), "X_users": np.zeros((1, 1))}
    _, sd = refined.predict_utilities(return_std=True, among=np.arange(6), **everybody)
    assert np.all(sd[:, 6] > sd[:, :6].mean(axis=1))


@pytest.mark.usefixtures("hasty")
def test_a_stranger_with_traits_starts_from_what_they_say(small):
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((6, 2))
    model = fitted(small.labels, n_items=6, X_users=Z).refine()
    post = model._post
    mean, _ = post.traits.expect(Z[:1], post.scale_users.mean)
    expected = model._draws.B[:, 0].mean(axis=0) + np.einsum("dcm,c->m", model._draws.B[:, 1:], mean[0]) / len(
        model._draws.B
    )
    assert_allclose(model.predict_utilities(users=[6], X_users=Z[:1])[:, 0], expected)


def test_ranks_come_from_the_draws_themselves(refined):
    draws = refined.draw_consensus(np.arange(6))
    ranking = rank_draws(refined.predict_consensus(), draws)
    best = int(refined.predict_consensus().argmax())
    assert ranking.rank[best] == 1
    assert ranking.rank_high[best] >= 1 == ranking.rank_low[best]
    assert np.all(ranking.top_probability == 1.0)


def test_effective_size_is_known_for_chains_with_memory():
    rng, rho = np.random.default_rng(0), 0.6
    x = np.zeros((32, 2000, 1))
    for n in range(1, 2000):
        x[:, n] = rho * x[:, n - 1] + np.sqrt(1 - rho**2) * rng.standard_normal((32, 1))
    expected = 32 * 2000 * (1 - rho) / (1 + rho)
    assert effective_size(x)[0] == pytest.approx(expected, rel=0.1)
    assert split_r_hat(x)[0] == pytest.approx(1.0, abs=0.01)


def test_chains_in_two_places_are_found_out():
    x = np.random.default_rng(0).standard_normal((8, 100, 2))
    x[:4, :, 1] += 3.0
    assert split_r_hat(x)[0] < 1.03 < 1.5 < split_r_hat(x)[1]
    assert effective_size(x)[1] < 20 < 500 < effective_size(x)[0]
    stuck = np.zeros((4, 10, 1)) + np.arange(4)[:, None, None]
    assert np.isinf(split_r_hat(stuck)[0])
    assert split_r_hat(np.ones((4, 10, 1)))[0] == 1.0


def test_whatever_is_asked_of_a_refined_model_is_answered_from_the_draws(refined):
    """Nothing is inherited from the fit, and what is said of a pair is what is said of its two items."""
    asked = {name for name, answer in vars(Predictor).items() if callable(answer) and not name.startswith("_")}
    assert asked <= set(vars(DrawnPredictor))
    u, a, b = np.repeat(np.arange(6), 30), *(np.tile(side, 6) for side in np.nonzero(~np.eye(6, dtype=bool)))
    F, view = refined.predict_utilities(), refined._view(None)
    m, v = refined._predictor(None, None).moments(u, a, b)
    assert_allclose(m, F[a, u] - F[b, u], atol=1e-9)
    assert_allclose(refined.predict_gaps(u, a, b), m)
    sd = refined._sd_at(Contrast(view.rows(a) - view.rows(b), view.rest(a, b)), np.arange(6))
    assert_allclose(np.sqrt(v), sd[np.arange(len(u)), u], atol=1e-9)


def test_the_same_model_unrefined_says_what_the_fit_said(small, refined):
    fit = CrowdGPPL(n_components=3, t_prior=(20.0, 20.0)).fit(small.labels, X_items=small.X, n_users=6)
    plain = refined.unrefined()
    assert plain.refined_ is None
    assert refined.refined_ is not None
    assert_allclose(plain.predict_utilities(), fit.predict_utilities())
    assert_allclose(plain.predict_consensus(), fit.predict_consensus())
