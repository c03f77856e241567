"""What was put into a crowd comes out of the model, over several seeds."""

import numpy as np
import pytest

from modelling.crowdgppl import CrowdGPPL
from modelling.crowdgppl.users import weights_given_items

from .crowds import fitted, kendall, make_crowd, scores


@pytest.mark.parametrize("seed", range(3))
def test_the_consensus_and_the_tastes_are_recovered(seed):
    crowd = make_crowd(seed=30 + seed, n_users=60, n_items=15, per_user=40)
    model = fitted(crowd.labels)
    assert kendall(model.predict_consensus(), crowd.t) > 0.6
    F = model.predict_utilities()
    assert np.mean([kendall(F[:, u], crowd.F[:, u]) for u in range(60)]) > 0.7


def test_personal_predictions_beat_the_consensus_alone():
    crowd = make_crowd(seed=33, n_users=60, n_items=15, per_user=40)
    alone, crowded = (scores(fitted(crowd.labels, n_components=C), crowd.held) for C in (0, 4))
    assert crowded[0] > alone[0] + 0.05
    assert crowded[1] < alone[1] - 0.05


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["ep", "vb", "linear"])
def test_every_kind_of_site_recovers_the_tastes(likelihood):
    gains = []
    for seed in range(5):
        crowd = make_crowd(seed=40 + seed, n_users=60, n_items=15, per_user=40, ties=0.1)
        alone, crowded = (
            scores(fitted(crowd.labels, likelihood=likelihood, n_components=C), crowd.held) for C in (0, 4)
        )
        gains.append(crowded[0] - alone[0])
    assert np.mean(gains) > 0.05


def separate_weights(e, V, lam, target, s_w, g):
    """The mean-field user step at its fixed point: the same means, variances as if the weights were apart."""
    W, Omega, _ = weights_given_items(e, V, lam, target, s_w, g)
    variance = 1.0 / (s_w + np.einsum("kn,knc->kc", lam, e * e + V))
    return W, variance[:, :, None] * np.eye(Omega.shape[1]), np.einsum("knc,kc->kn", e * e, variance)


@pytest.mark.slow
def test_joint_users_predict_better_than_separate_ones(monkeypatch):
    """With diagonal covariances the weights of a user do not know of each other, and seem too certain."""
    joint = [scores(fitted(c.labels, n_components=6), c.held) for c in map(sparse_crowd, range(3))]
    monkeypatch.setattr("modelling.crowdgppl.users.weights_given_items", separate_weights)
    apart = [scores(fitted(c.labels, n_components=6), c.held) for c in map(sparse_crowd, range(3))]
    assert np.mean([s[1] for s in joint]) < np.mean([s[1] for s in apart])


def sparse_crowd(seed):
    return make_crowd(seed=50 + seed, n_users=80, n_items=12, per_user=15, components=3, variance=12.0)


def test_items_never_seen_are_ranked_by_their_features():
    crowd = make_crowd(seed=60, n_users=40, n_items=60, per_user=40, features=True)
    seen = (crowd.labels.a < 45) & (crowd.labels.b < 45)
    model = CrowdGPPL(4, personal_variance=8.0).fit(crowd.labels.take(seen), X_items=crowd.X[:45], n_users=40)
    assert kendall(model.predict_consensus(X_items=crowd.X[45:]), crowd.t[45:]) > 0.4
