"""Recruitment: the platform of a study, its link and its completion codes."""

from copy import copy

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from annotation.forms.recruitment import RecruitmentForm
from annotation.http.access import Role, members_only
from annotation.http.arrival import study_link
from annotation.http.public_address import build_absolute_url
from annotation.models import Project
from annotation.services.participation.arrival import get_recruitment
from annotation.services.participation.recruitment import change_recruitment
from annotation.views import ResearcherRequest


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def edit(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Show and change how the study recruits its workers."""
    recruitment = get_recruitment(project)
    form = RecruitmentForm(request.POST if request.method == "POST" else None, instance=copy(recruitment))
    if form.is_valid():
        change_recruitment(project=project, user=request.user, changes=form.cleaned_data)
        messages.success(request, _("Saved."))
        return redirect("annotation:recruitment", project.slug)
    context = {
        "project": project,
        "form": form,
        "recruitment": recruitment,
        "hook_address": build_absolute_url(request, reverse("annotation:prolific_hook", args=[project.slug])),
        "study_link": study_link(request, project),
    }
    return render(request, "annotation/recruitment/settings.html", context, status=422 if form.is_bound else 200)
