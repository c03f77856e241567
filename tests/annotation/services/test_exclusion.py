"""Excluding a worker is reversible, audited and refused without a reason."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from django.test import Client

from annotation import services
from annotation.models import AuditEntry, EventHead, Project, User, Worker, WorkerExclusion

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
LogIn = Callable[[User], Client]


def revision(project: Project) -> int:
    return EventHead.objects.get(project=project).inputs_revision


def test_exclusions_are_in_force_from_one_revision_to_another(project: Project, worker: Worker, owner: User) -> None:
    before = revision(project)
    services.exclude_worker(worker=worker, user=owner, reason="answers in half a second")
    during = revision(project)
    assert services.include_worker(worker=worker, user=owner)
    after = revision(project)
    excluded = [WorkerExclusion.objects.in_force(project.pk, each).worker_ids() for each in (before, during, after)]
    assert excluded == [set(), {worker.pk}, set()]
    actions = AuditEntry.objects.filter(project=project).values_list("action", "details")[:2]
    assert list(actions) == [
        ("included a worker again", {"worker": worker.code}),
        ("excluded a worker", {"worker": worker.code, "reason": "answers in half a second"}),
    ]


def test_excluding_twice_keeps_the_first_reason_and_including_twice_does_nothing(worker: Worker, owner: User) -> None:
    for reason in ("one-sided", "contradictory"):
        services.exclude_worker(worker=worker, user=owner, reason=reason)
    assert WorkerExclusion.objects.get().reason == "one-sided"
    assert services.include_worker(worker=worker, user=owner)
    assert not services.include_worker(worker=worker, user=owner)


def test_erasing_a_person_also_erases_the_reason_for_their_exclusion(worker: Worker, owner: User) -> None:
    services.exclude_worker(worker=worker, user=owner, reason="told us that she guessed")
    services.erase_worker(worker=worker, user=owner)
    assert WorkerExclusion.objects.get().reason == ""


def test_an_exclusion_needs_a_reason(project: Project, worker: Worker, owner: User, log_in: LogIn) -> None:
    client = log_in(owner)
    address = f"/projects/pets/workers/{worker.code}/exclude/"
    page = client.post(address, {"reason": " "}, follow=True).content.decode()
    assert "Give a reason. Nothing was changed." in page
    assert not WorkerExclusion.objects.exists()
    page = client.post(address, {"reason": "always left"}, follow=True).content.decode()
    assert "This worker is excluded." in page
    assert "Reason: always left" in page


def test_a_suspended_worker_gets_no_pairs_but_answers_to_pairs_they_hold_are_kept(
    project: Project, owner: User, client: Client
) -> None:
    client.post("/s/pets/join/", {"consent": "on"})
    held = client.get("/s/pets/task/").json()["pairs"]
    worker = Worker.objects.get()
    services.exclude_worker(worker=worker, user=owner, reason="too fast", suspend=True)
    answer = {"uuid": str(uuid4()), "assignment": held[0]["assignment"], "choice": "left"}
    response = client.post("/s/pets/judgements/", answer, content_type="application/json")
    assert response.status_code == 201
    assert (response.json()["next"]["pairs"], response.json()["next"]["undo"]) == ([], None)
    undo = client.post(
        "/s/pets/retractions/", {"uuid": str(uuid4()), "judgement": answer["uuid"]}, content_type="application/json"
    )
    assert (undo.status_code, undo.json()["code"]) == (409, "too_late")
    assert "There are no more pairs for you at the moment." in client.get("/s/pets/").text
    other = Client()
    other.post("/s/pets/join/", {"consent": "on"})
    assert other.get("/s/pets/task/").json()["pairs"]
    services.include_worker(worker=worker, user=owner)
    assert client.get("/s/pets/task/").json()["pairs"]


def test_an_owner_decides_whether_an_excluded_worker_goes_on(
    project: Project, worker: Worker, owner: User, log_in: LogIn
) -> None:
    client = log_in(owner)
    address = f"/projects/pets/workers/{worker.code}/"
    client.post(f"{address}suspend/", {"suspended": "yes"})
    assert not Worker.objects.get().suspended, "only an excluded worker can be suspended"
    page = client.post(f"{address}exclude/", {"reason": "too fast", "suspend": "on"}, follow=True).text
    assert "The worker gets no more pairs." in page
    page = client.post(f"{address}suspend/", {"suspended": "no"}, follow=True).text
    assert "The worker can go on judging; new answers are stored but do not count either." in page
    client.post(f"{address}suspend/", {"suspended": "yes"})
    client.post(f"{address}include/")
    assert not Worker.objects.get().suspended
    actions = AuditEntry.objects.filter(project=project).values_list("action", flat=True)[:4]
    assert [*actions] == [
        "included a worker again",
        "gave a worker pairs again",
        "gave a worker no more pairs",
        "gave a worker pairs again",
    ]
