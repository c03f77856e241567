"""Identify who opens a study's link: by the platform IDs in the query string, or by this browser's cookie."""

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from annotation.http.access import WORKER_COOKIE_SECONDS, get_worker
from annotation.http.cookies import read_cookie, set_cookie
from annotation.http.public_address import build_absolute_url
from annotation.http.throttling import too_many_personal_links
from annotation.models import Project, Worker
from annotation.platforms import Identity, LinkInvalid, get_platform
from annotation.platforms.base import PlaceholderUnreplaced
from annotation.platforms.signed_links import LinkNotSigned
from annotation.services.participation.arrival import (
    count_arrival,
    find_arrived,
    get_recruitment,
    read_token,
    warn_about_placeholders,
    warn_about_signature,
)
from annotation.services.participation.platform_events import apply_earlier_events


class TooManyLinks(LinkInvalid):
    status = 429
    title = _("Too many links were opened from this network.")
    detail = _("Please wait 15 minutes and open your link again.")


def read_arrival(request: HttpRequest, project: Project) -> tuple[Worker | None, Identity | None]:
    """The worker this request comes from, if known, and the identity in its query string.

    Raise LinkInvalid for a broken link, and for a visitor without a link when the project recruits on a platform.
    """
    recruitment = get_recruitment(project)
    platform, known = get_platform(recruitment), get_worker(request, project)
    if platform is None:
        return known, None
    if known and not platform.is_linked(request.GET):
        return known, None
    if platform.secret_links and too_many_personal_links(request):
        raise TooManyLinks
    try:
        identity = platform.read_identity(request.GET, request.get_host())
    except PlaceholderUnreplaced:
        warn_about_placeholders(recruitment)
        raise
    except LinkNotSigned:
        warn_about_signature(recruitment)
        raise
    worker = find_arrived(project, identity)
    if worker:
        apply_earlier_events(worker)
    return worker, identity


def count_once(request: HttpRequest, response: HttpResponse, project: Project) -> None:
    """Count the arrival of this browser, unless it was counted before. The cookie says nothing about the person."""
    name, salt = f"concord_arrived_{project.pk}", f"arrival at project {project.pk}"
    if not read_cookie(request, name, salt=salt, max_age=WORKER_COOKIE_SECONDS):
        count_arrival(project)
        set_cookie(response, name, "yes", salt=salt, max_age=WORKER_COOKIE_SECONDS)


def read_joining(request: HttpRequest, project: Project) -> Identity | None:
    """The identity of a joining worker; None if the project uses no recruiting platform."""
    if get_platform(get_recruitment(project)) is None:
        return None
    return read_token(project, request.POST.get("arrival", ""))


def study_link(request: HttpRequest, project: Project) -> str:
    """The link through which workers arrive: the study's address, or the one to paste into the platform."""
    address = build_absolute_url(request, project.get_judging_url())
    platform = get_platform(get_recruitment(project))
    return platform.study_link(address) if platform else address
