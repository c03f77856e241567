"""CollabGP: items stand for pairs, the products are mean-field, the labels have EP sites."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from benchmarks.simulated_crowds import draw_crowd, grid
from modelling.baselines import CollabGP
from modelling.baselines.factor_model import GaussianTerms
from modelling.crowdgppl import Matern32


def make_crowd(seed=0, **settings):
    rng = np.random.default_rng(seed)
    return draw_crowd(rng, n_users=8, n_labels=600, n_components=2, X_items=grid(4), s_t=10.0, **settings)


def test_processes_over_items_are_processes_over_pairs_with_the_preference_kernel():
    """Compare with brute-force Gaussian algebra on all judged pairs."""
    crowd = make_crowd()
    model = CollabGP(n_components=2, n_inducing_items=None, item_kernel=Matern32(length_scale=0.4))
    labels = crowd.labels.take(np.arange(30))
    model.n_items_, model.n_users_ = 16, 8
    model._set_up(np.random.default_rng(1), labels, crowd.X_items, None)
    batch = model._batch(labels, np.arange(30))
    rng = np.random.default_rng(2)
    sites = GaussianTerms(rng.uniform(0.1, 0.5, 30), rng.standard_normal(30))
    w, w_var = model._weights_of(0, batch.u)
    model._item_step(0, batch, sites, rho=1.0)

    k = Matern32(length_scale=0.4)(crowd.X_items)
    a, b = labels.a, labels.b
    K = k[np.ix_(a, a)] + k[np.ix_(b, b)] - k[np.ix_(a, b)] - k[np.ix_(b, a)]
    precision = sites.precision * (w**2 + w_var)
    N = np.linalg.inv(K + np.diag(1 / precision))
    target = w * sites.shift  # the other component is still 0
    mean = K @ (np.eye(30) - N @ K) @ target
    np.testing.assert_allclose(batch.dv[:, 0], mean, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(model._difference_variance(0, batch), np.diag(K - K @ N @ K), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("traits", [False, True])
def test_personal_preferences_are_recovered(traits):
    rng = np.random.default_rng(3)
    X_users = rng.standard_normal((8, 2)) if traits else None
    crowd = make_crowd(3, s_v=0.3, X_users=X_users)
    model = CollabGP(n_components=4).fit(crowd.labels, X_items=crowd.X_items, X_users=X_users)
    F = model.predict_utilities()
    assert np.mean([kendalltau(F[:, user], crowd.F[:, user]).statistic for user in range(8)]) > 0.6
    if traits:
        new = model.predict_utilities(X_users=X_users[:3])
        np.testing.assert_allclose(new, F[:, :3], rtol=1e-3, atol=1e-3)


def test_the_consensus_is_the_mean_user():
    crowd = make_crowd()
    model = CollabGP(n_components=3).fit(crowd.labels, X_items=crowd.X_items, n_users=12)
    np.testing.assert_allclose(model.predict_consensus(), model.predict_utilities(users=range(8)).mean(axis=1))
