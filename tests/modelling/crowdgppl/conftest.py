"""Crowds that several tests use."""

import pytest

from .crowds import Crowd, make_crowd


@pytest.fixture(scope="session")
def crowd() -> Crowd:
    """Thirty users with two tastes."""
    return make_crowd(seed=1)


@pytest.fixture(scope="session")
def with_ties() -> Crowd:
    """A crowd in which a fifth of the answers are ties."""
    return make_crowd(seed=2, ties=0.2)


@pytest.fixture(scope="session")
def with_features() -> Crowd:
    """A crowd whose consensus and tastes are smooth over two features."""
    return make_crowd(seed=3, features=True, n_items=20)
