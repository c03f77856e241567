"""Answers given at random: their share is learned, and they do not make clear preferences look unclear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels
from modelling.crowdgppl import hyperparameters as hp

from .crowds import labels_from, make_crowd

CROWD = make_crowd(seed=3, n_users=20, n_items=12, per_user=120, components=0, consensus=9.0)


def with_slips(share: float, seed: int = 0) -> PairwiseLabels:
    """The labels of CROWD, of which a share is answered by a coin."""
    rng, labels = np.random.default_rng(seed), CROWD.labels
    slip = rng.random(len(labels)) < share
    return replace(labels, y=np.where(slip, (rng.random(len(labels)) < 0.5).astype(float), labels.y))


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_the_share_of_random_answers_is_learned(share: float) -> None:
    model = CrowdGPPL(n_components=0).fit(with_slips(share))
    assert model.hyperparameters_["lapse"] == pytest.approx(share, abs=0.025)


def test_random_answers_do_not_shrink_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = with_slips(0.1)
    model = CrowdGPPL(n_components=0).fit(labels)
    monkeypatch.setattr(hp, "FIRST_LAPSE", 0.0)
    monkeypatch.setattr(hp, "LAPSE_PRIOR", (0.0, 50.0))
    without = CrowdGPPL(n_components=0).fit(labels)
    assert without.hyperparameters_["lapse"] == 0.0
    careful = np.std(CrowdGPPL(n_components=0).fit(CROWD.labels).predict_consensus())
    assert np.std(model.predict_consensus()) == pytest.approx(careful, rel=0.2)
    assert np.std(without.predict_consensus()) < 0.6 * careful


def test_no_answer_is_predicted_with_more_certainty_than_lapses_leave() -> None:
    model = CrowdGPPL(n_components=0).fit(with_slips(0.1))
    best, worst = int(np.argmax(CROWD.t)), int(np.argmin(CROWD.t))
    p = model.predict_proba([0], [best], [worst])[0]
    assert 0.9 < p < 1.0 - 0.5 * model.hyperparameters_["lapse"] + 1e-9


def test_lapses_may_be_ties() -> None:
    """Half of all answers are ties, and so are half of those at random: they do not look like clear preferences."""
    rng, labels = np.random.default_rng(1), make_crowd(seed=5, n_users=20, per_user=100, components=0, ties=0.5).labels
    slip = rng.random(len(labels)) < 0.2
    coin = rng.choice([0.0, 0.5, 0.5, 1.0], len(labels))
    model = CrowdGPPL(n_components=0).fit(replace(labels, y=np.where(slip, coin, labels.y)))
    assert model._post.response.tie_share == pytest.approx(0.5, abs=0.03)
    assert 0.0 < model.hyperparameters_["lapse"] < 0.5


def test_a_weight_of_two_is_the_same_as_two_labels_with_lapses() -> None:
    rows = [(u, a, a + 1, float((u + a) % 5 > 0)) for u in range(5) for a in range(5)]
    twice = CrowdGPPL(n_components=0).fit(labels_from(*rows, *rows))
    weighted = CrowdGPPL(n_components=0).fit(labels_from(*rows, weight=np.full(len(rows), 2.0)))
    apart = np.abs(twice.predict_consensus() - weighted.predict_consensus()).max()
    assert apart < 0.15 * np.std(twice.predict_consensus())
