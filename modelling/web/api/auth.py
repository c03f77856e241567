"""Authentication by bearer token and access checks by scope, project and role. Cookies are ignored."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from ninja.security import HttpBearer

from annotation.exceptions import RequestError
from annotation.http.access import SAFE_METHODS, Role, has_role
from annotation.http.throttling import too_many_api_calls, worker_is_too_fast
from annotation.models import Project, User, Worker
from annotation.services.deletion import ProjectArchived
from modelling.models import ApiToken
from modelling.web.api.tokens import find_token


class RateLimited(RequestError):
    status = 429
    code = "too_fast"
    title = _("Too many requests in a short time.")
    detail = _("Nothing was changed. Wait for the time in Retry-After, then repeat the request.")


class ApiRequest(HttpRequest):
    """A request authenticated by `Bearer`."""

    auth: ApiToken
    user: User


class Bearer(HttpBearer):
    """Accept a valid token with this scope in the Authorization header. The OpenAPI document shows the class name."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        found = find_token(token)
        if found is None:
            return None
        if too_many_api_calls(found.pk):
            raise RateLimited
        if self.scope == ApiToken.Scope.WRITE and found.scope != ApiToken.Scope.WRITE:
            raise PermissionDenied(_("This token is read-only."))
        ApiToken.objects.filter(pk=found.pk).mark_used(timezone.now())
        request.user = found.user
        return found


read_access, write_access = Bearer(ApiToken.Scope.READ), Bearer(ApiToken.Scope.WRITE)


def accessible_projects(request: ApiRequest) -> Any:
    """Return the projects that the token gives access to."""
    projects = Project.objects.visible_to(request.user)
    return projects.filter(pk=request.auth.project_id) if request.auth.project_id else projects


def get_project(request: ApiRequest, slug: str, needed: str = Role.VIEWER, *, archived: bool = False) -> Project:
    """Return the project if the token's user has at least this role; 404 for non-members, 403 for lower roles.

    An archived project is read-only, as on the pages, unless `archived` allows the operation.
    """
    project = accessible_projects(request).filter(slug=slug).first()
    role = project.role_of(request.user) if project else None
    if project is None or role is None:
        raise Http404(_("There is no such project, or this token gives no access to it."))
    if not has_role(role, needed):
        raise PermissionDenied(_("Your role in this project does not allow this."))
    if project.archived_at and not archived and request.method not in SAFE_METHODS:
        raise ProjectArchived
    return project


def get_worker(project: Project, code: str, field: str | None = None) -> Worker:
    """Return the worker with this code; NotFound also for withdrawn and erased workers."""
    worker = Worker.objects.filter(project=project, code=code).exclude(state=Worker.State.WITHDRAWN).first()
    if worker is None:
        raise NotFound(_("There is no worker with this code in the project."), field)
    worker.project = project
    return worker


def check_worker_rate(worker: Worker) -> Worker:
    """Return the worker; RateLimited if more requests are sent for them than a person could make."""
    if worker_is_too_fast(worker):
        raise RateLimited
    return worker


class NotFound(RequestError):
    """Something named in the body or query string does not exist."""

    status = 404
    code = "not_found"
    detail = _("Nothing was changed. Check the name and the project it belongs to.")

    def __init__(self, title: Any, field: str | None = None) -> None:
        super().__init__(str(title))
        self.title, self.field = title, field
