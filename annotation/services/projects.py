"""Projects, their settings and their members; every change is in the audit."""

from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from annotation import ledger
from annotation.models import AuditEntry, EventHead, Membership, Project, User


@transaction.atomic
def create_project(*, owner: User | None, **fields: Any) -> Project:
    """A draft project with its event log, and its first owner."""
    project = Project.objects.create(**fields)
    EventHead.objects.create(project=project)
    if owner is not None:
        Membership.objects.create(project=project, user=owner, role=Membership.Role.OWNER)
    audit(project, owner, "created the project")
    return project


@transaction.atomic
def change_project(*, project: Project, user: User | None, changes: dict[str, Any]) -> None:
    """The project with these fields changed; old and new values are in the audit."""
    old = {name: getattr(project, name) for name in changes if getattr(project, name) != changes[name]}
    if not old:
        return
    for name in old:
        setattr(project, name, changes[name])
    project.save(update_fields=list(old))
    if "model_settings" in old:
        ledger.raise_inputs_revision(project.pk)
    audit(project, user, "changed settings", {name: [old[name], changes[name]] for name in old})


@transaction.atomic
def set_membership(*, project: Project, user: User, member: User, role: str | None) -> None:
    """`member` has this role in the project, or none. The last owner cannot be removed."""
    memberships = Membership.objects.select_for_update().filter(project=project)
    if role is None:
        memberships.filter(user=member).delete()
    else:
        memberships.update_or_create(user=member, project=project, defaults={"role": role})
    if not memberships.filter(role=Membership.Role.OWNER).exists():
        raise ValueError(_("A project needs at least one owner. Nothing was changed; name another owner first."))
    audit(project, user, "changed a member", {"member": member.get_username(), "role": role})


def audit(project: Project | None, user: User | None, action: str, details: dict[str, Any] | None = None) -> None:
    AuditEntry.objects.create(project=project, user=user, action=action, details=details or {})
