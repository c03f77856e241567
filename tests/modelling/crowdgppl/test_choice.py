"""The choice of the personal variance, the finish, and the intervals they give."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.choice import search, search_labels, split_count, variance_at, vertex

from .crowds import fitted, kendall, make_crowd, scores


def test_the_search_walks_downhill_from_the_typical_variance():
    visited = []

    def objective(step):
        visited.append(step)
        return (step - 1.3) ** 2

    scores_seen = search(objective)
    assert visited == [0, -1, 1, 2]
    assert variance_at(vertex(scores_seen)) == pytest.approx(20 * 4**1.3)


def test_the_search_stops_at_the_furthest_candidate():
    assert min(search(lambda step: step)) == -3
    assert max(search(lambda step: -step)) == 3


def test_a_crowd_of_strong_tastes_gets_a_larger_variance_than_one_that_nearly_agrees():
    agreed = make_crowd(seed=3, n_users=60, per_user=25, variance=1.0, consensus=1.0)
    divided = make_crowd(seed=3, n_users=60, per_user=25, variance=40.0, consensus=1.0)
    small, large = (CrowdGPPL(4).fit(each.labels).choice_.variance for each in (agreed, divided))
    assert small < 10 < large


def test_the_choice_leaves_the_test_labels_alone_and_is_told(crowd):
    told = []
    model = CrowdGPPL(4, progress=lambda *each: told.append(each[0])).fit(crowd.labels)
    assert told.count("choose") >= 3
    plain, rest = model.choice_.losses
    assert model.choice_.personal_rest == (rest < plain)
    assert model._post.finish.personal == model.choice_.personal_rest


def test_many_labels_are_searched_through_some_of_the_users():
    rng = np.random.default_rng(0)
    u = np.repeat(np.arange(3000), 10)
    labels = PairwiseLabels(u, np.zeros(len(u), dtype=int), np.ones(len(u), dtype=int), np.ones(len(u)))
    part = search_labels(labels, rng)
    assert 6000 <= len(part) <= 6010
    assert part.n_users == len(part) // 10
    assert (split_count(500), split_count(2000), split_count(50_000)) == (3, 2, 1)


def test_a_private_rest_lets_few_components_follow_many_tastes():
    crowd = make_crowd(seed=9, n_users=40, n_items=10, per_user=30, components=8, variance=15.0)
    plain, rest = (scores(fitted(crowd.labels, n_components=2, finish=each), crowd.held) for each in (False, True))
    assert rest[1] < plain[1]


def test_the_rest_of_a_single_label_is_closed_algebra(crowd):
    """With the private rest a stranger has exactly t and the prior of tastes."""
    model = fitted(crowd.labels, finish=True, n_users=31)
    finish, post = model._post.finish, model._post
    F, sd = model.predict_utilities(users=[30], return_std=True)
    assert F[:, 0] == pytest.approx(post.items.mean[:, 0])
    assert sd[:, 0] == pytest.approx(np.sqrt((finish.root @ finish.root.T).diagonal()))


def test_the_private_rest_leaves_the_consensus_and_the_finish_widens_its_intervals(crowd):
    plain, rest = (fitted(crowd.labels, finish=each) for each in ("auto", True))
    assert rest._post.finish.personal
    assert plain.predict_consensus() == pytest.approx(rest.predict_consensus())
    _, sd = plain.predict_consensus(return_std=True)
    assert np.all(sd > np.sqrt(plain._post.items.cov[0].diagonal()))


@pytest.mark.slow
def test_the_consensus_is_nearer_to_the_truth_with_tastes_integrated_out():
    """Few users with strong tastes and a weak consensus: mean Kendall tau over twelve crowds, against mean field."""
    gains = []
    for seed in range(12):
        crowd = make_crowd(seed, 20, 60, 45, components=5, variance=2.5, consensus=0.2, features=True)
        models = (fitted(crowd.labels, X_items=crowd.X, n_components=10, finish=each) for each in ("auto", False))
        settled, mean_field = (kendall(crowd.t, model.predict_consensus()) for model in models)
        gains.append(settled - mean_field)
    assert np.mean(gains) > 0


def test_without_the_finish_t_is_left_at_the_top_of_the_bound(crowd):
    bounds = [fitted(crowd.labels, likelihood="vb", finish=each).lower_bounds_[-1] for each in (False, "auto")]
    assert bounds[0] > bounds[1]


def test_users_are_exact_for_the_settled_consensus(crowd):
    post = fitted(crowd.labels)._post
    before = post.users.W.copy()
    post.refresh_users()
    assert_allclose(post.users.W, before, rtol=1e-9, atol=1e-12)


def coverage(crowd, model):
    """The share of labelled pairs whose true t_a - t_b lies in the 95 % interval."""
    mean, S = model.predict_consensus(return_cov=True)
    a, b = crowd.labels.a, crowd.labels.b
    sd = np.sqrt(np.maximum(S[a, a] + S[b, b] - 2 * S[a, b], 0))
    error = (mean[a] - mean[b]) - (crowd.t[a] - crowd.t[b])
    return float((np.abs(error) < 1.96 * sd).mean())


@pytest.mark.slow
@pytest.mark.parametrize("components", [1, 3])
def test_95_per_cent_intervals_of_the_consensus_cover(components):
    """U = 25, N = 60, 1,500 labels; mean over four crowds, sd between them about .05."""
    covered = []
    for seed in range(4):
        crowd = make_crowd(seed, 25, 60, 60, components, variance=float(components), consensus=1.0, features=True)
        covered.append(coverage(crowd, CrowdGPPL(10).fit(crowd.labels, X_items=crowd.X)))
    assert 0.85 <= np.mean(covered) <= 0.995
