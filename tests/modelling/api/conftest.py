"""Scripts with tokens: one for each role, made as the page makes them."""

from collections.abc import Callable

import pytest
from django.test import Client

from annotation.models import Project, User
from modelling.tokens import make_token

Script = Callable[..., Client]


@pytest.fixture
def script() -> Script:
    """script(user): a client that shows a token of this person with every request, and no cookie."""

    def client_of(user: User, scope: str = "write", project: Project | None = None) -> Client:
        _token, words = make_token(user=user, name="test", scope=scope, days=7, project=project)
        return Client(headers={"authorization": f"Bearer {words}"})

    return client_of


@pytest.fixture
def olga(owner: User, script: Script) -> Client:
    """The script of the owner of the study of pets."""
    return script(owner)
