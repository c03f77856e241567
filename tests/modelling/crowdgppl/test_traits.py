"""Worker traits: they help strangers where they matter, and do no harm where they do not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from modelling.crowdgppl import CrowdGPPL, Matern32
from modelling.crowdgppl.inference import exchange_scales
from modelling.crowdgppl.streaming import grow_users
from modelling.crowdgppl.traits import Traits, learn_traits, messages
from modelling.crowdgppl.users import Users

from .crowds import Crowd, draw_labels, fitted, scores


def crowd_with_traits(seed, share, n_users=120, n_new=40, n_items=25, per_user=15):
    """Tastes of which this share follows two traits; the last users are kept out of the labels."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_users + n_new, 2))
    L = Matern32(length_scale=0.5).fit(X)(X) + 1e-9 * np.eye(len(X))
    g, e = np.linalg.cholesky(L) @ rng.standard_normal((len(X), 2)), rng.standard_normal((len(X), 2))
    W = np.sqrt(share) * g + np.sqrt(1 - share) * e
    V, t = rng.standard_normal((n_items, 2)) * 2.0, rng.standard_normal(n_items)
    F = t[:, None] + V @ W.T
    labels, held = draw_labels(rng, F[:, :n_users], per_user), draw_labels(rng, F, 10)
    return Crowd(labels, held, t, F, V, W, X)


def fit_pair(crowd, n_users=120):
    settings = {"n_components": 4, "personal_variance": 8.0, "user_kernel": Matern32(length_scale=0.5)}
    with_traits = CrowdGPPL(**settings).fit(crowd.labels, X_users=crowd.X[:n_users])
    without = CrowdGPPL(**settings).fit(crowd.labels, n_users=n_users)
    return with_traits, without


def cold(model, crowd, n_users=120):
    """Cross entropy on users never seen, by their traits."""
    new = crowd.held.take(crowd.held.u >= n_users)
    p = model.predict_proba(new.u, new.a, new.b, X_users=crowd.X[n_users:])
    return float(-np.log(np.where(new.y == 1, p, 1 - p)).mean())


def test_traits_that_matter_help_strangers():
    crowd = crowd_with_traits(seed=0, share=0.9)
    with_traits, without = fit_pair(crowd)
    assert with_traits._post.traits.rho > 0.3
    assert cold(with_traits, crowd) < cold(without, crowd) - 0.02


def test_traits_that_do_not_matter_do_no_harm():
    crowd = crowd_with_traits(seed=1, share=0.0)
    with_traits, without = fit_pair(crowd)
    known = crowd.held.take(crowd.held.u < 120)
    assert with_traits._post.traits.rho <= 0.1
    assert scores(with_traits, known)[1] < scores(without, known)[1] + 0.005
    assert cold(with_traits, crowd) < cold(without, crowd) + 0.01


def test_new_users_with_traits_start_from_their_neighbours():
    crowd = crowd_with_traits(seed=0, share=0.9)
    model, _ = fit_pair(crowd)
    F = model.predict_utilities(X_users=crowd.X[120:])
    truth = crowd.F[:, 120:] - crowd.F[:, 120:].mean(axis=0)
    together = np.corrcoef((F - F.mean(axis=0)).ravel(), truth.ravel())[0, 1]
    consensus = np.corrcoef(np.repeat(model.predict_consensus()[:, None], 40, axis=1).ravel(), truth.ravel())[0, 1]
    assert together > consensus + 0.1


def test_new_users_may_join_with_their_traits():
    crowd = crowd_with_traits(seed=0, share=0.9)
    model, _ = fit_pair(crowd)
    newcomers = crowd.held.take((crowd.held.u >= 120) & (crowd.held.u < 125))
    model.partial_fit(newcomers, X_users=crowd.X[:125])
    assert model.n_users_ == 125
    with pytest.raises(ValueError, match="traits"):
        model.partial_fit(crowd.held.take(crowd.held.u == 130), n_users=131)


def test_what_labels_say_of_a_weight_does_not_depend_on_its_prior():
    """The message is the posterior divided by the prior; with the users exact its precision is never negative."""
    crowd = crowd_with_traits(seed=0, share=0.9)
    post = fit_pair(crowd)[0]._post
    exchange_scales(post)
    post.refresh_pairs()
    post.refresh_users()
    precision, _ = messages(post.users, post.own_s_w)
    assert (1.0 / post.users.variances - post.own_s_w >= -1e-9).all()
    assert precision.max() > 0.1


def test_a_taste_that_everybody_shares_is_not_put_down_to_traits():
    """The rows of the users are centred: no function of the traits is the same for all of them."""
    X = np.random.default_rng(0).uniform(size=(50, 2))
    traits = Traits.of(X, Matern32(), None, 2, 0)
    rows, missing = traits.rows()
    assert_allclose(rows.sum(axis=0), 0.0, atol=1e-9)
    assert_allclose(((rows * rows).sum(axis=1) + missing).mean(), 1.0)
    users = Users.prior(50, np.ones(2))
    users.W[:] = 3.0
    users.Omega[:] = 0.05 * np.eye(2)
    learn_traits(traits, users, np.ones(2), np.ones(2))
    assert_allclose(users.g, 0.0, atol=1e-9)


def test_the_share_of_traits_is_found():
    for share, low, high in ((0.0, 0.0, 0.1), (0.4, 0.1, 0.7), (0.9, 0.6, 0.9)):
        crowds = [crowd_with_traits(seed, share) for seed in range(2)]
        models = [fitted(crowd.labels, X_users=crowd.X[:120], user_kernel=Matern32(0.5)) for crowd in crowds]
        found = [model._post.traits.rho for model in models]
        assert low <= np.mean(found) <= high, share


def test_traits_that_are_the_same_for_all_say_nothing():
    crowd = crowd_with_traits(seed=2, share=0.5)
    model = CrowdGPPL(n_components=4, personal_variance=8.0).fit(crowd.labels, X_users=np.ones((120, 2)))
    assert not model._post.users.g.any()
    assert np.isfinite(model.predict_utilities(X_users=np.ones((1, 2)))).all()


@pytest.mark.parametrize("told", [30, 1])
def test_traits_that_tell_nobody_apart_leave_everybody_at_the_prior(told, crowd):
    """All told the same, or only one told anything: no share of the tastes may follow from that."""
    X = np.zeros((30, 2))
    X[:told] = 1.0
    model = fitted(crowd.labels, X_users=X)
    traits, total = model._post.traits, model._post.scale_users.mean
    assert traits.rho == 0.0
    assert_allclose(traits.precision, 1.0)
    assert not model._post.users.g.any()
    assert_allclose(traits.expect(np.ones((1, 2)), total)[1][0], 1.0 / total)


def test_a_few_inducing_users_do_nearly_as_well_as_all():
    crowd = crowd_with_traits(seed=0, share=0.9)
    settings = {"n_components": 4, "personal_variance": 8.0, "user_kernel": Matern32(length_scale=0.5)}
    few = CrowdGPPL(**settings, n_inducing_users=20).fit(crowd.labels, X_users=crowd.X[:120])
    assert few._post.traits.space.M == 20
    _, without = fit_pair(crowd)
    assert cold(few, crowd) < cold(without, crowd) - 0.02


def test_who_tells_nothing_starts_from_the_prior_and_moves_nobody_else():
    crowd = crowd_with_traits(seed=0, share=0.9)
    X = crowd.X[:120].copy()
    X[:30] = 0.0
    model = fitted(crowd.labels, X_users=X, user_kernel=Matern32(0.5))
    traits = model._post.traits
    assert traits.rho > 0.3
    assert not model._post.users.g[:30].any()
    assert_allclose(traits.precision[:30], 1.0)
    assert (traits.precision[30:] > 1.2).all()
    mean, variance = traits.expect(np.zeros((1, 2)), np.full(4, 2.0))
    assert_allclose((mean, variance), (np.zeros((1, 4)), np.full((1, 4), 0.5)))


def test_a_newcomer_is_known_as_well_as_their_neighbours_are():
    """The prior of a user who joins later is what a prediction for a stranger with these traits would be."""
    crowd = crowd_with_traits(seed=0, share=0.9)
    model, _ = fit_pair(crowd)
    mean, variance = model._post.traits.expect(crowd.X[120:121], model._post.scale_users.mean)
    grow_users(model._post, 121, crowd.X[120:121])
    assert_allclose(model._post.users.W[120], mean[0])
    assert_allclose(np.diag(model._post.users.Omega[120]), variance[0])
