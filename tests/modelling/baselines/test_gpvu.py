"""GPVU: expectations and maximisation against dense Gaussian algebra."""

import numpy as np
import pytest
from scipy.stats import kendalltau, multivariate_normal

from benchmarks.simulated_crowds import draw_crowd, grid
from modelling.baselines import GPVU, GPPLPerUser
from modelling.baselines import gpvu as module
from modelling.crowdgppl import Matern32

KERNEL = Matern32(length_scale=0.5)


def fitted(n_components=2):
    crowd = draw_crowd(
        np.random.default_rng(0), n_users=5, n_labels=60, n_components=2, X_items=grid(3), s_t=10.0, s_v=0.3
    )
    return GPVU(n_components=n_components, item_kernel=KERNEL).fit(crowd.labels, X_items=crowd.X_items), crowd


def joint_posterior(model, rows, X):
    """Mean and covariance of (w_u, r_u) of one user from their joint prior and Gaussian terms, by dense algebra."""
    N, C = len(X), model.n_components
    prior = np.zeros((C + N, C + N))
    prior[:C, :C], prior[C:, C:] = np.eye(C), (KERNEL(X) + 1e-10 * np.eye(N)) / model.s[0]
    D = np.zeros((rows.stop - rows.start, N))
    D[np.arange(len(D)), model.a[rows]] = 1
    D[np.arange(len(D)), model.b[rows]] -= 1
    design = np.hstack([D @ model.V, D])
    precision = np.linalg.inv(prior) + design.T @ (model.lam[rows][:, None] * design)
    cov = np.linalg.inv(precision)
    return cov @ design.T @ model.eta[rows], cov, D


def test_expectations_are_those_of_the_joint_gaussian():
    model, crowd = fitted()
    w, ww, target, _ = model._expectations()
    for number, rows in enumerate(model._users_rows()):
        mean, cov, D = joint_posterior(model, rows, crowd.X_items)
        np.testing.assert_allclose(w[number], mean[:2], atol=1e-5)
        np.testing.assert_allclose(ww[number], cov[:2, :2] + np.outer(mean[:2], mean[:2]), atol=1e-5)
        wr = cov[:2, 2:] @ D.T + np.outer(mean[:2], D @ mean[2:])  # E[w (r_a - r_b)]
        expected = model.eta[rows][:, None] * mean[:2] - model.lam[rows][:, None] * wr.T
        np.testing.assert_allclose(target[rows], expected, atol=1e-4)


def marginal(model, V, X):
    """Log density of the Gaussian pseudo-labels under V, plus the ridge: what EM maximises with the sites held."""
    total = -0.5 * module.RIDGE * np.sum(V**2)
    K = KERNEL(X) / model.s[0] + V @ V.T
    for rows in model._users_rows():
        lam, eta = model.lam[rows], model.eta[rows]
        used = np.flatnonzero(lam > 1e-9)
        a, b = model.a[rows][used], model.b[rows][used]
        G = K[np.ix_(a, a)] + K[np.ix_(b, b)] - K[np.ix_(a, b)] - K[np.ix_(b, a)]
        cov = G + np.diag(1 / lam[used])
        total += multivariate_normal(np.zeros(len(used)), cov).logpdf((eta / np.maximum(lam, 1e-300))[used])
    return total


def test_a_maximisation_step_raises_the_marginal_likelihood():
    model, crowd = fitted()
    model.V = np.random.default_rng(1).standard_normal(model.V.shape)
    for _ in range(3):
        before = marginal(model, model.V, crowd.X_items)
        _, ww, target, _ = model._expectations()
        V = model._solve_factors(ww[np.searchsorted(np.unique(model.u), model.u)], target)
        assert marginal(model, V, crowd.X_items) > before
        model.V = V


def test_without_factors_it_is_gppl_per_user_with_one_scale():
    model, crowd = fitted(n_components=0)
    firm = (1e9 * model.s[0], 1e9)
    alone = GPPLPerUser(item_kernel=KERNEL, prior=firm).fit(crowd.labels, X_items=crowd.X_items)
    np.testing.assert_allclose(model.predict_utilities(), alone.predict_utilities(), atol=0.02)


def test_it_predicts_better_than_users_alone_when_tastes_are_shared():
    rng = np.random.default_rng(2)
    crowd = draw_crowd(rng, n_users=40, n_labels=800, n_components=1, n_items=12, s_t=10.0, s_v=0.1)
    shared, alone = GPVU(n_components=2).fit(crowd.labels), GPPLPerUser().fit(crowd.labels)
    taus = [
        np.mean([kendalltau(F[:, user], crowd.F[:, user]).statistic for user in range(40)])
        for F in (shared.predict_utilities(), alone.predict_utilities())
    ]
    assert taus[0] > taus[1] + 0.02


def test_new_items_have_only_the_process():
    model, _ = fitted()
    _, sd = model.predict_utilities(X_items=np.array([[1e4, 1e4]]), users=[0], return_std=True)
    assert sd[0, 0] == pytest.approx(model.s[0] ** -0.5)
