"""Invitations to a project: for one person, for a week, kept as a digest so that no row holds a link."""

import hashlib

from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from annotation.models import Invitation, Membership, Project, User
from annotation.models.people import invitation_token
from annotation.refusals import Refused
from annotation.services.projects import audit


class Gone(Refused):
    """The invitation cannot be used any more."""

    status = 410
    title = _("This invitation cannot be used any more.")
    detail = _(
        "It was used, has run out or was withdrawn. If you have used it yourself, log in: the project is among yours. "
        "Otherwise ask the person who sent it for a new one."
    )


class AlreadyMember(Refused):
    status = 409
    title = _("You are a member of this project already.")
    detail = _("Your role stays as it is, and the invitation can still be used by somebody else.")


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@transaction.atomic
def invite(*, project: Project, user: User, role: str, email: str = "") -> str:
    """An invitation; returns the part of its link that is kept nowhere."""
    token = invitation_token()
    Invitation.objects.create(project=project, role=role, email=email, created_by=user, digest=digest_of(token))
    audit(project, user, "invited somebody", {"role": role})
    return token


@transaction.atomic
def withdraw(*, invitation: Invitation, user: User) -> None:
    """The link leads nowhere any more. Twice is once."""
    if Invitation.objects.usable().filter(pk=invitation.pk).update(expires_at=timezone.now(), email=""):
        audit(invitation.project, user, "withdrew an invitation", {"role": invitation.role})


def find_invitation(token: str) -> Invitation | None:
    """The invitation of this link, used or not; None where there never was one."""
    found = Invitation.objects.select_related("project", "created_by")
    return found.filter(digest=digest_of(token)).first()


def refuse_unless_usable(invitation: Invitation) -> None:
    """Gone, unless it is fresh, its project takes changes, and who sent it may still invite."""
    sender = invitation.created_by
    may_invite = sender.is_active and invitation.project.role_of(sender) == Membership.Role.OWNER
    usable = Invitation.objects.usable().filter(pk=invitation.pk, project__archived_at=None).exists()
    if not (may_invite and usable):
        raise Gone


def used_by(invitation: Invitation, user: User | AnonymousUser) -> bool:
    """Whether this person is a member by this invitation: opened again, its link leads to the project."""
    if not isinstance(user, User) or invitation.used_by_id != user.pk:
        return False
    return Membership.objects.filter(project=invitation.project, user=user).exists()


@transaction.atomic
def accept(*, invitation: Invitation, user: User) -> None:
    """The user is a member, and nobody else can be by this invitation."""
    refuse_unless_usable(invitation)
    if Membership.objects.filter(project=invitation.project, user=user).exists():
        raise AlreadyMember
    used = {"used_at": timezone.now(), "used_by": user, "email": ""}
    if not Invitation.objects.usable().filter(pk=invitation.pk).update(**used):
        raise Gone
    Membership.objects.create(project=invitation.project, user=user, role=invitation.role)
    audit(invitation.project, user, "accepted an invitation", {"role": invitation.role})


@transaction.atomic
def accept_with_new_account(*, invitation: Invitation, user: User) -> None:
    """An account that was just filled in exists, and is a member; neither does where the invitation is gone."""
    user.save(force_insert=True)
    accept(invitation=invitation, user=user)
