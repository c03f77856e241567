"""Pages and buttons about the model itself: its versions, which one is shown, and its settings."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from annotation import services
from annotation.access import Role, members_only
from annotation.models import Project
from annotation.views import ResearcherRequest
from modelling import searching, versions
from modelling.dashboards.addresses import page_number
from modelling.dashboards.foretold import scoreboard
from modelling.dashboards.freshness import Freshness, freshness_of
from modelling.dashboards.searches import search_part
from modelling.dashboards.versions import comparison, version_page, versions_page
from modelling.forms import ModelSettingsForm
from modelling.models import ModelSnapshot
from modelling.views import Facts, dashboard


@dashboard("model.html")
def model(request: HttpRequest, freshness: Freshness) -> Facts:
    versions = versions_page(freshness.project, page_number(request.GET))
    return {"versions": versions, "scoreboard": scoreboard(freshness.project, freshness.revision)}


@dashboard("version.html")
def version(request: HttpRequest, freshness: Freshness, number: int) -> Facts:
    found = get_object_or_404(ModelSnapshot, project=freshness.project, number=number)
    return {"version": version_page(found)}


@dashboard("compare.html")
def compare(request: HttpRequest, freshness: Freshness) -> Facts:
    """What moved between ?from and ?to, whichever is older; without them, between the two newest."""
    known = ModelSnapshot.objects.filter(project=freshness.project)
    newest = list(known.values_list("number", flat=True)[:2])
    asked = [_number(request, name) for name in ("from", "to")]
    numbers = sorted(number or usual for number, usual in zip(asked, [*reversed(newest), 0, 0], strict=False))
    if len(newest) < 2 and not all(asked):
        return {"comparison": None}
    older, newer = (get_object_or_404(known, number=number) for number in numbers)
    return {"comparison": comparison(older, newer, page_number(request.GET))}


def _number(request: HttpRequest, name: str) -> int | None:
    """A number from the address, None where there is none; 404 for anything else."""
    given = request.GET.get(name, "")
    if not given:
        return None
    if not (given.isdecimal() and len(given) < 8):
        raise Http404(_("There is no such version."))
    return int(given)


@require_POST
@members_only(Role.OWNER)
def pin(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Pages show this version until it is released. Rolling back is pinning an older one."""
    number = request.POST.get("number", "")
    if not (number.isdecimal() and len(number) < 8):
        raise Http404(_("There is no such version."))
    try:
        versions.pin(project=project, user=request.user, number=int(number))
    except ModelSnapshot.DoesNotExist:
        raise Http404(_("There is no such version.")) from None
    except versions.KnowsTheErased:
        messages.error(request, _("This version knows people who were erased since; it cannot be shown any more."))
        return redirect("modelling:model", project.slug)
    messages.success(
        request, _("Every page shows version %(number)s now. The model goes on learning.") % {"number": number}
    )
    return redirect("modelling:model", project.slug)


@require_POST
@members_only(Role.OWNER)
def unpin(request: ResearcherRequest, project: Project) -> HttpResponse:
    versions.unpin(project=project, user=request.user)
    messages.success(request, _("Every page shows the newest version again."))
    return redirect("modelling:model", project.slug)


@require_POST
@members_only(Role.OWNER)
def refit(request: ResearcherRequest, project: Project) -> HttpResponse:
    versions.ask_for_refit(project=project, user=request.user)
    messages.success(request, _("The next version is learned from scratch. It appears by itself."))
    return redirect("modelling:model", project.slug)


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def settings(request: ResearcherRequest, project: Project) -> HttpResponse:
    """The model's settings; saving them starts the model again."""
    form = ModelSettingsForm(project, request.POST if request.method == "POST" else None)
    if form.is_valid():
        services.change_project(project=project, user=request.user, changes=form.changes)
        messages.success(request, _("Saved. The next version is learned from scratch with these settings."))
        return redirect("modelling:model_settings", project.slug)
    return render(request, *_settings_part(request, project, form), status=422 if form.is_bound else 200)


def _settings_part(request: HttpRequest, project: Project, form: ModelSettingsForm) -> tuple[str, dict[str, Any]]:
    context = {"project": project, "freshness": freshness_of(project), "search": search_part(project)}
    part = request.GET.get("fragment")
    if part == "status":
        return "modelling/_freshness.html", context
    return ("modelling/_search.html" if part else "modelling/model_settings.html"), {**context, "form": form}


@require_POST
@members_only(Role.OWNER)
def search(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Asks the updater to try a few settings on judgements held back."""
    if searching.ask(project=project, user=request.user):
        messages.success(request, _("The updater tries a few settings now. Nothing is changed without you."))
    else:
        messages.info(request, _("A search is under way already."))
    return redirect("modelling:model_settings", project.slug)


@require_POST
@members_only(Role.OWNER)
def use(request: ResearcherRequest, project: Project) -> HttpResponse:
    """The project takes over the settings of one candidate of its last search."""
    found = searching.settings_of(project, request.POST.get("candidate", ""))
    if found is None:
        raise Http404(_("The last search has no such candidate."))
    services.change_project(project=project, user=request.user, changes={"model_settings": found.chosen()})
    messages.success(request, _("Saved. The next version is learned from scratch with these settings."))
    return redirect("modelling:model_settings", project.slug)
