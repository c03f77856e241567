"""The paper's stochastic variational inference, with its misprints corrected."""

import numpy as np
import pytest
from scipy.stats import kendalltau, norm

from benchmarks.simulated_crowds import draw_crowd, grid
from modelling.baselines import PaperSVI
from modelling.baselines.base import NewRows
from modelling.baselines.paper_svi import label_noise
from modelling.baselines.sparse_gp import USER_JITTER, GammaScale, IndependentGP, InducedGP
from modelling.crowdgppl import Matern32, PairwiseLabels


def make_factor(rng, M=4):
    root = rng.standard_normal((M, M))
    return InducedGP(root @ root.T + np.eye(M), GammaScale(2.0, 1.0))


def test_one_full_step_is_the_batch_posterior():
    """With rho = 1 the step is Bayesian linear regression: y = design x + noise of variance 1 / q."""
    rng = np.random.default_rng(0)
    factor, rows = make_factor(rng), rng.standard_normal((30, 4))
    x, q, noise = rng.standard_normal(30), rng.uniform(1, 3, 30), rng.standard_normal(30)
    factor.step(rows, x**2 * q, x * q * noise, rho=1.0)
    D = x[:, None] * rows
    precision = 2.0 * factor.K_mm_inv + D.T @ (q[:, None] * D)
    np.testing.assert_allclose(factor.mean, np.linalg.solve(precision, D.T @ (q * noise)))
    np.testing.assert_allclose(factor.cov, np.linalg.inv(precision))


def test_repeated_steps_do_not_compound():
    rng = np.random.default_rng(1)
    factor, rows = make_factor(rng), rng.standard_normal((10, 4))
    ones = np.ones(10)
    factor.step(rows, ones, ones, rho=0.3)
    once = factor.mean
    factor.step(rows, ones, ones, rho=0.3)
    np.testing.assert_allclose(factor.mean, once)


def test_independent_users_match_the_diagonal_of_joint_users():
    u = np.array([0, 2, 2, 1])
    precision, shift = np.array([1.0, 4, 1, 0.25]), np.array([0.3, 0.2, 0.2, 0.5])
    dense, alone = InducedGP(np.eye(3), GammaScale(1, 1)), IndependentGP(3, GammaScale(1, 1))
    dense.step(np.eye(3)[u], precision, shift, rho=0.7)
    alone.step_points(u, precision, shift, rho=0.7)
    np.testing.assert_allclose(alone.mean, dense.mean)
    np.testing.assert_allclose(alone.variance, np.diag(dense.cov))
    for factor in (dense, alone):
        factor.update_scale()
    assert alone.scale.mean == pytest.approx(dense.scale.mean)


def test_the_scale_of_a_factor_is_a_rate():
    scale = GammaScale(1.0, 100.0)
    assert scale.mean == pytest.approx(0.01)
    scale.update(10, 6.0)
    assert scale.mean == pytest.approx(6.0 / 103.0)


@pytest.mark.parametrize(("gap", "t_scale", "vw_scale", "n_components"), [(2.0, 100.0, 0.0, 0), (0.3, 1.0, 2.0, 3)])
def test_label_noise_has_the_prior_moments(gap, t_scale, vw_scale, n_components):
    """Compare with samples: draw t, v and w from their priors."""
    rng, n = np.random.default_rng(0), 400_000
    w = rng.standard_normal((n, n_components))
    z = np.sqrt(gap) * (np.sqrt(t_scale) * rng.standard_normal(n))
    z += np.sqrt(gap * vw_scale) * np.sum(w * rng.standard_normal((n, n_components)), axis=1)
    total = 0.25 / np.var(norm.cdf(z)) - 1
    p = (1 + 0.5 * total) / (1 + total)
    found = label_noise(np.array([1.0, 0.0]), np.full(2, gap), t_scale, vw_scale, n_components)
    np.testing.assert_allclose(found, p * (1 - p), rtol=0.02)


def test_the_noise_of_a_models_labels_follows_all_its_priors():
    """Compare with samples of t, v and w with the scales of their priors; two items have their own covariance."""
    rng, n, X = np.random.default_rng(0), 400_000, grid(3)
    labels = PairwiseLabels(u=np.array([0]), a=np.array([0]), b=np.array([1]), y=np.array([1.0]))
    model = PaperSVI(n_components=2, t_prior=(2.0, 1.0), v_prior=(1.0, 0.5), w_prior=(1.0, 3.0))
    model.n_items_, model.n_users_ = 9, 1
    model._set_up(rng, labels, X, None)
    root = np.linalg.cholesky(Matern32().fit(X)(X[:2]))

    def difference(variance):
        return (rng.standard_normal((n, 2)) * np.sqrt(variance)) @ (root[0] - root[1])

    z = difference(0.5) + sum(np.sqrt(3.0) * rng.standard_normal(n) * difference(0.5) for _ in range(2))
    total = 0.25 / np.var(norm.cdf(z)) - 1
    p = (1 + 0.5 * total) / (1 + total)
    assert model._label_noise(labels)[0] == pytest.approx(p * (1 - p), rel=0.02)


def test_the_noise_of_a_label_grows_with_the_similarity_of_its_items():
    """Two alike items differ little a priori, so a label about them is close to a coin toss: Q is close to 1/4."""
    alike, apart = label_noise(np.ones(2), np.array([0.01, 2.0]), 1.0, 1.0, 5)
    assert apart < alike < 0.25


def test_prior_means_are_a_saddle():
    crowd = draw_crowd(np.random.default_rng(2), n_users=5, n_labels=200, n_components=2, X_items=grid(4))
    model = PaperSVI(n_components=2, n_iterations=3)

    class AllZero:
        @staticmethod
        def standard_normal(size):
            return np.zeros(size)

    labels = crowd.labels
    model.n_items_, model.n_users_ = 16, 5
    model._set_up(AllZero(), labels, crowd.X_items, None)
    for _ in range(3):
        model._iterate(model._batch(labels, np.arange(len(labels))), np.full(len(labels), 0.2), rho=1.0)
    assert all(np.all(factor.mean == 0) for factor in (*model._v, *model._w))


def test_far_from_all_items_the_prior_returns():
    crowd = draw_crowd(np.random.default_rng(3), n_users=5, n_labels=300, n_components=2, X_items=grid(4))
    model = PaperSVI(n_components=2, n_iterations=20).fit(crowd.labels, X_items=crowd.X_items)
    mean, sd = model.predict_consensus(X_items=np.array([[1e4, 1e4]]), return_std=True)
    assert mean[0] == pytest.approx(0.0, abs=1e-9)
    assert sd[0] == pytest.approx(model.s[0] ** -0.5)


@pytest.mark.parametrize("traits", [False, True])
def test_preferences_are_recovered(traits):
    rng = np.random.default_rng(4)
    X_users = rng.standard_normal((20, 2)) if traits else None
    crowd = draw_crowd(
        rng, n_users=20, n_labels=3000, n_components=2, X_items=grid(6), X_users=X_users, s_t=1.0, s_v=0.2
    )
    model = PaperSVI(n_components=6, n_iterations=60, batch_size=500)
    model.fit(crowd.labels, X_items=crowd.X_items, X_users=X_users)
    F = model.predict_utilities()
    taus = [kendalltau(F[:, user], crowd.F[:, user]).statistic for user in range(20)]
    shared = [kendalltau(model.predict_consensus(), crowd.F[:, user]).statistic for user in range(20)]
    assert np.mean(taus) > 0.6
    assert np.mean(taus) > np.mean(shared) + 0.05


def test_without_features_and_without_consensus_it_still_learns():
    crowd = draw_crowd(np.random.default_rng(5), n_users=10, n_labels=1500, n_components=2, n_items=8, s_v=0.3)
    model = PaperSVI(n_components=4, consensus=False, n_iterations=60, batch_size=300).fit(crowd.labels)
    F = model.predict_utilities()
    np.testing.assert_allclose(model.predict_consensus(), F.mean(axis=1), atol=1e-12)
    assert np.mean([kendalltau(F[:, user], crowd.F[:, user]).statistic for user in range(10)]) > 0.5


def test_new_users_follow_their_features_and_far_away_ones_have_the_prior():
    """eq:omegastar with its prior term: a user like a known one has their weights, a stranger variance 1 / E[s]."""
    rng = np.random.default_rng(6)
    X_users = np.repeat([[-1.0], [1.0]], 10, axis=0) + 0.05 * rng.standard_normal((20, 1))
    crowd = draw_crowd(rng, n_users=20, n_labels=2000, n_components=2, n_items=8, X_users=X_users, s_t=5.0, s_v=0.3)
    model = PaperSVI(n_components=4, n_feature_components=2, n_iterations=60, batch_size=500)
    model.fit(crowd.labels, X_users=X_users)
    known, new = model.predict_utilities(users=[0, 15]), model.predict_utilities(X_users=X_users[[0, 15]])
    assert np.all(np.diag(np.corrcoef(known.T, new.T)[:2, 2:]) > 0.9)
    w, w_var = model._user_weights(20, NewRows(users=np.array([[1e4]])))
    np.testing.assert_allclose(w, 0, atol=1e-9)
    np.testing.assert_allclose(w_var, 1 / model.s_w, rtol=1e-6)


def test_weights_of_new_users_are_those_of_dense_conditioning():
    """Check eq:omegastar against the conditional GP given w_m ~ N(m, Sigma), from the kernel alone."""
    rng = np.random.default_rng(8)
    X_users, x = rng.standard_normal((9, 2)), rng.standard_normal((1, 2))
    crowd = draw_crowd(rng, n_users=9, n_labels=400, n_components=2, n_items=8, X_users=X_users)
    model = PaperSVI(n_components=2, n_feature_components=2, n_inducing_users=4, n_iterations=20)
    model.fit(crowd.labels, X_users=X_users)
    points = model._inducing_users()
    L_mm = points.kernel(points.locations) + USER_JITTER * np.eye(4)
    l_m, l_uu = points.kernel(x, points.locations)[0], points.kernel(x)[0, 0]
    w, w_var = model._user_weights(9, NewRows(users=x))
    for c in range(2):
        gain = np.linalg.solve(L_mm, l_m)
        assert w[c] == pytest.approx(gain @ model.w_mean[c])
        prior = (l_uu - gain @ l_m) / model.s_w[c]
        assert w_var[c] == pytest.approx(prior + gain @ model.w_cov[c] @ gain)


def test_components_are_in_the_order_of_their_variances():
    crowd = draw_crowd(np.random.default_rng(9), n_users=6, n_labels=300, n_components=2, X_items=grid(3))
    model = PaperSVI(n_components=4, n_iterations=20).fit(crowd.labels, X_items=crowd.X_items)
    order = np.argsort(-1.0 / (model.s[1:] * model.s_w))
    np.testing.assert_allclose(model.component_variances_, (1.0 / (model.s[1:] * model.s_w))[order])
    A = model._projection(np.arange(9), NewRows())[0]
    np.testing.assert_allclose(model.item_components_, (model.V / np.sqrt(model.s_w)[:, None])[order] @ A.T)


def test_predictions_of_labels_match_the_dense_covariance_of_each_user():
    """Check eq:predict_crowd: moments of all pairs at once against each user's covariance matrix."""
    rng = np.random.default_rng(7)
    X_users = rng.standard_normal((6, 2))
    crowd = draw_crowd(rng, n_users=6, n_labels=200, n_components=2, X_items=grid(3), X_users=X_users)
    model = PaperSVI(n_components=3, n_iterations=10).fit(crowd.labels, X_items=crowd.X_items, X_users=X_users)
    u, a, b = crowd.labels.u[:40], crowd.labels.a[:40], crowd.labels.b[:40]
    mean, variance = model._differences(u, a, b, NewRows())
    for p in range(40):
        m, C = model._moments(int(u[p]), np.array([a[p], b[p]]), NewRows())
        assert mean[p] == pytest.approx(m[0] - m[1])
        assert variance[p] == pytest.approx(C[0, 0] + C[1, 1] - 2 * C[0, 1])
