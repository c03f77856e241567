"""Copy, archive, restore and delete a project."""

from django.contrib import messages
from django.db import IntegrityError
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from annotation import services
from annotation.forms.projects import CopyForm, DeleteForm
from annotation.http.access import Role, members_only
from annotation.models import Project
from annotation.services.deletion import NotArchived
from annotation.views import ResearcherRequest


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER, archived=True)
def copy(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Create a draft with the same settings and, optionally, the same items."""
    initial = {"title": _("%(title)s (copy)") % {"title": project.title}, "with_items": True}
    form = CopyForm(request.POST if request.method == "POST" else None, initial=initial)
    if form.is_valid():
        try:
            new_project = services.copy_project(project=project, user=request.user, **form.cleaned_data)
        except IntegrityError:
            form.add_error("slug", _("Another study already uses this short name. Choose another."))
        else:
            messages.success(request, _("This is the copy: a draft without judgements, workers or other members."))
            return redirect(new_project)
    context = {"project": project, "form": form, "n_items": project.items.filter(active=True).count()}
    return render(request, "annotation/projects/copy.html", context, status=422 if form.is_bound else 200)


@require_POST
@members_only(Role.OWNER, archived=True)
def archive(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Archive a project, which makes it read-only and unlisted, or restore it."""
    archived = request.POST.get("archived") == "on"
    services.archive_project(project=project, user=request.user, archived=archived)
    message = _("The study was archived. You can restore it at any time.") if archived else _("The study was restored.")
    messages.success(request, message)
    return redirect(project)


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER, archived=True)
def delete(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Show what will be deleted; delete the project once its short name was typed."""
    form = DeleteForm(project, request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            services.delete_project(project=project, user=request.user)
        except NotArchived as error:
            form.add_error(None, f"{error.title} {error.detail}")
        else:
            messages.success(request, _("The study was deleted. Its data are being removed in the background."))
            return redirect("annotation:projects")
    context = {
        "project": project,
        "form": form,
        "n_items": project.items.count(),
        "n_workers": project.workers.count(),
        "n_judgements": project.judgements.count(),
    }
    return render(request, "annotation/projects/delete.html", context, status=422 if form.is_bound else 200)
