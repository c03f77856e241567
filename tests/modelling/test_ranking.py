"""Ranks and the uncertainty of scores, from a posterior with its covariances."""

import numpy as np
import pytest

from modelling.ranking import rank_items, relative_sd


@pytest.fixture
def cov():
    root = np.random.default_rng(0).normal(size=(6, 6))
    return root @ root.T


def test_a_constant_that_nobody_can_know_widens_no_interval(cov):
    np.testing.assert_allclose(relative_sd(cov + 100.0), relative_sd(cov), rtol=1e-9)
    centred = np.eye(6) - 1 / 6
    np.testing.assert_allclose(relative_sd(cov) ** 2, (centred @ cov @ centred).diagonal(), rtol=1e-9)


def test_an_item_can_be_compared_with_others_among_which_it_is_not(cov):
    weights = np.array([-0.5, -0.5, 0, 0, 0, 1.0])
    assert relative_sd(cov, among=np.array([0, 1]))[5] ** 2 == pytest.approx(weights @ cov @ weights)


def test_ranks_know_that_scores_move_together():
    """Alone each score is unsure; together their order is known."""
    mean, together = np.array([2.0, 1.0, 0.0]), np.full((3, 3), 25.0)
    ranking = rank_items(mean, together, np.random.default_rng(0))
    assert ranking.rank_low.tolist() == ranking.rank_high.tolist() == [1, 2, 3]
    apart = rank_items(mean, np.diag([25.0] * 3), np.random.default_rng(0))
    assert apart.rank_low.tolist() == [1, 1, 1]
    assert apart.rank_high.tolist() == [3, 3, 3]
