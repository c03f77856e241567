"""Add, correct, activate and deactivate items. A judged text is never overwritten: a correction is a new revision."""

import unicodedata
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.exceptions import RequestError
from annotation.models import EventHead, Item, Project, User
from annotation.services import audit
from annotation.services.participation.quotas import renew_quotas
from annotation.storage import event_log

MAX_KEY = 200
MAX_GROUP = 200


class KeyTaken(RequestError):
    """Another item has this key, or one that looks the same."""

    status = 422
    title = gettext_lazy("This key is already in use.")
    detail = gettext_lazy("Nothing was changed. Choose another key, or correct the item that has it.")

    def __init__(self, taken: str) -> None:
        message = _("The study already has an item “%(key)s”. Choose another key, or correct that item.")
        super().__init__(message % {"key": taken})


class EditConflict(RequestError):
    status = 409
    title = gettext_lazy("Another person has corrected this item in the meantime.")
    detail = gettext_lazy("Nothing was changed. Check the newest text, then correct it if it is still needed.")


def normalise_key(key: str) -> str:
    """Normalise case, spaces and Unicode variants, so that keys that look the same compare equal."""
    return "".join(unicodedata.normalize("NFKC", key).casefold().split())


def normalise_newlines(text: str) -> str:
    """Normalise line ends to \\n, so that the same text compares equal on every platform."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def current_items(project: Project) -> "QuerySet[Item]":
    """The newest revision of every item, active or not."""
    newer = Item.objects.filter(project=OuterRef("project"), key=OuterRef("key"), revision__gt=OuterRef("revision"))
    return Item.objects.filter(~Exists(newer), project=project)


def lock_items(project: Project) -> None:
    """Prevent other transactions from adding or correcting items until this one ends."""
    EventHead.objects.select_for_update().get(project=project)


@transaction.atomic
def add_item(*, project: Project, user: User | None, key: str, text: str, group: str = "") -> Item:
    """Create an active item."""
    lock_items(project)
    keys = Item.objects.filter(project=project).values_list("key", flat=True).distinct()
    if taken := next((other for other in keys if normalise_key(other) == normalise_key(key)), None):
        raise KeyTaken(taken)
    item = Item.objects.create(project=project, key=key, text=normalise_newlines(text), group=group)
    _record_change(item, user, "added an item", {})
    return item


@transaction.atomic
def correct_item(*, item: Item, user: User | None, text: str, group: str) -> Item:
    """Set the item's text and group. A new text creates a revision; a new group alone does not."""
    lock_items(item.project)
    newest = Item.objects.filter(project=item.project).revisions(item.key)[0]
    if newest.pk != item.pk:
        raise EditConflict
    text = normalise_newlines(text)
    if (text, group) == (newest.text, newest.group):
        return newest
    if text == newest.text:
        changes = {"group": [newest.group, group]}
        newest.group = group
        newest.save(update_fields=["group"])
        _record_change(newest, user, "moved an item to another group", changes)
        return newest
    Item.objects.filter(pk=newest.pk).update(active=False)
    revised = next_revision(newest, text=text, group=group)
    revised.save()
    _record_change(revised, user, "corrected an item", {"revision": revised.revision})
    return revised


def next_revision(item: Item, **changes: Any) -> Item:
    """The next revision of this item, unsaved. It is active if this one is."""
    fields = {name: getattr(item, name) for name in ("text", "group", "metadata", "features", "active")}
    return Item(project=item.project, key=item.key, revision=item.revision + 1, **{**fields, **changes})


@transaction.atomic
def set_item_active(*, item: Item, user: User | None, active: bool) -> Item:
    """Activate or deactivate the newest revision of this item. Idempotent."""
    lock_items(item.project)
    newest = Item.objects.filter(project=item.project).revisions(item.key)[0]
    if newest.active != active:
        newest.active = active
        newest.save(update_fields=["active"])
        _record_change(newest, user, "activated an item" if active else "deactivated an item", {})
    return newest


def _record_change(item: Item, user: User | None, action: str, details: dict[str, Any]) -> None:
    """Audit the change, trigger a model update and recompute the workers' quotas."""
    event_log.raise_inputs_revision(item.project_id)
    renew_quotas(item.project)
    audit(item.project, user, action, {"key": item.key, **details})
