"""Pages for planning: the study designer, suggested pairs, and when to stop."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from annotation.http.access import Role, members_only
from annotation.models import Project
from annotation.views import ResearcherRequest
from modelling.dashboards.common.freshness import Freshness, get_freshness
from modelling.dashboards.planning.designer import designer_page
from modelling.dashboards.planning.stopping import stopping_page
from modelling.dashboards.planning.suggestions import suggestions_page
from modelling.updater import simulations
from modelling.web.forms.designer import DesignerForm
from modelling.web.views.dashboard import Context, allow_plotly, dashboard


@dashboard("planning/suggestions.html")
def suggestions(request: HttpRequest, freshness: Freshness) -> Context:
    return {"page": suggestions_page(freshness.project)}


@dashboard("planning/stopping.html")
def stopping(request: HttpRequest, freshness: Freshness) -> Context:
    return {"page": stopping_page(freshness.snapshot) if freshness.snapshot else None}


@dashboard("planning/designer.html")
def designer(request: HttpRequest, freshness: Freshness) -> Context:
    return designer_context(freshness.project, DesignerForm(freshness.project))


def designer_context(project: Project, form: DesignerForm) -> Context:
    minutes = round(simulations.MAX_SECONDS / 60)
    return {"page": designer_page(project), "form": form, "bounds": {**DesignerForm.BOUNDS, "minutes": minutes}}


@require_POST
@members_only(Role.OWNER)
@allow_plotly
def simulate(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Start a simulation of the planned study."""
    form = DesignerForm(project, request.POST)
    if not form.is_valid():
        context = {"project": project, "freshness": get_freshness(project), **designer_context(project, form)}
        return render(request, "modelling/planning/designer.html", context, status=422)
    if simulations.request_simulation(project=project, user=request.user, plan=form.plan, pay=form.cost):
        messages.success(request, _("The simulation has started. Its result appears below."))
    else:
        messages.info(request, _("A simulation is already running. Cancel it first."))
    return redirect("modelling:designer", project.slug)


@require_POST
@members_only(Role.OWNER)
def cancel_simulation(request: ResearcherRequest, project: Project) -> HttpResponse:
    if simulations.cancel_simulation(project=project, user=request.user):
        messages.success(request, _("The simulation was cancelled."))
    else:
        messages.info(request, _("No simulation is running."))
    return redirect("modelling:designer", project.slug)
