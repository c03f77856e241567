"""GPPL-per-user: nobody learns from anybody else."""

import numpy as np

from modelling.baselines import GPPLPerUser
from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.simulation import draw_crowd, grid


def labels_of(crowd, rows=slice(None)):
    return PairwiseLabels(
        u=crowd.labels.u[rows], a=crowd.labels.a[rows], b=crowd.labels.b[rows], y=crowd.labels.y[rows]
    )


def make_crowd():
    return draw_crowd(np.random.default_rng(1), n_users=3, n_labels=120, n_components=2, X_items=grid(4))


def test_a_user_alone_is_gppl():
    crowd = make_crowd()
    alone = labels_of(crowd, crowd.labels.u == 0)
    firm = (1e9, 1e9)  # the scale is 1 whatever the labels say, so that only the sites have to settle
    gppl = CrowdGPPL(n_components=0, t_prior=firm, tolerance=1e-9, max_iterations=200)
    gppl.fit(alone, X_items=crowd.X_items)
    per_user = GPPLPerUser(prior=firm).fit(alone, X_items=crowd.X_items)
    np.testing.assert_allclose(per_user.predict_consensus(), gppl.predict_consensus(), atol=1e-5)


def test_what_one_user_says_does_not_move_another():
    crowd = make_crowd()
    everyone = GPPLPerUser().fit(labels_of(crowd), X_items=crowd.X_items)
    without = GPPLPerUser().fit(labels_of(crowd, crowd.labels.u != 2), X_items=crowd.X_items, n_users=3)
    np.testing.assert_allclose(everyone.predict_utilities(users=[0, 1]), without.predict_utilities(users=[0, 1]))
    np.testing.assert_array_equal(without.predict_utilities(users=[2]), 0)


def test_the_consensus_is_the_mean_of_those_who_spoke():
    crowd = make_crowd()
    model = GPPLPerUser().fit(labels_of(crowd), X_items=crowd.X_items, n_users=9)
    np.testing.assert_allclose(model.predict_consensus(), model.predict_utilities(users=[0, 1, 2]).mean(axis=1))
