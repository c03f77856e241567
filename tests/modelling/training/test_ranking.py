"""Ranks and relative standard deviations from a posterior covariance."""

import numpy as np
import pytest

from modelling.models import ModelSnapshot
from modelling.training.ranking import rank_items, rank_samples, ranks, relative_sd


@pytest.fixture
def cov():
    root = np.random.default_rng(0).normal(size=(6, 6))
    return root @ root.T


def test_a_common_constant_does_not_widen_intervals(cov):
    np.testing.assert_allclose(relative_sd(cov + 100.0), relative_sd(cov), rtol=1e-9)
    centred = np.eye(6) - 1 / 6
    np.testing.assert_allclose(relative_sd(cov) ** 2, (centred @ cov @ centred).diagonal(), rtol=1e-9)


def test_relative_sd_works_for_items_outside_the_reference_set(cov):
    weights = np.array([-0.5, -0.5, 0, 0, 0, 1.0])
    assert relative_sd(cov, among=np.array([0, 1]))[5] ** 2 == pytest.approx(weights @ cov @ weights)


def test_ranks_account_for_correlated_scores():
    """Each score is uncertain, but their order is certain."""
    mean, together = np.array([2.0, 1.0, 0.0]), np.full((3, 3), 25.0)
    ranking = rank_items(mean, together, np.random.default_rng(0))
    assert ranking.rank_low.tolist() == ranking.rank_high.tolist() == [1, 2, 3]
    apart = rank_items(mean, np.diag([25.0] * 3), np.random.default_rng(0))
    assert apart.rank_low.tolist() == [1, 1, 1]
    assert apart.rank_high.tolist() == [3, 3, 3]


def test_rank_intervals_contain_95_per_cent_of_the_samples() -> None:
    samples = np.random.default_rng(1).standard_normal((4000, 40))
    ranking = rank_samples(np.zeros(40), samples)
    inside = (ranks(samples) >= ranking.rank_low) & (ranks(samples) <= ranking.rank_high)
    assert 0.94 < inside.mean() < 0.98


@pytest.mark.parametrize(("code", "old"), [("0.1.0", True), ("0.6.0", True), ("0.7.0", False), ("0.10.1", False)])
def test_versions_of_earlier_releases_have_90_per_cent_rank_intervals(code: str, old: bool) -> None:
    assert ModelSnapshot(code_version=code).has_old_rank_intervals is old
