"""Intervals of the consensus and of personal utilities: against dense algebra, and against a long Gibbs run."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.finish import consensus_with_tastes_integrated, personal_covariance
from modelling.crowdgppl.intervals import Contrast
from modelling.simulation import draw_crowd, grid

from .crowds import consensus_over_pairs, fitted, make_crowd
from .gibbs import gibbs

EXACT = {"tolerance": 1e-6, "max_iterations": 200}
PAIRS_OF_4 = list(zip(*np.triu_indices(4, 1), strict=True))
MEAN_WITHIN, SD_WITHIN = 0.1, 0.1  # of a posterior standard deviation


def label_rows(post, u):
    """The labels of a user: their rows in the posterior, and X_u over items without features."""
    rows = np.flatnonzero(post.ledger.u == u)
    q = post.ledger.q[rows]
    X = np.zeros((len(rows), post.space.M))
    X[np.arange(len(rows)), post.ledger.pair_a[q]] = 1
    X[np.arange(len(rows)), post.ledger.pair_b[q]] = -1
    return rows, X


def one_big_gaussian(post):
    """The covariance of (t, p_1, ..., p_U) given the sites, every p_u ~ N(0, A): one dense inverse."""
    M, U = post.space.M, len(post.users.W)
    precision = np.zeros((M * (U + 1), M * (U + 1)))
    precision[:M, :M] = post.scale_items.mean[0] * np.eye(M)
    prior = np.linalg.inv(personal_covariance(post))
    for u in range(U):
        own = slice(M * (u + 1), M * (u + 2))
        rows, X = label_rows(post, u)
        J = np.zeros((len(rows), len(precision)))
        J[:, :M] = J[:, own] = X
        precision += J.T @ (post.lam[rows, None] * J)
        precision[own, own] += prior
    return np.linalg.inv(precision).reshape(U + 1, M, U + 1, M)


def test_personal_intervals_are_those_of_one_big_gaussian():
    """Users with more and with fewer labels than directions, and one without any."""
    crowd = make_crowd(seed=1, n_users=8, per_user=25)
    labels = crowd.labels.take((crowd.labels.u % 2 == 0) | (np.arange(len(crowd.labels)) % 5 == 0))
    labels = labels.take(labels.u != 7)
    model = fitted(labels, n_items=12, n_users=8)
    assert model._post.finish.share == 1.0
    dense = one_big_gaussian(model._post)
    _, sd = model.predict_utilities(return_std=True)
    _, own_sd = model.predict_differences()
    for u in range(8):
        t, p, both = dense[0, :, 0], dense[u + 1, :, u + 1], dense[0, :, u + 1]
        assert_allclose(sd[:, u], np.sqrt((t + p + both + both.T).diagonal()), rtol=1e-6)
        assert_allclose(own_sd[:, u], np.sqrt(p.diagonal()), rtol=1e-6)


def test_an_interval_among_others_is_of_the_distance_from_their_mean():
    crowd = make_crowd(seed=4, features=True)
    model = fitted(crowd.labels, X_items=crowd.X, n_inducing_items=8)
    among = np.array([3, 5, 11])
    intervals, users = model._intervals_of(np.array([2, 9]), None)
    view = model._post.space.view(None, 0)
    _, sd = model.predict_utilities(users=[2, 9], items=[1], among=[7], return_std=True)
    pair = Contrast(view.rows(np.array([1])) - view.rows(np.array([7])), view.rest(np.array([1]), np.array([7])))
    assert_allclose(sd, intervals.sd(users, pair), rtol=1e-9)
    _, several = model.predict_utilities(users=[2], items=[1], among=among, return_std=True)
    weights = np.zeros(12)
    weights[1], weights[among] = 1.0, -1.0 / 3
    rest = weights @ view.rest_covariance(np.arange(12)) @ weights
    mixed = Contrast((weights @ view.rows(np.arange(12)))[None], np.array([rest]))
    assert_allclose(several, intervals.sd(users[:1], mixed), rtol=1e-9)


def test_the_mean_of_the_others_is_the_same_in_any_order_and_when_others_were_asked_for_between():
    crowd = make_crowd(seed=4, features=True)
    model = fitted(crowd.labels, X_items=crowd.X, n_inducing_items=8)
    _, first = model.predict_utilities(return_std=True, among=[3, 5, 11])
    _, turned = model.predict_utilities(return_std=True, among=[11, 3, 5])
    _, others = model.predict_utilities(return_std=True, among=[3, 5, 10])
    _, again = model.predict_utilities(return_std=True, among=[3, 5, 11])
    assert_allclose(turned, first, rtol=1e-12)
    assert_allclose(again, first, rtol=0)
    assert not np.allclose(others, first, rtol=1e-6)
    new = {"X_items": crowd.X[:1] + 0.3, "return_std": True}
    _, known = model.predict_utilities(items=[2], among=[3, 5, 11], **new)
    _, beside_new = model.predict_utilities(items=[2], among=[3, 5, 12], **new)
    assert_allclose(known[0], first[2], rtol=1e-12)
    assert not np.allclose(beside_new, known, rtol=1e-6)


@pytest.mark.parametrize("finish", [False, True])
def test_gaps_are_differences_of_utilities(crowd, finish, monkeypatch):
    monkeypatch.setattr("modelling.crowdgppl.rest.CHUNK_PAIRS", 7)
    model = fitted(crowd.labels, finish=finish)
    u, a, b = crowd.held.u[:40], crowd.held.a[:40], crowd.held.b[:40]
    F = model.predict_utilities()
    assert_allclose(model.predict_gaps(u, a, b), F[a, u] - F[b, u], rtol=1e-9, atol=1e-12)


def test_what_reads_alike_is_the_same_however_many_items_are_looked_at_together(monkeypatch):
    crowd = make_crowd(seed=4, features=True)
    model = fitted(crowd.labels, X_items=crowd.X, n_inducing_items=8)
    at_once = model.similarity([2, 12], X_items=crowd.X[:1])
    monkeypatch.setattr("modelling.crowdgppl.predictions.CHUNK_ITEMS", 5)
    assert_allclose(model.similarity([2, 12], X_items=crowd.X[:1]), at_once, rtol=1e-12)
    assert_allclose([at_once[0, 2], at_once[1, 0]], 1.0, rtol=1e-12)


def test_a_stranger_is_as_unsure_as_a_user_without_labels(crowd):
    model = fitted(crowd.labels, n_users=31)
    _, sd = model.predict_utilities(users=[30, 31], X_users=np.zeros((1, 1)), return_std=True)
    assert_allclose(sd[:, 0], sd[:, 1], rtol=1e-12)
    _, known = model.predict_utilities(users=[3], return_std=True)
    assert np.all(known[:, 0] < sd[:, 0])


def test_after_a_small_update_intervals_are_those_of_the_labels_there_are(crowd):
    model = fitted(crowd.labels)
    before = model._post.finish.S_t.copy()
    model.partial_fit(crowd.held.take(np.arange(8)))
    _, cov = model.predict_consensus(return_cov=True)
    assert_allclose(cov, consensus_with_tastes_integrated(model._post)[0], rtol=1e-12)
    assert not np.allclose(cov, before, rtol=1e-3)
    model.partial_fit(crowd.held.take(np.arange(8, 12)))
    state = model.to_state()
    assert_allclose(state["finish_S_t"], consensus_with_tastes_integrated(model._post)[0], rtol=1e-12)
    assert_allclose(CrowdGPPL.from_state(state).predict_consensus(return_cov=True)[1], state["finish_S_t"])


def test_less_of_a_private_rest_means_narrower_intervals(crowd):
    model = fitted(crowd.labels)
    _, wide = model.predict_utilities(return_std=True, among=np.arange(12))
    model._post.finish.share = 0.1
    _, narrow = model.predict_utilities(return_std=True, among=np.arange(12))
    assert np.all(narrow < wide)


@pytest.mark.slow
def test_where_there_are_many_tastes_more_of_the_rest_is_counted_on_than_where_there_is_one():
    shares = {}
    for tastes in (1, 10):
        drawn = draw_crowd(
            np.random.default_rng([7, tastes]), X_items=grid(7), n_users=25, n_labels=900, n_components=tastes
        )
        given = drawn.labels
        labels = PairwiseLabels(given.u, given.a, given.b, given.y)
        model = CrowdGPPL(n_components=10).fit(labels, X_items=drawn.X_items, n_users=25)
        shares[tastes] = model.choice_.share
        assert CrowdGPPL.from_state(model.to_state()).choice_ == model.choice_
    assert 0.1 <= shares[1] < shares[10] <= 1.0


def agrees(truth, mean, sd):
    """Whether means and deviations are those of the draws, and these long enough to say so."""
    assert np.max(truth.mean_error / truth.sd) < MEAN_WITHIN / 3
    assert np.max(truth.sd_error / truth.sd) < SD_WITHIN / 3
    assert_allclose((mean - truth.mean) / truth.sd, 0.0, atol=MEAN_WITHIN)
    assert_allclose(sd / truth.sd, 1.0, atol=SD_WITHIN)


@pytest.mark.slow
def test_a_long_gibbs_run_agrees_on_a_tiny_crowd_without_components():
    crowd = make_crowd(seed=5, n_users=1, n_items=4, per_user=25, components=0, consensus=1.0)
    truth = gibbs(crowd.labels, 4, 1, components=0, s_t=1.0, s_v=1.0, draws=1500)
    model = CrowdGPPL(n_components=0, t_prior=(1e6, 1e6), **EXACT).fit(crowd.labels, n_items=4)
    agrees(truth.consensus, *consensus_over_pairs(model, 4))


@pytest.mark.slow
def test_a_long_gibbs_run_agrees_on_the_consensus_of_a_tiny_crowd_with_tastes():
    """With scales held at the truth. Of personal utilities the mean field knows the average spread, not each one's."""
    crowd = make_crowd(seed=5, n_users=4, n_items=4, per_user=10, components=1, variance=1.0, consensus=1.0)
    truth = gibbs(crowd.labels, 4, 4, components=1, s_t=1.0, s_v=1.0, draws=700)
    model = CrowdGPPL(n_components=1, t_prior=(1e6, 1e6), personal_variance=1.0, **EXACT)
    model.fit(crowd.labels, n_items=4, n_users=4)
    mean, sd = consensus_over_pairs(model, 4)
    agrees(truth.consensus, mean, sd)
    S = model._post.items.cov[0]
    mean_field = [np.sqrt(S[i, i] + S[j, j] - 2 * S[i, j]) for i, j in PAIRS_OF_4]
    assert np.all(mean_field < 0.8 * truth.consensus.sd)
    personal = np.stack([model.predict_utilities(items=[i], among=[j], return_std=True)[1][0] for i, j in PAIRS_OF_4])
    assert np.mean(personal / truth.personal.sd) == pytest.approx(1.0, abs=0.15)
