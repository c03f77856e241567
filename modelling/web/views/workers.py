"""The workers page, the worker page, and what a worker sees about their own judgements."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from annotation.forms.workers import ExclusionForm
from annotation.http.arm_filter import ArmFilter
from annotation.models import Worker
from annotation.services.participation.checks import get_result
from annotation.views.judging import in_study_language, workers_only
from modelling.dashboards.common.freshness import Freshness
from modelling.dashboards.common.query import get_worker_or_404
from modelling.dashboards.workers.assessment import load_assessment
from modelling.dashboards.workers.exclusion import exclusion_status
from modelling.dashboards.workers.listing import WorkersQuery, workers_page
from modelling.dashboards.workers.own_view import own_view as build_own_view
from modelling.dashboards.workers.worker import WorkerQuery, worker_page
from modelling.training.storage.array_store import DamagedArrays
from modelling.training.versions import shown_snapshot
from modelling.web.views.dashboard import Context, dashboard


@dashboard("workers/workers.html")
def workers(request: HttpRequest, freshness: Freshness) -> Context:
    arms = ArmFilter.parse(freshness.project, request.GET)
    return {"page": workers_page(freshness.project, freshness.snapshot, WorkersQuery.parse(request.GET), arms)}


@dashboard("workers/worker.html")
def worker(request: HttpRequest, freshness: Freshness, code: str) -> Context:
    found, shown = get_worker_or_404(freshness.project, code), freshness.snapshot
    page = worker_page(shown, found, WorkerQuery.parse(request.GET)) if shown else None
    facts = {"exclusion": exclusion_status(found), "checks": get_result(found), "form": ExclusionForm()}
    assessment = load_assessment(found, shown) if shown else None
    return {"worker": found, "page": page, "assessment": assessment, **facts}


@never_cache
@require_safe
@in_study_language
@workers_only
def own_view(request: HttpRequest, worker: Worker) -> HttpResponse:
    """Return a fragment for a worker who has finished; 202 while there is nothing to show."""
    if not worker.project.own_view_shown:
        raise Http404
    shown = shown_snapshot(worker.project)
    try:
        view = build_own_view(shown, worker) if shown and worker.state == Worker.State.FINISHED else None
    except DamagedArrays:
        view = None
    if view is None:
        return HttpResponse(status=202)
    return render(request, "modelling/workers/_own_view.html", {"project": worker.project, "view": view})
