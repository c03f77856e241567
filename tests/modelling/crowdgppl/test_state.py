"""Kept and taken up again, a model goes on as if it had never stopped, bit for bit."""

import io

import numpy as np
import pytest

from modelling.crowdgppl import CrowdGPPL, Linear, Matern32, PairwiseLabels, WeightedSum

from .crowds import fitted, make_crowd


def through_a_file(model):
    """As the product does it: npz, no pickles."""
    buffer = io.BytesIO()
    np.savez(buffer, **model.to_state())
    buffer.seek(0)
    with np.load(buffer, allow_pickle=False) as kept:
        return CrowdGPPL.from_state(dict(kept))


def variants():
    crowd = make_crowd(seed=6, features=True)
    kernel = WeightedSum(((0.7, Matern32(columns=(0, 1))), (0.3, Linear())))
    yield "plain", crowd.labels, {}, {}
    yield "features", crowd.labels, {"X_items": crowd.X}, {"item_kernel": kernel, "n_inducing_items": 6}
    yield "kmeans", crowd.labels, {"X_items": crowd.X}, {"inducing": "kmeans", "n_inducing_items": 6}
    yield "traits", crowd.labels, {"X_users": crowd.W}, {}
    yield "finish", crowd.labels, {}, {"finish": True}
    yield "ard", crowd.labels, {}, {"scales": "ard"}
    yield "batches", crowd.labels, {}, {"batch_size": 7}
    yield "gppl", crowd.labels, {}, {"n_components": 0}
    yield "reliability", crowd.labels, {}, {"reliability": True}


VARIANTS = {name: rest for name, *rest in variants()}


@pytest.mark.parametrize("name", VARIANTS)
def test_saved_loaded_and_continued_equals_never_stopped(name):
    labels, where, settings = VARIANTS[name]
    more = PairwiseLabels(np.array([0, 1, 2]), np.array([3, 4, 5]), np.array([1, 0, 2]), np.array([1.0, 0.5, 0.0]))
    never = fitted(labels, **where, **settings)
    stopped = through_a_file(never)
    for step in (lambda m: m.partial_fit(more), lambda m: m.forget(more), lambda m: m.partial_fit(more)):
        stopped = through_a_file(step(stopped))
        step(never)
        left, right = never.to_state(), stopped.to_state()
        assert left.keys() == right.keys()
        for key in left:
            assert np.array_equal(left[key], right[key]), key
        assert np.array_equal(never.predict_utilities(), stopped.predict_utilities())


def test_a_loaded_model_has_the_settings_and_the_story_of_the_saved_one(crowd):
    model = CrowdGPPL(n_components=3, random_state=4).fit(crowd.labels)
    again = through_a_file(model)
    assert again.personal_variance == "auto"
    assert again.choice_ == model.choice_
    assert (again.n_iter_, again.converged_) == (model.n_iter_, model.converged_)
    assert again.warnings_ == model.warnings_
    assert again.lower_bounds_ == pytest.approx(model.lower_bounds_)
    assert again.item_kernel == model.item_kernel


def test_the_state_is_flat_arrays_without_objects(crowd):
    for name, array in fitted(crowd.labels, finish=True).to_state().items():
        assert isinstance(array, np.ndarray), name
        assert array.dtype != object, name
