"""Ranks of more items than a matrix of all pairs allows."""

import numpy as np
import pytest

from modelling.ranking import rank_items, rank_many, relative_sd_of_many
from tests.modelling.crowdgppl.crowds import fitted, make_crowd

MONTE_CARLO = 0.1  # four standard errors of a probability from 500 draws, twice


@pytest.fixture
def known() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, common directions and own variances of forty items."""
    rng = np.random.default_rng(0)
    return rng.standard_normal(40), 0.3 * rng.standard_normal((40, 5)), rng.uniform(0.01, 0.2, 40)


def test_the_ranks_of_many_items_are_those_of_their_covariance(known):
    mean, F, own = known
    many = rank_many(mean, F, own, np.random.default_rng(1))
    few = rank_items(mean, F @ F.T + np.diag(own), np.random.default_rng(2))
    assert np.array_equal(many.rank, few.rank)
    assert many.top_probability == pytest.approx(few.top_probability, abs=MONTE_CARLO)
    assert np.abs(many.rank_low - few.rank_low).max() <= 3
    assert np.abs(many.rank_high - few.rank_high).max() <= 3


def test_the_deviations_of_many_items_are_those_from_the_mean_of_all(known):
    _, F, own = known
    centring = np.eye(40) - 1 / 40
    expected = np.sqrt((centring @ (F @ F.T + np.diag(own)) @ centring).diagonal())
    assert relative_sd_of_many(F, own) == pytest.approx(expected)


@pytest.mark.parametrize("directions", [None, 5])
def test_the_factors_of_the_consensus_have_the_variances_of_its_covariance(directions):
    crowd = make_crowd(seed=3, features=directions is not None)
    model = fitted(crowd.labels, X_items=crowd.X, n_inducing_items=directions)
    mean, cov = model.predict_consensus(return_cov=True)
    found, F, own = model.predict_consensus_factors(np.arange(12))
    assert np.array_equal(found, mean)
    assert (F @ F.T).diagonal() + own == pytest.approx(cov.diagonal())
    assert (own > 0).any() == (directions is not None)
    assert model.predict_consensus(return_std=True)[1] == pytest.approx(np.sqrt(cov.diagonal()))
