"""The preparation: its settings for owners, and practice and the comprehension check for workers."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from annotation.forms.preparation import ComprehensionForm, GoldForm, PracticeForm, PreparationForm
from annotation.http.access import Role, get_worker, members_only
from annotation.models import Preparation, Project, Worker
from annotation.services.participation.passport import get_passport
from annotation.services.participation.preparation import (
    answer_comprehension,
    change_gold,
    change_preparation,
    complete_instructions,
    complete_practice,
    get_preparation,
    next_practice,
)
from annotation.views import ResearcherRequest
from annotation.views.judging import in_study_language


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def edit(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Show and change the practice pairs and the comprehension check."""
    form = PreparationForm(get_preparation(project), request.POST if request.method == "POST" else None)
    if form.is_valid():
        change_preparation(project=project, user=request.user, **form.cleaned_data)
        messages.success(request, _("Saved."))
        return redirect("annotation:preparation", project.slug)
    context = {"project": project, "form": form}
    return render(request, "annotation/recruitment/preparation.html", context, status=422 if form.is_bound else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def edit_gold(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Show and change the gold pairs and their rule."""
    form = GoldForm(project, get_preparation(project), request.POST if request.method == "POST" else None)
    if form.is_valid():
        change_gold(project=project, user=request.user, **form.cleaned_data)
        messages.success(request, _("Saved."))
        return redirect("annotation:gold", project.slug)
    context = {"project": project, "form": form, "frozen_at": get_passport(project).frozen_at}
    return render(request, "annotation/recruitment/gold.html", context, status=422 if form.is_bound else 200)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@in_study_language
def prepare(request: HttpRequest, project: Project) -> HttpResponse:
    """Show the worker's next step of the preparation, or the first pair after the last step."""
    worker = get_worker(request, project)
    if worker is None or not worker.preparing or worker.ended_at:
        return redirect(project.get_judging_url())
    if worker.design.has_own_texts and not worker.instructed:
        return _instructions(request, worker)
    preparation = get_preparation(project)
    pair = next_practice(worker, preparation)
    if pair is None:
        return _comprehension(request, worker, preparation)
    return _practice(request, worker, preparation, pair)


def _instructions(request: HttpRequest, worker: Worker) -> HttpResponse:
    """Show the question and instructions of the worker's arm, which no one may see before they have consented."""
    if request.method == "POST":
        complete_instructions(worker=worker)
        return redirect(worker.project.get_judging_url())
    context = {"project": worker.project, "design": worker.design}
    return render(request, "annotation/judging/instructions.html", context)


def _practice(request: HttpRequest, worker: Worker, preparation: Preparation, pair: dict[str, Any]) -> HttpResponse:
    """Show the practice pair, or the feedback after an answer."""
    form = PracticeForm(request.POST if request.method == "POST" else None)
    choice = ""
    if form.is_valid() and form.cleaned_data["number"] == worker.practised:
        choice = form.cleaned_data["choice"]
        if not choice:  # the worker has read the feedback
            complete_practice(worker=worker, number=worker.practised, preparation=preparation)
            return redirect("annotation:prepare", worker.project.slug)
    context = {
        "project": worker.project,
        "design": worker.design,
        "pair": pair,
        "number": worker.practised,
        "total": len(preparation.practice),
        "choice": choice,
        "expected": choice == pair["answer"],
    }
    return render(request, "annotation/judging/practice.html", context)


def _comprehension(request: HttpRequest, worker: Worker, preparation: Preparation) -> HttpResponse:
    form = ComprehensionForm(preparation, request.POST if request.method == "POST" else None)
    if form.is_valid():
        attempt, answers = form.cleaned_data["attempt"], form.answers()
        answer_comprehension(worker=worker, attempt=attempt, answers=answers, preparation=preparation)
        worker.refresh_from_db()
        if not worker.preparing or worker.ended_at:
            return redirect(worker.project.get_judging_url())
    if not form.errors:
        form = ComprehensionForm(preparation, initial={"attempt": worker.comprehension_attempts})
    context = {
        "project": worker.project,
        "design": worker.design,
        "form": form,
        "failed": worker.comprehension_attempts > 0,
    }
    return render(request, "annotation/judging/comprehension.html", context, status=422 if form.is_bound else 200)
