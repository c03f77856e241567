"""Members of a project and their roles."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from annotation import services
from annotation.forms.accounts import InvitationForm, MemberForm
from annotation.http.access import Role, members_only
from annotation.models import Invitation, Membership, Project
from annotation.views import ResearcherRequest


@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER, archived=True)
def members(request: ResearcherRequest, project: Project) -> HttpResponse:
    """List the members; add or remove one, or change a role."""
    form = MemberForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            services.set_membership(project=project, user=request.user, **form.cleaned_data)
        except ValueError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, _("Saved."))
            return redirect(_next_page(request, project))
    return members_page(request, project, form, status=422 if form.is_bound else 200)


def members_page(
    request: ResearcherRequest,
    project: Project,
    form: MemberForm | None = None,
    invite: InvitationForm | None = None,
    status: int = 200,
    **context: Any,
) -> HttpResponse:
    """Render members, open invitations and both forms; a bound form shows its errors."""
    form = form or MemberForm()
    context |= {
        "project": project,
        "form": invite if invite and invite.is_bound else form,
        "add": form if form.has_error("member") else MemberForm(),
        "invite": invite or InvitationForm(),
        "memberships": Membership.objects.filter(project=project).select_related("user").order_by("user__username"),
        "invitations": Invitation.objects.usable().filter(project=project).select_related("created_by"),
        "roles": Role.choices,
    }
    return render(request, "annotation/projects/members.html", context, status=status)


def _next_page(request: ResearcherRequest, project: Project) -> str:
    """The redirect target, a page the user may still see: owners can remove themselves or lower their own role."""
    role = project.role_of(request.user)
    if role == Role.OWNER:
        return request.path
    return project.get_absolute_url() if role else "annotation:projects"
