"""Projects: list, create, overview, settings and state."""

from copy import copy
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import IntegrityError
from django.db.models import Count, Max, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation import services
from annotation.forms.projects import NEXT_STATES, ProjectForm, StateForm
from annotation.http.access import Role, members_only
from annotation.http.arrival import study_link
from annotation.models import Item, Judgement, JudgementImport, Project
from annotation.services.pairs.counts import count_possible_pairs, possible_judgements
from annotation.services.participation.arrival import get_recruitment
from annotation.services.participation.funnel import RECRUITMENT, SETTINGS
from annotation.services.participation.payment import summarise_payment
from annotation.services.participation.pilot import has_pilot_ended
from annotation.templatetags.worker_texts import render_text
from annotation.views import ResearcherRequest
from annotation.views.projects.history import recent_changes

MAX_PREVIEW = 10_000  # characters, the maximum length of a text
State = Project.State


@login_required
@require_safe
def listing(request: ResearcherRequest) -> HttpResponse:
    """List the projects that the user may see, with item and judgement counts."""
    seen = Project.objects.visible_to(request.user)
    archived = "archived" in request.GET
    shown = seen.exclude(archived_at=None) if archived else seen.not_archived()
    projects = shown.annotate(
        n_items=_count(Item.objects.filter(active=True)),
        n_judgements=_count(Judgement.objects.answers()),
    )
    n_archived = seen.exclude(archived_at=None).count()
    context = {"projects": projects, "archived": archived, "n_archived": n_archived}
    return render(request, "annotation/projects/list.html", context)


def _count(rows: QuerySet[Any]) -> Coalesce:
    """Count a project's rows in a subquery; two joins would inflate both counts."""
    counts = rows.filter(project=OuterRef("pk")).order_by().values("project").annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counts), 0)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def create(request: ResearcherRequest) -> HttpResponse:
    """Create a draft with the user as owner."""
    form = ProjectForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            return redirect(services.create_project(owner=request.user, **form.cleaned_data))
        except IntegrityError:
            form.add_error("slug", _("Another study already uses this short name. Choose another."))
    return render(request, "annotation/projects/new.html", {"form": form}, status=422 if form.is_bound else 200)


@require_safe
@members_only(Role.VIEWER)
def show(request: ResearcherRequest, project: Project) -> HttpResponse:
    return _project_page(request, project, StateForm(project))


@require_safe
@members_only(Role.VIEWER)
def worker_link(request: ResearcherRequest, project: Project) -> HttpResponse:
    context = {"project": project, "address": study_link(request, project), "recruitment": get_recruitment(project)}
    return render(request, "annotation/projects/worker_link.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def edit(request: ResearcherRequest, project: Project) -> HttpResponse:
    form = ProjectForm(request.POST if request.method == "POST" else None, instance=copy(project))
    if form.is_valid():
        services.change_project(project=project, user=request.user, changes=form.cleaned_data)
        messages.success(request, _("Saved."))
        return redirect("annotation:project_settings", project.slug)
    context = {"project": project, "form": form}
    return render(request, "annotation/projects/settings.html", context, status=422 if form.is_bound else 200)


@login_required
@require_POST
def text_preview(request: ResearcherRequest) -> HttpResponse:
    """Render a text as workers will see it; nothing is stored."""
    text = request.POST.get("text", "")[:MAX_PREVIEW]
    return HttpResponse(render_text(text, plain="plain" in request.POST, heading=2))


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def change_state(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Open, pause or close the study; a GET redirects to the overview."""
    if request.method != "POST":
        return redirect(project)
    form = StateForm(project, request.POST)
    if not form.is_valid():
        return _project_page(request, project, form, status=422)
    services.change_project(project=project, user=request.user, changes=form.cleaned_data)
    messages.success(request, _("The study is now %(state)s.") % {"state": project.get_state_display()})
    return redirect(project)


@dataclass(frozen=True)
class StateChange:
    """A button that changes the state, with the text that asks for confirmation."""

    state: str
    label: str
    text: str
    style: str = "secondary"


def _state_changes(state: str, n_pairs: int, platform: str) -> list[StateChange]:
    """List the possible changes; opening is the main button once there are pairs to judge."""
    invited = _("Workers who come from the platform can judge from now on.")
    everyone = _("Everyone with the link can judge from now on.")
    opening = {
        State.DRAFT: _("Open the study"),
        State.PAUSED: _("Resume the study"),
        State.CLOSED: _("Reopen the study"),
    }
    labels = {
        State.OPEN: opening.get(State(state), ""),
        State.PAUSED: _("Pause the study"),
        State.CLOSED: _("Close the study"),
    }
    confirmations = {
        State.OPEN: (invited if platform else everyone, "" if n_pairs else "secondary"),
        State.PAUSED: (_("Workers see that the study is paused. Their answers are kept."), "secondary"),
        State.CLOSED: (_("Workers can no longer judge. Their answers are kept."), "danger"),
    }
    return [StateChange(to, labels[to], *confirmations[to]) for to in NEXT_STATES[State(state)]]


@dataclass(frozen=True)
class Caution:
    """Something an owner should know before opening the study, and the view of the page to change it on."""

    text: str
    view: str = SETTINGS


def _cautions(project: Project, n_pairs: int) -> list[Caution]:
    possible, cautions = possible_judgements(project, n_pairs), []
    if 0 < possible < project.judgements_per_worker:
        numbers = {"pairs": n_pairs, "possible": possible, "quota": project.judgements_per_worker}
        text = _(
            "The items form %(pairs)d pairs, so a worker can make at most %(possible)d judgements, not %(quota)d. "
            "Workers are told %(possible)d."
        )
        cautions.append(Caution(text % numbers))
    if not project.consent.strip():
        cautions.append(Caution(_("The consent text is empty, so workers are not asked to agree to anything.")))
    if has_pilot_ended(project):
        text = _("The pilot has ended. Set “workers in the pilot” to 0 before you resume, or no one else can join.")
        cautions.append(Caution(text, RECRUITMENT))
    return cautions + _pay_cautions(project)


def _pay_cautions(project: Project) -> list[Caution]:
    recruitment = get_recruitment(project)
    payment = summarise_payment(project, recruitment) if recruitment.reward else None
    if payment is None or not payment.too_low or payment.per_hour is None or payment.minimum is None:
        return []
    rate, minimum = number_format(payment.per_hour), number_format(payment.minimum)
    values = {"rate": rate, "minimum": minimum, "currency": recruitment.currency}
    text = _("The pay of %(rate)s %(currency)s per hour is below the minimum of %(minimum)s %(currency)s.")
    return [Caution(text % values, RECRUITMENT)]


def _project_page(request: ResearcherRequest, project: Project, form: StateForm, status: int = 200) -> HttpResponse:
    possible = count_possible_pairs(project)
    recruitment = get_recruitment(project)
    may_change_state = request.role == Role.OWNER and not project.archived_at
    context = {
        "project": project,
        "form": form,
        "n_items": project.items.filter(active=True).count(),
        "n_pairs": possible.total,
        "cautions": _cautions(project, possible.fewest),
        "workers": project.workers.activity_counts(timezone.now()),
        "n_judgements": project.judgements.answers().count(),
        "last_judgement": project.judgements.answers().aggregate(last=Max("created_at"))["last"],
        "last_import": project.imports.exclude(state=JudgementImport.State.STAGING).order_by("-pk").first(),
        "state_changes": _state_changes(project.state, possible.fewest, recruitment.platform)
        if may_change_state
        else [],
        "address": study_link(request, project),
        "recruitment": recruitment,
        "changes": recent_changes(project),
    }
    template = "annotation/projects/_counts.html" if "fragment" in request.GET else "annotation/projects/overview.html"
    return render(request, template, context, status=status)
