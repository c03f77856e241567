"""Traits of users: they help new users where they matter and do no harm where they do not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from modelling.crowdgppl import CrowdGPPL, Matern32

from .crowds import Crowd, draw_labels, log_loss


def crowd_with_traits(seed, share, n_users=120, n_new=40, n_items=25, per_user=15):
    """A share of the tastes follows two traits; the last users have no labels in the fit."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_users + n_new, 2))
    L = Matern32(length_scale=0.5).fit(X)(X) + 1e-9 * np.eye(len(X))
    g, e = np.linalg.cholesky(L) @ rng.standard_normal((len(X), 2)), rng.standard_normal((len(X), 2))
    W = np.sqrt(share) * g + np.sqrt(1 - share) * e
    V, t = rng.standard_normal((n_items, 2)) * 2.0, rng.standard_normal(n_items)
    F = t[:, None] + V @ W.T
    return Crowd(draw_labels(rng, F[:, :n_users], per_user), draw_labels(rng, F, 10), t, F, X)


def fit_pair(crowd, n_users=120):
    with_traits = CrowdGPPL(n_components=4, user_kernel=Matern32(length_scale=0.5))
    with_traits.fit(crowd.labels, X_users=crowd.X[:n_users])
    return with_traits, CrowdGPPL(n_components=4).fit(crowd.labels, n_users=n_users)


def loss_of_new_users(model, crowd, n_users=120):
    new = crowd.held.take(crowd.held.u >= n_users)
    p = model.predict_proba(new.u, new.a, new.b, X_users=crowd.X[n_users:])
    return float(-np.log(np.where(new.y == 1, p, 1 - p)).mean())


@pytest.fixture(scope="module")
def informative():
    crowd = crowd_with_traits(seed=0, share=0.9)
    return crowd, *fit_pair(crowd)


def test_traits_that_matter_help_new_users(informative):
    crowd, with_traits, without = informative
    assert loss_of_new_users(with_traits, crowd) < loss_of_new_users(without, crowd) - 0.02


def test_traits_that_do_not_matter_do_no_harm():
    crowd = crowd_with_traits(seed=1, share=0.0)
    with_traits, without = fit_pair(crowd)
    known = crowd.held.take(crowd.held.u < 120)
    assert log_loss(with_traits, known) < log_loss(without, known) + 0.005
    assert loss_of_new_users(with_traits, crowd) < loss_of_new_users(without, crowd) + 0.01


def test_new_users_start_from_users_with_similar_traits(informative):
    crowd, model, _ = informative
    F, truth = model.predict_utilities(X_users=crowd.X[120:]), crowd.F[:, 120:] - crowd.F[:, 120:].mean(axis=0)
    shared = np.repeat(model.predict_consensus()[:, None], 40, axis=1)
    assert np.corrcoef(F.ravel(), truth.ravel())[0, 1] > np.corrcoef(shared.ravel(), truth.ravel())[0, 1] + 0.1


def test_new_users_may_join_with_their_traits(informative):
    crowd = informative[0]
    model = CrowdGPPL.from_state(informative[1].to_state())
    model.partial_fit(crowd.held.take((crowd.held.u >= 120) & (crowd.held.u < 125)), X_users=crowd.X[:125])
    assert model.n_users_ == 125


def test_traits_that_are_equal_for_all_say_nothing():
    crowd = crowd_with_traits(seed=2, share=0.5, n_users=40)
    same = CrowdGPPL(n_components=4).fit(crowd.labels, X_users=np.ones((40, 2)))
    none = CrowdGPPL(n_components=4).fit(crowd.labels)
    assert_allclose(same.predict_utilities(), none.predict_utilities())
    assert np.isfinite(same.predict_utilities(X_users=np.ones((1, 2)))).all()
