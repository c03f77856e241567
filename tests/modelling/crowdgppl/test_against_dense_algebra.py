"""The engine compared with slow, independent computations of the same quantities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks.studies.exact import difference_moments, sample_posterior
from modelling.crowdgppl import ArrayStore, CrowdGPPL, Matern32, PairwiseLabels
from modelling.crowdgppl.hyperparameters import consensus_gradient, scale_and_share
from modelling.crowdgppl.item_prior import ItemPrior
from modelling.crowdgppl.posterior import MEAN_VARIANCE, Posterior
from modelling.crowdgppl.users import Visit

from .crowds import fit_sites, make_crowd

N, U = 6, 5


def small_labels(seed=0, per_user=(3, 4, 25, 1, 12)):
    """Users with fewer labels than items and with more, so that both kinds of blocks are used."""
    rng = np.random.default_rng(seed)
    u = np.repeat(np.arange(U), per_user)
    a = rng.integers(0, N, len(u))
    b = (a + rng.integers(1, N, len(u))) % N
    return PairwiseLabels(u, a, b, rng.choice([0.0, 0.5, 1.0], len(u)), rng.uniform(0.5, 2.0, len(u)))


def posterior_with(v_t=1.7, tau=0.6, directions=2, features=True, seed=0, share=0.6, taste_share=0.3):
    """A posterior with arbitrary hyperparameters."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    prior = ItemPrior(N, Matern32().fit(X), X, share=share) if features else ItemPrior(N)
    post = Posterior.start(prior, U)
    post.v_t, post.tau, post.taste_prior = v_t, tau, prior.with_share(taste_share)
    if directions:
        vectors = np.linalg.qr(rng.normal(size=(N, directions)))[0]
        root = rng.normal(size=(directions, directions))
        post.Psi, post.A_M = post.taste_prior.unwhiten(vectors), root @ root.T + tau * np.eye(directions)
    post.clear_cache()
    return post


def dense(prior):
    return np.diag(prior.K) if prior.K.ndim == 1 else prior.K


def prior_of_t(post):
    along_axes = post.A - post.floor * dense(post.taste_prior)
    return post.v_t * dense(post.prior) + MEAN_VARIANCE * along_axes


def joint_prior(post):
    """Covariance of (t, p_1, ..., p_U)."""
    prior = np.zeros((N * (1 + U),) * 2)
    prior[:N, :N] = prior_of_t(post)
    for u in range(U):
        at = slice(N * (1 + u), N * (2 + u))
        prior[at, at] = post.A
    return prior


def design(labels):
    """Rows of z = X (t, p_1, ..., p_U)."""
    X, rows = np.zeros((len(labels), N * (1 + U))), np.arange(len(labels))
    for shift in (0, N * (1 + labels.u)):
        X[rows, labels.a + shift] += 1
        X[rows, labels.b + shift] -= 1
    return X


def visited(post, store):
    """A visit of all users with q(t) solved for the sites in the store."""
    visit = Visit(store.load(np.arange(U)), post)
    stats = visit.integrate_users(post)
    post.H, post.h = stats.H, stats.h
    post.solve_t()
    visit.find_marginals(post, stats)
    return visit, stats


def with_sites(labels, seed=1):
    """A store whose sites are arbitrary."""
    rng = np.random.default_rng(seed)
    store = ArrayStore(labels, U)
    store.lam, store.eta = rng.uniform(0.1, 0.8, len(labels)), rng.normal(size=len(labels))
    return store


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("directions", [0, 2])
def test_given_the_sites_the_posterior_is_that_of_dense_algebra(features, directions):
    post, store = posterior_with(features=features, directions=directions), with_sites(small_labels())
    visit, _ = visited(post, store)
    X = design(store.labels())
    S = np.linalg.inv(np.linalg.inv(joint_prior(post)) + X.T @ (store.lam[:, None] * X))
    mean = S @ (X.T @ store.eta)
    assert_allclose(post.t, mean[:N], atol=1e-9)
    assert_allclose(post.S_t, S[:N, :N], atol=1e-9)
    assert_allclose(visit.m, X @ mean, atol=1e-9)
    assert_allclose(visit.v, np.einsum("pi,ij,pj->p", X, S, X), atol=1e-9)


def log_evidence(post, store):
    """log Z of expectation propagation at the sites of the store, by dense algebra."""
    X, lam, eta = design(store.labels()), store.lam, store.eta
    prior = joint_prior(post)
    S = np.linalg.inv(np.linalg.inv(prior) + X.T @ (lam[:, None] * X))
    shift = X.T @ eta
    log_det = np.linalg.slogdet(np.eye(len(lam)) + lam[:, None] * (X @ prior @ X.T))[1]
    return 0.5 * shift @ S @ shift - 0.5 * log_det


def test_the_evidence_of_the_sites_is_that_of_dense_algebra():
    post, store = posterior_with(), with_sites(small_labels())
    visit, _ = visited(post, store)
    assert visit.site_evidence() + post.log_evidence_t() == pytest.approx(log_evidence(post, store), rel=1e-10)
    assert np.isfinite(visit.log_evidence())


def slope(value, x, step=1e-4):
    return (value(x + step) - value(x - step)) / (2 * step)


def evidence_at(store, directions=0, **scales):
    """The engine's evidence at other scales, with the sites held fixed."""
    post = posterior_with(directions=directions, **scales)
    visit = Visit(store.load(np.arange(U)), post)
    stats = visit.integrate_users(post)
    post.H, post.h = stats.H, stats.h
    post.solve_t()
    return visit.site_evidence() + post.log_evidence_t()


def logistic(x):
    return 1 / (1 + np.exp(-x))


def test_the_gradient_in_tau_is_that_of_finite_differences():
    store = with_sites(small_labels())
    _, stats = visited(posterior_with(directions=0, features=False), store)
    found = slope(lambda tau: evidence_at(store, tau=tau, features=False), 0.6)
    assert stats.gradient_tau == pytest.approx([found], rel=1e-5)


def test_the_gradient_in_tau_and_the_share_of_features_in_tastes_is_that_of_finite_differences():
    store, tau, share = with_sites(small_labels()), 0.6, 0.3
    _, stats = visited(posterior_with(directions=0), store)
    parts = tau * np.array([share, 1 - share])
    found, _ = scale_and_share(parts * stats.gradient_tau, stats.fisher_tau, share)
    in_tau = slope(lambda x: evidence_at(store, tau=np.exp(x)), np.log(tau))
    in_share = slope(lambda x: evidence_at(store, taste_share=logistic(x)), np.log(share / (1 - share)))
    assert found == pytest.approx([in_tau, in_share], rel=1e-5)


@pytest.mark.parametrize("directions", [0, 2])
def test_the_gradient_in_v_t_and_the_share_of_features_is_that_of_finite_differences(directions):
    store, post = with_sites(small_labels()), posterior_with(directions=directions)
    visited(post, store)
    found, _ = consensus_gradient(post)
    in_v_t = slope(lambda x: evidence_at(store, directions, v_t=np.exp(x)), np.log(1.7))
    in_share = slope(lambda x: evidence_at(store, directions, share=logistic(x)), np.log(0.6 / 0.4))
    assert found == pytest.approx([in_v_t, in_share], rel=1e-5)


def test_the_gradient_in_the_covariance_of_tastes_is_that_of_finite_differences():
    store, post = with_sites(small_labels()), posterior_with()
    _, stats = visited(post, store)
    E = np.array([[0.3, -0.2], [-0.2, 0.5]])

    def evidence(step):
        moved = posterior_with()
        moved.A_M = moved.A_M + step * E
        moved.clear_cache()
        visit = Visit(store.load(np.arange(U)), moved)
        stats = visit.integrate_users(moved)
        moved.H, moved.h = stats.H, stats.h
        moved.solve_t()
        return visit.site_evidence() + moved.log_evidence_t()

    C_inverse = np.linalg.inv(prior_of_t(post))
    of_t = C_inverse @ (np.outer(post.t, post.t) + post.S_t) @ C_inverse - C_inverse
    through_t = 0.5 * MEAN_VARIANCE * np.trace(of_t @ post.Psi @ E @ post.Psi.T)
    assert 0.5 * (stats.gradient_A * E).sum() + through_t == pytest.approx(slope(evidence, 0.0), rel=1e-4)


def test_the_gradient_in_the_directions_is_that_of_the_excess_of_scores():
    post, store = posterior_with(), with_sites(small_labels())
    visit, stats = visited(post, store)
    assert_allclose(stats.gradient_A, post.Psi.T @ visit.excess(post) @ post.Psi, atol=1e-9)


def test_a_user_split_into_parts_keeps_all_labels():
    post, store = posterior_with(), with_sites(small_labels())
    whole, split = (Visit(store.load(np.arange(U)), post, largest) for largest in (None, 5))
    assert len(split.groups.users) > len(whole.groups.users)
    assert split.groups.counts.sum() == whole.groups.counts.sum() == len(store.labels())
    assert np.unique(split.groups.users).tolist() == list(range(U))


def test_the_share_of_features_rises_when_features_explain_the_consensus():
    shares = []
    for informative in (True, False):
        crowd = make_crowd(seed=4, features=True, n_items=30, components=0, per_user=40)
        X = crowd.X if informative else crowd.X[np.random.default_rng(0).permutation(30)]
        model = CrowdGPPL(n_components=0).fit(crowd.labels, X_items=X)
        shares.append(model.hyperparameters_["feature_share"])
    assert shares[0] > 0.8 > 0.4 > shares[1]


def test_predictions_for_users_are_those_of_dense_algebra():
    """Known users, users without labels, items that a user never judged."""
    labels = small_labels()
    model = CrowdGPPL(n_components=2).fit(labels, n_items=N, n_users=U)
    post, store = model._post, model._store
    X = design(store.labels())
    S = np.linalg.inv(np.linalg.inv(joint_prior(post)) + X.T @ (store.lam[:, None] * X))
    mean = S @ (X.T @ store.eta)
    u, a, b = (grid.ravel() for grid in np.meshgrid(np.arange(U), np.arange(N), np.arange(N), indexing="ij"))
    u, a, b = u[a != b], a[a != b], b[a != b]
    rows = design(PairwiseLabels(u, a, b, np.ones(len(u))))
    found_mean, found_variance = model.predict_differences(u, a, b)
    of_scale = (post.scale_sd * found_mean) ** 2
    assert_allclose(found_mean, rows @ mean, atol=1e-8)
    assert_allclose(found_variance, np.einsum("pi,ij,pj->p", rows, S, rows) + of_scale, atol=1e-8)
    F, sd = model.predict_utilities(return_std=True)
    centre = np.eye(N) - 1 / N
    for user in range(U):
        at = slice(N * (1 + user), N * (2 + user))
        own = S[:N, :N] + S[:N, at] + S[at, :N] + S[at, at]
        assert_allclose(F[:, user], centre @ (mean[:N] + mean[at]), atol=1e-8)
        of_scale = (post.scale_sd * F[:, user]) ** 2
        assert_allclose(sd[:, user], np.sqrt(np.diagonal(centre @ own @ centre) + of_scale), atol=1e-8)


@pytest.mark.parametrize("seed", [7, 8])
def test_means_and_deviations_are_those_of_a_long_exact_run(seed):
    """Differences of t and of users' utilities within .1 sd and 10 % of the sampler at the same scales."""
    crowd = make_crowd(seed, n_users=5, n_items=5, per_user=12, variance=1.0, consensus=1.0)
    post, store = fit_sites(crowd.labels, 1.0, 1.0, **crowd.sizes)
    post.scale_sd = 0.0  # the sampler holds the scales
    samples = sample_posterior(crowd.labels, np.eye(5), np.eye(5), 5, n=8_000)
    i, j = np.triu_indices(5, 1)
    mean, sd = difference_moments(samples.t)
    found = np.sqrt(post.S_t[i, i] + post.S_t[j, j] - 2 * post.S_t[i, j])
    assert np.abs((post.t[i] - post.t[j] - mean) / sd).max() < 0.1
    assert np.abs(found / sd - 1).max() < 0.1
    model = CrowdGPPL()
    model._post, model._store, model._traits = post, store, None
    for user in range(5):
        mean, sd = difference_moments(samples.F[:, user])
        found, variance = model.predict_differences(np.full(len(i), user), i, j)
        assert np.abs((found - mean) / sd).max() < 0.1
        assert np.abs(np.sqrt(variance) / sd - 1).max() < 0.1
