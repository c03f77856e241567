"""MTurk: a preview without rows, a frame that only MTurk may show, and a form that only posts to MTurk."""

from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from annotation.models import PlatformIdentity, Project, Worker
from annotation.services.participation.outcomes import end_participation
from tests.annotation.platforms.studies import CODES, join, recruit

pytestmark = pytest.mark.django_db
ACCEPTED = {
    "workerId": "A1B2C3D4E5",
    "hitId": "3HITHITHITHITHITHITHITHITHIT30",
    "assignmentId": "3ASSIGNMENTASSIGNMENTASSIGN30",
    "turkSubmitTo": "https://workersandbox.mturk.com",
}


def frame(client: Client, **changes: str) -> Any:
    return client.get(f"/s/pets/mturk/?{urlencode(ACCEPTED | changes)}")


@pytest.fixture
def mturk_project(project: Project) -> Project:
    recruit(project, "mturk")
    return project


def test_a_preview_shows_a_disabled_button_and_stores_nothing(mturk_project: Project, client: Client) -> None:
    page = client.get("/s/pets/mturk/?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&hitId=H")
    assert page.status_code == 200
    assert "disabled" in page.content.decode()
    assert "workerId" not in page.content.decode()
    assert not Worker.objects.exists()


def test_only_the_frame_may_be_framed_and_only_by_mturk(mturk_project: Project, client: Client) -> None:
    page = frame(client)
    assert "frame-ancestors https://*.mturk.com;" in page["Content-Security-Policy"] + ";"
    assert "X-Frame-Options" not in page
    for address in (f"/s/pets/?{urlencode(ACCEPTED)}", "/s/pets/finish/", "/projects/"):
        other = client.get(address)
        assert "frame-ancestors 'none'" in other["Content-Security-Policy"]
        assert other["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/", "http://www.mturk.com", "https://www.mturk.com.evil.io", "https://a@evil.io",
        "", "//x", "https://[www.mturk.com", "https://www.mturk.com:99999", "https://www.mturk.com\\@evil.io",
    ],
)  # fmt: skip
def test_a_form_to_another_host_is_refused(mturk_project: Project, client: Client, address: str) -> None:
    assert frame(client, turkSubmitTo=address).status_code == 400


def test_a_doubled_address_of_the_form_is_refused(mturk_project: Project, client: Client) -> None:
    query = urlencode([*ACCEPTED.items(), ("turkSubmitTo", "https://www.mturk.com")])
    assert client.get(f"/s/pets/mturk/?{query}").status_code == 400


def test_the_form_appears_only_after_the_participation_has_ended(mturk_project: Project, client: Client) -> None:
    assert "externalSubmit" not in frame(client).content.decode()
    join(client, f"/s/pets/?{urlencode(ACCEPTED)}")
    before = frame(Client()).content.decode()
    assert "externalSubmit" not in before
    assert CODES["finished"] not in before
    end_participation(worker=Worker.objects.get(), outcome="finished")
    after = frame(Client()).content.decode()
    assert 'action="https://workersandbox.mturk.com/mturk/externalSubmit"' in after
    assert CODES["finished"] in after
    assert PlatformIdentity.objects.get().session_id == ACCEPTED["assignmentId"]


def test_the_study_leads_back_to_the_hit_where_there_is_no_field_for_a_code(
    mturk_project: Project, client: Client
) -> None:
    join(client, f"/s/pets/?{urlencode(ACCEPTED)}")
    end_participation(worker=Worker.objects.get(), outcome="finished")
    page = client.get("/s/pets/").text
    assert "Go back to the tab with the HIT" in page
    assert "Enter this code on the platform" not in page
    recruit(mturk_project, "mturk", codes={})
    page = client.get("/s/pets/").text
    assert "Go back to the tab with the HIT" in page
    assert "You can close this page" not in page
    assert "externalSubmit" in frame(client).content.decode()


def test_a_worker_who_declines_is_asked_to_return_the_hit(mturk_project: Project, client: Client) -> None:
    arrival = client.get(f"/s/pets/?{urlencode(ACCEPTED)}").context["form"]["arrival"].value()
    page = client.post("/s/pets/decline/", {"arrival": arrival}).text
    assert "Please return the task" in page
    assert CODES["declined"] not in page


def test_a_worker_who_failed_the_checks_submits_the_hit_only_if_there_is_a_code_for_it(
    mturk_project: Project, client: Client
) -> None:
    join(client, f"/s/pets/?{urlencode(ACCEPTED)}")
    end_participation(worker=Worker.objects.get(), outcome="failed_checks")
    assert "externalSubmit" in frame(client).content.decode()
    recruit(mturk_project, "mturk", codes={})
    page = frame(client).content.decode()
    assert "Please return this HIT" in page
    assert "externalSubmit" not in page


def test_a_second_hit_of_the_same_worker_is_not_paid_again(mturk_project: Project, client: Client) -> None:
    join(client, f"/s/pets/?{urlencode(ACCEPTED)}")
    end_participation(worker=Worker.objects.get(), outcome="finished")
    page = frame(client, assignmentId="3OTHEROTHEROTHEROTHER").content.decode()
    assert "already taken part" in page
    assert "externalSubmit" not in page


def test_opening_the_study_from_a_second_hit_does_not_pay_again(mturk_project: Project, client: Client) -> None:
    join(client, f"/s/pets/?{urlencode(ACCEPTED)}")
    end_participation(worker=Worker.objects.get(), outcome="finished")
    second = "3OTHEROTHEROTHEROTHER"
    client.get(f"/s/pets/?{urlencode(ACCEPTED | {'assignmentId': second})}")
    assert "externalSubmit" not in frame(client, assignmentId=second).content.decode()
    assert "externalSubmit" in frame(client).content.decode()


def test_a_study_on_another_platform_has_no_frame(project: Project, client: Client) -> None:
    recruit(project, "prolific")
    assert frame(client).status_code == 404
