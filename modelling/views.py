"""Researchers' pages about what the model found. Each reads the shown snapshot once and shows only that one."""

import re
from collections.abc import Callable
from functools import wraps
from hashlib import sha256
from typing import Any, cast

from csp.constants import UNSAFE_INLINE
from csp.decorators import csp_update
from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.forms import CharField
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.cache import get_conditional_response
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation.access import SAFE, Role, View, may, members_only
from annotation.models import Item, Project, Worker
from annotation.services import audit
from annotation.views import ResearcherRequest
from annotation.views.judging import in_the_language_of_the_study, workers_only
from modelling import exporting
from modelling.arrays import Damaged
from modelling.dashboards.activity import activity_page
from modelling.dashboards.addresses import page_number, worker_at
from modelling.dashboards.components import components_page
from modelling.dashboards.freshness import Freshness, freshness_of
from modelling.dashboards.item import item_page
from modelling.dashboards.new_argument import new_argument_page
from modelling.dashboards.own_view import own_view as view_of
from modelling.dashboards.pairs import pairs_page
from modelling.dashboards.ranking import Asked, ranking_page
from modelling.dashboards.worker import AskedOfWorker, worker_page
from modelling.dashboards.workers import AskedOfWorkers, workers_page
from modelling.exporting import responses
from modelling.models import ComponentName
from modelling.numbering import name_component, numbers_of
from modelling.questions import NewArgumentForm, PairsForm
from modelling.versions import shown_snapshot

Facts = dict[str, Any]

FORM_KEY = re.compile(rb'name="csrfmiddlewaretoken" value="[^"]*"')

# plotly writes style rules of its own, and saves a picture by way of a blob.
draws_pictures: Any = csp_update({"style-src": [UNSAFE_INLINE], "img-src": ["blob:"]})


def dashboard(template: str, *, methods: tuple[str, ...] = SAFE) -> Callable[[Callable[..., Facts]], View]:
    """A page about the shown version: whole, or only what has changed when the script asks for it after an update.

    `?fragment=status` is what stands above every page: how fresh it is. Any other fragment is the page's live part.
    Whatever the method, nothing is written: an archived project can be asked, too.
    """

    def decorate(facts: Callable[..., Facts]) -> View:
        @wraps(facts)
        @require_http_methods(methods)
        @members_only(Role.VIEWER, archived=True)
        @draws_pictures
        def view(request: ResearcherRequest, project: Project, **kwargs: Any) -> HttpResponse:
            if "csv" in request.GET and not may(request.role, Role.ANALYST):
                raise PermissionDenied
            freshness = freshness_of(project)
            name, context = _part(request, freshness, template, facts, kwargs)
            if "csv" in request.GET:
                return _table_of_picture(request, context, freshness)
            response = render(request, name, context)
            response["Cache-Control"] = "private, no-cache"
            return _unless_known(request, response)

        return view

    return decorate


def _table_of_picture(request: ResearcherRequest, facts: Facts, freshness: Freshness) -> HttpResponse:
    """The numbers of one of the page's pictures, as a file that names the version; the audit says who took it."""
    name = request.GET["csv"]
    pictures = [(fact, picture) for fact in facts.values() for picture in getattr(fact, "pictures", [])]
    for fact, picture in pictures:
        if picture.name == name and picture.table:
            version = getattr(fact, "revision", freshness.revision)
            told = {"picture": name, "version": version, "page": request.path}
            audit(freshness.project, request.user, "exported the numbers of a picture", told)
            file = f"{freshness.project.slug}-{name}-v{version}"
            return responses.csv_response(responses.table_csv(file, picture.table.columns, picture.table.rows))
    raise Http404(_("There is no such table."))


def _part(
    request: HttpRequest, freshness: Freshness, template: str, facts: Callable[..., Facts], where: Facts
) -> tuple[str, Facts]:
    """The template of the part that was asked for, and the facts it needs."""
    context = {"project": freshness.project, "freshness": freshness}
    if request.GET.get("fragment") == "status":
        return "modelling/_freshness.html", context
    name = f"modelling/_{template}" if "fragment" in request.GET else f"modelling/{template}"
    try:
        return name, {**context, **facts(request, freshness, **where)}
    except Damaged:
        return ("modelling/_no_arrays.html" if "fragment" in request.GET else "modelling/no_arrays.html"), context


def _unless_known(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """The answer, or 304 for a fragment that says what the browser has already: names, states and rights included.

    Only fragments are conditional: a whole page also carries who is logged in, and a question by POST its text. The key
    of a form is another in every answer, so its secret stands for it, which a new log-in changes.
    """
    if "fragment" not in request.GET or request.method not in SAFE:
        return response
    secret = request.META.get("CSRF_COOKIE", "").encode()
    etag = f'"{sha256(secret + FORM_KEY.sub(b"", response.content)).hexdigest()}"'
    response["ETag"] = etag
    return cast(HttpResponse, get_conditional_response(request, etag=etag, response=response))


@dashboard("ranking.html")
def ranking(request: HttpRequest, freshness: Freshness) -> Facts:
    if freshness.snapshot is None:
        return {"ranking": None}
    return {"ranking": ranking_page(freshness.snapshot, Asked.of(request.GET))}


@dashboard("workers.html")
def workers(request: HttpRequest, freshness: Freshness) -> Facts:
    return {"page": workers_page(freshness.project, freshness.snapshot, AskedOfWorkers.of(request.GET))}


@dashboard("worker.html")
def worker(request: HttpRequest, freshness: Freshness, code: str) -> Facts:
    found, shown = worker_at(freshness.project, code), freshness.snapshot
    return {"worker": found, "page": worker_page(shown, found, AskedOfWorker.of(request.GET)) if shown else None}


@dashboard("item.html")
def item(request: HttpRequest, freshness: Freshness, pk: int) -> Facts:
    found, shown = get_object_or_404(Item, project=freshness.project, pk=pk), freshness.snapshot
    found.project = freshness.project
    page = item_page(shown, found, page_number(request.GET)) if shown else None
    return {"item": found, "revisions": list(freshness.project.items.of_key(found.key)), "page": page}


@dashboard("components.html")
def components(request: HttpRequest, freshness: Freshness) -> Facts:
    return {"page": components_page(freshness.snapshot) if freshness.snapshot else None}


@dashboard("activity.html")
def activity(request: HttpRequest, freshness: Freshness) -> Facts:
    return {"page": activity_page(freshness)}


@dashboard("new_argument.html", methods=(*SAFE, "POST"))
def new_argument(request: HttpRequest, freshness: Freshness) -> Facts:
    """The text comes by POST: an address takes only so much, and stays in the logs of every proxy on the way.

    A short text may stand in the address all the same: above the answer it is the link to it.
    """
    asked = request.POST if request.method == "POST" else request.GET
    form = NewArgumentForm(freshness.project, asked if asked is request.POST or "text" in asked else None)
    page, unreadable = None, False
    if freshness.snapshot and form.is_valid():
        try:
            page = new_argument_page(freshness.snapshot, **form.cleaned_data)
        except Damaged:
            unreadable = True  # said beside the box: its text stays
    return {"form": form, "page": page, "link": form.link if page else "", "unreadable": unreadable}


@dashboard("pairs.html")
def pairs(request: HttpRequest, freshness: Freshness) -> Facts:
    form = PairsForm(freshness.project, request.GET)
    page = None
    if freshness.snapshot and form.is_valid():
        asked = form.cleaned_data
        page = pairs_page(freshness.snapshot, asked["items"], asked["group"], asked["worker"])
    return {"form": form, "page": page}


@require_safe
@draws_pictures
def public_ranking(request: HttpRequest, slug: str) -> HttpResponse:
    """The consensus ranking for everybody, where the owner has opened it; no worker appears in it."""
    project = get_object_or_404(Project, slug=slug, ranking_public=True)
    freshness = freshness_of(project)
    shown = freshness.snapshot
    ranking = ranking_page(shown, Asked.of(request.GET), linked=False) if shown else None
    context = {"project": project, "ranking": ranking, "freshness": freshness}
    return render(request, "modelling/public_ranking.html", context)


@require_POST
@members_only(Role.ANALYST)
def component_name(request: ResearcherRequest, project: Project, number: int) -> HttpResponse:
    """The component is called so from now on; an empty name takes the old one away."""
    snapshot = shown_snapshot(project)
    try:
        if snapshot is None or number not in numbers_of(snapshot).numbers:
            raise Http404
        name = CharField(required=False, max_length=ComponentName.LONGEST).clean(request.POST.get("name", ""))
    except ValidationError as refused:
        messages.error(request, refused.messages[0])
    except Damaged:
        messages.error(request, _("What lies behind this version cannot be read just now. Nothing was changed."))
    else:
        name_component(project=project, user=request.user, number=number, name=name)
        messages.success(request, _("Saved."))
    return redirect("modelling:components", project.slug)


@never_cache
@require_safe
@in_the_language_of_the_study
@workers_only
def own_view(request: HttpRequest, worker: Worker) -> HttpResponse:
    """A fragment for a worker who has finished, about themselves: 202 while there is too little to say."""
    shown = shown_snapshot(worker.project)
    try:
        view = view_of(shown, worker) if shown and worker.state == Worker.State.FINISHED else None
    except Damaged:
        view = None
    if view is None:
        return HttpResponse(status=202)
    return render(request, "modelling/_own_view.html", {"project": worker.project, "view": view})


@require_safe
@members_only(Role.ANALYST)
def ranking_csv(request: ResearcherRequest, project: Project) -> HttpResponseBase:
    """The shown ranking as a file that names its version."""
    try:
        table = exporting.table(project, "ranking")
    except exporting.NoExport as refusal:
        raise Http404(str(refusal)) from None
    audit(project, request.user, "exported the ranking", {"version": table.version})
    return responses.download(project, table, "csv")
