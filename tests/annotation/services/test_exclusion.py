"""Excluding a worker is reversible, audited and refused without a reason."""

from collections.abc import Callable

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
