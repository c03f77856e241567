"""Projects in the browser: the list, one project, its settings and its state."""

from copy import copy
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import IntegrityError
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from annotation import services
from annotation.access import Role, members_only
from annotation.forms.projects import NEXT_STATES, ProjectForm, StateForm, possible_pairs
from annotation.models import AuditEntry, Item, Judgement, Project
from annotation.views import ResearcherRequest

RECENT = 8
LONGEST_VALUE = 60
State = Project.State


@login_required
@require_safe
def listing(request: ResearcherRequest) -> HttpResponse:
    """The projects this researcher may see, with how far each is."""
    seen = Project.objects.seen_by(request.user)
    archived = "archived" in request.GET
    shown = seen.exclude(archived_at=None) if archived else seen.in_lists()
    projects = shown.annotate(
        n_items=_counted(Item.objects.filter(active=True)),
        n_judgements=_counted(Judgement.objects.answers()),
    )
    n_archived = seen.exclude(archived_at=None).count()
    context = {"projects": projects, "archived": archived, "n_archived": n_archived}
    return render(request, "annotation/projects.html", context)


def _counted(rows: QuerySet[Any]) -> Coalesce:
    """How many of these rows a project has, by a subquery: two joins would multiply each other."""
    counts = rows.filter(project=OuterRef("pk")).order_by().values("project").annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counts), 0)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def create(request: ResearcherRequest) -> HttpResponse:
    """A draft project whose owner is the researcher who asked for it."""
    form = ProjectForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            return redirect(services.create_project(owner=request.user, **form.cleaned_data))
        except IntegrityError:
            form.add_error("slug", _("Somebody has just taken this short name. Choose another."))
    return render(request, "annotation/project_new.html", {"form": form}, status=422 if form.is_bound else 200)


@require_safe
@members_only(Role.VIEWER)
def show(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Where the study stands and what to do next."""
    return _project_page(request, project, StateForm(project))


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def edit(request: ResearcherRequest, project: Project) -> HttpResponse:
    """The words and rules of the study, changed with an audit entry."""
    form = ProjectForm(request.POST if request.method == "POST" else None, instance=copy(project))
    if form.is_valid():
        services.change_project(project=project, user=request.user, changes=form.cleaned_data)
        messages.success(request, _("Saved."))
        return redirect("annotation:project_settings", project.slug)
    context = {"project": project, "form": form}
    return render(request, "annotation/project_settings.html", context, status=422 if form.is_bound else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def change_state(request: ResearcherRequest, project: Project) -> HttpResponse:
    """The study opens, pauses or closes, if it can. Who comes here by the address sees the project."""
    if request.method != "POST":
        return redirect(project)
    form = StateForm(project, request.POST)
    if not form.is_valid():
        return _project_page(request, project, form, status=422)
    services.change_project(project=project, user=request.user, changes=form.cleaned_data)
    messages.success(request, _("The study is now %(state)s.") % {"state": project.get_state_display()})
    return redirect(project)


@dataclass(frozen=True)
class Move:
    """A button that changes the state, and the words that ask whether it is meant."""

    state: str
    label: str
    words: str
    style: str = "secondary"


def _moves(state: str, n_pairs: int) -> list[Move]:
    """What an owner may do to a study in this state. Opening stands out once there is something to judge."""
    opening = {
        State.DRAFT: _("Open the study …"),
        State.PAUSED: _("Go on …"),
        State.CLOSED: _("Open again …"),
    }
    offers = {
        State.OPEN: (_("Everybody with the link can judge from now on."), "" if n_pairs else "secondary"),
        State.PAUSED: (_("Workers see that the study is paused; what they gave is kept."), "secondary"),
        State.CLOSED: (_("Workers can no longer judge; what they gave is kept."), "danger"),
    }
    labels = {State.OPEN: opening.get(State(state), ""), State.PAUSED: _("Pause …"), State.CLOSED: _("Close …")}
    return [Move(to, labels[to], *offers[to]) for to in NEXT_STATES[State(state)]]


@dataclass(frozen=True)
class Change:
    """An audit entry as the page tells it."""

    entry: AuditEntry
    details: list[str]


def _told(entry: AuditEntry) -> Change:
    """Each detail that says something; long values are only named."""
    details = [(name.replace("_", " "), _told_value(value)) for name, value in entry.details.items()]
    said = [f"{name}: {value}" if len(value) <= LONGEST_VALUE else name for name, value in details if value]
    return Change(entry, said)


def _told_value(value: Any) -> str:
    """“3 → 5” for old and new; nothing for what is empty or zero."""
    if isinstance(value, list) and len(value) == 2:
        return " → ".join(_told_value(side) or "–" for side in value)
    words = {True: _("yes"), False: _("no"), None: _("none")}
    if value is None or isinstance(value, bool):
        return words[value]
    return str(value) if value else ""


def _project_page(request: ResearcherRequest, project: Project, form: StateForm, status: int = 200) -> HttpResponse:
    n_pairs = possible_pairs(project, project.pairs)
    context = {
        "project": project,
        "form": form,
        "n_items": project.items.filter(active=True).count(),
        "n_pairs": n_pairs,
        "workers": project.workers.by_activity(timezone.now()),
        "n_judgements": project.judgements.answers().count(),
        "moves": _moves(project.state, n_pairs) if request.role == Role.OWNER and not project.archived_at else [],
        "address": request.build_absolute_uri(project.get_judging_url()),
        "changes": [_told(entry) for entry in project.audit.select_related("user")[:RECENT]],
    }
    page = "annotation/_project_counts.html" if "fragment" in request.GET else "annotation/project.html"
    return render(request, page, context, status=status)
