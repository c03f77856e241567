"""Reliability of workers: random answers lose weight, dissent does not."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels

from .crowds import make_crowd


def crowd_with_random_workers(seed=0, random_workers=8, per_user=30):
    """Forty workers with tastes, of whom the first answer at random."""
    crowd = make_crowd(seed, n_users=40, n_items=15, per_user=per_user, variance=1.5, consensus=3.0)
    labels, y = crowd.labels, crowd.labels.y.copy()
    at_random = labels.u < random_workers
    y[at_random] = np.random.default_rng(seed).integers(0, 2, at_random.sum())
    return crowd, PairwiseLabels(labels.u, labels.a, labels.b, y)


@pytest.fixture(scope="module")
def study():
    crowd, labels = crowd_with_random_workers()
    return crowd, labels, CrowdGPPL(n_components=4, reliability=True).fit(labels)


def test_random_answers_lose_weight_and_dissenters_keep_theirs(study):
    crowd, _, model = study
    a = model.reliability_
    alike = [np.corrcoef(crowd.t, crowd.F[:, u])[0, 1] for u in range(8, 40)]
    dissenters = 8 + np.argsort(alike)[:8]
    assert a[:8].mean() < 0.5
    assert a[8:].mean() > 0.9
    assert a[dissenters].mean() > a[8:].mean() - 0.1


def test_without_random_workers_almost_no_one_loses_weight():
    _, labels = crowd_with_random_workers(seed=1, random_workers=0)
    assert CrowdGPPL(n_components=4, reliability=True).fit(labels).reliability_.mean() > 0.95


@pytest.mark.slow
def test_the_consensus_is_not_further_from_the_truth_with_reliability():
    gains = []
    for seed in range(10):
        crowd, labels = crowd_with_random_workers(seed, random_workers=14)
        plain, judged = (
            CrowdGPPL(n_components=4, reliability=each).fit(labels).predict_consensus() for each in (False, True)
        )
        gains.append(kendalltau(judged, crowd.t).statistic - kendalltau(plain, crowd.t).statistic)
    assert np.mean(gains) > -0.01


def test_a_new_worker_who_answers_at_random_is_found():
    _, labels = crowd_with_random_workers()
    model = CrowdGPPL(n_components=4, reliability=True).fit(labels)
    rng = np.random.default_rng(5)
    a = rng.integers(0, 15, 60)
    b = (a + rng.integers(1, 15, 60)) % 15
    random = PairwiseLabels(np.full(60, 40), a, b, rng.integers(0, 2, 60).astype(float))
    for start in range(0, 60, 15):
        model.partial_fit(random.take(np.arange(start, start + 15)), n_users=41)
    assert model.reliability_[40] < 0.6


def test_predictions_carry_the_noise_of_each_worker(study):
    model = study[2]
    t = model.predict_consensus()
    best, worst = np.full(2, t.argmax()), np.full(2, t.argmin())
    sharpest = int(8 + model.reliability_[8:].argmax())
    p = model.predict_proba(np.array([int(model.reliability_[:8].argmin()), sharpest]), best, worst)
    assert abs(p[0] - 0.5) < abs(p[1] - 0.5)


def test_reliability_is_one_where_it_is_not_modelled():
    _, labels = crowd_with_random_workers()
    assert np.all(CrowdGPPL(n_components=0).fit(labels).reliability_ == 1.0)
