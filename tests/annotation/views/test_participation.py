"""Leaving and returning: stop early, the return code, a copy of the data, deletion by the worker."""

import csv
import io
import json
import re
from collections.abc import Callable
from copy import deepcopy

import pytest
from django.test import Client

from annotation import services
from annotation.http import throttling
from annotation.models import Assignment, AuditEntry, Judgement, JudgementNote, Project, Worker
from annotation.services import Receipt
from annotation.services.verification import find_problems

pytestmark = pytest.mark.django_db

Judge = Callable[..., Receipt]


@pytest.fixture
def joined(worker_client: Client) -> Worker:
    """The worker of `worker_client`."""
    return Worker.objects.get()


def read_return_code(client: Client) -> str:
    """The return code on the worker's own page."""
    [code] = re.findall(r">(\w{5}-\w{5}-\w{5})<", client.get("/s/pets/").content.decode())
    return code


def return_with(client: Client, code: str, **more: str) -> int:
    return client.post("/s/pets/return/", {"code": code}, **more).status_code


# Stopping ------------------------------------------------------------------------------------------------------------


def test_stopping_leads_to_thanks_with_the_count_and_can_be_taken_back(
    worker_client: Client, joined: Worker, judge: Judge
) -> None:
    judge(joined)
    judge(joined)
    page = worker_client.post("/s/pets/stop/", follow=True).content.decode()
    assert "Your 2 answers are saved." in page
    assert "You stopped after 2 of 9 pairs." in page
    joined.refresh_from_db()
    assert (joined.state, joined.outcome) == ("finished", Worker.Outcome.STOPPED)

    page = worker_client.post("/s/pets/resume/", follow=True).content.decode()
    assert 'data-choice="left"' in page
    joined.refresh_from_db()
    assert (joined.state, joined.outcome) == ("active", "")


def test_others_get_the_pairs_of_a_worker_who_stopped(worker_client: Client, joined: Worker, project: Project) -> None:
    Project.objects.update(redundancy=1)
    worker_client.get("/s/pets/task/")
    reserved = {(a.item_lo_id, a.item_hi_id) for a in Assignment.objects.filter(worker=joined, closed_at=None)}
    assert len(reserved) == 5
    worker_client.post("/s/pets/stop/")
    other = Client()
    other.post("/s/pets/join/")
    for _ in range(9):
        task = other.get("/s/pets/task/").json()
        answer = {"uuid": "", "assignment": task["pairs"][0]["assignment"], "choice": "left"}
        answer["uuid"] = answer["assignment"]
        other.post("/s/pets/judgements/", answer, content_type="application/json")
    judged = set(Judgement.objects.values_list("item_lo", "item_hi"))
    assert reserved <= judged


def test_answers_that_arrive_after_stopping_are_stored(worker_client: Client, joined: Worker) -> None:
    pair = worker_client.get("/s/pets/task/").json()["pairs"][0]["assignment"]
    worker_client.post("/s/pets/stop/")
    answer = {"uuid": pair, "assignment": pair, "choice": "left"}
    assert worker_client.post("/s/pets/judgements/", answer, content_type="application/json").status_code == 201
    assert Judgement.objects.not_retracted().count() == 1


def test_only_workers_who_stopped_can_continue(worker_client: Client, joined: Worker) -> None:
    Worker.objects.update(state="finished")
    worker_client.post("/s/pets/resume/")
    joined.refresh_from_db()
    assert joined.state == "finished"


# Returning -----------------------------------------------------------------------------------------------------------


def test_a_worker_returns_on_another_device(worker_client: Client, joined: Worker) -> None:
    code = read_return_code(worker_client)
    other_device = Client()
    assert return_with(other_device, f" {code.upper().replace('-', ' ')} ") == 302
    assert joined.code in other_device.get("/s/pets/").content.decode()
    assert Worker.objects.count() == 1


def test_the_return_code_is_secret(worker_client: Client, joined: Worker, owner: object) -> None:
    code = read_return_code(worker_client)
    stored = json.dumps(list(Worker.objects.values()), default=str)
    assert code not in stored
    assert code.replace("-", "") not in stored
    assert joined.code not in code.replace("-", "")
    assert return_with(Client(), joined.code) == 422  # the participation code, which researchers see


def test_wrong_foreign_and_erased_codes_get_the_same_response(
    worker_client: Client, joined: Worker, stranger: object
) -> None:
    other_study = Project.objects.get(slug="elsewhere")
    foreign = services.get_return_code(services.enrol(project=other_study))
    erased = services.enrol(project=joined.project)
    erased_code = services.get_return_code(erased)
    services.erase_worker(worker=erased, user=None)
    services.get_return_code(erased)  # must not bring the digest back
    responses = []
    for code in ("22222-22222-22222", foreign, erased_code):
        response = Client().post("/s/pets/return/", {"code": code})
        responses.append((response.status_code, response.content.decode().replace(code, "")))
        assert not response.cookies.get(f"concord_worker_{joined.project_id}")
    pages = {re.sub(r'name="csrfmiddlewaretoken" value="[^"]+"', "", page) for _status, page in responses}
    assert [status for status, _page in responses] == [422, 422, 422]
    assert len(pages) == 1


@pytest.mark.usefixtures("frozen_throttle_clock")
def test_guesses_are_throttled_by_address_and_by_code(worker_client: Client) -> None:
    code = read_return_code(worker_client)
    for _ in range(throttling.MAX_RETURNS_OF_CODE):
        assert return_with(Client(), "wrong", REMOTE_ADDR="10.0.0.1") == 422
    assert return_with(Client(), "WRONG", REMOTE_ADDR="10.0.0.2") == 429
    for number in range(throttling.MAX_RETURNS):
        assert return_with(Client(), f"guess{number}", REMOTE_ADDR="10.0.0.3") == 422
    assert return_with(Client(), code, REMOTE_ADDR="10.0.0.3") == 429
    assert return_with(Client(), code, REMOTE_ADDR="10.0.0.4") == 302


def test_workers_of_earlier_releases_and_after_a_new_secret_key_get_a_working_code(
    worker_client: Client, joined: Worker
) -> None:
    Worker.objects.update(return_digest="")
    code = read_return_code(worker_client)
    assert return_with(Client(), code) == 302


def test_returning_needs_a_csrf_token(worker_client: Client) -> None:
    client = Client(enforce_csrf_checks=True)
    assert return_with(client, read_return_code(worker_client)) == 403


def test_a_closed_study_still_shows_workers_their_data(worker_client: Client, joined: Worker) -> None:
    code = read_return_code(worker_client)
    Project.objects.update(state="closed")
    other_device = Client()
    assert "to=data" in other_device.get("/s/pets/").content.decode()
    response = other_device.post("/s/pets/return/?to=data", {"code": code}, follow=True)
    assert "Your data" in response.content.decode()


def test_leaving_the_device_forgets_the_worker_there(worker_client: Client, joined: Worker) -> None:
    worker_client.post("/s/pets/leave/")
    assert worker_client.get("/s/pets/task/").status_code == 401
    joined.refresh_from_db()
    assert joined.state == "active"


# Data ----------------------------------------------------------------------------------------------------------------


def test_the_copy_has_everything_stored_about_the_worker(project: Project, judge: Judge) -> None:
    person = services.enrol(project=project, platform="prolific", external_id="5f00", traits={"age": "30"})
    judge(person, "left", note="=Because", response_ms=10)
    judge(person, "skip", skip_reason="both_poor")
    services.retract(worker=person, judgement=Judgement.objects.last().uuid, uuid=Judgement.objects.last().uuid)
    client = Client()
    return_with(client, services.get_return_code(person))

    copy = client.get("/s/pets/data/my-data.json").json()
    assert copy["participation_code"] == person.code
    assert copy["questionnaire"] == {"age": "30"}
    assert copy["platform_ids"][0]["external_id"] == "5f00"
    first, second = copy["answers"]
    stored = Judgement.objects.first()
    left = stored.assignment.left.text
    assert (first["first"], first["answer"], first["note"]) == (left, "first", "=Because")
    assert (second["answer"], second["skip_reason"]) == ("skip", "both_poor")
    assert first["undone_at"] is None
    assert second["undone_at"]

    response = client.get("/s/pets/data/my-answers.csv")
    rows = list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"))))
    assert [row["answer"] for row in rows] == ["first", "skip"]
    assert rows[0]["note"] == "'=Because"
    assert "attachment" in response["Content-Disposition"]
    assert "no-store" in response["Cache-Control"]


def test_deleting_needs_the_tick(worker_client: Client, joined: Worker, judge: Judge) -> None:
    judge(joined)
    response = worker_client.post("/s/pets/data/delete/")
    assert response.status_code == 422
    assert "Please tick the box" in response.content.decode()
    assert Judgement.objects.not_retracted().count() == 1


def test_deleting_needs_a_csrf_token(project: Project) -> None:
    assert Client(enforce_csrf_checks=True).post("/s/pets/data/delete/", {"confirm": "on"}).status_code == 403


def test_deleted_answers_are_retracted_once(
    worker_client: Client, joined: Worker, judge: Judge, project: Project
) -> None:
    judge(joined, note="my reason")
    judge(joined)
    other_tab = Client()
    other_tab.cookies = deepcopy(worker_client.cookies)
    for client in (worker_client, other_tab):
        page = client.post("/s/pets/data/delete/", {"confirm": "on"}).content.decode()
        assert "Your answers are deleted." in page
        assert "The study's log keeps a record" in page
    assert Judgement.objects.not_retracted().count() == 0
    assert Judgement.objects.count() == 2
    assert JudgementNote.objects.count() == 0
    assert AuditEntry.objects.filter(action="erased a worker").count() == 1
    joined.refresh_from_db()
    assert (joined.state, joined.outcome, joined.return_digest) == ("withdrawn", "erased", "")
    assert worker_client.get("/s/pets/task/").status_code == 401
    assert worker_client.post("/s/pets/data/delete/", {"confirm": "on"})["Location"] == "/s/pets/return/?to=data"
    assert list(find_problems(project)) == []
