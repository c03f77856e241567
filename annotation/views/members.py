"""Who may see and change a project."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from annotation import services
from annotation.access import Role, members_only
from annotation.forms.projects import MemberForm
from annotation.models import Membership, Project
from annotation.views import ResearcherRequest


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def members(request: ResearcherRequest, project: Project) -> HttpResponse:
    """The members, and one of them added, given another role, or removed."""
    form = MemberForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            services.set_membership(project=project, user=request.user, **form.cleaned_data)
        except ValueError as refusal:
            form.add_error(None, str(refusal))
        else:
            messages.success(request, _("Saved."))
            return redirect(_still_open_to(request, project))
    memberships = Membership.objects.filter(project=project).select_related("user").order_by("user__username")
    add = form if form.has_error("member") else MemberForm()
    context = {"project": project, "form": form, "add": add, "memberships": memberships, "roles": Role.choices}
    return render(request, "annotation/members.html", context, status=422 if form.is_bound else 200)


def _still_open_to(request: ResearcherRequest, project: Project) -> str:
    """Where to go after the change: an owner may just have given up or lowered their own role."""
    role = project.role_of(request.user)
    if role == Role.OWNER:
        return request.path
    return project.get_absolute_url() if role else "annotation:projects"
