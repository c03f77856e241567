"""Invite a list of workers: create one link per person, revoke links, and mark a link as used when its owner joins."""

from collections.abc import Iterable
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from annotation.models import PlatformIdentity, Project, Recruitment, User, WorkerInvitation
from annotation.models.accounts import invitation_token, token_digest
from annotation.platforms import Identity
from annotation.platforms.invited import InvitationOver
from annotation.services.projects import audit
from annotation.storage import queries

PLATFORM = Recruitment.Platform.INVITED
BATCH = 500
NewInvitation = tuple[WorkerInvitation, str]  # with its token


@transaction.atomic
def invite_workers(*, project: Project, user: User, labels: Iterable[str], days: int) -> list[NewInvitation]:
    """Create an invitation for each label that has none; return them with their tokens, which are not stored.

    An expired invitation is replaced.
    """
    queries.lock_project(project)
    now, stored = timezone.now(), WorkerInvitation.objects.filter(project=project)
    stored.filter(used_at=None, revoked_at=None, expires_at__lte=now).update(revoked_at=now)
    known = set(stored.filter(revoked_at=None).values_list("label", flat=True))
    created = []
    for label in dict.fromkeys(labels):
        if label not in known:
            token, expires = invitation_token(), now + timedelta(days=days)
            row = WorkerInvitation(project=project, label=label, digest=token_digest(token), expires_at=expires)
            created.append((row, token))
    WorkerInvitation.objects.bulk_create([row for row, _token in created], batch_size=BATCH)
    if created:
        audit(project, user, "invited workers", {"invitations": len(created)})
    return created


@transaction.atomic
def revoke(*, project: Project, user: User, invitations: "QuerySet[WorkerInvitation]") -> int:
    """Revoke these links; workers who have already joined continue with their cookie or return code."""
    revoked = invitations.filter(project=project, revoked_at=None).update(revoked_at=timezone.now())
    if revoked:
        audit(project, user, "revoked invitations of workers", {"invitations": revoked})
    return revoked


def use_up(project: Project, identity: Identity) -> None:
    """Use up the invitation of a person who joins in this transaction; raise InvitationOver if it is no longer valid.

    A second request with the same link waits for the first one and then finds the worker that it created.
    """
    mine = WorkerInvitation.objects.filter(project=project, label=identity.external_id)
    if mine.unused().update(used_at=timezone.now()):
        return
    joined = PlatformIdentity.objects.filter(project=project, platform=PLATFORM, external_id=identity.external_id)
    if not joined.exists():
        raise InvitationOver


def erase_labels(project: Project, labels: Iterable[str] | None = None) -> None:
    """Erase these labels, or all; links without a label no longer work."""
    rows = WorkerInvitation.objects.filter(project=project).exclude(label="")
    rows = rows if labels is None else rows.filter(label__in=list(labels))
    rows.update(label="")
