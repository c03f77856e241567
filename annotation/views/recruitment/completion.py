"""Workers' pages at the end: decline, finish, and the thank-you page with the completion code."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from annotation.forms.questionnaire import ClosingForm
from annotation.http.access import get_worker
from annotation.http.arrival import read_joining
from annotation.http.error_pages import request_error_page
from annotation.models import Project, Worker
from annotation.platforms import LinkInvalid
from annotation.services.participation.arrival import find_arrived
from annotation.services.participation.outcomes import NotFinished, get_completion, store_closing_answers
from annotation.services.participation.outcomes import finish as finish_participation
from annotation.services.tasks import build_task
from annotation.views.judging import in_study_language, render_closing, render_thanks, resume_worker


@require_http_methods(["GET", "HEAD", "POST"])
@in_study_language
def decline(request: HttpRequest, project: Project) -> HttpResponse:
    """Show the page for someone who does not consent. Nothing is stored.

    Someone who has joined on another device or in another tab continues there.
    """
    is_known = get_worker(request, project) is not None and not request.POST.get("arrival")
    if request.method != "POST" or is_known:
        return redirect(project.get_judging_url())
    try:
        identity = read_joining(request, project)
    except LinkInvalid as error:
        return request_error_page(request, error)
    if identity and (worker := find_arrived(project, identity)):
        return resume_worker(worker)
    completion = get_completion(project, Worker.Outcome.DECLINED, identity)
    return render(request, "annotation/participation/declined.html", {"project": project, "completion": completion})


@require_http_methods(["GET", "HEAD", "POST"])
@in_study_language
def answer_closing(request: HttpRequest, project: Project) -> HttpResponse:
    """Store the answers to the closing questions, or that the worker skipped them; the thank-you page follows."""
    worker = get_worker(request, project)
    if request.method == "POST" and worker:
        form = ClosingForm(project, request.POST)
        skipped = "skip" in request.POST and form.may_be_skipped
        if not skipped and not form.is_valid():
            return render_closing(request, worker, form, status=422)
        store_closing_answers(worker=worker, answers={} if skipped else form.answers())
    return redirect(project.get_judging_url())


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@in_study_language
def finish(request: HttpRequest, project: Project) -> HttpResponse:
    """POST ends the participation; GET shows the completion, or 403 before the participation has ended."""
    worker = get_worker(request, project)
    if worker is None:
        return redirect(project.get_judging_url())
    try:
        if request.method == "POST":
            task = build_task(worker)
            finish_participation(worker=worker, has_pairs=bool(task["pairs"]))
            return redirect("annotation:finish", project.slug)
        if worker.ended_at is None:
            raise NotFinished
    except NotFinished as error:
        return request_error_page(request, error)
    return render_thanks(request, worker, build_task(worker))
