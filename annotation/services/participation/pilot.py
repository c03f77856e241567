"""Pilot mode: the first few workers may join, and the study pauses by itself when they have ended."""

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
    title = _("There is no free place in this study at the moment.")
    detail = _("Please come back later, or return the task on the platform that sent you here.")


@contextmanager
def place_in_pilot(project: Project) -> Iterator[None]:
    """Let a worker join inside this block; raise PilotFull if the pilot has no place left."""
    limit = Recruitment.objects.filter(project=project).values_list("pilot_workers", flat=True).first()
    if not limit:
        yield
        return
    with transaction.atomic():
        queries.lock_project(project)
        if project.workers.participants().count() >= limit:
            raise PilotFull
        yield


def pause_after_pilot(project: Project) -> None:
    """Pause the study when every worker of the pilot has ended."""
    limit = Recruitment.objects.filter(project=project).values_list("pilot_workers", flat=True).first()
    ended = project.workers.participants().exclude(ended_at=None)
    if limit and project.state == Project.State.OPEN and ended.count() >= limit:
        change_project(project=project, user=None, changes={"state": Project.State.PAUSED})
