"""Who asks, and what they may: a bearer token with its scope and project, and the role of its person. No cookies."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from ninja.security import HttpBearer

from annotation.access import SAFE, Role, may
from annotation.models import Project, User, Worker
from annotation.refusals import Refused
from annotation.services.deletion import Archived
from annotation.throttling import too_fast, too_many_calls
from modelling.models import ApiToken
from modelling.tokens import find_token


class TooFast(Refused):
    status = 429
    code = "too_fast"
    title = _("That was too fast for us.")
    detail = _("Nothing was done. Wait as long as Retry-After says, then send the same again.")


class ApiRequest(HttpRequest):
    """A request that has passed `Bearer`."""

    auth: ApiToken
    user: User


class Bearer(HttpBearer):
    """The token in the Authorization header. What it may not do, its person may not do by it."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        known = find_token(token)
        if known is None:
            return None
        if too_many_calls(known.pk):
            raise TooFast
        if self.scope == ApiToken.Scope.WRITE and known.scope != ApiToken.Scope.WRITE:
            raise PermissionDenied(_("This token may only read."))
        ApiToken.objects.filter(pk=known.pk).mark_used(timezone.now())
        request.user = known.user
        return known


reads, writes = Bearer(ApiToken.Scope.READ), Bearer(ApiToken.Scope.WRITE)


def projects_of(request: ApiRequest) -> Any:
    """The projects that this token opens."""
    projects = Project.objects.seen_by(request.user)
    return projects.filter(pk=request.auth.project_id) if request.auth.project_id else projects


def project_for(request: ApiRequest, slug: str, needed: str = Role.VIEWER, *, archived: bool = False) -> Project:
    """The project, if the token opens it and its person has this role; 404 for strangers, 403 for lower roles.

    As on the pages, an archived one can only be read, unless the operation says `archived`.
    """
    project = projects_of(request).filter(slug=slug).first()
    role = project.role_of(request.user) if project else None
    if project is None or role is None:
        raise Http404(_("There is no such project, or this token does not open it."))
    if not may(role, needed):
        raise PermissionDenied(_("Your role in this project does not allow this."))
    if project.archived_at and not archived and request.method not in SAFE:
        raise Archived
    return project


def worker_for(project: Project, code: str, field: str | None = None) -> Worker:
    """The worker with this code in this project; a person who was erased is not found any more."""
    worker = Worker.objects.filter(project=project, code=code).exclude(state=Worker.State.WITHDRAWN).first()
    if worker is None:
        raise Missing(_("There is no worker with this code in the project."), field)
    worker.project = project
    return worker


def at_their_pace(worker: Worker) -> Worker:
    """The worker, unless more is sent in their name than a person can answer."""
    if too_fast(worker):
        raise TooFast
    return worker


class Missing(Refused):
    """Something that was named in a body or a question is not there."""

    status = 404
    code = "not_found"

    def __init__(self, title: Any, field: str | None = None) -> None:
        super().__init__(str(title))
        self.title, self.field = title, field

    detail = _("Nothing was changed. Check the name, and the project it belongs to.")
