"""Labels that come later, and labels that go: t, the tastes and the users follow without a refit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl.inference import Rules, iterate
from modelling.crowdgppl.items import item_step, mean_gradient, pair_statistics
from modelling.crowdgppl.ledger import Ledger
from modelling.crowdgppl.streaming import find_rows, move_items, without_labels

from .crowds import fitted, make_crowd, scores


@pytest.fixture(scope="module")
def larger():
    """Large enough that a few new labels are a small share."""
    return make_crowd(seed=7, n_users=150, n_items=20, per_user=20, held_per_user=20)


def parted(labels, share, seed=0):
    order = np.random.default_rng(seed).permutation(len(labels))
    cut = int(share * len(labels))
    return labels.take(order[:cut]), labels.take(order[cut:])


def all_prefer(x, users, n_items):
    others = np.setdiff1d(np.arange(n_items), [x])
    b = others[np.arange(len(users)) % len(others)]
    return PairwiseLabels(users, np.full(len(users), x), b, np.ones(len(users)))


@pytest.mark.parametrize("count", [20, 120])  # a small update, and one that runs full iterations
def test_new_labels_that_all_prefer_an_item_raise_it(larger, count):
    model = fitted(larger.labels)
    x = int(np.argsort(model.predict_consensus())[5])
    before = model.predict_consensus()[x]
    model.partial_fit(all_prefer(x, np.arange(count), 20))
    assert model.predict_consensus()[x] > before


def test_streaming_the_last_tenth_is_as_good_as_a_refit(larger):
    first, last = parted(larger.labels, 0.9)
    model = fitted(first, **larger.sizes)
    for start in range(0, len(last), 30):
        model.partial_fit(last.take(np.arange(start, min(start + 30, len(last)))))
    streamed, refit = scores(model, larger.held), scores(fitted(larger.labels), larger.held)
    assert streamed[0] > refit[0] - 0.01
    assert streamed[1] < refit[1] + 0.01


def test_updates_without_news_leave_the_items_where_the_fit_stopped(larger):
    """The fit stopped short of the top of the bound; updates do not go on climbing by themselves."""
    none = larger.labels.take(np.zeros(0, dtype=int))
    moved = []
    for holds in (True, False):
        model = fitted(larger.labels)
        before = model._post.items.mean.copy()
        if not holds:
            model._post.held = None
        for _ in range(30):
            model.partial_fit(none)
        moved.append(np.abs(model._post.items.mean - before).max())
    assert model.converged_
    assert moved[0] < 0.5 * moved[1]


def test_one_item_step_without_news_moves_nothing(larger):
    post = fitted(larger.labels)._post
    before = post.items.mean.copy()
    move_items(post, np.zeros(0, dtype=int))
    assert_allclose(post.items.mean, before, atol=1e-9)


def test_tastes_that_did_not_come_to_rest_are_carried_on_by_updates(larger):
    model = fitted(larger.labels, max_iterations=2)
    assert not model.converged_
    assert not model._post.held[:, 1:].any()
    assert fitted(larger.labels)._post.held[:, 1:].any()


def test_nothing_is_held_at_the_top_of_the_bound(larger):
    post = fitted(larger.labels)._post
    statistics = pair_statistics(post.ledger, post.lam, post.tau, post.users)
    item_step(post.space, post.ledger, post.items, post.scale_items.mean, statistics, sweeps=500)
    slope = mean_gradient(post.space, post.ledger, post.items, post.scale_items.mean, statistics)
    assert_allclose(slope, 0.0, atol=1e-6)


def test_new_users_are_learned_from_their_first_labels(larger):
    known = larger.labels.u < 130
    model = fitted(larger.labels.take(known), n_items=20)
    held = larger.held.take(larger.held.u >= 130)
    model.partial_fit(larger.labels.take(~known), n_users=150)
    streamed, refit = scores(model, held), scores(fitted(larger.labels), held)
    assert model.n_users_ == 150
    assert streamed[0] > refit[0] - 0.02
    assert streamed[1] < refit[1] + 0.03


@pytest.mark.parametrize("finish", [False, True])
@pytest.mark.parametrize("features", [False, True])
def test_new_items_are_learned_from_their_first_labels(features, finish):
    crowd = make_crowd(seed=8, n_users=60, n_items=20, per_user=30, features=features)
    touched = (crowd.labels.a >= 17) | (crowd.labels.b >= 17)
    X = crowd.X
    model = fitted(crowd.labels.take(~touched), X_items=None if X is None else X[:17], n_items=17, n_users=60,
                   finish=finish)  # fmt: skip
    model.partial_fit(crowd.labels.take(touched), X_items=X, n_items=20)
    held = crowd.held.take((crowd.held.a >= 17) | (crowd.held.b >= 17))
    streamed, refit = scores(model, held), scores(fitted(crowd.labels, X_items=X, n_items=20, finish=finish), held)
    assert model.n_items_ == 20
    assert streamed[0] > refit[0] - 0.03
    assert streamed[1] < refit[1] + 0.05


def test_an_extended_item_space_is_the_space_of_all_items():
    """New items with room for directions of their own: the covariance is exact again."""
    from modelling.crowdgppl.inducing import spectral_space
    from modelling.crowdgppl.kernels import Matern32

    X = np.random.default_rng(0).normal(size=(14, 3))
    kernel = Matern32().fit(X)
    space = spectral_space(X[:9], kernel, 9).extended(X[9:], 5, room=5)
    assert_allclose(space.Psi @ space.Psi.T, kernel(X), atol=1e-8)
    assert_allclose(space.project(X, 14), space.Psi, atol=1e-7)


def test_a_model_that_knew_too_few_users_for_its_components_starts_again(crowd):
    few = crowd.labels.take(crowd.labels.u < 1)
    model = fitted(few, n_items=12)
    assert model.n_components_ == 0
    model.partial_fit(crowd.labels.take(crowd.labels.u >= 1))
    assert model.n_components_ == 4
    assert_allclose(model.predict_utilities(), fitted(crowd.labels).predict_utilities(), rtol=1e-6, atol=1e-8)


def test_a_model_that_has_outgrown_its_first_labels_starts_again(crowd):
    """Small steps alone would leave it at what the first labels could tell."""
    order = np.random.default_rng(0).permutation(len(crowd.labels))
    model = fitted(crowd.labels.take(order[:60]), **crowd.sizes)
    for start in range(60, len(order), 60):
        model.partial_fit(crowd.labels.take(order[start : start + 60]))
    streamed, refit = scores(model, crowd.held), scores(fitted(crowd.labels), crowd.held)
    assert streamed[0] > refit[0] - 0.02
    assert streamed[1] < refit[1] + 0.03


def test_the_first_partial_fit_is_a_fit(crowd):
    left = CrowdGPPL(4, personal_variance=8.0).partial_fit(crowd.labels).predict_utilities()
    assert np.array_equal(left, fitted(crowd.labels).predict_utilities())


def test_forgotten_labels_leave_no_site_behind(crowd):
    model = fitted(crowd.labels)
    some = crowd.labels.take(np.array([3, 77, 200]))
    model.forget(some)
    assert model._post.ledger.n_labels == len(crowd.labels) - 3
    assert len(model._post.lam) == len(crowd.labels) - 2  # and one place for no label
    with pytest.raises(ValueError, match="forgot it already"):
        model.forget(some)


def test_a_label_is_forgotten_whichever_way_round_it_is_named(crowd):
    label = crowd.labels.take(np.array([5]))
    turned = PairwiseLabels(label.u, label.b, label.a, 1 - label.y)
    model = fitted(crowd.labels).forget(turned)
    assert model._post.ledger.n_labels == len(crowd.labels) - 1


def test_after_forgetting_a_full_iteration_equals_one_on_the_remaining_labels(crowd):
    """From the same state: items, users, scales and the sites of the labels that stay."""
    gone = np.array([0, 50, 51, 300])
    post = fitted(crowd.labels)._post
    kept = np.setdiff1d(np.arange(len(crowd.labels)), gone)
    other = post.copy()
    without_labels(post, find_rows(post.ledger, crowd.labels.take(gone)))
    other.ledger = Ledger.of(crowd.labels.take(kept), 12, 30)
    for name in ("lam", "tau", "m", "v"):
        setattr(other, name, np.append(getattr(other, name)[kept], 0.0))
    other.rest = np.zeros(other.ledger.n_pairs)
    other.refresh_pairs()
    iterate(post, Rules())
    iterate(other, Rules())
    assert_allclose(post.items.mean, other.items.mean, rtol=0, atol=1e-10)
    assert_allclose(post.users.W, other.users.W, rtol=0, atol=1e-10)
    assert_allclose(post.lam, other.lam, rtol=0, atol=1e-10)


def test_without_components_forgetting_is_never_having_seen(crowd):
    exact = {"n_components": 0, "tolerance": 1e-9, "max_iterations": 500}
    gone = np.arange(0, 60, 3)
    kept = np.setdiff1d(np.arange(len(crowd.labels)), gone)
    forgot = fitted(crowd.labels, **exact).forget(crowd.labels.take(gone))
    never = fitted(crowd.labels.take(kept), **crowd.sizes, **exact)
    for left, right in zip(
        forgot.predict_consensus(return_cov=True), never.predict_consensus(return_cov=True), strict=True
    ):
        assert_allclose(left, right, rtol=0, atol=1e-6)


def test_forgetting_all_labels_of_a_user_makes_them_a_stranger(crowd):
    model = fitted(crowd.labels).forget(crowd.labels.take(crowd.labels.u == 4))
    assert not model._post.users.W[4].any()
    assert model.predict_utilities(users=[4])[:, 0] == pytest.approx(model.predict_consensus())


def test_forgetting_everything_leaves_the_prior(crowd):
    model = fitted(crowd.labels).forget(crowd.labels)
    assert model.predict_consensus() == pytest.approx(np.zeros(12), abs=1e-6)
    assert model.predict_proba([0], [1], [2]) == pytest.approx([0.5], abs=1e-6)
    relearned = scores(model.partial_fit(crowd.labels), crowd.held)
    assert relearned[0] > 0.7


def test_items_and_users_may_come_before_their_labels(crowd):
    none = crowd.labels.take(np.zeros(0, dtype=int))
    for finish in (False, True):
        model = fitted(crowd.labels, finish=finish)
        before, sd = model.predict_utilities(return_std=True)
        model.partial_fit(none, n_items=14, n_users=33)
        after, new_sd = model.predict_utilities(return_std=True)
        assert after.shape == (14, 33)
        assert after[:12, :30] == pytest.approx(before, abs=0.2)
        assert not after[12:].any()
        assert new_sd[12:].min() > np.median(sd)


def test_a_refused_update_leaves_the_model_as_it_was(crowd):
    model = fitted(crowd.labels, X_items=np.random.default_rng(0).normal(size=(12, 2)))
    before = model.predict_utilities()
    stranger = PairwiseLabels(np.array([0]), np.array([0]), np.array([12]), np.array([1.0]))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(stranger)
    assert np.array_equal(model.predict_utilities(), before)


def test_a_new_item_is_not_widened_by_a_consensus_that_the_model_does_not_have(crowd):
    model = fitted(crowd.labels, consensus=False, finish=True, n_items=12)
    more = PairwiseLabels(np.array([0]), np.array([12]), np.array([0]), np.array([1.0]))
    model.partial_fit(more)
    post = model._post
    assert_allclose(post.finish.root[12] @ post.finish.root[12], (1.0 / (post.scale_items.mean[1:] * post.s_w)).sum())
    assert not post.finish.S_t.any()
