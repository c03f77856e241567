"""Create, change and copy projects and set their members; every change is audited."""

from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from annotation.models import (
    Arm,
    AuditEntry,
    EventHead,
    Item,
    Membership,
    Preparation,
    Project,
    Recruitment,
    Suggestion,
    User,
)
from annotation.services.participation import passport
from annotation.services.participation.quotas import renew_quotas
from annotation.storage import event_log, queries

QUOTA_FIELDS = {"pairs", "judgements_per_worker", "repeat_share"}  # how many judgements a worker is asked for
COPIED = "copied from a project"  # audit action; stored rows use this text
# Fields that are not copied. Everything else is, including fields that later releases add.
NOT_COPIED = {"id", "slug", "title", "state", "import_salt", "simulated", "archived_at", "created_at", "listed"}


@transaction.atomic
def create_project(*, owner: User | None, **fields: Any) -> Project:
    """Create a draft project with its event log and its first owner."""
    project = Project.objects.create(**fields)
    EventHead.objects.create(project=project)
    if owner is not None:
        Membership.objects.create(project=project, user=owner, role=Membership.Role.OWNER)
    audit(project, owner, "created the project")
    return project


@transaction.atomic
def change_project(*, project: Project, user: User | None, changes: dict[str, Any]) -> None:
    """Change these fields and audit their old and new values. A text that is changed becomes Markdown."""
    old = {name: getattr(project, name) for name in changes if getattr(project, name) != changes[name]}
    if not old:
        return
    for name in old:
        setattr(project, name, changes[name])
    project.plain_texts = [name for name in project.plain_texts if name not in old]
    project.save(update_fields=[*old, "plain_texts"])
    if "suggestions" in old:
        Suggestion.objects.filter(project=project).delete()  # the suggestions were made for another purpose
    if "model_settings" in old:
        event_log.raise_inputs_revision(project.pk)
    if not old.keys().isdisjoint(QUOTA_FIELDS):
        renew_quotas(project)
    audit(project, user, "changed settings", {name: [old[name], changes[name]] for name in old})
    if changes.get("state") == Project.State.OPEN and "state" in old:
        passport.freeze(project)  # last: what was changed together with the state is part of the plan


def copied_settings(project: Project) -> dict[str, Any]:
    names = [field.attname for field in Project._meta.concrete_fields]
    return {name: getattr(project, name) for name in names if name not in NOT_COPIED}


@transaction.atomic
def copy_project(*, project: Project, user: User, title: str, slug: str, with_items: bool) -> Project:
    """Create a draft owned by this user with the same settings and optionally the active items, but no judgements."""
    copy = create_project(owner=user, title=title, slug=slug, **copied_settings(project))
    items = [_copy_item(item, copy) for item in Item.objects.filter(project=project, active=True)] if with_items else []
    if items:
        queries.insert(items)
        event_log.raise_inputs_revision(copy.pk)
    if recruitment := Recruitment.objects.filter(project=project).first():
        recruitment.pk, recruitment.project, recruitment._state.adding = None, copy, True
        recruitment.study_id, recruitment.webhook_secret, recruitment.arrivals = "", "", 0
        recruitment.unreplaced_at = recruitment.unverified_at = None
        recruitment.save()
    rows: list[Arm | Preparation] = [*Arm.objects.filter(project=project), *Preparation.objects.filter(project=project)]
    for row in rows:
        row.pk, row.project, row._state.adding = None, copy, True
        row.save()
    audit(copy, user, COPIED, {"slug": project.slug, "items": len(items)})
    return copy


def _copy_item(item: Item, project: Project) -> Item:
    fields = {name: getattr(item, name) for name in ("key", "text", "group", "metadata", "features")}
    return Item(project=project, created_at=item.created_at, **fields)


@transaction.atomic
def set_membership(*, project: Project, user: User, member: User, role: str | None) -> None:
    """Give `member` this role, or remove them with None. The last owner cannot be removed."""
    memberships = Membership.objects.select_for_update().filter(project=project)
    if role is None:
        memberships.filter(user=member).delete()
    else:
        memberships.update_or_create(user=member, project=project, defaults={"role": role})
    if not memberships.filter(role=Membership.Role.OWNER).exists():
        raise ValueError(
            _("A study needs at least one owner. Nothing was changed. Make another member an owner first.")
        )
    audit(project, user, "changed a member", {"member": member.get_username(), "role": role})


def audit(project: Project | None, user: User | None, action: str, details: dict[str, Any] | None = None) -> None:
    AuditEntry.objects.create(project=project, user=user, action=action, details=details or {})
