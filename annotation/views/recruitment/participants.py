"""Participants of a paid study: funnel, pay, checklist, lists for the platform, and ending a participation by hand."""

import csv
import io
from decimal import Decimal

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST, require_safe

from annotation.http.access import Role, members_only
from annotation.http.arm_filter import ArmFilter
from annotation.http.downloads import attachment, escape_formula
from annotation.models import Project, Worker
from annotation.services.participation.arrival import get_recruitment
from annotation.services.participation.funnel import count_others, count_stages, opening_checklist
from annotation.services.participation.outcomes import end_by_hand
from annotation.services.participation.payment import summarise_payment
from annotation.services.participation.reconciliation import APPROVE, BONUS, REJECT, list_participants, payment_list
from annotation.views import ResearcherRequest

Outcome = Worker.Outcome


class EndForm(forms.Form):
    """The outcome with which a researcher ends a participation by hand."""

    outcome = forms.ChoiceField(
        label=_("outcome"), choices=[(each.value, each.label) for each in (Outcome.ERROR, Outcome.SCREENED_OUT)]
    )


class BonusForm(forms.Form):
    """The bonus for each participant to be approved."""

    amount = forms.DecimalField(label=_("bonus per participant"), min_value=Decimal("0.01"), decimal_places=2)


@require_safe
@members_only(Role.OWNER)
def show(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Show the whole page, or only the funnel for live updates."""
    arms = ArmFilter.parse(project, request.GET)
    stages = count_stages(project, **arms.of_workers)
    if "fragment" in request.GET:
        return render(request, "annotation/recruitment/_funnel.html", {"stages": stages})
    recruitment = get_recruitment(project)
    payment = summarise_payment(project, recruitment)
    context = {
        "project": project,
        "recruitment": recruitment,
        "payment": payment,
        "arms": arms,
        "stages": stages,
        "counts_arrivals": any(stage.label == _("arrived") for stage in stages),
        "n_others": count_others(project),
        "checklist": opening_checklist(project, recruitment, payment),
        "participants": list_participants(project, recruitment.platform, arms.name) if recruitment.platform else [],
        "bonus_form": BonusForm(),
        "end_form": EndForm(auto_id=False),
    }
    return render(request, "annotation/recruitment/participants.html", context)


@require_safe
@members_only(Role.OWNER)
def download(request: ResearcherRequest, project: Project, kind: str) -> HttpResponse:
    """Download a list in the platform's format; 404 for an unknown list or a bonus without an amount."""
    recruitment = get_recruitment(project)
    form = BonusForm(request.GET)
    if kind not in (APPROVE, BONUS, REJECT) or not recruitment.platform or (kind == BONUS and not form.is_valid()):
        raise Http404
    text = io.StringIO(newline="")
    amount = form.cleaned_data["amount"] if kind == BONUS else Decimal(0)
    # The IDs of other panels are whatever arrives in a worker's link.
    rows = ([escape_formula(cell) for cell in row] for row in payment_list(recruitment, kind, amount))
    csv.writer(text).writerows(rows)
    return attachment(f"{kind}.csv", text.getvalue().encode(), "text/csv; charset=utf-8")


@require_POST
@members_only(Role.OWNER)
def end(request: ResearcherRequest, project: Project, code: str) -> HttpResponse:
    """End a participation by hand; one that has already ended keeps its outcome."""
    worker = get_object_or_404(Worker, project=project, code=code)
    form = EndForm(request.POST)
    if form.is_valid():
        ended = end_by_hand(worker=worker, user=request.user, outcome=form.cleaned_data["outcome"])
        messages.success(
            request, gettext("%(worker)s: %(outcome)s.") % {"worker": code, "outcome": ended.outcome_label}
        )
    return redirect("annotation:participants", project.slug)
