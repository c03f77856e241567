"""What an owner does with a whole project: copy it, archive it and bring it back, delete it."""

from django.contrib import messages
from django.db import IntegrityError
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from annotation import services
from annotation.access import Role, members_only
from annotation.forms.projects import CopyForm, DeleteForm
from annotation.models import Project
from annotation.services.deletion import NotArchivedYet
from annotation.views import ResearcherRequest


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER, archived=True)
def copy(request: ResearcherRequest, project: Project) -> HttpResponse:
    """A draft with the same settings, and the same items where that was ticked."""
    first = {"title": _("%(title)s (copy)") % {"title": project.title}, "with_items": True}
    form = CopyForm(request.POST if request.method == "POST" else None, initial=first)
    if form.is_valid():
        try:
            made = services.copy_project(project=project, user=request.user, **form.cleaned_data)
        except IntegrityError:
            form.add_error("slug", _("Somebody has just taken this short name. Choose another."))
        else:
            messages.success(request, _("This is the copy: a draft without judgements, workers or other members."))
            return redirect(made)
    context = {"project": project, "form": form, "n_items": project.items.filter(active=True).count()}
    return render(request, "annotation/project_copy.html", context, status=422 if form.is_bound else 200)


@require_POST
@members_only(Role.OWNER, archived=True)
def archive(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Out of the lists and read-only, or back again."""
    archived = request.POST.get("archived") == "on"
    services.archive_project(project=project, user=request.user, archived=archived)
    told = _("The project is archived. Nothing was lost; it can be brought back.") if archived else _("It is back.")
    messages.success(request, told)
    return redirect(project)


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER, archived=True)
def delete(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Everything that would go, and the project deleted by whoever types its short name."""
    form = DeleteForm(project, request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            services.delete_project(project=project, user=request.user)
        except NotArchivedYet as refusal:
            form.add_error(None, f"{refusal.title} {refusal.detail}")
        else:
            messages.success(request, _("The project is deleted. Nobody can reach it, and its data are being removed."))
            return redirect("annotation:projects")
    context = {
        "project": project,
        "form": form,
        "n_items": project.items.count(),
        "n_workers": project.workers.count(),
        "n_judgements": project.judgements.count(),
    }
    return render(request, "annotation/project_delete.html", context, status=422 if form.is_bound else 200)
