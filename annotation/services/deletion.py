"""A project is archived, brought back, or deleted. Deleting closes it to everybody at once; its rows go afterwards.

Removing a million rows in one transaction would hold up every other study. So the one short transaction here writes
the tombstone and takes away every way in, and the updater removes the rows a few hundred at a time (modelling.removal).
"""

import secrets

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from annotation.models import EventHead, Invitation, Membership, Project, Tombstone, User
from annotation.refusals import Refused
from annotation.services.projects import audit

State = Project.State


class Archived(Refused):
    """Whoever wants to change something brings the project back first."""

    status = 409
    code = "archived"
    title = _("This project is archived, so nothing in it can be changed.")
    detail = _("Everything in it is kept. An owner can bring it back in its settings.")


class NotArchivedYet(Refused):
    status = 409
    title = _("A study with judgements is archived before it can be deleted.")
    detail = _("Nothing was deleted. Archive it first; that can be undone, deleting cannot.")


@transaction.atomic
def archive_project(*, project: Project, user: User | None, archived: bool) -> None:
    """The project is out of the lists and nothing in it can be changed; or it is back, closed. Twice is once."""
    project = Project.objects.select_for_update().get(pk=project.pk)
    if (project.archived_at is not None) == archived:
        return
    project.archived_at = timezone.now() if archived else None
    if archived and project.state in (State.OPEN, State.PAUSED):
        project.state = State.CLOSED
    project.save(update_fields=["archived_at", "state"])
    audit(project, user, "archived the project" if archived else "brought the project back")


@transaction.atomic
def delete_project(*, project: Project, user: User | None) -> Tombstone:
    """Nobody can reach the project any more, and the updater removes its rows."""
    project = Project.objects.select_for_update().get(pk=project.pk)
    head = EventHead.objects.select_for_update().get(project=project)
    if head.sequence and project.archived_at is None:
        raise NotArchivedYet
    facts = {"events": head.sequence, "last_hash": head.hash}
    tombstone = Tombstone.objects.create(project_number=project.pk, slug=project.slug, user=user, **facts)
    audit(None, user, "deleted a project", {"slug": project.slug, **facts})
    head.delete()  # from now on no updater learns from it
    Membership.objects.filter(project=project).delete()
    Invitation.objects.filter(project=project).delete()
    hidden = {"slug": f"deleted-{project.pk}-{secrets.token_hex(8)}", "title": "-", "state": State.CLOSED}
    closed = {"listed": False, "ranking_public": False, "archived_at": project.archived_at or timezone.now()}
    Project.objects.filter(pk=project.pk).update(**hidden, **closed)
    return tombstone
