"""Researchers' pages about the model. Each reads the current snapshot once and shows only that one."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from csp.constants import UNSAFE_INLINE
from csp.decorators import csp_update
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.forms import CharField
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.cache import get_conditional_response
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from annotation.access import Role, members_only
from annotation.models import Project, Worker
from annotation.services import audit
from annotation.views import ResearcherRequest
from modelling import exports
from modelling.dashboards.components import COLUMNS as COMPONENT_COLUMNS
from modelling.dashboards.components import component_rows, components_page
from modelling.dashboards.freshness import Freshness, freshness_of
from modelling.dashboards.ranking import Asked, ranking_page
from modelling.dashboards.workers import worker_list, worker_page
from modelling.models import ComponentName, ModelSnapshot
from modelling.numbering import name_component, numbers_of
from modelling.snapshots import current_snapshot

Facts = dict[str, Any]

# plotly writes style rules of its own, and saves a picture by way of a blob.
draws_pictures: Any = csp_update({"style-src": [UNSAFE_INLINE], "img-src": ["blob:"]})


def dashboard(template: str) -> Callable[[Callable[..., Facts]], Callable[..., HttpResponse]]:
    """A page about the current version: whole, or only its live part when the script asks for it after an update."""

    def decorate(facts: Callable[..., Facts]) -> Callable[..., HttpResponse]:
        @wraps(facts)
        @require_safe
        @members_only(Role.VIEWER)
        @draws_pictures
        def view(request: HttpRequest, project: Project, **kwargs: Any) -> HttpResponse:
            freshness = freshness_of(project)
            if unchanged := get_conditional_response(request, etag=_etag(request, freshness)):
                return unchanged
            context = {"project": project, "freshness": freshness, **facts(request, freshness, **kwargs)}
            name = f"modelling/_{template}" if "fragment" in request.GET else f"modelling/{template}"
            response = render(request, name, context)
            if etag := _etag(request, freshness):
                response["ETag"] = etag
            response["Cache-Control"] = "private, no-cache"
            return response

        return view

    return decorate


def _etag(request: HttpRequest, freshness: Freshness) -> str | None:
    """Only fragments are conditional: a whole page also carries who is logged in."""
    return freshness.etag if "fragment" in request.GET else None


@dashboard("ranking.html")
def ranking(request: HttpRequest, freshness: Freshness) -> Facts:
    if freshness.snapshot is None:
        return {"ranking": None}
    return {"ranking": ranking_page(freshness.snapshot, Asked.of(request.GET))}


@dashboard("workers.html")
def workers(request: HttpRequest, freshness: Freshness) -> Facts:
    return {"workers": worker_list(freshness.project)}


@dashboard("worker.html")
def worker(request: HttpRequest, freshness: Freshness, code: str) -> Facts:
    found = get_object_or_404(Worker, project=freshness.project, code=code)
    return {"worker": found, "page": worker_page(freshness.snapshot, found) if freshness.snapshot else None}


@dashboard("components.html")
def components(request: HttpRequest, freshness: Freshness) -> Facts:
    return {"page": components_page(freshness.snapshot) if freshness.snapshot else None}


@require_POST
@members_only(Role.ANALYST)
def component_name(request: ResearcherRequest, project: Project, number: int) -> HttpResponse:
    """The component is called so from now on; an empty name takes the old one away."""
    snapshot = current_snapshot(project)
    if snapshot is None or number not in numbers_of(snapshot).numbers:
        raise Http404
    try:
        name = CharField(required=False, max_length=ComponentName.LONGEST).clean(request.POST.get("name", ""))
    except ValidationError as refused:
        messages.error(request, refused.messages[0])
    else:
        name_component(project=project, user=request.user, number=number, name=name)
        messages.success(request, _("Saved."))
    return redirect("modelling:components", project.slug)


@require_safe
@members_only(Role.ANALYST)
def components_csv(request: ResearcherRequest, project: Project) -> HttpResponse:
    """All components as a file that names its version."""
    snapshot = version_to_export(request, project, "the components")
    return exports.csv_response(exports.table_csv(snapshot, "components", COMPONENT_COLUMNS, component_rows(snapshot)))


def version_to_export(request: ResearcherRequest, project: Project, what: str) -> ModelSnapshot:
    """The shown version; 404 where there is none. The audit says who took what of it."""
    snapshot = current_snapshot(project)
    if snapshot is None:
        raise Http404(_("There is no version of the model yet."))
    audit(project, request.user, f"exported {what}", {"version": snapshot.number})
    return snapshot


@require_safe
@members_only(Role.ANALYST)
def ranking_csv(request: ResearcherRequest, project: Project) -> HttpResponse:
    """The current ranking as a file that names its version."""
    snapshot = current_snapshot(project)
    if snapshot is None:
        raise Http404(_("There is no ranking yet."))
    audit(project, request.user, "exported the ranking", {"version": snapshot.number})
    return exports.csv_response(exports.ranking_csv(snapshot))
