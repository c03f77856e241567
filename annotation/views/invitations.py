"""Invite members to a project, withdraw an invitation, accept one."""

from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.views import redirect_to_login
from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from annotation import services
from annotation.forms.accounts import NAME_UNAVAILABLE, InvitationForm, NewAccountForm
from annotation.http import throttling
from annotation.http.access import Role, members_only
from annotation.http.error_pages import error_response, too_many_requests
from annotation.http.public_address import build_absolute_url
from annotation.models import Invitation, Project, User
from annotation.services import email
from annotation.services.invitations import AlreadyMember, InvitationUnusable, check_usable, was_accepted_by
from annotation.views import ResearcherRequest
from annotation.views.projects.members import members_page

BACKEND = "django.contrib.auth.backends.ModelBackend"


@never_cache
@require_POST
@members_only(Role.OWNER)
def invite(request: ResearcherRequest, project: Project) -> HttpResponse:
    """Create an invitation, show its link once, and email it if an address was given."""
    form = InvitationForm(request.POST)
    if not form.is_valid():
        return members_page(request, project, invite=form, status=422)
    if throttling.too_many_invitations(request.user.pk):
        return too_many_requests(request, retry_seconds=600)
    token = services.invite(project=project, user=request.user, **form.cleaned_data)
    link = build_absolute_url(request, reverse("annotation:invitation", args=[token]))
    if to := form.cleaned_data["email"]:
        email.send(to, _("Invitation to Concord"), _email_text(request.user, project, link))
    return members_page(request, project, link=link, sent_to=to)


def _email_text(sender: User, project: Project, link: str) -> str:
    text = _(
        "%(sender)s invites you to the study “%(title)s” on Concord.\n\n"
        "Open this link within a week. It works once:\n\n%(link)s\n\n"
        "If you did not expect this email, you can ignore it."
    )
    return text % {"sender": sender.get_username(), "title": project.title, "link": link}


@require_POST
@members_only(Role.OWNER, archived=True)
def withdraw(request: ResearcherRequest, project: Project, pk: int) -> HttpResponse:
    invitation = get_object_or_404(Invitation, project=project, pk=pk)
    services.withdraw(invitation=invitation, user=request.user)
    messages.success(request, _("The invitation was withdrawn. Its link no longer works."))
    return redirect("annotation:members", project.slug)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def show(request: HttpRequest, token: str) -> HttpResponse:
    """Show the invitation; accept it as the current user or with a new account."""
    if request.method == "POST" and throttling.too_many_acceptances(request):
        return too_many_requests(request, retry_seconds=60)
    invitation = services.find_invitation(token)
    if invitation is None:
        raise Http404
    if was_accepted_by(invitation, request.user):
        return redirect(invitation.project)
    try:
        check_usable(invitation)
        if request.method == "POST":
            return _accept(request, invitation)
    except InvitationUnusable as gone:
        return error_response(request, gone.status, str(gone.title), _("Nothing was changed."), str(gone.detail))
    except AlreadyMember as member:
        messages.info(request, f"{member.title} {member.detail}")
        return redirect(invitation.project)
    return _page(request, invitation, NewAccountForm(initial={"email": invitation.email}))


def _accept(request: HttpRequest, invitation: Invitation) -> HttpResponse:
    if isinstance(request.user, User):
        services.accept(invitation=invitation, user=request.user)
        return redirect(invitation.project)
    if throttling.too_many_new_names(invitation.pk):
        return too_many_requests(request, retry_seconds=3600)
    form = NewAccountForm(request.POST)
    if not form.is_valid():
        return _page(request, invitation, form, status=422)
    user = form.save(commit=False)
    try:
        services.accept_with_new_account(invitation=invitation, user=user)
    except IntegrityError:
        form.add_error("username", NAME_UNAVAILABLE)
        return _page(request, invitation, form, status=422)
    login(request, user, backend=BACKEND)
    return redirect(invitation.project)


def _page(request: HttpRequest, invitation: Invitation, form: NewAccountForm, status: int = 200) -> HttpResponse:
    log_in = redirect_to_login(request.path)["Location"]
    context = {"invitation": invitation, "project": invitation.project, "form": form, "log_in": log_in}
    return render(request, "annotation/projects/invitation.html", context, status=status)
