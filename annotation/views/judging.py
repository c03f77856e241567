"""Workers' pages (welcome, judge, thank you) and the JSON endpoints that the judging page calls."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation import services
from annotation.exceptions import AssignmentNotFound, RequestError, StudyNotOpen
from annotation.forms.judging import JUDGEMENT_FIELDS, RETRACTION_FIELDS, InvalidField, clean_payload
from annotation.forms.questionnaire import ClosingForm, JoinForm
from annotation.http.access import get_worker, set_worker_cookie, worker_code_for_browser
from annotation.http.arrival import count_once, read_arrival, read_joining
from annotation.http.error_pages import problem_response, request_error_page, too_many_requests
from annotation.http.json_body import read_json
from annotation.http.throttling import too_many_joins, worker_is_too_fast
from annotation.models import Judgement, Project, Worker
from annotation.models.arms import Design, texts_before_consent
from annotation.models.workers import SIMULATED
from annotation.platforms import Identity, LinkInvalid
from annotation.services.pairs.counts import count_promised_judgements
from annotation.services.participation.arrival import enrol_arrived, sign_identity
from annotation.services.participation.checks import add_check, has_checks, record_check
from annotation.services.participation.outcomes import earned_completion, promises_completion
from annotation.services.participation.pilot import PilotFull, place_in_pilot
from annotation.services.participation.platform_events import apply_earlier_events
from annotation.services.participation.preparation import start_preparation
from annotation.services.tasks import build_task
from annotation.storage import queries

View = Callable[..., HttpResponse]
TRANSLATED = {code for code, _name in settings.LANGUAGES}


def in_study_language(view: View) -> View:
    """Pass the project instead of its slug, and activate the study's language if there is a translation."""

    @wraps(view)
    def wrapper(request: HttpRequest, slug: str) -> HttpResponse:
        project = queries.project_by_slug(slug)
        if project is None:
            raise Http404
        with translation.override(study_language(project)):
            return view(request, project)

    return wrapper


def study_language(project: Project) -> str:
    return project.language if project.language in TRANSLATED else settings.LANGUAGE_CODE


def workers_only(view: View) -> View:
    """Pass the worker instead of the project; throttle, and turn errors into problem+json."""

    @wraps(view)
    def wrapper(request: HttpRequest, project: Project) -> HttpResponse:
        worker = get_worker(request, project)
        if worker is None:
            title = _("Your session on this device has ended.")
            detail = _("Reload the page to continue.")
            if request.method == "POST":
                detail = _("Your answer is kept on this device. Reload the page to continue.")
            return problem_response(request, 401, title, detail, enter=project.get_judging_url())
        if worker_is_too_fast(worker):
            return too_many_requests(request, retry_seconds=1)
        if worker.preparing:
            return problem_response(request, 401, _("Please practise first."), "", enter=project.get_judging_url())
        try:
            return view(request, worker)
        except InvalidField as error:
            return invalid_field_response(request, error)
        except RequestError as refused:
            more = {"code": refused.code, **refused.extra()}
            more |= {} if refused.status == 404 else {"next": add_check(build_task(worker), worker)}
            return problem_response(request, refused.status, refused.message(), str(refused.detail), **more)

    return wrapper


@never_cache
@ensure_csrf_cookie
@require_safe
@in_study_language
def judge(request: HttpRequest, project: Project) -> HttpResponse:
    """Show the page that matches the worker's progress: welcome, the current pair, or thank you."""
    try:
        worker, identity = read_arrival(request, project)
    except LinkInvalid as error:
        return request_error_page(request, error)
    if worker and identity:
        return resume_worker(worker)
    if worker and worker.ended_at:
        return render_thanks(request, worker, build_task(worker))
    if project.state != Project.State.OPEN:
        context = participation_context(project, worker)
        context["completes"] = worker and promises_completion(worker)
        return render(request, "annotation/participation/not_open.html", context)
    if worker is None:
        arrival = sign_identity(project, identity) if identity else ""
        response = _welcome(request, project, JoinForm(project, initial={"arrival": arrival}))
        count_once(request, response, project)
        return response
    if worker.preparing:
        return redirect("annotation:prepare", project.slug)
    task = add_check(build_task(worker), worker)
    if not task["pairs"]:
        return render_thanks(request, worker, task)
    return render(request, "annotation/judging/judge.html", {**participation_context(project, worker), "task": task})


def participation_context(project: Project, worker: Worker | None) -> dict[str, Any]:
    """Template context for worker pages, including the worker's return code."""
    code = services.get_return_code(worker) if worker else ""
    design = worker.design if worker else Design(project)
    return {"project": project, "worker": worker, "design": design, "return_code": code}


def resume_worker(worker: Worker) -> HttpResponse:
    """Redirect a worker to where they left off, at an address without their platform IDs."""
    response = redirect(worker.project.get_judging_url())
    set_worker_cookie(response, worker)
    return response


def render_thanks(request: HttpRequest, worker: Worker, task: dict[str, Any]) -> HttpResponse:
    """Render the closing questions if unanswered, otherwise the thank-you page, with the completion if earned.

    Workers who judged nothing, for example because they failed the comprehension check, are not asked about the task.
    """
    is_asked = task["done"] > 0 and worker.closing_at is None and worker.outcome != Worker.Outcome.RETURNED
    if is_asked and (form := ClosingForm(worker.project)).questions:
        return render_closing(request, worker, form)
    context = {
        **participation_context(worker.project, worker),
        "task": task,
        "completion": earned_completion(worker),
        "completes": worker.ended_at is None and promises_completion(worker),
    }
    return render(request, "annotation/participation/thanks.html", context)


def render_closing(request: HttpRequest, worker: Worker, form: ClosingForm, status: int = 200) -> HttpResponse:
    """Render the questions after the last pair."""
    context = {"project": worker.project, "worker": worker, "form": form}
    return render(request, "annotation/participation/closing.html", context, status=status)


def _welcome(request: HttpRequest, project: Project, form: JoinForm, status: int = 200) -> HttpResponse:
    """Render the page before the first pair."""
    return render(request, "annotation/participation/welcome.html", welcome_context(project, form), status=status)


def welcome_context(project: Project, form: JoinForm) -> dict[str, Any]:
    """Template context for the welcome page, including the number of pairs that a worker can actually judge."""
    return {
        "project": project,
        "form": form,
        "design": Design(project),
        **texts_before_consent(project),
        "n_judgements": count_promised_judgements(project),
    }


@require_http_methods(["GET", "HEAD", "POST"])
@in_study_language
def join(request: HttpRequest, project: Project) -> HttpResponse:
    """Enrol a worker who consents; redirect known workers and GET requests to the study."""
    response = redirect(project.get_judging_url())
    is_known = get_worker(request, project) is not None and not request.POST.get("arrival")
    if request.method == "POST" and project.state == Project.State.OPEN and not is_known:
        if too_many_joins(request):
            return too_many_requests(request, retry_seconds=1)
        form = JoinForm(project, request.POST, answers_needed=not _is_simulated(request))
        try:
            identity = read_joining(request, project)
        except LinkInvalid as error:
            return request_error_page(request, error)
        if not form.is_valid():
            return _welcome(request, project, form, status=422)
        try:
            with place_in_pilot(project):
                worker = _enrol(request, project, identity, form)
        except (LinkInvalid, PilotFull) as error:
            return request_error_page(request, error)
        if identity:
            apply_earlier_events(worker)
        set_worker_cookie(response, worker)
    return response


def _is_simulated(request: HttpRequest) -> bool:
    """Whether the client declares itself a simulated worker, which can only lower its status."""
    return request.POST.get("simulated") == "yes"


def _enrol(request: HttpRequest, project: Project, identity: Identity | None, form: JoinForm) -> Worker:
    questionnaire = {"traits": form.traits(), "answers": form.answers()}
    if identity:
        worker = enrol_arrived(project=project, identity=identity, **questionnaire)
    else:
        code = (SIMULATED if _is_simulated(request) else "") + worker_code_for_browser(request, project)
        worker = services.enrol_once(project=project, code=code, **questionnaire)
    if not worker.simulated:
        start_preparation(worker)
    return worker


@never_cache
@require_safe
@in_study_language
@workers_only
def task(request: HttpRequest, worker: Worker) -> JsonResponse:
    """Return the worker's current task, for a page that was offline, hidden or in another tab."""
    if worker.project.state != Project.State.OPEN:
        raise StudyNotOpen
    return JsonResponse(add_check(build_task(worker), worker))


@require_POST
@in_study_language
@workers_only
def submit(request: HttpRequest, worker: Worker) -> JsonResponse:
    """Store one judgement and return the next pairs; the same UUID again returns the same receipt."""
    source = Judgement.Source.SIMULATED if worker.simulated else Judgement.Source.BROWSER
    answer = clean_payload(JUDGEMENT_FIELDS, read_json(request))
    check = {"worker": worker, "assignment": answer["assignment"], "choice": answer["choice"]}
    if has_checks(worker.project) and record_check(**check):
        return _check_saved(worker, answer["uuid"])
    try:
        receipt = services.record_judgement(worker=worker, source=source, **answer)
    except AssignmentNotFound:
        # A check that was on the worker's screen when the owner turned checks off.
        if record_check(**check):
            return _check_saved(worker, answer["uuid"])
        raise
    next_task = build_task(worker, done=receipt.done, last=receipt.judgement if receipt.created else None)
    body = {"saved": str(receipt.judgement.uuid), "late": receipt.judgement.late, "next": add_check(next_task, worker)}
    return JsonResponse(body, status=201 if receipt.created else 200)


def _check_saved(worker: Worker, uuid: UUID) -> JsonResponse:
    body = {"saved": str(uuid), "late": False, "next": add_check(build_task(worker), worker)}
    return JsonResponse(body, status=201)


@require_POST
@in_study_language
@workers_only
def retract(request: HttpRequest, worker: Worker) -> JsonResponse:
    """Retract one judgement; its pair is shown again."""
    values = clean_payload(RETRACTION_FIELDS, read_json(request))
    retraction = services.retract(worker=worker, **values)
    created = retraction.uuid == values["uuid"]
    body = {"retracted": str(values["judgement"]), "next": add_check(build_task(worker), worker)}
    return JsonResponse(body, status=201 if created else 200)


def invalid_field_response(request: HttpRequest, error: InvalidField) -> JsonResponse:
    """Respond with 422 and the first invalid field, or with 400 if the UUID that makes retries safe is missing."""
    status = 400 if error.missing and error.field == "uuid" else 422
    detail = f"{error.message} " + _("Nothing was saved.")
    return problem_response(request, status, _("The answer is incomplete or invalid."), detail, field=error.field)
