"""Limits in which the model must become something simpler."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from modelling.crowdgppl import CrowdGPPL, Matern32, PairwiseLabels
from modelling.crowdgppl.inducing import ItemSpace, nystrom_space, spectral_space
from modelling.crowdgppl.inference import Rules, iterate
from modelling.crowdgppl.items import item_step, pair_statistics
from modelling.crowdgppl.ledger import Ledger
from modelling.crowdgppl.posterior import blank_posterior, prior_scales
from modelling.crowdgppl.start import begin
from modelling.crowdgppl.svi import begin_natural

from .crowds import fitted, make_crowd

EXACT = {"tolerance": 1e-9, "max_iterations": 400}


def started(crowd, C=3, consensus=True, variance=8.0):
    ledger = Ledger.of(crowd.labels, crowd.F.shape[0], crowd.F.shape[1])
    scale_items, scale_users = prior_scales(C, (1.0, 1.0), (1.0, 1.0), (1.0, 1.0), False)
    scale_items.fix(slice(1, None), C / variance)
    scale_users.fix(slice(None), 1.0)
    post = blank_posterior(ItemSpace(crowd.F.shape[0]), ledger, scale_items, scale_users, consensus)
    begin(post, Rules(), np.random.default_rng(0))
    return post


def gppl_by_plain_algebra(labels, n_items, iterations=400):
    """A second GPPL: dense EP over all items with learned scale, no pairs, no whitening."""
    X = np.zeros((len(labels), n_items))
    X[np.arange(len(labels)), labels.a] = 1
    X[np.arange(len(labels)), labels.b] = -1
    from modelling.crowdgppl.likelihood import probit_site

    lam, tau, s = np.zeros(len(labels)), np.zeros(len(labels)), 1.0
    for _ in range(iterations):
        S = np.linalg.inv(s * np.eye(n_items) + X.T @ (lam[:, None] * X))
        t = S @ X.T @ tau
        m, v = X @ t, np.einsum("pi,ij,pj->p", X, S, X)
        v_c = 1 / (1 / v - lam)
        lam, tau = probit_site(v_c * (m / v - tau), v_c, labels.y, np.ones(len(labels)))
        s = (1 + n_items / 2) / (1 + 0.5 * (t @ t + np.trace(S)))
    return t


def test_no_components_is_gppl(crowd):
    labels = crowd.labels.take(np.arange(200))
    model = CrowdGPPL(n_components=0, **EXACT).fit(labels, n_items=12)
    assert_allclose(model.predict_consensus(), gppl_by_plain_algebra(labels, 12), atol=1e-6)


def test_one_user_is_gppl(crowd):
    alone = crowd.labels.take(crowd.labels.u == 3)
    alone = PairwiseLabels(np.zeros(len(alone), dtype=int), alone.a, alone.b, alone.y)
    crowded = CrowdGPPL(n_components=20, **EXACT).fit(alone, n_items=12)
    single = CrowdGPPL(n_components=0, **EXACT).fit(alone, n_items=12)
    assert crowded.n_components_ == 0
    assert_allclose(crowded.predict_utilities()[:, 0], single.predict_consensus(), rtol=1e-12)


def test_one_batch_with_rho_one_is_the_batch_posterior(crowd):
    """A natural-gradient step of size 1 on all users is coordinate ascent, to the last digits."""
    full = started(crowd)
    full.refresh_users()
    stochastic = full.copy()
    begin_natural(stochastic)
    for post, block in ((full, None), (stochastic, [full.ledger.block_of(np.arange(30))])):
        statistics = pair_statistics(post.ledger, post.lam, post.tau, post.users, block)
        item_step(post.space, post.ledger, post.items, post.scale_items.mean, statistics, rho=1.0)
    assert_allclose(full.items.mean, stochastic.items.mean, rtol=1e-9, atol=1e-12)
    assert_allclose(full.items.cov, stochastic.items.cov, rtol=1e-9, atol=1e-12)


def test_a_batch_of_everybody_is_the_whole_crowd(crowd):
    left, right = fitted(crowd.labels), fitted(crowd.labels, batch_size=1000)
    assert_allclose(left.predict_utilities(), right.predict_utilities(), rtol=1e-12)


def test_all_inducing_points_leave_nothing_out(crowd):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    kernel = Matern32().fit(X)
    for space in (spectral_space(X, kernel, 12), nystrom_space(X, kernel, X)):
        assert_allclose(space.Psi @ space.Psi.T, kernel(X), atol=1e-5)


@pytest.mark.parametrize("inducing", ["spectral", "kmeans"])
def test_all_inducing_points_give_the_predictions_of_any_other_whitening(inducing):
    crowd = make_crowd(seed=4, features=True)
    whole = fitted(crowd.labels, X_items=crowd.X, n_inducing_items=None, inducing="spectral")
    other = fitted(crowd.labels, X_items=crowd.X, n_inducing_items=12, inducing=inducing)
    assert_allclose(whole.predict_consensus(), other.predict_consensus(), atol=0.02)


def test_items_without_features_are_items_with_an_identity_kernel(crowd):
    """Far apart under a short length-scale, items share nothing."""
    X = 1e3 * np.arange(12.0)[:, None]
    left = fitted(crowd.labels)
    right = fitted(crowd.labels, X_items=X, item_kernel=Matern32(length_scale=1.0))
    assert_allclose(left.predict_utilities(), right.predict_utilities(), rtol=1e-5, atol=1e-6)


def test_without_consensus_there_is_no_t(crowd):
    model = fitted(crowd.labels, consensus=False)
    mean, sd = model.predict_consensus(return_std=True)
    assert not mean.any()
    assert not sd.any()
    assert model.predict_utilities().std() > 0.5


def test_starting_at_the_prior_means_is_a_saddle(crowd):
    """With v = 0 and w = 0 no update ever leaves 0; the start from residual directions does."""
    post = started(crowd)
    post.items.mean[:, 1:] = 0.0
    post.refresh_pairs()
    for _ in range(5):
        iterate(post, Rules())
    assert np.abs(post.items.mean[:, 1:]).max() < 1e-12
    assert np.abs(fitted(crowd.labels)._post.items.mean[:, 1:]).max() > 0.1


def test_far_from_all_items_the_prior_returns():
    crowd = make_crowd(seed=4, features=True)
    model = fitted(crowd.labels, X_items=crowd.X)
    mean, sd = model.predict_consensus(X_items=np.array([[1e3, 1e3]]), return_std=True)
    assert mean[0] == pytest.approx(0, abs=1e-3)
    assert sd[0] == pytest.approx(1 / np.sqrt(model._post.scale_items.mean[0]), rel=1e-3)
