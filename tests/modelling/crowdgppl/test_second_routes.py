"""The same number twice: once by the engine, once by brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from modelling.crowdgppl.finish import consensus_with_tastes_integrated, personal_covariance
from modelling.crowdgppl.items import kept_statistics, pair_statistics
from modelling.crowdgppl.users import weights_given_items

from .crowds import fitted

RTOL = 1e-8


@pytest.mark.parametrize("n", [3, 12])  # fewer and more labels than components: two routes inside
def test_the_user_step_equals_dense_algebra(n):
    rng = np.random.default_rng(0)
    C = 6
    e, V = rng.normal(size=(1, n, C)), rng.random((1, n, C))
    lam, target, s_w, g = rng.random((1, n)), rng.normal(size=(1, n)), rng.random(C) + 0.5, rng.normal(size=(1, C))
    lam[0, 0] = 0.0
    W, Omega, spread = weights_given_items(e, V, lam, target, s_w, g)
    precision = np.diag(s_w)
    for p in range(n):
        precision = precision + lam[0, p] * (np.outer(e[0, p], e[0, p]) + np.diag(V[0, p]))
    dense = np.linalg.inv(precision)
    assert_allclose(Omega[0], dense, rtol=RTOL, atol=1e-12)
    assert_allclose(W[0], dense @ (e[0].T @ target[0] + s_w * g[0]), rtol=RTOL, atol=1e-12)
    assert_allclose(spread[0], np.einsum("nc,cd,nd->n", e[0], dense, e[0]), rtol=RTOL)


def test_the_moments_of_z_are_those_of_a_sampled_product(crowd):
    post = fitted(crowd.labels)._post
    rng = np.random.default_rng(0)
    p = 17
    u, q = post.ledger.u[p], post.ledger.q[p]
    a, b = post.ledger.pair_a[q], post.ledger.pair_b[q]
    draws = 200_000
    w = rng.multivariate_normal(post.users.W[u], post.users.Omega[u], size=draws)
    w = np.hstack((np.ones((draws, 1)), w))
    d = np.zeros((draws, w.shape[1]))
    for c, S in enumerate(post.items.cov):
        pair = S[np.ix_([a, b], [a, b])]
        v = rng.multivariate_normal(post.items.mean[[a, b], c], pair, size=draws)
        d[:, c] = v[:, 0] - v[:, 1]
    z = (d * w).sum(axis=1)
    assert post.m[p] == pytest.approx(z.mean(), abs=0.02)
    assert post.v[p] == pytest.approx(z.var(), rel=0.02)


def test_pair_statistics_are_sums_over_labels(crowd):
    post = fitted(crowd.labels)._post
    K = post.n_components + 1
    T, R = np.zeros((post.ledger.n_pairs, K, K)), np.zeros((post.ledger.n_pairs, K))
    for p in range(post.ledger.n_labels):
        u, q = post.ledger.u[p], post.ledger.q[p]
        w = np.append(1.0, post.users.W[u])
        second = np.outer(w, w)
        second[1:, 1:] += post.users.Omega[u]
        T[q] += post.lam[p] * second
        R[q] += post.tau[p] * w
    statistics = pair_statistics(post.ledger, post.lam, post.tau, post.users)
    assert_allclose(statistics.T, T.transpose(1, 0, 2), rtol=RTOL, atol=1e-12)
    assert_allclose(statistics.R, R, rtol=RTOL, atol=1e-12)


def test_statistics_kept_between_updates_are_those_formed_anew_to_the_last_bit(crowd):
    post = fitted(crowd.labels)._post
    _, kept = kept_statistics(post.ledger, post.lam, post.tau, post.users, None)
    moved = np.array([3, 17])
    post.users.W[moved] *= 1.1
    post.lam[post.ledger.rows_of(moved)] *= 0.9
    kept.stale = moved
    renewed, _ = kept_statistics(post.ledger, post.lam, post.tau, post.users, kept)
    anew = pair_statistics(post.ledger, post.lam, post.tau, post.users)
    assert np.array_equal(renewed.T, anew.T)
    assert np.array_equal(renewed.R, anew.R)


def test_statistics_too_large_to_keep_are_formed_row_by_row(crowd, monkeypatch):
    whole = fitted(crowd.labels).predict_utilities()
    monkeypatch.setattr("modelling.crowdgppl.items.STATISTICS_BYTES", 0.0)
    assert_allclose(fitted(crowd.labels).predict_utilities(), whole, rtol=1e-7, atol=1e-9)


def test_predicted_probabilities_equal_those_of_the_posterior_itself(crowd):
    """predict_proba at a training pair has the moments that the fit ended with."""
    model = fitted(crowd.labels)
    post, labels = model._post, crowd.labels
    p = model.predict_proba(labels.u, labels.a, labels.b)
    from scipy.special import ndtr

    sign = np.where(labels.a < labels.b, 1.0, -1.0)
    assert_allclose(p, ndtr(sign * post.m[:-1] / np.sqrt(1 + post.v[:-1])), rtol=1e-6)


def test_the_finish_is_dense_algebra_over_all_users(crowd):
    """S_t and t with tastes integrated out, written as one big Gaussian."""
    post = fitted(crowd.labels)._post
    S_t, t = consensus_with_tastes_integrated(post)
    A, M = personal_covariance(post), post.space.M
    precision, shift = post.scale_items.mean[0] * np.eye(M), np.zeros(M)
    for u in range(30):
        rows = np.flatnonzero(post.ledger.u == u)
        q = post.ledger.q[rows]
        X = np.zeros((len(rows), M))
        X[np.arange(len(rows)), post.ledger.pair_a[q]] = 1
        X[np.arange(len(rows)), post.ledger.pair_b[q]] = -1
        N = np.linalg.inv(X @ A @ X.T + np.diag(1 / post.lam[rows]))
        precision += X.T @ N @ X
        shift += X.T @ N @ (post.tau[rows] / post.lam[rows])
    assert_allclose(S_t, np.linalg.inv(precision), rtol=1e-6, atol=1e-9)
    assert_allclose(t, np.linalg.solve(precision, shift), rtol=1e-6, atol=1e-9)


def joint_consensus_covariance(post):
    """The other correction: the Gauss-Newton precision of (t, V) jointly, users integrated out."""
    M, C = post.space.M, post.n_components
    H = np.diag(np.repeat(post.scale_items.mean, M))
    for u in range(len(post.users.W)):
        rows = np.flatnonzero(post.ledger.u == u)
        q = post.ledger.q[rows]
        X = np.zeros((len(rows), M))
        X[np.arange(len(rows)), post.ledger.pair_a[q]] = 1
        X[np.arange(len(rows)), post.ledger.pair_b[q]] = -1
        J = np.kron(np.append(1.0, post.users.W[u]), X)
        d = X @ post.items.mean[:, 1:]
        N = np.linalg.inv(np.diag(1 / post.lam[rows]) + d @ np.diag(1 / post.s_w) @ d.T)
        H += J.T @ N @ J
    assert C > 0
    return np.linalg.inv(H)[:M, :M]


def test_the_finish_widens_intervals_about_as_far_as_the_joint_precision(crowd):
    post = fitted(crowd.labels)._post
    S_t, _ = consensus_with_tastes_integrated(post)
    joint = joint_consensus_covariance(post)
    i, j = np.triu_indices(12, 1)

    def sd(S):
        return np.sqrt(S[i, i] + S[j, j] - 2 * S[i, j])

    assert np.all(sd(S_t) > sd(post.items.cov[0]))
    assert np.median(sd(S_t) / sd(joint)) == pytest.approx(1.0, abs=0.25)
