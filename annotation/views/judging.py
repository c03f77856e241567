"""The crowd's pages: welcome, judge, thank you. `submit` stores one judgement and answers with the next pair."""

from random import SystemRandom
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe

from annotation import services
from annotation.access import remember_worker, worker_of
from annotation.errors import problem
from annotation.forms.joining import JoinForm
from annotation.forms.judging import JudgementForm
from annotation.models import Assignment, Project, Worker
from annotation.payloads import read_json
from annotation.refusals import Refused

rng = SystemRandom()


@never_cache
@ensure_csrf_cookie
@require_safe
def judge(request: HttpRequest, slug: str) -> HttpResponse:
    """The page this worker should be on now: welcome, the open pair, or thank you."""
    project = get_object_or_404(Project, slug=slug)
    worker = worker_of(request, project)
    if project.state != Project.State.OPEN:
        return render(request, "annotation/not_open.html", {"project": project, "worker": worker})
    if worker is None:
        return render(request, "annotation/welcome.html", {"project": project, "form": JoinForm(project)})
    task = task_for(worker)
    page = "annotation/judge.html" if task["pair"] else "annotation/thanks.html"
    return render(request, page, {"project": project, "worker": worker, "task": task})


@require_POST
def join(request: HttpRequest, slug: str) -> HttpResponse:
    """A new worker who has consented; a known one goes on where they were."""
    project = get_object_or_404(Project, slug=slug, state=Project.State.OPEN)
    response = redirect(project.get_judging_url())
    if worker_of(request, project) is None:
        form = JoinForm(project, request.POST)
        if not form.is_valid():
            return render(request, "annotation/welcome.html", {"project": project, "form": form}, status=422)
        remember_worker(response, services.enrol(project=project, traits=form.traits()))
    return response


@require_POST
def submit(request: HttpRequest, slug: str) -> JsonResponse:
    """One judgement stored, the next pair answered. The same UUID twice: the same receipt."""
    project = get_object_or_404(Project, slug=slug)
    worker = worker_of(request, project)
    if worker is None:
        title = _("We no longer know this browser.")
        return problem(request, 401, title, _("Your answer is kept on this device. Reload the page to go on."))
    try:
        payload = read_json(request)
        form = JudgementForm(payload)
        if not form.is_valid():
            return invalid(request, form, payload)
        receipt = services.record_judgement(worker=worker, **form.cleaned_data)
    except Refused as refused:
        extra = {} if refused.status == 404 else {"next": task_for(worker)}
        return problem(request, refused.status, str(refused.title), str(refused.detail), **extra)
    worker.refresh_from_db()
    body = {"saved": str(receipt.judgement.uuid), "late": receipt.judgement.late, "next": task_for(worker)}
    return JsonResponse(body, status=201 if receipt.created else 200)


def invalid(request: HttpRequest, form: JudgementForm, payload: dict[str, Any]) -> JsonResponse:
    """422 naming the first field that is wrong; 400 where the id that makes a retry safe is missing."""
    field, errors = next(iter(form.errors.items()))
    status = 400 if field == "uuid" and not payload.get("uuid") else 422
    return problem(request, status, _("The answer was not complete."), f"{errors[0]} " + _("Nothing was saved."), field=field)


def task_for(worker: Worker) -> dict[str, Any]:
    """What the page needs to go on: the next pair, if any, and how far the worker is."""
    assignment = services.assign(worker=worker, rng=rng)
    done = worker.judgements.filter(retraction=None).count()
    return {"pair": assignment and shown(assignment), "done": done, "total": worker.project.judgements_per_worker}


def shown(assignment: Assignment) -> dict[str, Any]:
    """A pair as a worker sees it: no keys, no scores, nothing about others."""
    return {
        "assignment": str(assignment.public_id),
        "left": {"text": assignment.left.text, "group": assignment.left.group},
        "right": {"text": assignment.right.text, "group": assignment.right.group},
    }
