"""Worker reliability: coins lose their say, people who dissent keep theirs."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.inference import Rules, iterate, update_in_place
from modelling.crowdgppl.judging import deal_labels, foretell, judge_everybody
from modelling.crowdgppl.reliability import GRID, Reliability, answers_foretold

from .crowds import fitted, kendall, make_crowd
from .test_likelihood import dense
from .test_state import through_a_file

COINS = np.arange(8)
RTOL = 1e-5  # closed forms and Gauss rules against a trapezium of 40,001 points


def crowd_with_coins(seed=0, coins=8, per_user=30):
    """Forty workers with tastes of their own, of whom the first toss coins."""
    crowd = make_crowd(seed, n_users=40, n_items=15, per_user=per_user, variance=1.5, consensus=3.0)
    rng, y = np.random.default_rng(seed), crowd.labels.y.copy()
    tossed = crowd.labels.u < coins
    y[tossed] = rng.integers(0, 2, tossed.sum())
    return replace(crowd, labels=PairwiseLabels(crowd.labels.u, crowd.labels.a, crowd.labels.b, y))


def dissenters(crowd):
    """The eight of the others whose own scores are least like the consensus."""
    alike = [np.corrcoef(crowd.t, crowd.F[:, u])[0, 1] for u in range(8, 40)]
    return 8 + np.argsort(alike)[:8]


@pytest.fixture(scope="module")
def crowd():
    return crowd_with_coins()


@pytest.fixture(scope="module")
def judged(crowd):
    return fitted(crowd.labels, reliability=True, personal_variance=3.0)


def test_coins_lose_their_say_and_dissenters_keep_it(crowd, judged):
    a = judged.reliability_
    assert a[COINS].mean() < 0.5
    assert a[8:].mean() > 0.9
    assert a[dissenters(crowd)].mean() > a[8:].mean() - 0.02


def test_without_coins_almost_nobody_loses_weight():
    assert (
        fitted(crowd_with_coins(seed=1, coins=0).labels, reliability=True, personal_variance=3.0).reliability_.mean()
        > 0.97
    )


def test_the_consensus_is_nearer_to_the_truth_when_coins_lose_their_say():
    gains = []
    for seed in range(4):
        crowd = crowd_with_coins(seed, coins=14)
        plain, judged = (
            fitted(crowd.labels, reliability=each, personal_variance=3.0).predict_consensus() for each in (False, True)
        )
        gains.append(kendall(judged, crowd.t) - kendall(plain, crowd.t))
    assert np.mean(gains) > 0.01


def test_a_model_that_has_learned_from_a_coin_finds_it_consistent(crowd, judged):
    """Why answers are foretold by models that have not seen them."""
    plain = fitted(crowd.labels)._post
    learned = Reliability.prior(40, len(crowd.labels))
    learned.foretold = foretell(plain, crowd.labels, Rules())
    seen, unseen = (each.evidence(crowd.labels.u)[COINS] for each in (learned, judged._post.reliability))
    assert (seen[:, -1] > seen[:, 0]).mean() > 0.8
    assert (unseen[:, -1] < unseen[:, 0]).mean() > 0.8


@pytest.mark.parametrize("likelihood", ["ep", "vb"])
@pytest.mark.parametrize(("y", "weight"), [(1.0, 1.0), (0.0, 1.0), (0.5, 1.0), (1.0, 2.5)])
def test_the_site_of_a_dull_answer_is_that_of_dense_quadrature(likelihood, y, weight):
    """EP: the moments of N(z; m, v) Phi(a z)^(wy) Phi(-a z)^(w(1-y)), found in z. VB: the slope of its log."""
    m, v, a = np.array([0.7]), np.array([2.0]), np.array([0.3])
    lam, tau = np.zeros(1), np.zeros(1)
    update_in_place(lam, tau, m, v, np.array([y]), np.array([weight]), likelihood, 1.0, a)
    if likelihood == "ep":
        mean, variance = dense(0.3 * 0.7, 0.09 * 2.0, weight * y, weight * (1 - y))
        assert_allclose(1 / (1 / v + lam), variance / 0.09, rtol=RTOL)
        assert_allclose((m / v + tau) / (1 / v + lam), mean / 0.3, rtol=RTOL)
        return

    def expected(shift):
        def part(z):
            logs = y * norm.logcdf(0.3 * z) + (1 - y) * norm.logcdf(-0.3 * z)
            return weight * logs * norm.pdf(z, 0.7 + shift, np.sqrt(2.0))

        return quad(part, -15, 16, epsabs=1e-12, limit=200)[0]

    slope = (expected(1e-3) - expected(-1e-3)) / 2e-3
    assert_allclose(tau - lam * m, slope, rtol=1e-4, atol=1e-8)


def test_what_is_foretold_is_the_chance_of_the_answer_and_ties_say_nothing():
    m, v = np.array([0.8, 0.8, 0.8, -2.0]), np.array([1.5, 1.5, 1.5, 0.3])
    told = answers_foretold(m, v, np.array([1.0, 0.0, 0.5, 1.0]), np.array([1.0, 1.0, 1.0, 2.0]))
    for k, a in enumerate(GRID):
        chance = quad(lambda z, a=a: ndtr(a * z) * norm.pdf(z, 0.8, np.sqrt(1.5)), -12, 14)[0]
        assert_allclose(told[:2, k], np.log([chance, 1 - chance]), rtol=1e-7)
    assert not told[2].any()
    assert_allclose(told[3], 2.0 * answers_foretold(m[3:], v[3:], np.ones(1), np.ones(1))[0])


def test_who_was_taken_for_a_coin_is_judged_anew(crowd, judged):
    """A dissenter whose answers counted for nothing is still foretold from them."""
    post = judged._post.copy()
    who = dissenters(crowd)[0]
    post.reliability.a[who] = 0.05
    for _ in range(8):
        iterate(post, Rules())
    judge_everybody(post, Rules(), np.random.default_rng(0))
    assert post.reliability.a[who] > 0.9


def test_an_answer_is_foretold_nearly_as_by_a_fit_that_never_had_it(crowd):
    """Warm copies against fits from scratch without the fold."""
    model, labels = fitted(crowd.labels), crowd.labels
    post, rng = model._post.copy(), np.random.default_rng(3)
    fold = deal_labels(labels.u, np.random.default_rng(3))
    judge_everybody(post, Rules(), rng)
    cold = np.zeros_like(post.reliability.foretold)
    for held in range(4):
        other = fitted(labels.take(fold != held), n_users=40, n_items=15)._post
        cold[fold == held] = foretell(other, labels.take(fold == held), Rules())
    warm, cold = (
        Reliability(post.reliability.a, rows).evidence(labels.u) for rows in (post.reliability.foretold, cold)
    )
    gaps = [each[:, -1] - each[:, 0] for each in (warm, cold)]
    assert np.corrcoef(gaps)[0, 1] > 0.9
    assert abs(gaps[0].mean() - gaps[1].mean()) < 1.0


def test_each_users_labels_are_dealt_evenly():
    u = np.repeat([0, 1, 2], [8, 1, 4])
    fold = deal_labels(u, np.random.default_rng(0))
    assert np.bincount(fold[u == 0]).tolist() == [2, 2, 2, 2]
    assert sorted(fold[u == 2]) == [0, 1, 2, 3]


def test_with_everybody_sharp_nothing_changes(crowd):
    """The limit a = 1 is the plain model, bit for bit."""
    plain = fitted(crowd.labels)._post
    sharp = plain.copy()
    sharp.reliability = Reliability.prior(40, len(crowd.labels))
    for post in (plain, sharp):
        iterate(post, Rules())
    assert np.array_equal(plain.items.mean, sharp.items.mean)
    assert np.array_equal(plain.lam, sharp.lam)


def test_the_worker_with_no_say_moves_nobody_else(judged, crowd):
    """A coin's sites weigh next to nothing beside those of the others."""
    post = judged._post
    coin = np.isin(post.ledger.u, COINS)
    assert post.lam[:-1][coin].mean() < 0.5 * post.lam[:-1][~coin].mean()


def test_predictions_carry_the_noise_of_each_worker(judged, crowd):
    u, a, b = np.array([0, 20]), np.array([0, 0]), np.array([1, 1])
    m, v = judged._predictor(None, None).moments(u, a, b)
    sharp = judged.reliability_[u]
    assert_allclose(judged.predict_proba(u, a, b), ndtr(sharp * m / np.sqrt(1 + sharp**2 * v)))
    stranger = judged.predict_proba([40], [0], [1], X_users=np.zeros((1, 1)))
    assert 0 < stranger[0] < 1


def test_a_newcomer_who_tosses_coins_is_found_out_step_by_step(crowd, judged):
    model = through_a_file(judged)
    rng = np.random.default_rng(5)
    a = rng.integers(0, 15, 60)
    b = (a + rng.integers(1, 15, 60)) % 15
    tosses = PairwiseLabels(np.full(60, 40), a, b, rng.integers(0, 2, 60).astype(float))
    for start in range(0, 60, 15):
        model.partial_fit(tosses.take(np.arange(start, start + 15)), n_users=41)
    assert model.n_users_ == 41
    assert model.reliability_[40] < 0.5
    model.forget(tosses)
    assert model.reliability_[40] == pytest.approx(model._post.reliability.stranger)
    assert len(model._post.reliability.foretold) == len(crowd.labels)


def test_gppl_judges_workers_too():
    """One utility for all, the limit without components: who cannot be told from a coin loses weight."""
    crowd = make_crowd(seed=3, components=0, n_users=20)
    y = crowd.labels.y.copy()
    coin = crowd.labels.u < 4
    y[coin] = np.random.default_rng(0).integers(0, 2, coin.sum())
    labels = PairwiseLabels(crowd.labels.u, crowd.labels.a, crowd.labels.b, y)
    a = CrowdGPPL(n_components=0, reliability=True).fit(labels).reliability_
    assert a[:4].mean() < 0.6 < 0.9 < a[4:].mean()
