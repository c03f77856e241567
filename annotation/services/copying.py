"""A project as the template of another: its words and rules, its items if wanted, never its judgements or people."""

from typing import Any

from django.db import transaction

from annotation import ledger, statements
from annotation.models import Item, Project, User
from annotation.services.projects import audit, create_project

# What belongs to one study alone. Everything else is copied, also what later releases add.
ITS_OWN = {"id", "slug", "title", "state", "import_salt", "simulated", "archived_at", "created_at", "listed"}


def template_of(project: Project) -> dict[str, Any]:
    """The settings that a copy takes over."""
    names = [field.attname for field in Project._meta.concrete_fields]
    return {name: getattr(project, name) for name in names if name not in ITS_OWN}


@transaction.atomic
def copy_project(*, project: Project, user: User, title: str, slug: str, with_items: bool) -> Project:
    """A draft with the same settings that belongs to who asked for it; with the newest texts, if wanted."""
    copy = create_project(owner=user, title=title, slug=slug, **template_of(project))
    items = [_copied(item, copy) for item in Item.objects.filter(project=project, active=True)] if with_items else []
    if items:
        statements.insert(items)
        ledger.raise_inputs_revision(copy.pk)
    audit(copy, user, "copied from a project", {"slug": project.slug, "items": len(items)})
    return copy


def _copied(item: Item, project: Project) -> Item:
    kept = {name: getattr(item, name) for name in ("key", "text", "group", "metadata", "features")}
    return Item(project=project, created_at=item.created_at, **kept)
