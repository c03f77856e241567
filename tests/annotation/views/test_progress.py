"""Progress counts on the overview page, and the preview of the judging page."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.models import Assignment, Item, Project, User, Worker

pytestmark = pytest.mark.django_db


def test_workers_are_counted_by_activity(project: Project, worker: Worker, judge: Callable) -> None:
    judge(worker)
    inactive, finished = services.enrol(project=project), services.enrol(project=project)
    Worker.objects.filter(pk=inactive.pk).update(joined_at=timezone.now() - timedelta(hours=2))
    Worker.objects.filter(pk=finished.pk).update(state="finished")
    counts = project.workers.activity_counts(timezone.now())
    assert counts == {"active": 1, "finished": 1, "dropped_out": 1, "withdrawn": 0}
    later = project.workers.activity_counts(timezone.now() + timedelta(hours=1))
    assert later == {"active": 0, "finished": 1, "dropped_out": 2, "withdrawn": 0}


def test_the_live_fragment_contains_only_the_counts(
    project: Project, worker: Worker, viewer: User, log_in: Callable[[User], Client]
) -> None:
    fragment = log_in(viewer).get("/projects/pets/?fragment=1").text
    assert "Active now" in fragment
    assert "<html" not in fragment


def test_a_trial_shows_a_pair_without_leasing_it(project: Project, owner: User, log_in: Callable) -> None:
    page = log_in(owner).get("/projects/pets/trial/")
    assert "Cats" in page.text
    assert Assignment.objects.count() == Worker.objects.count() == 0


def test_a_preview_without_active_items_is_a_page(project: Project, owner: User, log_in: Callable) -> None:
    Item.objects.update(active=False)
    assert log_in(owner).get("/projects/pets/preview/").status_code == 200


def test_a_trial_shows_only_possible_pairs(project: Project, owner: User, log_in: Callable) -> None:
    Item.objects.create(project=project, key="alone", text="The only bird.", group="a bird")
    page = log_in(owner).get("/projects/pets/trial/").text
    assert "The only bird." not in page
    assert "Cats" in page or "Dogs" in page
