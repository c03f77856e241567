"""Crowds that several tests look at, drawn once."""

import pytest

from .crowds import make_crowd


@pytest.fixture(scope="session")
def crowd():
    """Thirty users with two real tastes."""
    return make_crowd(seed=1)


@pytest.fixture(scope="session")
def undecided():
    """A crowd of whom a fifth of the judgements are ties."""
    return make_crowd(seed=2, ties=0.2)
