"""Archive, restore and delete projects.

Deleting a million rows in one transaction would block every other study. So `delete_project` only writes a tombstone
and makes the project unreachable, and the updater removes its rows a few hundred at a time (updater/project_removal).
"""

import secrets

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from annotation.exceptions import RequestError
from annotation.models import EventHead, Invitation, JudgementImport, Membership, Project, Tombstone, User
from annotation.services.projects import audit

State = Project.State


class ProjectArchived(RequestError):
    status = 409
    code = "archived"
    title = _("This study is archived and cannot be changed.")
    detail = _("All its data is kept. An owner can restore it in the settings.")


class NotArchived(RequestError):
    status = 409
    title = _("A study with judgements must be archived before it can be deleted.")
    detail = _("Nothing was deleted. Archive it first; that can be undone, deleting cannot.")


@transaction.atomic
def archive_project(*, project: Project, user: User | None, archived: bool) -> None:
    """Archive the project, which hides it and makes it read-only, or restore it as closed. Idempotent."""
    project = Project.objects.select_for_update().get(pk=project.pk)
    if (project.archived_at is not None) == archived:
        return
    project.archived_at = timezone.now() if archived else None
    if archived and project.state in (State.OPEN, State.PAUSED):
        project.state = State.CLOSED
    project.save(update_fields=["archived_at", "state"])
    audit(project, user, "archived the project" if archived else "restored the project")


@transaction.atomic
def delete_project(*, project: Project, user: User | None) -> Tombstone:
    """Make the project unreachable at once; the updater removes its rows."""
    # The log first: an answer locks it too, and then, by its INSERT, the project. The other order could deadlock.
    head = EventHead.objects.select_for_update().get(project=project)
    project = Project.objects.select_for_update().get(pk=project.pk)
    if head.sequence and project.archived_at is None:
        raise NotArchived
    log_end = {"events": head.sequence, "last_hash": head.hash}
    tombstone = Tombstone.objects.create(project_number=project.pk, slug=project.slug, user=user, **log_end)
    audit(None, user, "deleted a project", {"slug": project.slug, **log_end})
    head.delete()  # from now on no updater claims the project
    Membership.objects.filter(project=project).delete()
    Invitation.objects.filter(project=project).delete()
    JudgementImport.objects.filter(project=project).delete()
    hidden = {"slug": f"deleted-{project.pk}-{secrets.token_hex(8)}", "title": "-", "state": State.CLOSED}
    closed = {"listed": False, "ranking_public": False, "archived_at": project.archived_at or timezone.now()}
    Project.objects.filter(pk=project.pk).update(**hidden, **closed)
    return tombstone
