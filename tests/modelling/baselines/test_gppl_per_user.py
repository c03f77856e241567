"""GPPL per user: users are independent."""

import numpy as np

from benchmarks.simulated_crowds import draw_crowd, grid
from modelling.baselines import GPPLPerUser
from modelling.crowdgppl import CrowdGPPL, hyperparameters


def make_crowd():
    return draw_crowd(np.random.default_rng(1), n_users=3, n_labels=120, n_components=2, X_items=grid(4))


def test_a_single_user_gets_the_gppl_fit(monkeypatch):
    monkeypatch.setattr(hyperparameters, "FIRST_LAPSE", 0.0)
    monkeypatch.setattr(hyperparameters, "LAPSE_PRIOR", (0.0, 50.0))  # GPPL per user knows no lapses
    crowd = make_crowd()
    alone = crowd.labels.take(crowd.labels.u == 0)
    gppl = CrowdGPPL(n_components=0, max_iterations=200).fit(alone, n_items=16)
    firm = (1e9 / gppl.hyperparameters_["consensus_variance"], 1e9)  # the same scale
    per_user = GPPLPerUser(prior=firm).fit(alone, n_items=16)
    np.testing.assert_allclose(per_user.predict_consensus(), gppl.predict_consensus(), atol=0.01)


def test_users_do_not_influence_each_other():
    crowd = make_crowd()
    everyone = GPPLPerUser().fit(crowd.labels, X_items=crowd.X_items)
    without = GPPLPerUser().fit(crowd.labels.take(crowd.labels.u != 2), X_items=crowd.X_items, n_users=3)
    np.testing.assert_allclose(everyone.predict_utilities(users=[0, 1]), without.predict_utilities(users=[0, 1]))
    np.testing.assert_array_equal(without.predict_utilities(users=[2]), 0)


def test_the_consensus_is_the_mean_over_users_with_labels():
    crowd = make_crowd()
    model = GPPLPerUser().fit(crowd.labels, X_items=crowd.X_items, n_users=9)
    np.testing.assert_allclose(model.predict_consensus(), model.predict_utilities(users=[0, 1, 2]).mean(axis=1))
