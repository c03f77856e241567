"""The published algorithm as a study's engine: moments against sampling, updates, and exact restoring."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import kendalltau

from benchmarks.simulated_crowds import draw_crowd, grid
from modelling.baselines.base import NewRows
from modelling.crowdgppl import ArrayStore, CrowdGPPL, PairwiseLabels
from modelling.engines import Engine, PaperSVIEngine, restore_engine
from modelling.engines.paper_svi import read_labels

N_SAMPLES = 200_000
SAMPLING = 0.02  # relative error of a standard deviation from that many samples, with a margin
RANKED = np.arange(3, 12)


@pytest.fixture(scope="module")
def crowd():
    rng = np.random.default_rng(0)
    X_users = rng.standard_normal((12, 2))
    return draw_crowd(rng, n_users=12, n_labels=900, n_components=2, X_items=grid(4), X_users=X_users, s_v=0.5)


@pytest.fixture(scope="module")
def model(crowd):
    small = PaperSVIEngine(n_components=3, n_inducing_items=9, n_iterations=40)
    return small.fit(crowd.labels, X_items=crowd.X_items, X_users=crowd.X_users)


@pytest.fixture(scope="module")
def samples(model):
    """t (S, N), v (S, C, N) and w (S, C, U) drawn from q at all items and users."""
    rng = np.random.default_rng(1)
    A, residual = model._projection(np.arange(16), NewRows())

    def draw(mean, cov, s):
        covariance = A @ cov @ A.T + residual / s
        values, vectors = np.linalg.eigh(covariance)
        noise = rng.standard_normal((N_SAMPLES, len(mean)))
        return mean + noise @ (vectors * np.sqrt(np.maximum(values, 0.0))).T

    t = draw(A @ model.t, model.cov[0], model.s[0])
    v = np.stack([draw(A @ model.V[c], model.cov[c + 1], model.s[c + 1]) for c in range(3)], axis=1)
    w = model.W + np.sqrt(model.W_var) * rng.standard_normal((N_SAMPLES, *model.W.shape))
    return t, v, w


def relative(f):
    return f - f[:, RANKED].mean(axis=1, keepdims=True)


def test_utilities_and_tastes_have_the_moments_of_samples(model, samples):
    t, v, w = samples
    mean, sd = model.predict_utilities(users=[4], items=[0, 7], return_std=True, among=RANKED)
    own = np.einsum("scn,sc->sn", v, w[:, :, 4])
    expected = relative(t + own)[:, [0, 7]]
    np.testing.assert_allclose(mean[:, 0], expected.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(sd[:, 0], expected.std(axis=0), rtol=SAMPLING)
    taste, taste_sd = model.predict_tastes(users=[4], items=[0, 7], among=RANKED)
    np.testing.assert_allclose(taste[:, 0], relative(own)[:, [0, 7]].mean(axis=0), atol=0.02)
    np.testing.assert_allclose(taste_sd[:, 0], relative(own)[:, [0, 7]].std(axis=0), rtol=SAMPLING)


def test_the_spread_of_tastes_is_that_of_new_workers(model, samples):
    _, v, _ = samples
    w = np.random.default_rng(2).standard_normal((N_SAMPLES, 3)) / np.sqrt(model.s_w)
    own = relative(np.einsum("scn,sc->sn", v, w))
    np.testing.assert_allclose(model.taste_sds(RANKED, among=RANKED), own[:, RANKED].std(axis=0), rtol=SAMPLING)


def test_a_new_worker_prefers_as_often_as_sampled_ones(model, samples):
    t, v, _ = samples
    w = np.random.default_rng(3).standard_normal((N_SAMPLES, 3)) / np.sqrt(model.s_w)
    own, a, b = np.einsum("scn,sc->sn", v, w), 2, 9
    z = t[:, a] - t[:, b] + own[:, a] - own[:, b]
    found = model.predict_consensus_proba([a], [b])[0]
    assert found == pytest.approx(ndtr(z).mean(), abs=0.02)  # the mixture over w is treated as a Gaussian
    typical = model.predict_consensus_proba([a], [b], kind="typical")[0]
    assert typical == pytest.approx(ndtr(t[:, a] - t[:, b]).mean(), abs=0.005)
    majority = model.predict_consensus_proba([a], [b], kind="majority", n_workers=1)[0]
    assert majority == pytest.approx(found, abs=1e-6)


def test_components_and_weights_are_in_one_order_and_add_up_to_the_tastes(model):
    variances = model.component_variances_
    assert np.all(np.diff(variances) <= 0)
    mean, covariance = model.predict_weights([2, 5])
    tastes = model.item_components_.T @ mean
    expected, _ = model.predict_tastes(users=[2, 5])
    np.testing.assert_allclose(tastes - tastes.mean(axis=0), expected, atol=1e-9)
    assert covariance.shape == (2, 3, 3)


def test_differences_agree_with_utilities(model):
    F = model.predict_utilities()
    mean, variance = model.predict_differences([1, 3], [0, 5], [9, 2])
    np.testing.assert_allclose(mean, [F[0, 1] - F[9, 1], F[5, 3] - F[2, 3]], atol=1e-9)
    p = model.predict_proba([1, 3], [0, 5], [9, 2], most=1)
    np.testing.assert_allclose(p, ndtr(mean / np.sqrt(1 + variance)), atol=1e-12)


def test_similarity_is_the_kernels_and_new_items_follow_the_known(model, crowd):
    ours = CrowdGPPL(n_components=0).fit(crowd.labels, X_items=crowd.X_items)
    new = crowd.X_items[:1]
    np.testing.assert_allclose(
        model.similarity([2, 16], X_items=new), ours.similarity(np.array([2, 16]), X_items=new), atol=1e-12
    )
    known, copy = model.predict_utilities(items=[0, 16], X_items=new)[:, :3]
    np.testing.assert_allclose(known, copy, atol=1e-9)


def same_state(one, two):
    first, second = one.to_state(), two.to_state()
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def more_labels(crowd, rows, u=None):
    labels = crowd.labels.take(rows)
    return PairwiseLabels(labels.u if u is None else np.full(len(rows), u), labels.a, labels.b, labels.y)


@pytest.mark.parametrize("features", [True, False])
def test_a_restored_model_continues_to_the_last_bit(crowd, features):
    X, Z = (crowd.X_items, crowd.X_users) if features else (None, None)
    first = crowd.labels.take(np.arange(600))
    fitted = PaperSVIEngine(n_components=3, n_iterations=20).fit(first, X_items=X, X_users=Z, n_items=16, n_users=12)
    both = [fitted, restore_engine(fitted.to_state(), ArrayStore(first, 12))]
    same_state(*both)
    new = crowd.labels.take(np.arange(600, 700))
    for model in both:
        model.grow(X_users=None if Z is None else np.vstack((Z, Z[:1])), n_users=13)
        store = model.store
        model.update_users(np.unique(new.u), lambda store=store: store.add(new, 13), n_added=100)
    same_state(*both)
    assert both[0].n_users_ == 13
    assert isinstance(both[1], PaperSVIEngine)


def test_an_update_learns_new_labels_and_forgets_removed_ones(crowd):
    """A worker who reverses all answers is predicted by the new answers, and by the old ones after a retraction."""
    own = crowd.labels.u == 0
    labels = crowd.labels
    model = PaperSVIEngine(n_components=3, n_iterations=60).fit(labels, X_items=crowd.X_items)
    a, b, y = labels.a[own], labels.b[own], labels.y[own]
    added = PairwiseLabels(np.zeros(3 * own.sum(), dtype=int), *(np.tile(each, 3) for each in (a, b, 1.0 - y)))

    def agreement():
        return np.corrcoef(model.predict_proba(np.zeros(len(a), dtype=int), a, b), y)[0, 1]

    before = agreement()
    model.update_users([0], lambda: model.store.add(added, 12), n_added=len(added))
    after = agreement()
    model.update_users([0], lambda: model.store.remove(added), n_removed=len(added))
    assert before > 0.5
    assert after < before - 0.3
    assert agreement() > after + 0.3


def test_an_update_comes_close_to_a_fit_from_scratch(crowd):
    first = crowd.labels.take(np.arange(780))
    model = PaperSVIEngine(n_components=2).fit(first, X_items=crowd.X_items, n_users=12)
    new = crowd.labels.take(np.arange(780, 900))
    model.update_users(np.unique(new.u), lambda: model.store.add(new, 12), n_added=120)
    again = PaperSVIEngine(n_components=2).fit(crowd.labels, X_items=crowd.X_items)
    assert kendalltau(model.predict_consensus(), again.predict_consensus()).statistic > 0.8
    assert len(read_labels(model.store)) == 900


def test_progress_is_reported_and_a_fit_that_moves_says_so(crowd):
    steps = []
    model = PaperSVIEngine(n_components=1, n_iterations=30, progress=steps.append)
    model.fit(crowd.labels, X_items=crowd.X_items)
    assert [step["iteration"] for step in steps] == list(range(1, 31))
    assert steps[-1]["change"] < steps[0]["change"]
    short = PaperSVIEngine(n_components=1, n_iterations=1, batch_size=900).fit(crowd.labels, X_items=crowd.X_items)
    assert not short.converged_
    assert "3 iterations" in short.warnings_[0]
    assert short.lower_bounds_ == []


def test_without_components_everyone_has_the_consensus(crowd):
    model = PaperSVIEngine(n_components=0, n_iterations=20).fit(crowd.labels, X_items=crowd.X_items)
    again = restore_engine(model.to_state(), model.store)
    F = again.predict_utilities()
    np.testing.assert_allclose(F, np.repeat(F[:, :1], 12, axis=1))
    np.testing.assert_array_equal(again.taste_sds(np.arange(16)), 0.0)
    assert again.predict_weights()[1].shape == (12, 0, 0)
    assert again.hyperparameters_["taste_variance"] == 0.0


def test_a_state_of_another_release_is_refused(model):
    state = model.to_state()
    state["fitted"] = np.array(str(state["fitted"]).replace('"version": 1', '"version": 99'))
    with pytest.raises(ValueError, match="version 99"):
        PaperSVIEngine.from_state(state)


def test_both_engines_offer_the_whole_interface(model, crowd):
    ours = CrowdGPPL(n_components=1).fit(crowd.labels, X_items=crowd.X_items)
    wanted = {name for name in vars(Engine) if not name.startswith("_")} | set(Engine.__annotations__)
    assert len(wanted) > 25
    for engine in (model, ours):
        assert [name for name in sorted(wanted) if not hasattr(engine, name)] == []
