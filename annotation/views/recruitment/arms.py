"""A study's arms: their settings and worker counts."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from annotation.forms.arms import ArmsForm
from annotation.http.access import Role, members_only
from annotation.models import Project
from annotation.services.participation.arms import change_arms, summarise_arms
from annotation.services.participation.passport import get_passport
from annotation.views import ResearcherRequest


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def edit(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Show and change the arms."""
    form = ArmsForm(project, request.POST if request.method == "POST" else None)
    if form.is_valid():
        change_arms(project=project, user=request.user, arms=form.cleaned_data["arms"])
        messages.success(request, _("Saved."))
        return redirect("annotation:arms", project.slug)
    context = {
        "project": project,
        "form": form,
        "summary": summarise_arms(project),
        "frozen_at": get_passport(project).frozen_at,
    }
    return render(request, "annotation/recruitment/arms.html", context, status=422 if form.is_bound else 200)
