"""Exclude a worker from the model, include them again, suspend them, or erase them."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from annotation.forms.workers import ExclusionForm
from annotation.http.access import Role, members_only
from annotation.models import Project, Worker
from annotation.services import erase_worker, exclude_worker, include_worker, suspend_worker
from annotation.views import ResearcherRequest


@require_POST
@members_only(Role.OWNER)
def exclude(request: ResearcherRequest, project: Project, code: str) -> HttpResponse:
    """Leave a worker's judgements out of later versions, for the reason given."""
    worker = get_object_or_404(Worker, project=project, code=code)
    form = ExclusionForm(request.POST)
    if form.is_valid():
        exclude_worker(worker=worker, user=request.user, **form.cleaned_data)
        messages.success(request, _("The worker is excluded from the next version on. Nothing was deleted."))
    else:
        messages.error(request, str(form.errors["reason"][0]))
    return redirect("modelling:worker", project.slug, worker.code)


@require_POST
@members_only(Role.OWNER)
def include(request: ResearcherRequest, project: Project, code: str) -> HttpResponse:
    """Let an excluded worker's judgements count again."""
    worker = get_object_or_404(Worker, project=project, code=code)
    if include_worker(worker=worker, user=request.user):
        messages.success(request, _("The worker's judgements count again from the next version on."))
    return redirect("modelling:worker", project.slug, worker.code)


@require_POST
@members_only(Role.OWNER)
def suspend(request: ResearcherRequest, project: Project, code: str) -> HttpResponse:
    """Stop giving an excluded worker pairs, or let them judge again."""
    worker = get_object_or_404(Worker, project=project, code=code)
    suspend_worker(worker=worker, user=request.user, suspended=request.POST.get("suspended") == "yes")
    messages.success(request, _("Saved."))
    return redirect("modelling:worker", project.slug, worker.code)


@require_POST
@members_only(Role.OWNER, archived=True)
def erase(request: ResearcherRequest, project: Project, code: str) -> HttpResponse:
    """Erase a worker's personal data and, optionally, remove their judgements."""
    worker = get_object_or_404(Worker, project=project, code=code)
    erase_worker(worker=worker, user=request.user, remove_judgements="remove_judgements" in request.POST)
    messages.success(
        request, _("The worker was erased. Judgements that you did not remove are kept under a random code.")
    )
    return redirect(project)
