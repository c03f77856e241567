"""Components: found if the crowd has them, and not otherwise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse.linalg import ArpackNoConvergence

from benchmarks.simulated_crowds import draw_crowd, draw_labels
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels, components
from modelling.crowdgppl.inference import EVIDENCE_EVERY

from .crowds import fit, log_loss, make_crowd


def test_a_crowd_without_tastes_has_no_components():
    found = [len(fit(make_crowd(seed, n_users=25, components=0)).component_variances_) for seed in range(10)]
    assert sum(count > 0 for count in found) <= 1


def test_a_crowd_without_tastes_is_predicted_like_the_consensus():
    crowd = make_crowd(seed=1, components=0, n_users=40)
    assert log_loss(fit(crowd), crowd.held) < log_loss(fit(crowd, n_components=0), crowd.held) + 0.003


@pytest.mark.parametrize("seed", range(3))
def test_careless_judges_do_not_hide_the_consensus(seed):
    rng = np.random.default_rng(seed)
    t, force = rng.normal(size=20), np.array([1.2, 1.0, 1.0, 0.9, 0.3, 0.0])
    u, a = np.repeat(np.arange(6), 300), rng.integers(20, size=1800)
    b = (a + rng.integers(1, 20, size=1800)) % 20
    y = (force[u] * (t[a] - t[b]) + rng.normal(size=1800) > 0).astype(float)
    found = CrowdGPPL().fit(PairwiseLabels(u, a, b, y)).predict_consensus()
    assert np.polyfit(t, found, 1)[0] == pytest.approx(force.mean(), abs=0.3)


@pytest.mark.parametrize("components", [1, 3])
def test_true_tastes_are_found(components):
    right = 0
    for seed in range(4):
        crowd = make_crowd(seed, n_users=60, n_items=20, per_user=60, components=components, variance=3.0 * components)
        right += len(fit(crowd, n_components=8).component_variances_) == components
    assert right >= 3


def test_tastes_improve_the_prediction_of_a_users_answers(crowd):
    assert log_loss(fit(crowd), crowd.held) < log_loss(fit(crowd, n_components=0), crowd.held) - 0.05


def test_ties_do_not_hide_tastes():
    """Ties are answers to close pairs and vary less than other answers."""
    rng = np.random.default_rng(0)
    drawn = draw_crowd(rng, n_users=60, n_items=20, n_labels=3600, n_components=1, s_v=0.5, tie_margin=0.5)
    fresh = draw_labels(rng, drawn.F, 1200)
    labels, held = (PairwiseLabels(each.u, each.a, each.b, each.y) for each in (drawn.labels, fresh))
    assert np.mean(labels.y == 0.5) > 0.1
    model, consensus = (CrowdGPPL(n_components=C).fit(labels) for C in (4, 0))
    assert len(model.component_variances_) == 1
    assert model.hyperparameters_["tie_margin"] == pytest.approx(0.5, abs=0.1)
    assert log_loss(model, held) < log_loss(consensus, held) - 0.05


def test_a_component_is_the_taste_that_was_drawn():
    crowd = make_crowd(seed=3, n_users=60, n_items=20, per_user=60, components=1, variance=3.0)
    model = fit(crowd)
    personal = crowd.F - crowd.t[:, None]
    items, users = model.item_components_[0], model.user_components_[0]
    left, size, right = np.linalg.svd(personal - personal.mean(axis=0), full_matrices=False)
    assert abs(np.corrcoef(items, left[:, 0])[0, 1]) > 0.95
    assert abs(np.corrcoef(users, right[0])[0, 1]) > 0.9
    assert 0.5 < model.component_variances_[0] / (size[0] ** 2 / personal.size) < 2.5


def test_components_are_sorted_and_users_have_unit_variance():
    crowd = make_crowd(seed=4, n_users=80, n_items=20, per_user=60, components=2, variance=6.0)
    model = fit(crowd)
    assert np.all(np.diff(model.component_variances_) <= 0)
    assert_allclose((model.item_components_**2).mean(axis=1), model.component_variances_)
    assert 0.5 < (model.user_components_**2).mean() < 1.3


def unanimous(seed, counts, n_items=10):
    """Labels of a crowd that answers by one order of the items, without noise."""
    rng = np.random.default_rng(seed)
    u = np.repeat(np.arange(len(counts)), counts)
    a = rng.integers(0, n_items, len(u))
    b = (a + rng.integers(1, n_items, len(u))) % n_items
    return PairwiseLabels(u, a, b, (a < b).astype(float))


@pytest.mark.parametrize("seed", range(5))
def test_a_unanimous_crowd_is_in_order_also_if_one_worker_gave_most_labels(seed):
    model = CrowdGPPL().fit(unanimous(seed, [600] + [1] * 9))
    assert np.all(np.diff(model.predict_consensus()) < 0)
    assert len(model.component_variances_) == 0


def test_the_evidence_is_tracked_and_settles(crowd):
    model = fit(crowd)
    assert model.converged_
    assert len(model.lower_bounds_) >= model.n_iter_ // EVIDENCE_EVERY
    *_, before, settled, final = model.lower_bounds_  # the final one allows for the uncertainty of the axes
    assert abs(settled - before) < EVIDENCE_EVERY
    assert abs(final - settled) < 0.01 * abs(settled)


def test_a_fit_that_stops_early_says_so(crowd):
    model = fit(crowd, max_iterations=2)
    assert not model.converged_
    assert "stopped after 2 iterations" in model.warnings_[0]


def test_more_components_than_the_evidence_supports_change_little(crowd):
    few, many = fit(crowd, n_components=4), fit(crowd, n_components=12)
    assert log_loss(many, crowd.held) < log_loss(few, crowd.held) + 0.01


def test_one_dropped_label_moves_other_items_little():
    crowd = make_crowd(seed=9, n_users=40, n_items=40, per_user=25)
    whole = fit(crowd)
    t, sd = whole.predict_consensus(return_std=True)
    moves = []
    for row in (0, 300, 700):
        rest = crowd.labels.take(np.delete(np.arange(len(crowd.labels)), row))
        other = np.setdiff1d(np.arange(40), [crowd.labels.a[row], crowd.labels.b[row]])
        moved = CrowdGPPL(n_components=4).fit(rest, **crowd.sizes).predict_consensus()
        moves.extend((np.abs(moved - t) / sd)[other])
    assert np.quantile(moves, 0.95) < 0.1


def test_intervals_of_the_consensus_cover_the_truth():
    inside = []
    for seed in range(6):
        crowd = make_crowd(seed + 20, n_users=25, n_items=20, per_user=30, components=1, variance=1.0, consensus=1.0)
        mean, cov = fit(crowd).predict_consensus(return_cov=True)
        i, j = np.triu_indices(20, 1)
        sd = np.sqrt(cov[i, i] + cov[j, j] - 2 * cov[i, j])
        inside.append(np.abs(mean[i] - mean[j] - crowd.t[i] + crowd.t[j]) < 1.96 * sd)
    assert 0.8 < np.mean(inside) < 0.99


@pytest.mark.slow
def test_tastes_are_found_beside_features_that_say_nothing():
    """The share of the features falls for many iterations; directions found before that are those of the features."""
    rng = np.random.default_rng(0)
    n_items, n_users, n_labels = 300, 150, 40
    t, V, W = rng.normal(size=n_items), rng.normal(size=(n_items, 2)), rng.normal(size=(n_users, 2))
    u = np.repeat(np.arange(n_users), n_labels)
    a = rng.integers(0, n_items, len(u))
    b = (a + rng.integers(1, n_items, len(u))) % n_items
    F = t + W @ V.T
    y = (F[u, a] - F[u, b] + rng.normal(size=len(u)) > 0).astype(float)
    model = CrowdGPPL().fit(PairwiseLabels(u, a, b, y), X_items=rng.normal(size=(n_items, 1)))
    assert len(model.component_variances_) == 2


def test_leading_directions_are_found_where_eigenvalues_are_nearly_equal(monkeypatch):
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal((300, 300)))
    M = (Q * np.linspace(1.0, 2.0, 300)) @ Q.T

    def refused(*_args, **_options):
        raise ArpackNoConvergence("no convergence", np.zeros(0), np.zeros(0))

    monkeypatch.setattr(components, "eigsh", refused)
    values, vectors = components.leading(M, 5)
    assert_allclose(values, np.linspace(1.0, 2.0, 300)[:-6:-1])
    assert_allclose(M @ vectors, vectors * values, atol=1e-10)


@pytest.mark.parametrize("seed", [2, 4])
def test_one_strong_taste_beside_features_leaves_no_variance_elsewhere(seed):
    """Axes that are about to vanish once raised tau until all scales ran away."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(18) % 3
    F = rng.standard_normal(18)[:, None] + 1.5 * np.outer(np.array([1.0, -1.0, 0.0])[kinds], np.tile([1.0, -1.0], 8))
    X = np.eye(3)[kinds] + 0.4 * rng.standard_normal((18, 3))
    drawn = draw_labels(rng, F, 320, tie_margin=0.1)
    model = CrowdGPPL().fit(PairwiseLabels(drawn.u, drawn.a, drawn.b, drawn.y), X_items=X)
    found = model.hyperparameters_
    assert model.converged_
    assert found["own_taste_variance"] < 0.1 * found["taste_variance"]
    assert 1.0 < found["taste_variance"] < 5.0  # truth: 1.5


def test_components_are_found_when_the_fast_eigenvalue_solver_fails(monkeypatch):
    """LAPACK's default solver gives up on some matrices, which are rare and depend on the machine."""
    labels = make_crowd(seed=2).labels
    model = CrowdGPPL().fit(labels)
    fast = components.linalg.eigvalsh

    def failing(M, **options):
        if "subset_by_index" in options:
            raise components.linalg.LinAlgError("Internal Error.")
        return fast(M, **options)

    monkeypatch.setattr(components.linalg, "eigvalsh", failing)
    again = CrowdGPPL().fit(labels)
    assert_allclose(again.predict_utilities(), model.predict_utilities(), atol=1e-6)
