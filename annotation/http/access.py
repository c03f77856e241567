"""Access control: researchers by their role in a project, workers by a signed cookie. Everyone else gets 404."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from annotation.http.cookies import delete_cookie, read_cookie, set_cookie
from annotation.http.error_pages import error_response
from annotation.models import Membership, Project, Worker
from annotation.models.workers import spell_code, worker_code
from annotation.services.deletion import ProjectArchived
from annotation.storage import queries

Role = Membership.Role
# Each role includes the rights of the roles before it.
ROLE_ORDER = [Role.VIEWER, Role.ANALYST, Role.OWNER]
WORKER_COOKIE_SECONDS = 90 * 24 * 3600
SAFE_METHODS = ("GET", "HEAD")

View = Callable[..., HttpResponseBase]


def has_role(role: str | None, needed: str) -> bool:
    return role is not None and ROLE_ORDER.index(Role(role)) >= ROLE_ORDER.index(Role(needed))


def members_only(needed: str = Role.VIEWER, *, archived: bool = False) -> Callable[[View], View]:
    """Pass the project to the view instead of its slug. Non-members get 404, members with a lower role 403.

    An archived project can be read; changing it gives 409, unless the view sets `archived`.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        @login_required
        def guarded(request: HttpRequest, slug: str, *args: Any, **kwargs: Any) -> HttpResponseBase:
            project = get_object_or_404(Project, slug=slug)
            role = project.role_of(request.user)
            if role is None:
                raise Http404
            if not has_role(role, needed):
                raise PermissionDenied
            if project.archived_at and not archived and request.method not in SAFE_METHODS:
                texts = str(ProjectArchived.title), _("Nothing was changed."), str(ProjectArchived.detail)
                return error_response(request, ProjectArchived.status, *texts)
            request.role = role  # type: ignore[attr-defined]
            return view(request, project, *args, **kwargs)

        return guarded

    return decorate


def get_worker(request: HttpRequest, project: Project) -> Worker | None:
    """The worker named by this browser's signed cookie for the project; None without one or after an erasure."""
    worker = find_cookie_worker(request, project)
    return None if worker is None or worker.state == Worker.State.WITHDRAWN else worker


def find_cookie_worker(request: HttpRequest, project: Project) -> Worker | None:
    """The worker named by this browser's signed cookie, who may have been erased."""
    code = read_cookie(request, _cookie_name(project), salt=_salt(project), max_age=WORKER_COOKIE_SECONDS)
    if not code:
        return None
    worker = queries.worker_by_code(project, code)
    if worker is not None:
        worker.project = project  # saves a query
    return worker


def worker_code_for_browser(request: HttpRequest, project: Project) -> str:
    """A new worker's code, derived from the browser's CSRF cookie so that pressing Start twice creates one worker."""
    browser = request.META.get("CSRF_COOKIE")
    if browser is None:
        return worker_code()
    digest = salted_hmac(f"code of a newcomer to project {project.pk}", browser, algorithm="sha256").digest()
    return spell_code(digest)


def set_worker_cookie(response: HttpResponse, worker: Worker) -> None:
    project = worker.project
    set_cookie(response, _cookie_name(project), worker.code, salt=_salt(project), max_age=WORKER_COOKIE_SECONDS)


def delete_worker_cookie(response: HttpResponse, project: Project) -> None:
    delete_cookie(response, _cookie_name(project))


def _cookie_name(project: Project) -> str:
    return f"concord_worker_{project.pk}"


def _salt(project: Project) -> str:
    return f"worker of project {project.pk}"
