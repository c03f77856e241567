"""Pilot mode: the first few workers may join, and the study pauses automatically when all of them have ended."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from django.utils.translation import gettext_lazy as _

from annotation.exceptions import RequestError
from annotation.models import Project, Recruitment
from annotation.services.projects import change_project
from annotation.storage import queries


class PilotFull(RequestError):
    status = 409
    code = "pilot_full"
    title = _("This study is full at the moment.")
    detail = _("Please come back later, or return the task on the platform that sent you here.")


@contextmanager
def place_in_pilot(project: Project) -> Iterator[None]:
    """Reserve a pilot place for a worker who joins inside this block; raise PilotFull if none is left."""
    limit = Recruitment.objects.filter(project=project).values_list("pilot_workers", flat=True).first()
    if not limit:
        yield
        return
    with transaction.atomic():
        queries.lock_project(project)
        if project.workers.participants().count() >= limit:
            raise PilotFull
        yield


def has_pilot_ended(project: Project) -> bool:
    """Whether the study has a pilot whose workers have all ended, so that no one else can join."""
    limit = Recruitment.objects.filter(project=project).values_list("pilot_workers", flat=True).first()
    return limit is not None and 0 < limit <= project.workers.participants().exclude(ended_at=None).count()


def pause_after_pilot(project: Project) -> None:
    """Pause the study if all workers of the pilot have ended."""
    if project.state == Project.State.OPEN and has_pilot_ended(project):
        change_project(project=project, user=None, changes={"state": Project.State.PAUSED})
