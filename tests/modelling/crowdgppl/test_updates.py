"""New labels, forgotten labels, new items and users, mini-batches, and a model that is saved and continued."""

import io

import numpy as np
import pytest
from numpy.testing import assert_allclose

from modelling.crowdgppl import ArrayStore, CrowdGPPL, Linear, Matern32, PairwiseLabels, WeightedSum, inference
from modelling.crowdgppl.inference import Inference, Options
from modelling.crowdgppl.item_prior import ItemPrior
from modelling.crowdgppl.posterior import Posterior
from modelling.crowdgppl.users import Visit

from .crowds import fit, labels_from, log_loss, make_crowd


@pytest.fixture(scope="module")
def larger():
    """A crowd so large that an update visits only some of the users."""
    return make_crowd(seed=7, n_users=120, n_items=30, per_user=20)


def part(labels, share, seed=0):
    """Split labels at random."""
    order = np.random.default_rng(seed).permutation(len(labels))
    cut = int(share * len(labels))
    return labels.take(order[:cut]), labels.take(order[cut:])


def through_a_file(model):
    """Save and load the state as the updater does: npz without pickles."""
    buffer = io.BytesIO()
    np.savez(buffer, **model.to_state())
    buffer.seek(0)
    with np.load(buffer, allow_pickle=False) as saved:
        return CrowdGPPL.from_state(dict(saved))


def test_new_labels_that_prefer_an_item_raise_it(larger):
    model = fit(larger)
    x = int(np.argsort(model.predict_consensus())[5])
    before = model.predict_consensus()[x]
    others = np.setdiff1d(np.arange(30), [x])
    model.partial_fit(PairwiseLabels(np.arange(29), np.full(29, x), others, np.ones(29)))
    assert model.predict_consensus()[x] > before


def test_updates_are_as_good_as_a_refit(larger):
    first, last = part(larger.labels, 0.9)
    model = CrowdGPPL(n_components=4).fit(first, **larger.sizes)
    for start in range(0, len(last), 40):
        model.partial_fit(last.take(np.arange(start, min(start + 40, len(last)))))
    refit = fit(larger)
    t, sd = refit.predict_consensus(return_std=True)
    assert np.sqrt(np.mean(((model.predict_consensus() - t) / sd) ** 2)) < 0.35
    assert log_loss(model, larger.held) < log_loss(refit, larger.held) + 0.01


def test_a_small_study_is_fitted_again_by_an_update(crowd):
    first, last = part(crowd.labels, 0.9)
    updated = CrowdGPPL(n_components=4).fit(first, **crowd.sizes).partial_fit(last)
    refit = fit(crowd)
    t, sd = refit.predict_consensus(return_std=True)
    assert np.abs((updated.predict_consensus() - t) / sd).max() < 0.3
    assert log_loss(updated, crowd.held) < log_loss(refit, crowd.held) + 0.01


def test_a_forgotten_label_leaves_the_sums_exactly(larger):
    """After forgetting, H and h are sums over the remaining labels."""
    model = fit(larger)
    gone = larger.labels.take(np.arange(3))
    model.forget(gone)
    post, store = model._post, model._store
    assert len(store) == len(larger.labels) - 3
    stats = Visit(store.load(store.active_users()), post).integrate_users(post)
    assert_allclose(post.H, stats.H, atol=0.02 * np.abs(stats.H).max())
    assert_allclose(post.h, stats.h, atol=0.05 * np.abs(stats.h).max())


def test_added_and_forgotten_labels_leave_the_model_where_it_was(larger):
    model = fit(larger)
    t, sd = model.predict_consensus(return_std=True)
    more = larger.held.take(np.arange(0, len(larger.held), 100))
    model.partial_fit(more).forget(more)
    assert np.abs((model.predict_consensus() - t) / sd).max() < 0.2


def test_forgetting_an_unknown_label_changes_nothing(crowd):
    model = fit(crowd)
    before = model.predict_utilities()
    with pytest.raises(ValueError, match="no label"):
        model.forget(labels_from((0, 0, 1, 0.25)))
    assert np.array_equal(model.predict_utilities(), before)


def test_all_labels_of_a_user_can_be_forgotten(crowd):
    model = fit(crowd)
    model.forget(crowd.labels.take(crowd.labels.u == 3))
    t = model.predict_consensus()
    assert_allclose(model.predict_utilities(users=[3])[:, 0], t - t.mean())


def test_new_users_and_items_can_join(crowd):
    model = fit(crowd)
    model.partial_fit(labels_from((31, 12, 0, 1), (31, 13, 1, 1), (30, 12, 5, 1)))
    assert (model.n_items_, model.n_users_) == (14, 32)
    assert model.predict_utilities().shape == (14, 32)
    assert model.predict_consensus()[12] > 0
    model.partial_fit(labels_from((0, 0, 1, 1)), n_items=16, n_users=40)
    assert model.predict_utilities().shape == (16, 40)


def test_new_items_need_features_if_the_model_has_them(with_features):
    model = fit(with_features)
    before = model.predict_utilities()
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(labels_from((0, 20, 0, 1)))
    assert np.array_equal(model.predict_utilities(), before)
    X = np.vstack((with_features.X, [[0.5, 0.5]]))
    model.partial_fit(labels_from((0, 20, 0, 1)), X_items=X)
    assert model.n_items_ == 21


def test_a_refit_is_due_after_a_fifth_more_labels(crowd):
    model = fit(crowd)
    assert not model.needs_refit_
    model.partial_fit(crowd.held.take(np.arange(150)))
    assert model.needs_refit_


MORE = labels_from((0, 3, 1, 1), (1, 4, 0, 0.5), (2, 5, 2, 0))
VARIANTS = {
    "plain": {},
    "features": {"item_kernel": WeightedSum(((0.7, Matern32(columns=(0, 1))), (0.3, Linear())))},
    "traits": {"user_kernel": Matern32()},
    "mini-batches": {"batch_size": 7},
    "consensus only": {"n_components": 0},
    "reliability": {"reliability": True},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_saved_loaded_and_continued_equals_never_stopped(name):
    crowd = make_crowd(seed=6, features=name == "features", n_users=25)
    X_users = np.random.default_rng(0).normal(size=(25, 2)) if name == "traits" else None
    never = CrowdGPPL(**({"n_components": 3} | VARIANTS[name])).fit(crowd.labels, X_items=crowd.X, X_users=X_users)
    stopped = through_a_file(never)
    for step in (lambda m: m.partial_fit(MORE), lambda m: m.forget(MORE), lambda m: m.partial_fit(MORE)):
        stopped = through_a_file(step(stopped))
        step(never)
        left, right = never.to_state(), stopped.to_state()
        assert left.keys() == right.keys()
        for key in left:
            assert np.array_equal(left[key], right[key]), key
        assert np.array_equal(never.predict_utilities(), stopped.predict_utilities())


def test_a_loaded_model_has_the_settings_and_results_of_the_saved_one(crowd):
    model = CrowdGPPL(n_components=3, random_state=4).fit(crowd.labels)
    again = through_a_file(model)
    assert (again.n_components, again.random_state) == (3, 4)
    assert (again.n_iter_, again.converged_, again.warnings_) == (model.n_iter_, model.converged_, model.warnings_)
    assert again.lower_bounds_ == pytest.approx(model.lower_bounds_)
    assert again.hyperparameters_ == model.hyperparameters_


def test_the_state_is_flat_arrays_without_objects(crowd):
    for name, array in fit(crowd).to_state().items():
        assert isinstance(array, np.ndarray), name
        assert array.dtype != object, name


def test_a_state_of_another_release_is_refused():
    with pytest.raises(ValueError, match="another release"):
        CrowdGPPL.from_state({"t": np.zeros(3)})


@pytest.mark.parametrize("seed", [0, 1])
def test_ten_mini_batches_reach_the_full_batch(larger, seed):
    whole, batches = fit(larger), fit(larger, batch_size=12, random_state=seed)
    t, sd = whole.predict_consensus(return_std=True)
    assert np.sqrt(np.mean(((batches.predict_consensus() - t) / sd) ** 2)) < 0.25
    assert log_loss(batches, larger.held) < log_loss(whole, larger.held) + 0.004


def test_a_larger_study_learns_from_mini_batches_after_a_sample():
    """More labels than the first sample, so that the stochastic steps do the work."""
    crowd = make_crowd(seed=8, n_users=700, n_items=15, per_user=40)
    whole, batches = fit(crowd), fit(crowd, batch_size=70)
    assert np.corrcoef(whole.predict_consensus(), batches.predict_consensus())[0, 1] > 0.995
    assert log_loss(batches, crowd.held) < log_loss(whole, crowd.held) + 0.01


class CountingStore(ArrayStore):
    """Counts the labels that are read."""

    n_read = 0

    def load(self, users):
        batch = super().load(users)
        self.n_read += len(batch)
        return batch


def test_an_update_reads_the_labels_of_few_users():
    read = []
    for n_users in (100, 400):
        crowd = make_crowd(seed=0, n_users=n_users, n_items=20, per_user=20)
        store, post = CountingStore(crowd.labels, n_users), Posterior.start(ItemPrior(20), n_users)
        Inference(store, post, Options(max_iterations=6), np.random.default_rng(0)).fit()
        store.n_read = 0
        new = PairwiseLabels([1, 2], [3, 4], [5, 6], [1.0, 0.0])
        update = Inference(store, post, Options(), np.random.default_rng(0))
        update.update(np.array([1, 2]), lambda new=new, store=store, n=n_users: store.add(new, n), 0.001)
        read.append(store.n_read)
    assert read[1] < 1.5 * read[0]


def test_an_update_of_users_with_many_labels_looks_at_related_ones(monkeypatch):
    """Blocks above the limit are cut; the consensus follows the new labels as with whole blocks."""
    crowd = make_crowd(seed=2, n_users=40, n_items=220, per_user=150)
    first, last = part(crowd.labels, 0.95)
    last = last.take(last.u < 12)
    state = CrowdGPPL(n_components=2).fit(first, **crowd.sizes).to_state()
    moves, losses = [], []
    for work in (np.inf, 1.0):
        monkeypatch.setattr(inference, "UPDATE_WORK", work)
        model = CrowdGPPL.from_state(state)
        before, sd = model.predict_consensus(return_std=True)
        model.partial_fit(last)
        assert not np.isnan(model.store.lam).any()
        moves.append((model.predict_consensus() - before) / sd)
        losses.append(log_loss(model, crowd.held))
    exact, cut = moves
    assert np.corrcoef(exact, cut)[0, 1] > 0.6
    assert np.sqrt(np.mean((exact - cut) ** 2)) < 0.2
    assert abs(losses[1] - losses[0]) < 0.005


def test_related_labels_are_the_new_ones_those_that_share_items_and_the_newest():
    store = ArrayStore(labels_from(*((0, k, k + 1, 1) for k in range(9)), (1, 0, 1, 1)), 2)
    batch = store.load(np.array([0, 1]))
    batch.lam[:] = 1.0
    batch.lam[4] = np.nan
    focus = [(np.array([0]), np.array([4]))] * 2
    keep = batch.related_labels(focus, n_items=10, size=5)
    assert np.flatnonzero(keep).tolist() == [0, 3, 4, 7, 8, 9]
    chosen = batch.select(keep)
    assert (chosen.start.tolist(), chosen.a.tolist()) == ([0, 5, 6], [0, 3, 4, 7, 8, 0])
