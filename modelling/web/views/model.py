"""The model page, versions and their comparison, pinning, refitting, settings and the settings search."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from annotation import services
from annotation.http.access import Role, members_only
from annotation.models import Project
from annotation.views import ResearcherRequest
from modelling.dashboards.common.freshness import Freshness, get_freshness
from modelling.dashboards.model.scoreboard import scoreboard
from modelling.dashboards.model.settings import search_status
from modelling.dashboards.model.versions import compare_versions, version_page, versions_page
from modelling.models import ModelSnapshot
from modelling.training import versions
from modelling.updater import settings_search
from modelling.web.forms.model_settings import ModelSettingsForm
from modelling.web.views.dashboard import Context, dashboard


@dashboard("model/model.html")
def model(request: HttpRequest, freshness: Freshness) -> Context:
    versions = versions_page(freshness.project, request.GET.get("page", ""))
    return {"versions": versions, "scoreboard": scoreboard(freshness.project, freshness.version_number)}


@dashboard("versions/version.html")
def version(request: HttpRequest, freshness: Freshness, number: int) -> Context:
    found = get_object_or_404(ModelSnapshot, project=freshness.project, number=number)
    return {"version": version_page(found)}


@dashboard("versions/compare.html")
def compare(request: HttpRequest, freshness: Freshness) -> Context:
    """Compare the versions ?from and ?to in either order; by default the two newest."""
    snapshots = ModelSnapshot.objects.filter(project=freshness.project)
    newest = list(snapshots.values_list("number", flat=True)[:2])
    requested = [_version_number(request.GET.get(name, "")) for name in ("from", "to")]
    numbers = sorted(number or default for number, default in zip(requested, [*reversed(newest), 0, 0], strict=False))
    if len(newest) < 2 and not all(requested):
        return {"comparison": None}
    older, newer = (get_object_or_404(snapshots, number=number) for number in numbers)
    return {"comparison": compare_versions(older, newer, request.GET.get("page", ""))}


def _version_number(value: str) -> int | None:
    """Parse a version number; None if empty, 404 if it is not a number."""
    if not value:
        return None
    if not (value.isdecimal() and len(value) < 8):
        raise Http404(_("There is no such version."))
    return int(value)


@require_POST
@members_only(Role.OWNER)
def pin(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Show this version on all pages until it is unpinned; pinning an older one rolls back."""
    number = _version_number(request.POST.get("number", "")) or 0
    try:
        versions.pin(project=project, user=request.user, number=number)
    except ModelSnapshot.DoesNotExist:
        raise Http404(_("There is no such version.")) from None
    except versions.ContainsErasedData:
        messages.error(request, _("This version contains data of erased people, so it cannot be shown."))
        return redirect("modelling:model", project.slug)
    message = _("All pages now show version %(number)s. The model keeps updating.")
    messages.success(request, message % {"number": number})
    return redirect("modelling:model", project.slug)


@require_POST
@members_only(Role.OWNER)
def unpin(request: ResearcherRequest, project: Project) -> HttpResponse:
    versions.unpin(project=project, user=request.user)
    messages.success(request, _("All pages show the newest version again."))
    return redirect("modelling:model", project.slug)


@require_POST
@members_only(Role.OWNER)
def refit(request: ResearcherRequest, project: Project) -> HttpResponse:
    versions.request_refit(project=project, user=request.user)
    messages.success(request, _("The next version will be fitted from scratch. It appears here when it is ready."))
    return redirect("modelling:model", project.slug)


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def settings(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Show the model's settings; POST saves them, and a change causes a fit from scratch."""
    form = ModelSettingsForm(project, request.POST if request.method == "POST" else None)
    if form.is_valid():
        services.change_project(project=project, user=request.user, changes=form.changes)
        messages.success(request, _("Saved. The next version will be fitted from scratch with these settings."))
        return redirect("modelling:model_settings", project.slug)
    return render(request, *_settings_template(request, project, form), status=422 if form.is_bound else 200)


def _settings_template(request: HttpRequest, project: Project, form: ModelSettingsForm) -> tuple[str, dict[str, Any]]:
    context = {"project": project, "freshness": get_freshness(project), "search": search_status(project)}
    fragment = request.GET.get("fragment")
    if fragment == "status":
        return "modelling/common/_freshness.html", context
    template = "modelling/model/_settings_search.html" if fragment else "modelling/model/model_settings.html"
    return template, {**context, "form": form}


@require_POST
@members_only(Role.OWNER)
def search(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Start a search for settings that predict held-out judgements best."""
    if settings_search.request_search(project=project, user=request.user):
        messages.success(request, _("The settings search has started. Nothing changes until you choose a result."))
    else:
        messages.info(request, _("A search is already running."))
    return redirect("modelling:model_settings", project.slug)


@require_POST
@members_only(Role.OWNER)
def use_candidate(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Use the settings of one candidate of the last search."""
    found = settings_search.get_candidate_settings(project, request.POST.get("candidate", ""))
    if found is None:
        raise Http404(_("This candidate is not part of the last search."))
    services.change_project(project=project, user=request.user, changes={"model_settings": found.non_defaults()})
    messages.success(request, _("Saved. The next version will be fitted from scratch with these settings."))
    return redirect("modelling:model_settings", project.slug)
