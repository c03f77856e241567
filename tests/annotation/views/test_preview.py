"""Researchers preview the pages of a worker without storing anything, and give trial answers that never count."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from annotation.models import Assignment, EventHead, Judgement, Project, TrialAnswer, User, Worker
from annotation.models.arms import Design
from annotation.services.pairs.selection import find_sample_pairs
from tests.conftest import make_items
from tests.modelling.exports.samples import csv_rows, export_bytes

pytestmark = pytest.mark.django_db
LogIn = Callable[[User], Client]
QUESTIONS = [
    {"name": "age", "label": "Your age", "choices": ["18-29", "30+"], "required": True},
    {"name": "comment", "label": "Anything else?", "kind": "text", "when": "after"},
]


def counts() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (Worker, Assignment, Judgement, TrialAnswer))


@pytest.fixture
def client_of_owner(project: Project, owner: User, log_in: LogIn) -> Client:
    Project.objects.filter(pk=project.pk).update(questionnaire=QUESTIONS, consent="We keep answers.", state="draft")
    return log_in(owner)


def test_the_preview_shows_every_step_and_stores_nothing(client_of_owner: Client) -> None:
    client = client_of_owner
    before = counts()
    assert "We keep answers." in client.get("/projects/pets/preview/").content.decode()
    incomplete = client.post("/projects/pets/preview/", {"consent": "on"})
    assert incomplete.status_code == 422
    joined = client.post("/projects/pets/preview/", {"consent": "on", "q_age": "30+"})
    assert joined.headers["Location"] == "/projects/pets/preview/pairs/"
    page = client.get("/projects/pets/preview/pairs/")
    assert len(page.context["task"]["pairs"]) == 5
    assert 'action="/projects/pets/preview/questions/"' in page.content.decode()
    assert "Anything else?" in client.get("/projects/pets/preview/questions/").content.decode()
    sent = client.post("/projects/pets/preview/questions/", {"q_comment": "x"})
    assert sent.headers["Location"] == "/projects/pets/preview/thanks/"
    assert "Thank you." in client.get("/projects/pets/preview/thanks/").content.decode()
    assert counts() == before


def test_a_study_without_closing_questions_leads_from_the_pairs_to_the_thanks(
    client_of_owner: Client, project: Project
) -> None:
    Project.objects.filter(pk=project.pk).update(questionnaire=[])
    page = client_of_owner.get("/projects/pets/preview/pairs/").content.decode()
    assert 'action="/projects/pets/preview/thanks/"' in page
    assert "Last questions" not in page


def test_a_study_without_pairs_says_what_the_preview_needs(client_of_owner: Client, project: Project) -> None:
    project.items.update(active=False)
    for address in ("preview/pairs/", "trial/"):
        page = client_of_owner.get(f"/projects/pets/{address}").content.decode()
        assert "The preview needs at least two active items that can be paired." in page


def answer_trial(client: Client, choice: str = "left", **fields: Any) -> Any:
    task = client.get("/projects/pets/trial/task/").json()
    body = {"uuid": str(uuid.uuid4()), "assignment": task["pairs"][0]["assignment"], "choice": choice, **fields}
    return client.post("/projects/pets/trial/judgements/", body, content_type="application/json")


def test_trial_answers_are_stored_apart_and_count_nowhere(client_of_owner: Client, project: Project) -> None:
    client = client_of_owner
    head = EventHead.objects.get(project=project)
    response = answer_trial(client, response_ms=4000)
    assert response.status_code == 201
    assert answer_trial(client, "skip", skip_reason="other", response_ms=6000).json()["next"]["done"] == 2
    assert counts() == (0, 0, 0, 2)
    assert EventHead.objects.get(project=project).sequence == head.sequence
    assert client.get("/projects/pets/").context["n_judgements"] == 0
    rows = csv_rows(export_bytes(project, "trials", "csv"))
    assert [(row["user"], row["choice"], row["response_ms"]) for row in rows] == [
        ("olga", "left", "4000"),
        ("olga", "skip", "6000"),
    ]
    assert csv_rows(export_bytes(project, "judgements", "csv")) == []


def test_the_same_trial_answer_twice_is_stored_once(client_of_owner: Client) -> None:
    task = client_of_owner.get("/projects/pets/trial/task/").json()
    body = {"uuid": str(uuid.uuid4()), "assignment": task["pairs"][0]["assignment"], "choice": "left"}
    for status in (201, 200):
        response = client_of_owner.post("/projects/pets/trial/judgements/", body, content_type="application/json")
        assert response.status_code == status
    again = {**body, "uuid": str(uuid.uuid4())}
    assert client_of_owner.post("/projects/pets/trial/judgements/", again, content_type="application/json").json()
    assert TrialAnswer.objects.count() == 1


def test_a_trial_answer_can_be_undone_and_the_trial_started_again(client_of_owner: Client) -> None:
    client = client_of_owner
    answer_trial(client)
    saved = answer_trial(client, "right").json()
    body = {"uuid": str(uuid.uuid4()), "judgement": saved["saved"]}
    task = client.post("/projects/pets/trial/retractions/", body, content_type="application/json").json()["next"]
    assert (task["done"], task["undo_choice"]) == (1, "left")
    client.post("/projects/pets/trial/restart/")
    assert TrialAnswer.objects.count() == 0


def test_a_finished_trial_estimates_the_minutes_of_a_worker(client_of_owner: Client, project: Project) -> None:
    Project.objects.filter(pk=project.pk).update(judgements_per_worker=40)
    while client_of_owner.get("/projects/pets/trial/task/").json()["pairs"]:
        answer_trial(client_of_owner, response_ms=12_000)
    page = client_of_owner.get("/projects/pets/trial/").content.decode()
    assert "At this pace 40 pairs take a worker about 8 minutes." in page


@pytest.mark.parametrize("assignment", [str(uuid.UUID(int=2**127)), str(uuid.UUID(int=(1 << 64) | 1)), "x"])
def test_a_pair_that_does_not_exist_is_refused(assignment: str, client_of_owner: Client) -> None:
    body = {"uuid": str(uuid.uuid4()), "assignment": assignment, "choice": "left"}
    response = client_of_owner.post("/projects/pets/trial/judgements/", body, content_type="application/json")
    assert response.status_code in (404, 422)
    assert TrialAnswer.objects.count() == 0


def test_sample_pairs_repeat_no_text_while_there_are_enough(project: Project) -> None:
    make_items(project, [f"Birds sing {n}." for n in range(10)], "birds")
    pairs = find_sample_pairs(Design(project), 5)
    texts = [item.pk for pair in pairs for item in pair]
    assert len(pairs) == 5
    assert len(set(texts)) == len(texts)
    assert all(left.group == right.group for left, right in pairs)
