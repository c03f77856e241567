"""The choice of the personal variance, the finish, and the intervals they give."""

import numpy as np
import pytest

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.choice import search, search_labels, split_count, variance_at, vertex

from .crowds import fitted, make_crowd, scores


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
    assert F[:, 0] == pytest.approx(post.items.mean[:, 0] + finish.shift)
    assert sd[:, 0] == pytest.approx(np.sqrt((finish.root @ finish.root.T).diagonal()))


def test_the_finish_leaves_the_consensus_mean_and_widens_its_intervals(crowd):
    plain, finished = (fitted(crowd.labels, finish=each) for each in (False, True))
    assert plain.predict_consensus() == pytest.approx(finished.predict_consensus())
    _, sd = plain.predict_consensus(return_std=True)
    assert np.all(sd > np.sqrt(plain._post.items.cov[0].diagonal()))


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
