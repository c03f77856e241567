"""A worker's pages as seen by researchers: a preview that stores nothing, and trial answers that never count."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import translation
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation.exceptions import RequestError
from annotation.forms.judging import JUDGEMENT_FIELDS, RETRACTION_FIELDS, InvalidField, clean_payload
from annotation.forms.questionnaire import ClosingForm, JoinForm
from annotation.http.access import Role, members_only
from annotation.http.error_pages import problem_response
from annotation.http.json_body import read_json
from annotation.models import Project
from annotation.models.arms import Design, list_designs
from annotation.services import trials
from annotation.services.pairs.counts import count_promised_judgements
from annotation.services.pairs.selection import find_sample_pairs
from annotation.services.tasks import empty_task, pair_payload
from annotation.views import ResearcherRequest
from annotation.views.judging import invalid_field_response, study_language, welcome_context

SAMPLE_PAIRS = 5
SAMPLE_WORKER = {"code": "abcdefghjk", "stopped": False}
SAMPLE_RETURN_CODE = "abcde-fghjk-mnpqr-stuvw"
STEPS = ("preview", "preview_pairs", "preview_closing", "preview_thanks")

View = Callable[..., HttpResponse]


@dataclass(frozen=True)
class Preview:
    """Template data for worker pages in a preview: the steps, and the links of the judging page."""

    steps: list[tuple[str, str, bool]]  # label, address, whether it is the current one
    next: str = ""
    store: str = ""  # key under which the browser stores the answers
    arms: list[tuple[str, str, bool]] = field(default_factory=list)  # like the steps
    trial: trials.TrialSummary | None = None


def in_study_language(view: View) -> View:
    """Render the page in the language that workers see."""

    @wraps(view)
    def wrapper(request: ResearcherRequest, project: Project) -> HttpResponse:
        with translation.override(study_language(project)):
            return view(request, project)

    return wrapper


def _read_design(request: ResearcherRequest, project: Project) -> Design:
    """The design to preview: the arm named in the query string, otherwise the first arm, or none without arms."""
    arms = {arm.name: arm for arm in project.arms.all()}
    return Design(project, arms.get(request.GET.get("arm", ""), next(iter(arms.values()), None)))


def _preview(design: Design, step: str) -> Preview:
    project = design.project
    labels = [_("Welcome"), _("Pairs"), _("Last questions"), _("Thank you")]
    shown = [(label, view) for label, view in zip(labels, STEPS, strict=True) if _has_step(project, view)]
    views = [view for _label, view in shown]
    steps = [(label, _address(design, view), view == step) for label, view in shown]
    following = views[min(views.index(step) + 1, len(views) - 1)]
    arms = [
        (other.arm.name, _address(other, step), other.arm == design.arm) for other in list_designs(project) if other.arm
    ]
    return Preview(steps, _address(design, following), f"concord_preview-{project.slug}-0", arms)


def _address(design: Design, view: str) -> str:
    """The URL of a preview page for the same arm."""
    address = reverse(f"annotation:{view}", args=[design.project.slug])
    return f"{address}?{urlencode({'arm': design.arm.name})}" if design.arm else address


def _has_step(project: Project, view: str) -> bool:
    return view != "preview_closing" or bool(ClosingForm(project).questions)


def _render(
    request: ResearcherRequest, page: str, preview: Preview, *, status: int = 200, **context: Any
) -> HttpResponse:
    sample = {"worker": SAMPLE_WORKER, "return_code": SAMPLE_RETURN_CODE}
    context = {**sample, "preview": preview, **context}
    return render(request, f"annotation/{page}.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.VIEWER)
@in_study_language
def welcome(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Show the page before the first pair. Answers are checked as for workers, but not stored."""
    preview = _preview(_read_design(request, project), "preview")
    form = JoinForm(project, request.POST if request.method == "POST" else None)
    if form.is_valid():
        return redirect(preview.next)
    status = 422 if form.is_bound else 200
    return _render(request, "participation/welcome", preview, **welcome_context(project, form), status=status)


@require_safe
@members_only(Role.VIEWER)
@in_study_language
def pairs(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Show a few pairs that can be answered and undone; nothing is sent to the server."""
    design = _read_design(request, project)
    preview = _preview(design, "preview_pairs")
    sample = find_sample_pairs(design, SAMPLE_PAIRS)
    if not sample:
        return _render(request, "participation/not_open", preview, project=project, worker=None)
    shown = [pair_payload(number, left, right, project) for number, (left, right) in enumerate(sample)]
    task = {**empty_task(project), "pairs": shown, "total": len(shown)}
    return _render(request, "judging/judge", preview, project=project, design=design, task=task)


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.VIEWER)
@in_study_language
def closing(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Show the questions after the last pair, if there are any."""
    form = ClosingForm(project, request.POST if request.method == "POST" else None)
    if not form.questions or "skip" in request.POST or form.is_valid():
        return redirect("annotation:preview_thanks", project.slug)
    preview = _preview(_read_design(request, project), "preview_closing")
    return _render(
        request, "participation/closing", preview, project=project, form=form, status=422 if form.is_bound else 200
    )


@require_safe
@members_only(Role.VIEWER)
@in_study_language
def thanks(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Show the thank-you page as a worker who has finished sees it."""
    total = count_promised_judgements(project)
    task = {"done": total, "total": total, "finished": True}
    preview = _preview(_read_design(request, project), "preview_thanks")
    return _render(request, "participation/thanks", preview, project=project, task=task)


# Trial answers -------------------------------------------------------------------------------------------------------


@never_cache
@require_safe
@members_only(Role.ANALYST)
@in_study_language
def trial(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Judge a few pairs on the page that workers use; the answers are stored as trials, which never count."""
    task = trials.build_task(project, request.user)
    address = reverse("annotation:trial", args=[project.slug])
    steps = [(_("Trial"), address, True)]
    preview = Preview(
        steps, address, f"concord_trial-{project.slug}-{request.user.pk}", trial=trials.summarise(project, request.user)
    )
    if task["pairs"]:
        return _render(request, "judging/judge", preview, project=project, design=Design(project), task=task)
    if not task["done"]:
        return _render(request, "participation/not_open", preview, project=project, worker=None)
    return _render(request, "participation/thanks", preview, project=project, task=task)


def json_for_members(view: View) -> Callable[..., HttpResponseBase]:
    """Pass the project to an endpoint of the judging page; errors become problem+json."""

    @require_http_methods(["GET", "HEAD", "POST"])
    @members_only(Role.ANALYST)
    @wraps(view)
    def wrapper(request: ResearcherRequest, project: Project) -> HttpResponse:
        with translation.override(study_language(project)):
            try:
                return view(request, project)
            except InvalidField as error:
                return invalid_field_response(request, error)
            except RequestError as refused:
                return problem_response(request, refused.status, refused.message(), str(refused.detail))

    return wrapper


@never_cache
@json_for_members
def trial_task(request: ResearcherRequest, project: Project) -> JsonResponse:
    return JsonResponse(trials.build_task(project, request.user))


@require_POST
@json_for_members
def trial_submit(request: ResearcherRequest, project: Project) -> JsonResponse:
    """Store one trial answer; the same UUID again changes nothing."""
    answer = clean_payload(JUDGEMENT_FIELDS, read_json(request))
    created = trials.record_trial(project=project, user=request.user, **answer)
    body = {"saved": str(answer["uuid"]), "late": False, "next": trials.build_task(project, request.user)}
    return JsonResponse(body, status=201 if created else 200)


@require_POST
@json_for_members
def trial_retract(request: ResearcherRequest, project: Project) -> JsonResponse:
    """Delete one trial answer; its pair is shown again."""
    values = clean_payload(RETRACTION_FIELDS, read_json(request))
    trials.delete_trial(project=project, user=request.user, uuid=values["judgement"])
    return JsonResponse({"retracted": str(values["judgement"]), "next": trials.build_task(project, request.user)})


@require_POST
@members_only(Role.ANALYST)
def trial_restart(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Delete the user's trial answers and start again."""
    trials.delete_trials(project=project, user=request.user)
    return redirect("annotation:trial", project.slug)
