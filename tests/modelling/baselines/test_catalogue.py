"""The catalogue of methods: features that a method does not use are dropped, at fits and at predictions."""

import numpy as np
import pytest

from benchmarks.simulated_crowds import draw_crowd, grid
from modelling.baselines.catalogue import CATALOGUE, ITEM_FEATURES, USER_FEATURES, find_methods

SMALL = {"paper_svi": {"n_components": 2, "n_iterations": 5}, "collab_gp": {"n_components": 2, "n_iterations": 5}}


@pytest.fixture(scope="module")
def crowd():
    rng = np.random.default_rng(0)
    X_users = rng.standard_normal((5, 2))
    return draw_crowd(rng, n_users=5, n_labels=150, n_components=1, X_items=grid(3), X_users=X_users)


@pytest.mark.parametrize("method", CATALOGUE.values(), ids=lambda method: method.name)
def test_every_method_is_fitted_and_predicts_known_and_new_users(method, crowd):
    settings = next((values for start, values in SMALL.items() if method.name.startswith(start)), {})
    model = method.fit(crowd.labels, X_items=crowd.X_items, X_users=crowd.X_users, **settings)
    assert isinstance(model, method.estimator)
    p = model.predict_proba(crowd.labels.u, crowd.labels.a, crowd.labels.b)
    assert np.mean((p > 0.5) == (crowd.labels.y > 0.5)) > 0.55
    rows = method.new_rows(X_users=crowd.X_users[:1])
    if rows or method.estimator.__name__ != "CrowdGPPL":
        assert np.isfinite(model.predict_proba([5], [0], [1], **rows)).all()
    again = method.estimator.from_state(model.to_state())
    np.testing.assert_allclose(again.predict_proba([1], [0], [1]), model.predict_proba([1], [0], [1]), atol=1e-9)


def test_a_method_without_features_ignores_them(crowd):
    method = CATALOGUE["crowdgppl_no_features"]
    with_features = method.fit(crowd.labels, X_items=crowd.X_items, X_users=crowd.X_users)
    without = method.fit(crowd.labels, n_items=9, n_users=5)
    np.testing.assert_array_equal(with_features.predict_consensus(), without.predict_consensus())
    assert method.new_rows(crowd.X_items, crowd.X_users) == {}


def test_the_catalogue_says_what_each_method_is():
    for name, method in CATALOGUE.items():
        assert method.name == name
        assert len(name) <= 30  # the length of a scoreboard's column
        assert method.title
        assert method.description.endswith(".")
        assert set(method.needs) <= set(method.uses) <= {ITEM_FEATURES, USER_FEATURES}


def test_unknown_names_are_refused_with_those_that_exist():
    assert [method.name for method in find_methods(["gppl", "linear", "gppl"])] == ["gppl", "linear"]
    with pytest.raises(ValueError, match="no method bt"):
        find_methods(["gppl", "bt"])
