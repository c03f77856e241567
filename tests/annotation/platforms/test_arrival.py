"""Arriving from a platform: who is let in, who resumes, and which links are refused without a row."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from annotation.models import PlatformIdentity, Project, Recruitment, User, Worker
from tests.annotation.platforms.studies import OTHER_PID, PID, SESSION, STUDY, join, link, recruit
from tests.helpers.concurrency import run_concurrently

pytestmark = pytest.mark.django_db
PLACEHOLDERS = "?PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}"
FULL_WIDTH = "５" * 24


def test_the_ids_of_the_link_are_stored_apart_from_the_worker(project: Project, client: Client) -> None:
    recruit(project)
    assert join(client, link(project)).status_code == 302
    identity = PlatformIdentity.objects.get()
    assert (identity.external_id, identity.study_id, identity.session_id) == (PID, STUDY, SESSION)
    assert identity.verified is False
    assert PID not in identity.worker.code


def test_opening_the_link_stores_nothing_before_consent(project: Project, client: Client) -> None:
    recruit(project)
    assert client.get(link(project)).status_code == 200
    assert not Worker.objects.exists()


def test_the_same_participant_resumes_on_another_device(project: Project) -> None:
    recruit(project)
    phone, laptop = Client(), Client()
    join(phone, link(project))
    response = laptop.get(link(project, SESSION_ID="9d" * 12))
    assert response.url == project.get_judging_url(), "the platform's ids leave the address"
    tasks = [device.get(f"{project.get_judging_url()}task/").json() for device in (phone, laptop)]
    assert tasks[0]["pairs"] == tasks[1]["pairs"]
    assert Worker.objects.count() == 1
    assert PlatformIdentity.objects.get().session_id == "9d" * 12


def test_another_participant_on_the_same_device_is_another_worker(project: Project, client: Client) -> None:
    recruit(project)
    join(client, link(project))
    assert client.get(link(project, OTHER_PID)).context["form"], "the other participant is asked for consent"
    join(client, link(project, OTHER_PID))
    assert set(PlatformIdentity.objects.values_list("external_id", flat=True)) == {PID, OTHER_PID}


@pytest.mark.parametrize(
    "query",
    [
        PLACEHOLDERS,
        "",
        f"?PROLIFIC_PID={PID}",
        f"?PROLIFIC_PID={PID}&PROLIFIC_PID={OTHER_PID}&STUDY_ID={STUDY}&SESSION_ID={SESSION}",
        f"?PROLIFIC_PID={PID[:-1]}&STUDY_ID={STUDY}&SESSION_ID={SESSION}",
        f"?PROLIFIC_PID={PID[:-1]}%20&STUDY_ID={STUDY}&SESSION_ID={SESSION}",
        f"?PROLIFIC_PID={FULL_WIDTH}&STUDY_ID={STUDY}&SESSION_ID={SESSION}",
    ],
    ids=["placeholders", "no parameters", "two missing", "doubled", "too short", "space", "full-width digits"],
)
def test_a_broken_link_gets_a_clear_page_and_no_row(project: Project, client: Client, query: str) -> None:
    recruit(project)
    response = client.get(project.get_judging_url() + query)
    assert response.status_code == 400
    assert "This link is incomplete." in response.content.decode()
    assert not Worker.objects.exists()


def test_unreplaced_placeholders_warn_the_researcher(project: Project, client: Client, admin_client: Client) -> None:
    recruit(project)
    client.get(project.get_judging_url() + PLACEHOLDERS)
    assert Recruitment.objects.get().unreplaced_at
    assert "placeholders were not replaced" in admin_client.get("/projects/pets/recruitment/").content.decode()


def test_a_link_of_another_study_is_refused(project: Project, client: Client) -> None:
    recruit(project, study_id=STUDY)
    assert client.get(link(project, STUDY_ID="0e" * 12)).status_code == 403
    assert client.get(link(project)).status_code == 200
    assert not Worker.objects.exists()


@pytest.mark.parametrize("arrival", ["", "forged", "forged:token:x"])
def test_joining_without_a_signed_arrival_is_refused(project: Project, client: Client, arrival: str) -> None:
    recruit(project)
    response = client.post("/s/pets/join/", {"consent": "on", "arrival": arrival})
    assert response.status_code == 400
    assert not Worker.objects.exists()


def test_an_arrival_token_of_another_study_is_refused(project: Project, client: Client) -> None:
    recruit(project)
    token = client.get(link(project)).context["form"]["arrival"].value()
    other = Project.objects.create(slug="other", title="Other", state="open")
    recruit(other)
    assert client.post("/s/other/join/", {"consent": "on", "arrival": token}).status_code == 400


def test_a_worker_who_returns_without_the_link_resumes(project: Project, client: Client) -> None:
    recruit(project)
    join(client, link(project))
    assert client.get(project.get_judging_url()).context["task"]["pairs"]


def test_a_panel_has_its_own_parameter_names(project: Project, client: Client) -> None:
    recruit(project, "generic", participant_parameter="survey_code", session_parameter="sid")
    assert client.get("/s/pets/?survey_code=%25SURVEY_CODE%25&sid=1").status_code == 400
    assert client.get("/s/pets/?survey_code=4711").status_code == 400
    join(client, "/s/pets/?survey_code=4711&sid=a-1")
    assert PlatformIdentity.objects.values_list("platform", "external_id", "session_id").get() == (
        "generic",
        "4711",
        "a-1",
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.slow
def test_joining_on_ten_devices_at_once_makes_one_worker(project: Project) -> None:
    recruit(project)
    token = Client().get(link(project)).context["form"]["arrival"].value()
    posts = [lambda: Client().post("/s/pets/join/", {"consent": "on", "arrival": token}).status_code] * 10
    assert run_concurrently(posts) == [302] * 10
    assert Worker.objects.count() == 1
    assert PlatformIdentity.objects.count() == 1


def test_each_browser_that_opens_the_study_counts_as_arrived_once(project: Project) -> None:
    recruit(project)
    browsers = [Client(), Client()]
    for browser in browsers:
        for _ in range(2):
            browser.get(link(project))
    join(browsers[0], link(project))
    assert Recruitment.objects.get().arrivals == 2
    assert not Worker.objects.exclude(identity__external_id=PID).exists()
    Client().get("/s/pets/?PROLIFIC_PID=broken")
    assert Recruitment.objects.get().arrivals == 2, "a broken link is no arrival"


def test_the_funnel_goes_from_arriving_to_leaving(project: Project, owner: User, client: Client) -> None:
    recruit(project)
    arrived, dropped = Client(), Client()
    arrived.get(link(project, OTHER_PID))
    join(dropped, link(project))
    Worker.objects.update(joined_at=timezone.now() - timedelta(hours=1))
    client.force_login(owner)
    page = client.get("/projects/pets/participants/?fragment=1")
    counts = {stage.label: stage.count for stage in page.context["stages"]}
    expected = {"arrived": 2, "consented": 1, "prepared": 1, "judged at least one pair": 0, "finished": 0}
    assert counts == {**expected, "dropped out": 1}
    assert "<h1>" not in page.content.decode()
