"""What the service worker of a study gets from the server."""

import pytest
from django.test import Client

from annotation.models import Assignment, Project, Worker
from tests.annotation.views.test_participation import read_return_code

pytestmark = pytest.mark.django_db


def test_the_script_lies_in_the_folder_of_the_study_and_is_checked_every_time(project: Project) -> None:
    response = Client().get("/s/pets/service-worker.js")
    assert response["Content-Type"] == "text/javascript; charset=utf-8"
    assert response["Cache-Control"] == "no-cache"
    assert "worker-src 'self'" in response["Content-Security-Policy"]
    assert "Set-Cookie" not in response.headers


def test_the_offline_page_has_no_pairs_and_no_codes(worker_client: Client) -> None:
    code = read_return_code(worker_client)
    leased = Assignment.objects.select_related("item_lo", "item_hi")
    page = worker_client.get("/s/pets/offline/").content.decode()
    assert "data-offline" in page
    assert code not in page
    assert [lease for lease in leased if lease.item_lo.text in page or lease.item_hi.text in page] == []


def test_the_offline_page_leases_nothing(worker_client: Client) -> None:
    worker_client.get("/s/pets/offline/")
    assert Assignment.objects.count() == 0


@pytest.mark.parametrize("change", ["finished", "withdrawn", "paused", "nobody"])
def test_without_work_there_is_no_offline_page(worker_client: Client, change: str) -> None:
    client = Client() if change == "nobody" else worker_client
    Project.objects.update(state="paused" if change == "paused" else "open")
    Worker.objects.update(state=change if change in Worker.State.values else "active")
    assert client.get("/s/pets/offline/").status_code == 404
