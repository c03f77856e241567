"""Before opening: a quota that cannot be met and a missing consent text are named, and workers get the true number."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from django.test import Client

from annotation.models import Project, User, Worker
from annotation.services import change_project
from annotation.services.items import add_item
from annotation.services.pairs.counts import possible_judgements

pytestmark = pytest.mark.django_db

TOO_MANY = "The items form 9 pairs, so a worker can make at most 9 judgements, not 40. Workers are told 9."
NO_CONSENT = "The consent text is empty, so workers are not asked to agree to anything."


def change(project: Project, **fields: object) -> None:
    Project.objects.filter(pk=project.pk).update(**fields)


@pytest.mark.parametrize(
    ("quota", "repeats", "expected"), [(5, 0, 5), (40, 0, 20), (40, 50, 30), (25, 50, 25), (40, 9, 21)]
)
def test_a_worker_judges_each_pair_once_and_planned_repeats(quota: int, repeats: int, expected: int) -> None:
    assert possible_judgements(Project(judgements_per_worker=quota, repeat_share=repeats), 20) == expected


def test_the_overview_names_a_quota_that_cannot_be_met(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    assert TOO_MANY in client.get("/projects/pets/").text
    change(project, judgements_per_worker=9)
    assert "so a worker can make at most" not in client.get("/projects/pets/").text


def test_all_items_form_pairs_if_groups_may_be_mixed(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    change(project, pairs="any")
    assert "The items form 21 pairs" in log_in(owner).get("/projects/pets/").text


def test_the_overview_names_a_missing_consent_text(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    change(project, consent=" ")
    assert NO_CONSENT in client.get("/projects/pets/").text
    change(project, consent="We store your answers.")
    assert NO_CONSENT not in client.get("/projects/pets/").text


def test_workers_are_told_how_many_pairs_they_can_judge(project: Project, client: Client) -> None:
    assert "9 pairs of short texts." in client.get("/s/pets/").text


def test_without_a_consent_text_workers_tick_nothing(project: Project, client: Client) -> None:
    change(project, consent="")
    assert 'name="consent"' not in client.get("/s/pets/").text
    assert client.post("/s/pets/join/").status_code == 302
    assert Worker.objects.filter(project=project).count() == 1


def test_with_a_consent_text_the_tick_is_required(project: Project, client: Client) -> None:
    change(project, consent="We store your answers.")
    assert 'name="consent"' in client.get("/s/pets/").text
    assert client.post("/s/pets/join/").status_code == 422
    assert not Worker.objects.filter(project=project).exists()


def test_a_worker_has_finished_with_the_last_pair_and_continues_when_there_are_more(
    project: Project, worker_client: Client, owner: User
) -> None:
    task = worker_client.get("/s/pets/task/").json()
    assert (task["done"], task["total"]) == (0, 9)
    while task["pairs"]:
        answer = {"uuid": str(uuid4()), "assignment": task["pairs"][0]["assignment"], "choice": "left"}
        task = worker_client.post("/s/pets/judgements/", answer, content_type="application/json").json()["next"]
    assert (task["done"], task["finished"]) == (9, True)
    assert Worker.objects.get().state == "finished"
    add_item(project=project, user=owner, key="cats-9", text="Cats climb.", group="cats")
    task = worker_client.get("/s/pets/task/").json()
    assert (task["done"], task["total"], task["finished"]) == (9, 13, False)
    assert task["pairs"]
    change_project(project=project, user=owner, changes={"judgements_per_worker": 12})
    assert worker_client.get("/s/pets/task/").json()["total"] == 12


def test_a_worker_who_finished_the_studys_number_stays_finished(project: Project, worker: Worker, owner: User) -> None:
    change_project(project=project, user=owner, changes={"judgements_per_worker": 3})
    Worker.objects.update(state="finished")
    add_item(project=project, user=owner, key="cats-9", text="Cats climb.", group="cats")
    assert (Worker.objects.get().state, Worker.objects.get().quota) == ("finished", None)
