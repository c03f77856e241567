"""Bulk invitations: paste a list, download one link per person, see which were used, revoke them."""

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation.forms.recruitment import InviteWorkersForm
from annotation.http.access import Role, members_only
from annotation.http.downloads import csv_attachment
from annotation.http.error_pages import too_many_requests
from annotation.http.public_address import build_absolute_url
from annotation.http.throttling import too_many_invitation_lists
from annotation.models import Project, WorkerInvitation
from annotation.platforms.invited import PARAMETER
from annotation.services.participation.arrival import get_recruitment
from annotation.services.participation.worker_invitations import invite_workers, revoke
from annotation.views import ResearcherRequest

PER_PAGE = 50


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@members_only(Role.OWNER)
def show(request: ResearcherRequest, project: Project) -> HttpResponse:
    """List the invitations; a POST creates new ones and returns their links in a file, which is not available again."""
    form = InviteWorkersForm(request.POST, request.FILES) if request.method == "POST" else InviteWorkersForm()
    if form.is_valid():
        if too_many_invitation_lists(request.user.pk):
            return too_many_requests(request, retry_seconds=600)
        created = invite_workers(project=project, user=request.user, **form.cleaned_data)
        if created:
            return _links(request, project, created)
        form.add_error(None, _("Everyone on this list is invited already. Revoke their invitations first."))
    rows = WorkerInvitation.objects.filter(project=project)
    context = {
        "project": project,
        "form": form,
        "recruitment": get_recruitment(project),
        "page": Paginator(rows.order_by("-pk"), PER_PAGE).get_page(request.GET.get("page")),
        "counts": _count_states(project),
    }
    status = 422 if form.is_bound else 200
    return render(request, "annotation/recruitment/worker_invitations.html", context, status=status)


def _links(request: ResearcherRequest, project: Project, created: list[tuple[WorkerInvitation, str]]) -> HttpResponse:
    address = build_absolute_url(request, project.get_judging_url())
    rows = [
        {"label": row.label, "link": f"{address}?{PARAMETER}={token}", "expires_at": row.expires_at.isoformat()}
        for row, token in created
    ]
    return csv_attachment(f"{project.slug}-links.csv", rows, ["label", "link", "expires_at"])


def _count_states(project: Project) -> list[tuple[str, int]]:
    """The name of each invitation state and the number of invitations in it."""
    now, rows = timezone.now(), WorkerInvitation.objects.filter(project=project)
    states = [row.state_at(now) for row in rows.only("revoked_at", "used_at", "expires_at")]
    return [(str(state.label), states.count(state)) for state in WorkerInvitation.State]


@require_safe
@members_only(Role.OWNER)
def download(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Download the state of every invitation as CSV; links are not stored and cannot be downloaded again."""
    rows = [
        {
            "label": row.label,
            "state": row.state,
            "created_at": row.created_at.isoformat(),
            "expires_at": row.expires_at.isoformat(),
            "used_at": row.used_at.isoformat() if row.used_at else "",
        }
        for row in WorkerInvitation.objects.filter(project=project)
    ]
    columns = ["label", "state", "created_at", "expires_at", "used_at"]
    return csv_attachment(f"{project.slug}-invitations.csv", rows, columns)


@require_POST
@members_only(Role.OWNER)
def withdraw(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Revoke one invitation, or all unused ones."""
    rows = WorkerInvitation.objects.filter(project=project)
    number = request.POST.get("invitation", "")
    chosen = rows.filter(pk=int(number)) if number.isdecimal() and len(number) < 19 else rows.filter(used_at=None)
    n = revoke(project=project, user=request.user, invitations=chosen)
    text = ngettext("%(n)d link no longer works.", "%(n)d links no longer work.", n) % {"n": n}
    messages.success(request, text)
    return redirect(reverse("annotation:worker_invitations", args=[project.slug]))
