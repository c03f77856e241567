"""Invitations to a project: single use, valid for a week, stored as a digest so that no row holds a usable link."""

from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from annotation.exceptions import RequestError
from annotation.models import Invitation, Membership, Project, User
from annotation.models.accounts import invitation_token, token_digest
from annotation.services.projects import audit


class InvitationUnusable(RequestError):
    status = 410
    title = _("This invitation is no longer valid.")
    detail = _(
        "It was used, has expired or was withdrawn. If you have used it yourself, log in to find the study. "
        "Otherwise ask the person who sent it for a new one."
    )


class AlreadyMember(RequestError):
    status = 409
    title = _("You are already a member of this study.")
    detail = _("Your role was not changed. Another person can still use the invitation.")


@transaction.atomic
def invite(*, project: Project, user: User, role: str, email: str = "") -> str:
    """Create an invitation; return its token, which is not stored."""
    token = invitation_token()
    Invitation.objects.create(project=project, role=role, email=email, created_by=user, digest=token_digest(token))
    audit(project, user, "invited a member", {"role": role})
    return token


@transaction.atomic
def withdraw(*, invitation: Invitation, user: User) -> None:
    """Invalidate the invitation. Idempotent."""
    if Invitation.objects.usable().filter(pk=invitation.pk).update(expires_at=timezone.now(), email=""):
        audit(invitation.project, user, "withdrew an invitation", {"role": invitation.role})


def find_invitation(token: str) -> Invitation | None:
    """The invitation with this token, used or not."""
    found = Invitation.objects.select_related("project", "created_by")
    return found.filter(digest=token_digest(token)).first()


def check_usable(invitation: Invitation) -> None:
    """Raise InvitationUnusable unless the invitation is valid, its project not archived and its sender an owner."""
    sender = invitation.created_by
    may_invite = sender.is_active and invitation.project.role_of(sender) == Membership.Role.OWNER
    usable = Invitation.objects.usable().filter(pk=invitation.pk, project__archived_at=None).exists()
    if not (may_invite and usable):
        raise InvitationUnusable


def was_accepted_by(invitation: Invitation, user: User | AnonymousUser) -> bool:
    """Whether this user became a member through this invitation, so that its link can redirect to the project."""
    if not isinstance(user, User) or invitation.used_by_id != user.pk:
        return False
    return Membership.objects.filter(project=invitation.project, user=user).exists()


@transaction.atomic
def accept(*, invitation: Invitation, user: User) -> None:
    """Make the user a member and use up the invitation."""
    check_usable(invitation)
    if Membership.objects.filter(project=invitation.project, user=user).exists():
        raise AlreadyMember
    used = {"used_at": timezone.now(), "used_by": user, "email": ""}
    if not Invitation.objects.usable().filter(pk=invitation.pk).update(**used):
        raise InvitationUnusable
    Membership.objects.create(project=invitation.project, user=user, role=invitation.role)
    audit(invitation.project, user, "accepted an invitation", {"role": invitation.role})


@transaction.atomic
def accept_with_new_account(*, invitation: Invitation, user: User) -> None:
    """Create the account and make it a member, or neither if the invitation is no longer valid."""
    user.save(force_insert=True)
    accept(invitation=invitation, user=user)
