"""First of all the signs: who is preferred rises."""

import numpy as np
import pytest

from modelling.crowdgppl import CrowdGPPL, PairwiseLabels

from .crowds import fitted

RULES = ("ep", "vb", "linear")


def one_label(y):
    return PairwiseLabels(np.array([0]), np.array([0]), np.array([1]), np.array([y]))


@pytest.mark.parametrize("likelihood", RULES)
def test_preferring_b_lowers_a(likelihood):
    t = CrowdGPPL(likelihood=likelihood).fit(one_label(0.0)).predict_consensus()
    assert t[0] < 0 < t[1]


@pytest.mark.parametrize("likelihood", RULES)
def test_preferring_a_raises_a(likelihood):
    t = CrowdGPPL(likelihood=likelihood).fit(one_label(1.0)).predict_consensus()
    assert t[1] < 0 < t[0]


@pytest.mark.parametrize("likelihood", RULES)
def test_a_tie_says_that_neither_is_better(likelihood):
    model = CrowdGPPL(likelihood=likelihood).fit(one_label(0.5))
    assert model.predict_consensus() == pytest.approx([0, 0], abs=1e-9)
    assert model.predict_proba([0], [0], [1]) == pytest.approx([0.5])


def test_a_partial_preference_lies_between_a_tie_and_a_win():
    tie, lean, win = (CrowdGPPL().fit(one_label(y)).predict_consensus()[0] for y in (0.5, 0.8, 1.0))
    assert tie < lean < win


def test_two_workers_who_disagree_are_told_apart(crowd):
    """One always prefers the smaller index, one the larger."""
    a, b = np.triu_indices(6, 1)
    u = np.repeat([0, 1], len(a))
    y = np.repeat([1.0, 0.0], len(a))
    labels = PairwiseLabels(u, np.tile(a, 2), np.tile(b, 2), y)
    F = fitted(labels, n_components=2).predict_utilities()
    assert np.all(np.diff(F[:, 0]) < 0)
    assert np.all(np.diff(F[:, 1]) > 0)


def test_a_label_that_counts_twice_moves_more_than_one_that_counts_once():
    def lead(weight):
        labels = PairwiseLabels(np.array([0]), np.array([0]), np.array([1]), np.array([1.0]), np.array([weight]))
        return CrowdGPPL(t_prior=(1000.0, 1000.0)).fit(labels).predict_consensus()[0]

    assert lead(0.5) < lead(1.0) < lead(2.0)


def test_a_label_of_weight_two_is_the_label_given_twice():
    twice = PairwiseLabels(np.array([0, 0]), np.array([0, 0]), np.array([1, 1]), np.array([1.0, 1.0]))
    heavy = PairwiseLabels(np.array([0]), np.array([0]), np.array([1]), np.array([1.0]), np.array([2.0]))
    exact = {"likelihood": "vb", "tolerance": 1e-10, "max_iterations": 500}  # VB averages: equal to the last digit
    left, right = (CrowdGPPL(**exact).fit(each).predict_consensus() for each in (twice, heavy))
    assert left == pytest.approx(right, rel=1e-6)
