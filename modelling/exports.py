"""The page on which analysts ask for files, and the files themselves; the audit says who took which."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from annotation.access import Role, members_only
from annotation.models import Project
from annotation.services import audit
from annotation.views import ResearcherRequest
from modelling.dashboards.exports import exports_page
from modelling.dashboards.freshness import freshness_of
from modelling.exporting import keeping, requests
from modelling.exporting.catalogue import ARCHIVE, ZIP, content_type_of, export_at
from modelling.exporting.forms import ExportForm
from modelling.exporting.points import NoExport, point_of
from modelling.exporting.responses import Download
from modelling.models import ExportJob


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.ANALYST, archived=True)
def exports(request: ResearcherRequest, project: Project) -> HttpResponseBase:
    """What can be had, what was asked for; a small file at once, a large one from the updater."""
    if request.method != "POST":
        return _page(request, project)
    form = ExportForm(request.POST)
    if not form.is_valid():
        return _page(request, project, form=form, status=422)
    try:
        return _answer(request, project, **form.cleaned_data)
    except NoExport as refusal:
        return _page(request, project, refusal=str(refusal), status=422)
    except requests.TooManyFiles as many:
        answer = _page(request, project, refusal=many.said(), status=many.status)
        answer["Retry-After"] = str(many.retry_seconds)
        return answer


def _answer(
    request: ResearcherRequest, project: Project, *, what: str, format: str, licence: str, **named: Any
) -> HttpResponseBase:
    if what == ARCHIVE:
        return _asked(request, project, requests.ask_for_archive(project=project, user=request.user, licence=licence))
    point = point_of(project, **named)
    export = export_at(point, what, format)
    if export.rows > requests.AT_ONCE:
        asked = requests.ask(project=project, user=request.user, point=point, what=what, format=format)
        return _asked(request, project, asked)
    requests.count_small(request.user)
    told = {"version": export.version, "as_of_seq": export.as_of_seq, "format": format}
    audit(project, request.user, f"exported {what}", told)
    return Download(export.name, export.pieces(), export.content_type)


def _asked(request: ResearcherRequest, project: Project, anew: bool) -> HttpResponse:
    if anew:
        messages.success(request, _("The file is made in the background. Its link appears below when it is ready."))
    else:
        messages.info(request, _("This file is being made already."))
    return redirect("modelling:exports", project.slug)


def _page(request: HttpRequest, project: Project, status: int = 200, **facts: Any) -> HttpResponse:
    context = {"project": project, "freshness": freshness_of(project), "page": exports_page(project), **facts}
    part = request.GET.get("fragment")
    if part == "status":
        return render(request, "modelling/_freshness.html", context)
    return render(request, "modelling/_exports.html" if part else "modelling/exports.html", context, status=status)


@require_safe
@members_only(Role.ANALYST)
def file(request: ResearcherRequest, project: Project, number: int) -> HttpResponseBase:
    """A file that the updater has made, as long as it is kept."""
    done = ExportJob.objects.filter(project=project, state=ExportJob.State.DONE).exclude(pk__in=keeping.old())
    job = get_object_or_404(done, pk=number)
    try:
        content = keeping.stored(job)
    except FileNotFoundError:
        raise Http404(_("This file is gone. Ask for it again.")) from None
    audit(project, request.user, f"exported {job.what}", {"as_of_seq": job.sequence, "file": job.name})
    response = Download(job.name, content, content_type_of(job.what, job.format or ZIP))
    response["Content-Length"] = str(job.bytes)
    return response
