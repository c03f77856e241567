"""API clients with tokens."""

from collections.abc import Callable

import pytest
from django.test import Client

from annotation.models import Project, User
from modelling.web.api.tokens import create_token
from tests.modelling.samples.cached_fits import cached_fits as cached_fits

Script = Callable[..., Client]


@pytest.fixture
def script() -> Script:
    """Return a function that creates an API client of a user, with a token and no cookie."""

    def client_of(user: User, scope: str = "write", project: Project | None = None) -> Client:
        _token, secret = create_token(user=user, name="test", scope=scope, days=7, project=project)
        return Client(headers={"authorization": f"Bearer {secret}"})

    return client_of


@pytest.fixture
def olga(owner: User, script: Script) -> Client:
    """An API client of the owner of the study “pets”."""
    return script(owner)
