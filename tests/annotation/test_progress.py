"""What a researcher sees of the crowd while it works, and of the worker's page before it does."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.models import Assignment, Item, Project, User, Worker

pytestmark = pytest.mark.django_db


def test_workers_are_counted_by_what_they_do(project: Project, worker: Worker, judge: Callable) -> None:
    judge(worker)
    silent, done = services.enrol(project=project), services.enrol(project=project)
    Worker.objects.filter(pk=silent.pk).update(joined_at=timezone.now() - timedelta(hours=2))
    Worker.objects.filter(pk=done.pk).update(state="finished")
    counts = project.workers.by_activity(timezone.now())
    assert counts == {"active": 1, "finished": 1, "dropped_out": 1, "withdrawn": 0}
    later = project.workers.by_activity(timezone.now() + timedelta(hours=1))
    assert later == {"active": 0, "finished": 1, "dropped_out": 2, "withdrawn": 0}


def test_the_live_part_of_the_project_page_comes_alone(
    project: Project, worker: Worker, viewer: User, log_in: Callable[[User], Client]
) -> None:
    part = log_in(viewer).get("/projects/pets/?fragment=1").text
    assert "At work now" in part
    assert "<html" not in part


def test_a_preview_shows_a_pair_and_lends_nothing(project: Project, viewer: User, log_in: Callable) -> None:
    page = log_in(viewer).get("/projects/pets/preview/")
    assert "Cats purr." in page.text
    assert "No answer is saved" in page.text
    assert Assignment.objects.count() == Worker.objects.count() == 0


def test_a_preview_of_a_study_without_texts_says_so(project: Project, owner: User, log_in: Callable) -> None:
    Item.objects.update(active=False)
    assert log_in(owner).get("/projects/pets/preview/").status_code == 200


def test_a_preview_shows_a_pair_that_workers_could_get(project: Project, owner: User, log_in: Callable) -> None:
    Item.objects.create(project=project, key="alone", text="The only bird.", group="a bird")
    page = log_in(owner).get("/projects/pets/preview/").text
    assert "The only bird." not in page
    assert "Cats purr." in page
