"""Worker cookies behind TLS: `__Host-`, and those of the last release still work."""

import pytest
from django.test import Client

from annotation.models import Project

pytestmark = pytest.mark.django_db


def test_a_worker_of_the_last_release_is_still_known(project: Project, worker_client: Client, settings) -> None:
    """The worker joined when the cookie had no prefix."""
    assert worker_client.get("/s/pets/task/").status_code == 200
    settings.SESSION_COOKIE_SECURE = True
    assert worker_client.get("/s/pets/task/").status_code == 200


def test_behind_tls_a_new_worker_gets_a_cookie_that_no_other_host_can_set(project: Project, settings) -> None:
    settings.SESSION_COOKIE_SECURE = True
    client = Client()
    client.post("/s/pets/join/", {"consent": "on"})
    cookie = client.cookies[f"__Host-concord_worker_{project.pk}"]
    assert (cookie["secure"], cookie["path"], cookie["domain"]) == (True, "/", "")
    assert client.get("/s/pets/task/").status_code == 200
