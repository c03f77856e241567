"""Pilot mode: the first few workers may join, and the study pauses automatically when all of them have ended."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from annotation.exceptions import RequestError
from annotation.models import Project, Recruitment, Worker
from annotation.services.projects import change_project
from annotation.storage import queries

FINISHED = Worker.State.FINISHED


class PilotFull(RequestError):
    status = 409
    code = "pilot_full"
    title = _("This study is full at the moment.")
    detail = _("Please come back later, or return the task on the platform that sent you here.")


@contextmanager
def place_in_pilot(project: Project) -> Iterator[None]:
    """Give a pilot place to a worker who joins inside this block; if none is left, undo the block and raise PilotFull.

    The places are counted again afterwards, because the worker may have joined before, on another device.
    """
    limit = Recruitment.objects.filter(project=project).values_list("pilot_workers", flat=True).first()
    if not limit:
        yield
        return
    with transaction.atomic():
        queries.lock_project(project)
        taken = _pilot_workers(project).count()
        yield
        if _pilot_workers(project).count() > max(limit, taken):
            raise PilotFull


def _pilot_workers(project: Project) -> QuerySet[Worker]:
    """The workers who hold a place. Someone who returned the task makes room for another."""
    return project.workers.participants().exclude(outcome=Worker.Outcome.RETURNED)


def has_pilot_ended(project: Project) -> bool:
    """Whether the study has a pilot whose workers have all ended, so that no one else can join.

    Where no code is promised, no one presses Finish; there a worker has ended with the last answer.
    """
    recruitment = Recruitment.objects.filter(project=project).first()
    if recruitment is None or not recruitment.pilot_workers:
        return False
    workers = _pilot_workers(project)
    ended = workers.exclude(ended_at=None) if recruitment.promises_completion else workers.filter(state=FINISHED)
    return ended.count() >= recruitment.pilot_workers


def pause_after_pilot(project: Project) -> None:
    """Pause the study if all workers of the pilot have ended.

    Call it before changing leases: like leasing, it locks the project first, so that neither waits for the other.
    """
    if project.state == Project.State.OPEN and has_pilot_ended(project):
        change_project(project=project, user=None, changes={"state": Project.State.PAUSED})
