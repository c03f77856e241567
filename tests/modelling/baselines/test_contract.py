"""The estimator interface that all baselines implement."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from benchmarks.simulated_crowds import draw_crowd, grid
from modelling.baselines import LinearPreference
from modelling.baselines.catalogue import CATALOGUE
from modelling.crowdgppl import Matern32, PairwiseLabels

SMALL = {"paper_svi": {"n_components": 3, "n_iterations": 12, "batch_size": 80}, "collab_gp": {"n_components": 3}}
# The same classes with fewer features; crowdGPPL without consensus has a consensus of 0.
TESTED_ELSEWHERE = {
    "crowdgppl_no_user", "crowdgppl_no_features", "crowdgppl_no_consensus", "paper_svi_no_user", "collab_gp_no_user"
}  # fmt: skip
NAMES = [name for name in CATALOGUE if name not in TESTED_ELSEWHERE]


def maker(name):
    settings = next((values for start, values in SMALL.items() if name.startswith(start)), {})
    return lambda: CATALOGUE[name].build(Matern32(), **settings)


MAKERS = {name: maker(name) for name in NAMES}
ROUNDING = 1e-6  # rounding, multiplied by the condition of K_mm
every_baseline = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


@pytest.fixture(scope="module")
def crowd():
    """Four users who mostly agree about 25 items, of which they have judged 20."""
    return draw_crowd(
        np.random.default_rng(0), n_users=4, n_labels=240, n_components=2, X_items=grid(5), s_t=0.1, s_v=3.0,
        labelled_items=np.arange(20), tie_margin=0.2,
    )  # fmt: skip


def one_label(y):
    return PairwiseLabels(u=np.array([0, 1]), a=np.array([0, 0]), b=np.array([1, 1]), y=np.array([y, y]))


@every_baseline
def test_preferring_b_lowers_a(make):
    for y, sign in ((1.0, 1), (0.0, -1)):
        model = make().fit(one_label(y), X_items=np.array([[0.0], [1.0], [2.0]]))
        t = model.predict_consensus()
        assert sign * (t[0] - t[1]) > 0
        assert sign * (model.predict_proba([0], [0], [1])[0] - 0.5) > 0


@every_baseline
def test_swapping_a_and_b_and_flipping_y_changes_nothing(make, crowd):
    labels = crowd.labels
    swapped = PairwiseLabels(u=labels.u, a=labels.b, b=labels.a, y=1 - labels.y)
    one, two = (make().fit(each, X_items=crowd.X_items).predict_consensus() for each in (labels, swapped))
    np.testing.assert_allclose(one, two, atol=ROUNDING)


@every_baseline
def test_the_consensus_is_found(make, crowd):
    model = make().fit(crowd.labels, X_items=crowd.X_items)
    least = 0.15 if isinstance(model, LinearPreference) else 0.5  # a linear fit to a nonlinear truth
    assert kendalltau(model.predict_consensus()[:20], crowd.t[:20]).statistic > least


@every_baseline
def test_probabilities_of_the_two_answers_add_up(make, crowd):
    model = make().fit(crowd.labels, X_items=crowd.X_items)
    u, a, b = crowd.labels.u[:50], crowd.labels.a[:50], crowd.labels.b[:50]
    np.testing.assert_allclose(model.predict_proba(u, a, b) + model.predict_proba(u, b, a), 1.0)
    for kind in ("typical", "mean", "majority"):
        p, q = (model.predict_consensus_proba(*pair, kind=kind, n_workers=5) for pair in ((a, b), (b, a)))
        np.testing.assert_allclose(p + q, 1.0)


@every_baseline
def test_new_items_come_after_the_known_ones(make, crowd):
    model = make().fit(crowd.labels, X_items=crowd.X_items)
    new = np.array([[0.5, 0.5], [0.1, 0.9]])
    assert model.predict_consensus(X_items=new).shape == (2,)
    mean, sd = model.predict_utilities(users=[1, 2], items=[3, 25, 26], X_items=new, return_std=True)
    assert mean.shape == sd.shape == (3, 2)
    assert np.isfinite(model.predict_proba([0], [3], [26], X_items=new)).all()


@every_baseline
def test_a_restored_model_predicts_the_same(make, crowd):
    model = make().fit(crowd.labels, X_items=crowd.X_items)
    again = type(model).from_state(model.to_state())
    np.testing.assert_allclose(again.predict_consensus(), model.predict_consensus(), atol=1e-10)
    u, a, b = crowd.labels.u[:20], crowd.labels.a[:20], crowd.labels.b[:20]
    np.testing.assert_allclose(again.predict_proba(u, a, b), model.predict_proba(u, a, b), atol=1e-10)


@every_baseline
def test_no_labels_and_too_few_rows_are_refused(make):
    nothing = PairwiseLabels(u=np.empty(0, int), a=np.empty(0, int), b=np.empty(0, int), y=np.empty(0))
    with pytest.raises(ValueError, match="no labels"):
        make().fit(nothing, X_items=np.zeros((2, 1)))
    with pytest.raises(ValueError, match="has 1 rows"):
        make().fit(one_label(1.0), X_items=np.zeros((1, 1)))
