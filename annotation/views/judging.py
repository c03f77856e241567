"""The crowd's pages: welcome, judge, thank you. `submit` stores one judgement and answers with the next pairs."""

from collections.abc import Callable
from functools import wraps
from random import SystemRandom
from typing import Any

from django.conf import settings
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation import services, statements
from annotation.access import Role, code_for_newcomer, members_only, remember_worker, worker_of
from annotation.errors import problem, too_many
from annotation.forms.joining import JoinForm
from annotation.forms.judging import JUDGEMENT, RETRACTION, WrongField, checked
from annotation.models import Assignment, Item, Judgement, Project, Worker
from annotation.models.workers import SIMULATED
from annotation.payloads import read_json
from annotation.refusals import NotOpen, Refused
from annotation.throttling import too_fast, too_many_join

rng = SystemRandom()
View = Callable[..., HttpResponse]
TRANSLATED = {code for code, _name in settings.LANGUAGES}


def in_the_language_of_the_study(view: View) -> View:
    """The view gets the project in place of its slug, and speaks its language where that is translated."""

    @wraps(view)
    def speaking(request: HttpRequest, slug: str) -> HttpResponse:
        project = statements.project_by_slug(slug)
        if project is None:
            raise Http404
        with translation.override(language_of(project)):
            return view(request, project)

    return speaking


def language_of(project: Project) -> str:
    return project.language if project.language in TRANSLATED else settings.LANGUAGE_CODE


def workers_only(view: View) -> View:
    """The view gets the worker in place of the project; refusals become problem+json, floods are slowed down."""

    @wraps(view)
    def known(request: HttpRequest, project: Project) -> HttpResponse:
        worker = worker_of(request, project)
        if worker is None:
            title = _("We no longer know this browser.")
            detail = _("Your answer is kept on this device. Reload the page to go on.")
            return problem(request, 401, title, detail, enter=project.get_judging_url())
        if too_fast(worker):
            return too_many(request, retry_seconds=1)
        try:
            return view(request, worker)
        except WrongField as wrong:
            return invalid(request, wrong)
        except Refused as refused:
            more = {"code": refused.code, **refused.facts()}
            more |= {} if refused.status == 404 else {"next": task_for(worker)}
            return problem(request, refused.status, refused.said(), str(refused.detail), **more)

    return known


@never_cache
@ensure_csrf_cookie
@require_safe
@in_the_language_of_the_study
def judge(request: HttpRequest, project: Project) -> HttpResponse:
    """The page this worker should be on now: welcome, the open pair, or thank you."""
    worker = worker_of(request, project)
    if project.state != Project.State.OPEN:
        return render(request, "annotation/not_open.html", {"project": project, "worker": worker})
    if worker is None:
        return render(request, "annotation/welcome.html", {"project": project, "form": JoinForm(project)})
    task = task_for(worker)
    page = "annotation/judge.html" if task["pairs"] else "annotation/thanks.html"
    return render(request, page, {"project": project, "worker": worker, "task": task})


@require_safe
@members_only(Role.VIEWER)
def preview(request: HttpRequest, project: Project) -> HttpResponse:
    """Exactly what a worker sees, for researchers; nothing is lent and nothing can be saved."""
    items = sample_pair(project)
    if not items:
        return render(request, "annotation/not_open.html", {"project": project, "preview": True})
    sides = {side: side_of(item, project) for side, item in zip(("left", "right"), items, strict=True)}
    task = {"pairs": [{"assignment": "", **sides}], "done": 0, "total": project.judgements_per_worker}
    with translation.override(language_of(project)):
        context = {"project": project, "task": {**task, "undo": None, "finished": False}, "preview": True}
        return render(request, "annotation/judge.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@in_the_language_of_the_study
def join(request: HttpRequest, project: Project) -> HttpResponse:
    """A new worker who has consented; a known one, or somebody who came here by the address, goes to the study."""
    response = redirect(project.get_judging_url())
    if request.method == "POST" and project.state == Project.State.OPEN and worker_of(request, project) is None:
        if too_many_join(request):
            return too_many(request, retry_seconds=1)
        form = JoinForm(project, request.POST)
        if not form.is_valid():
            return render(request, "annotation/welcome.html", {"project": project, "form": form}, status=422)
        simulated = SIMULATED if request.POST.get("simulated") == "yes" else ""  # to be trusted less, never more
        code = simulated + code_for_newcomer(request, project)
        remember_worker(response, services.enrol_once(project=project, traits=form.traits(), code=code))
    return response


@never_cache
@require_safe
@in_the_language_of_the_study
@workers_only
def task(request: HttpRequest, worker: Worker) -> JsonResponse:
    """Where this worker stands: for a page that was away, offline or in another tab."""
    if worker.project.state != Project.State.OPEN:
        raise NotOpen
    return JsonResponse(task_for(worker))


@require_POST
@in_the_language_of_the_study
@workers_only
def submit(request: HttpRequest, worker: Worker) -> JsonResponse:
    """One judgement stored, the next pairs answered. The same UUID twice: the same receipt."""
    source = Judgement.Source.SIMULATED if worker.simulated else Judgement.Source.BROWSER
    receipt = services.record_judgement(worker=worker, source=source, **checked(JUDGEMENT, read_json(request)))
    next_task = task_for(worker, done=receipt.done, last=receipt.judgement if receipt.created else None)
    body = {"saved": str(receipt.judgement.uuid), "late": receipt.judgement.late, "next": next_task}
    return JsonResponse(body, status=201 if receipt.created else 200)


@require_POST
@in_the_language_of_the_study
@workers_only
def retract(request: HttpRequest, worker: Worker) -> JsonResponse:
    """One judgement taken back; its pair comes first again."""
    asked = checked(RETRACTION, read_json(request))
    retraction = services.retract(worker=worker, **asked)
    created = retraction.uuid == asked["uuid"]
    body = {"retracted": str(asked["judgement"]), "next": task_for(worker)}
    return JsonResponse(body, status=201 if created else 200)


def sample_pair(project: Project) -> list[Item]:
    """The first two items that may meet, or nothing."""
    items = Item.objects.filter(project=project, active=True)
    if project.pairs == Project.Pairs.WITHIN_GROUP:
        pairable = items.values("group").annotate(n=Count("pk")).filter(n__gte=2).order_by("group")
        items = items.filter(group__in=pairable.values("group")[:1])
    pair = list(items.order_by("pk")[:2])
    return pair if len(pair) == 2 else []


def invalid(request: HttpRequest, wrong: WrongField) -> JsonResponse:
    """422 naming the first field that is wrong; 400 where the id that makes a retry safe is missing."""
    status = 400 if wrong.missing and wrong.field == "uuid" else 422
    words = f"{wrong.words} " + _("Nothing was saved.")
    return problem(request, status, _("The answer was not complete."), words, field=wrong.field)


def task_for(worker: Worker, done: int | None = None, last: Judgement | None = None) -> dict[str, Any]:
    """What the page needs to go on: the next pairs, how far the worker is, and what can be taken back.

    A request that has just stored an answer knows the last two; others ask the database.
    """
    done = statements.count_standing(worker) if done is None else done
    last = last or Judgement.objects.standing().filter(worker=worker).order_by("-sequence").first()
    finished = worker.state == Worker.State.FINISHED
    leases = services.lease_pairs(worker=worker, rng=rng, done=done)
    return {
        "pairs": [shown(lease, worker.project) for lease in leases],
        "done": done,
        "total": worker.project.judgements_per_worker,
        "undo": str(last.uuid) if last and not finished else None,
        "finished": finished,
    }


def shown(lease: Assignment, project: Project) -> dict[str, Any]:
    """A pair as a worker sees it."""
    sides = {"left": side_of(lease.left, project), "right": side_of(lease.right, project)}
    return {"assignment": str(lease.public_id), **sides}


def side_of(item: Item, project: Project) -> dict[str, str]:
    """An item as a worker sees it: no key, no score, nothing about others."""
    return {"text": item.text, "group": item.group if project.group_shown else ""}
