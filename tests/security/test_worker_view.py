"""What workers can see and send: their own pairs and nothing else."""

import json
import re
import uuid
from typing import Any

import pytest
from django.db.models import Model
from django.test import Client

from annotation.models import Assignment, Item, Judgement, Project, Worker
from tests.conftest import make_items
from tests.modelling.samples.two_camps import make_fitted_study

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


ANSWER_FIELDS = {"uuid", "choice", "skip_reason", "response_ms", "note", "assignment"}
SECRETS = re.compile(r"gold|expected|score|utility|rank|probability|reliability|sequence|worker|item_|platform|purpose")


def keys_of(value: Any) -> set[str]:
    """The names of all fields, at every depth."""
    if isinstance(value, dict):
        return set(value) | {key for each in value.values() for key in keys_of(each)}
    return {key for each in value for key in keys_of(each)} if isinstance(value, list) else set()


def answer_one(client: Client, **more: object) -> Any:
    pair = client.get("/s/pets/task/").json()["pairs"][0]["assignment"]
    body = {"uuid": str(uuid.uuid4()), "assignment": pair, "choice": "left", **more}
    return client.post("/s/pets/judgements/", body, content_type="application/json")


def test_responses_to_workers_have_no_field_about_others_or_the_model(project: Project, worker_client: Client) -> None:
    make_fitted_study(project)
    answered = answer_one(worker_client).json()
    retracted = worker_client.post(
        "/s/pets/retractions/",
        {"uuid": str(uuid.uuid4()), "judgement": answered["saved"]},
        content_type="application/json",
    ).json()
    for body in (worker_client.get("/s/pets/task/").json(), answered, retracted):
        assert [key for key in keys_of(body) if SECRETS.search(key)] == []


def test_a_worker_sees_no_text_but_those_of_leased_pairs(project: Project, worker_client: Client) -> None:
    make_items(project, [f"Only for others, number {number}." for number in range(60)], "others")
    for _ in range(3):
        answer_one(worker_client)
    worker = Worker.objects.get()
    leased = Assignment.objects.filter(worker=worker)
    allowed = set(leased.values_list("item_lo", flat=True)) | set(leased.values_list("item_hi", flat=True))
    paths = [
        "",
        "task/",
        "data/",
        "data/my-data.json",
        "data/my-answers.csv",
        "offline/",
        "own-view/",
        "prepare/",
        "return/",
    ]
    seen = "\n".join(worker_client.get(f"/s/pets/{path}", follow=True).text for path in paths)
    hidden = Item.objects.filter(project=project).exclude(pk__in=allowed)
    assert hidden.count() >= 40
    assert [item.text for item in hidden if item.text in seen or json.dumps(item.text)[1:-1] in seen] == []
    assert leased.filter(judgement=None).count() <= 5


@pytest.mark.parametrize("model", [Judgement, Worker, Assignment, Project])
def test_fields_that_a_form_does_not_have_change_nothing(
    model: type[Model], project: Project, worker_client: Client
) -> None:
    """Send every column of the table with the answer and with the consent."""
    answer_one(worker_client)
    worker = Worker.objects.values().get()
    projects = list(Project.objects.values())
    columns = {field.attname for field in model._meta.concrete_fields} - ANSWER_FIELDS
    assert answer_one(worker_client, **dict.fromkeys(columns, 999)).status_code in (201, 422)
    worker_client.post("/s/pets/join/", {"consent": "on", **dict.fromkeys(columns, 999)})
    assert Worker.objects.values().get() == worker
    assert list(Project.objects.values()) == projects
    assert set(Judgement.objects.values_list("worker", "source")) == {(worker["id"], "browser")}
