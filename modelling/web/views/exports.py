"""The exports page, where analysts request files, and the download of files that the updater wrote."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from annotation.http.access import Role, members_only
from annotation.http.downloads import DownloadResponse
from annotation.models import Project
from annotation.views import ResearcherRequest
from modelling.dashboards.common.freshness import get_freshness
from modelling.exports.catalogue import ExportFile
from modelling.exports.listing import exports_page
from modelling.exports.points import ExportError
from modelling.exports.service import (
    ExportLimitExceeded,
    ExportRequest,
    QueuedExport,
    find_job,
    open_finished_file,
)
from modelling.models import ExportJob
from modelling.web.forms.exports import ExportForm


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.ANALYST, archived=True)
def exports(request: ResearcherRequest, project: Project) -> HttpResponseBase:
    """Show the available files and the requested ones; POST requests a file."""
    if request.method != "POST":
        return _page(request, project)
    form = ExportForm(request.POST)
    if not form.is_valid():
        return _page(request, project, form=form, status=422)
    try:
        outcome = ExportRequest(project, request.user, **form.cleaned_data).deliver()
        return _queued(request, project, outcome) if isinstance(outcome, QueuedExport) else download(outcome)
    except ExportError as error:
        return _page(request, project, error=str(error), status=422)
    except ExportLimitExceeded as error:
        response = _page(request, project, error=error.message(), status=error.status)
        response["Retry-After"] = str(error.retry_seconds)
        return response


def _queued(request: ResearcherRequest, project: Project, queued: QueuedExport) -> HttpResponse:
    if queued.created:
        messages.success(request, _("The file is being prepared. A link appears below when it is ready."))
    else:
        messages.info(request, _("This file is already being prepared."))
    return redirect("modelling:exports", project.slug)


def _page(request: HttpRequest, project: Project, status: int = 200, **facts: Any) -> HttpResponse:
    context = {"project": project, "freshness": get_freshness(project), "page": exports_page(project), **facts}
    part = request.GET.get("fragment")
    if part == "status":
        return render(request, "modelling/common/_freshness.html", context)
    template = "modelling/exports/_exports.html" if part else "modelling/exports/exports.html"
    return render(request, template, context, status=status)


def download(file: ExportFile) -> DownloadResponse:
    return DownloadResponse(file.name, file.open(), file.content_type, file.size)


@require_safe
@members_only(Role.ANALYST)
def file(request: ResearcherRequest, project: Project, number: int) -> HttpResponseBase:
    """Download a file that the updater has written and that has not expired."""
    job = find_job(project, number)
    if job is None or job.state != ExportJob.State.DONE:
        raise Http404
    try:
        return download(open_finished_file(job, request.user))
    except ExportError as error:
        raise Http404(str(error)) from None
