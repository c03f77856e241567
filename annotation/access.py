"""Who may do what: researchers by their role in a project, workers by a signed cookie. Strangers get 404."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.core.signing import BadSignature
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from annotation import statements
from annotation.errors import refuse
from annotation.models import Membership, Project, Worker
from annotation.models.workers import CODE_ALPHABET, CODE_LENGTH, worker_code
from annotation.services.deletion import Archived

Role = Membership.Role
# Each role may also do what the roles before it may.
LADDER = [Role.VIEWER, Role.ANALYST, Role.OWNER]
WORKER_COOKIE_SECONDS = 90 * 24 * 3600

SAFE = ("GET", "HEAD")

View = Callable[..., HttpResponseBase]


def may(role: str | None, needed: str) -> bool:
    return role is not None and LADDER.index(Role(role)) >= LADDER.index(Role(needed))


def members_only(needed: str = Role.VIEWER, *, archived: bool = False) -> Callable[[View], View]:
    """The view gets the project in place of its slug; non-members get 404, members of a lower role 403.

    An archived project can be looked at; to change something in it gives 409, unless the view says `archived`.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        @login_required
        def guarded(request: HttpRequest, slug: str, *args: Any, **kwargs: Any) -> HttpResponseBase:
            project = get_object_or_404(Project, slug=slug)
            role = project.role_of(request.user)
            if role is None:
                raise Http404
            if not may(role, needed):
                raise PermissionDenied
            if project.archived_at and not archived and request.method not in SAFE:
                words = str(Archived.title), _("Nothing was changed."), str(Archived.detail)
                return refuse(request, Archived.status, *words)
            request.role = role  # type: ignore[attr-defined]
            return view(request, project, *args, **kwargs)

        return guarded

    return decorate


def worker_of(request: HttpRequest, project: Project) -> Worker | None:
    """The worker whose signed cookie this browser carries for this project; nobody, once they were erased."""
    try:
        code = request.get_signed_cookie(_cookie_name(project), salt=_salt(project), max_age=WORKER_COOKIE_SECONDS)
    except (KeyError, BadSignature):
        return None
    worker = statements.worker_by_code(project, code)
    if worker is None or worker.state == Worker.State.WITHDRAWN:
        return None
    worker.project = project  # spares everyone who asks for it a query
    return worker


def code_for_newcomer(request: HttpRequest, project: Project) -> str:
    """The code of whoever joins in this browser: the same for every press of Start, told by the cookie of its token."""
    browser = request.META.get("CSRF_COOKIE")
    if browser is None:
        return worker_code()
    digest = salted_hmac(f"code of a newcomer to project {project.pk}", browser, algorithm="sha256").digest()
    return "".join(CODE_ALPHABET[byte % len(CODE_ALPHABET)] for byte in digest[:CODE_LENGTH])


def remember_worker(response: HttpResponse, worker: Worker) -> None:
    response.set_signed_cookie(
        _cookie_name(worker.project),
        worker.code,
        salt=_salt(worker.project),
        max_age=WORKER_COOKIE_SECONDS,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )


def _cookie_name(project: Project) -> str:
    return f"concord_worker_{project.pk}"


def _salt(project: Project) -> str:
    return f"worker of project {project.pk}"
