"""Practice pairs, the comprehension check and attention checks: what they store and what follows from them."""

import json
import uuid
from typing import Any

import pytest
from django.test import Client

from annotation import services
from annotation.models import Judgement, Project, Worker, WorkerCheck
from annotation.services.participation.checks import check_positions
from annotation.services.participation.preparation import answer_comprehension, change_preparation, get_preparation
from tests.annotation.platforms.studies import CODES, recruit
from tests.helpers.concurrency import run_concurrently

pytestmark = pytest.mark.django_db
PAIR = {"first": "Cats purr.", "second": "asdf", "answer": "left", "explanation": "The second says nothing."}
QUESTION = {"question": "Whose view counts?", "choices": ["The experts'", "Mine"], "answer": 1}


@pytest.fixture
def prepared_project(project: Project) -> Project:
    change_preparation(project=project, user=None, practice=[PAIR, PAIR], comprehension=[QUESTION])
    recruit(project, "", codes=CODES)
    return project


def practise(client: Client) -> None:
    for number in range(2):
        client.post("/s/pets/prepare/", {"number": number})


def test_practice_gives_feedback_and_stores_no_judgement(prepared_project: Project, client: Client) -> None:
    assert client.post("/s/pets/join/", follow=True).redirect_chain[-1][0] == "/s/pets/prepare/"
    page = client.post("/s/pets/prepare/", {"number": 0, "choice": "right"}).content.decode()
    assert "We expected the other answer." in page
    assert PAIR["explanation"] in page
    practise(client)
    assert Worker.objects.get().practised == 2
    assert not Judgement.objects.exists()


def test_sending_a_practice_step_twice_skips_none(prepared_project: Project, client: Client) -> None:
    client.post("/s/pets/join/")
    for _ in range(3):
        client.post("/s/pets/prepare/", {"number": 0})
    assert Worker.objects.get().practised == 1


def test_pairs_wait_until_the_preparation_is_done(prepared_project: Project, client: Client) -> None:
    client.post("/s/pets/join/")
    assert client.get("/s/pets/task/").status_code == 401
    practise(client)
    assert client.get("/s/pets/", follow=True).redirect_chain[-1][0] == "/s/pets/prepare/"
    assert client.post("/s/pets/prepare/", {"answer_0": 1, "attempt": 0}).headers["location"] == "/s/pets/"
    assert client.get("/s/pets/").context["task"]["pairs"]


def test_the_comprehension_check_has_two_attempts(prepared_project: Project, client: Client) -> None:
    client.post("/s/pets/join/")
    practise(client)
    assert "one more attempt" in client.post("/s/pets/prepare/", {"answer_0": 0, "attempt": 0}).content.decode()
    page = client.post("/s/pets/prepare/", {"answer_0": 0, "attempt": 1}, follow=True).content.decode()
    assert CODES["failed_checks"] in page
    assert Worker.objects.get().outcome == Worker.Outcome.FAILED_CHECKS


def test_a_worker_who_failed_the_comprehension_check_is_not_asked_about_the_task(
    prepared_project: Project, client: Client
) -> None:
    question = {"name": "effort", "label": "Was it hard?", "kind": "text", "required": True, "when": "after"}
    Project.objects.update(questionnaire=[question])
    client.post("/s/pets/join/")
    practise(client)
    for attempt in range(2):
        client.post("/s/pets/prepare/", {"answer_0": 0, "attempt": attempt})
    page = client.get("/s/pets/").text
    assert CODES["failed_checks"] in page
    assert "Was it hard?" not in page


def test_a_double_click_is_one_attempt(prepared_project: Project, client: Client) -> None:
    client.post("/s/pets/join/")
    practise(client)
    shown = client.get("/s/pets/prepare/").context["form"]["attempt"].value()
    for _ in range(2):
        client.post("/s/pets/prepare/", {"answer_0": 0, "attempt": shown})
    worker = Worker.objects.get()
    assert (worker.comprehension_attempts, worker.outcome) == (1, "")


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.slow
def test_a_wrong_answer_from_another_tab_does_not_undo_a_passed_check(prepared_project: Project) -> None:
    worker = services.enrol(project=prepared_project)
    Worker.objects.update(preparing=True, comprehension_attempts=1)
    preparation = get_preparation(prepared_project)

    def answer(choice: int) -> None:
        answer_comprehension(worker=worker, attempt=1, answers=[choice], preparation=preparation)

    answer(1)
    run_concurrently([lambda: answer(0)] * 5)
    worker.refresh_from_db()
    assert (worker.preparing, worker.comprehension_attempts, worker.outcome) == (False, 2, "")


def test_an_empty_answer_is_not_an_attempt(prepared_project: Project, client: Client) -> None:
    client.post("/s/pets/join/")
    practise(client)
    assert client.post("/s/pets/prepare/", {"attempt": 0}).status_code == 422
    assert Worker.objects.get().comprehension_attempts == 0


@pytest.mark.parametrize(
    ("quota", "checks", "expected"), [(40, 2, [13, 27]), (10, 1, [5]), (3, 2, [1, 2]), (1, 1, [1]), (40, 0, [])]
)
def test_checks_are_spread_over_the_pairs(quota: int, checks: int, expected: list[int]) -> None:
    assert check_positions(quota, checks) == expected


def answer_everything(client: Client, fails: int) -> list[dict[str, Any]]:
    """Answer pairs and checks until none is left, the first `fails` checks wrongly; return the checks' pairs."""
    seen = []
    task = client.get("/s/pets/task/").json()
    while task["pairs"]:
        pair = task["pairs"][0]
        choice = "left"
        if check := WorkerCheck.objects.filter(public_id=pair["assignment"]).first():
            seen.append(pair)
            choice = "skip" if len(seen) <= fails else check.expected
        answer = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": choice}
        task = client.post("/s/pets/judgements/", json.dumps(answer), content_type="application/json").json()["next"]
    return seen


@pytest.mark.parametrize(("fails", "outcome"), [(0, "finished"), (1, "finished"), (2, "failed_checks")])
def test_only_two_failed_attention_checks_have_a_consequence(
    project: Project, client: Client, fails: int, outcome: str
) -> None:
    Project.objects.update(attention_checks=3, judgements_per_worker=6)
    client.post("/s/pets/join/")
    checks = answer_everything(client, fails)
    assert list(WorkerCheck.objects.order_by("pk").values_list("number", flat=True)) == [1, 2, 3]
    assert len(checks) == 3
    assert all("attention check" in check["left"]["text"] for check in checks)
    client.post("/s/pets/finish/")
    assert Worker.objects.get().outcome == outcome
    assert Judgement.objects.count() == 6, "a check is not a judgement"


def test_the_first_answer_to_a_check_counts(project: Project, client: Client) -> None:
    Project.objects.update(attention_checks=1, judgements_per_worker=2)
    client.post("/s/pets/join/")
    answer_everything(client, fails=1)
    check = WorkerCheck.objects.get()
    again = {"uuid": str(uuid.uuid4()), "assignment": str(check.public_id), "choice": check.expected}
    client.post("/s/pets/judgements/", json.dumps(again), content_type="application/json")
    check.refresh_from_db()
    assert check.choice == "skip"


def test_a_check_of_another_worker_is_refused(project: Project, client: Client) -> None:
    Project.objects.update(attention_checks=1, judgements_per_worker=2)
    client.post("/s/pets/join/")
    answer_everything(client, fails=0)
    other = Client()
    other.post("/s/pets/join/")
    body = {"uuid": str(uuid.uuid4()), "assignment": str(WorkerCheck.objects.get().public_id), "choice": "left"}
    assert other.post("/s/pets/judgements/", json.dumps(body), content_type="application/json").status_code == 404


def test_checks_that_came_too_late_follow_the_last_pair(project: Project, client: Client) -> None:
    """The page shows pairs ahead: someone fast answers all of them before a check arrives."""
    Project.objects.update(attention_checks=2, judgements_per_worker=3)
    client.post("/s/pets/join/")
    ahead = client.get("/s/pets/task/").json()["pairs"]
    for pair in ahead:
        body = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": "left"}
        client.post("/s/pets/judgements/", json.dumps(body), content_type="application/json")
    assert len(ahead) == Judgement.objects.count() == 3
    assert len(answer_everything(client, fails=2)) == 2
    client.post("/s/pets/finish/")
    assert Worker.objects.get().outcome == "failed_checks"
    assert client.get("/s/pets/task/").json()["pairs"] == []


def test_no_one_finishes_without_answering_the_checks(project: Project, client: Client) -> None:
    """A script can leave checks out; the page cannot."""
    Project.objects.update(attention_checks=2, judgements_per_worker=3)
    recruit(project, "", codes=CODES)
    client.post("/s/pets/join/")
    for pair in client.get("/s/pets/task/").json()["pairs"]:
        body = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": "left"}
        client.post("/s/pets/judgements/", json.dumps(body), content_type="application/json")
    assert Judgement.objects.count() == 3
    refused = client.post("/s/pets/finish/")
    assert refused.status_code == 403
    assert not [code for code in CODES.values() if code in refused.text]
    assert len(answer_everything(client, fails=0)) == 2
    assert CODES["finished"] in client.post("/s/pets/finish/", follow=True).text


def test_a_check_on_screen_is_stored_after_checks_were_turned_off(project: Project, client: Client) -> None:
    Project.objects.update(attention_checks=1, judgements_per_worker=2)
    client.post("/s/pets/join/")
    pairs = client.get("/s/pets/task/").json()["pairs"]
    for number in range(2):
        body = {"uuid": str(uuid.uuid4()), "assignment": pairs[0]["assignment"], "choice": "left"}
        if number:
            Project.objects.update(attention_checks=0)
        response = client.post("/s/pets/judgements/", json.dumps(body), content_type="application/json")
        pairs = response.json()["next"]["pairs"]
    assert response.status_code == 201
    assert WorkerCheck.objects.get().choice == "left"
    assert pairs
