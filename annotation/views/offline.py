"""The script of a study's service worker, and the page that it shows without a connection."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from annotation.http.access import get_worker
from annotation.models import Project, Worker
from annotation.services.tasks import empty_task
from annotation.views.judging import in_study_language


@never_cache
@require_safe
@in_study_language
def offline_page(request: HttpRequest, project: Project) -> HttpResponse:
    """The judging page without pairs and codes, which the service worker shows when the server cannot be reached.

    The script takes the pairs from the browser's storage. Workers who have nothing to judge get 404, which makes the
    service worker forget the page.
    """
    worker = get_worker(request, project)
    if worker is None or worker.state != Worker.State.ACTIVE or project.state != Project.State.OPEN:
        raise Http404
    context = {"project": project, "worker": worker, "design": worker.design, "task": empty_task(project)}
    context["offline"] = True
    return render(request, "annotation/judging/judge.html", context)


@require_safe
@in_study_language
def service_worker(request: HttpRequest, project: Project) -> HttpResponse:
    """The service worker's script. Its URL must be in the same folder as the study's pages, which is its scope."""
    response = render(request, "annotation/judging/service-worker.js", content_type="text/javascript; charset=utf-8")
    response["Cache-Control"] = "no-cache"
    return response
