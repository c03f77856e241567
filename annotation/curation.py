"""The writes on items during a study: add, correct, switch off and on. Judged texts are never overwritten."""

import unicodedata
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation import ledger
from annotation.models import EventHead, Item, Project, User
from annotation.refusals import Refused
from annotation.services import audit

MAX_KEY = 200
MAX_GROUP = 200


class KeyTaken(Refused):
    """Another item has this key, or one that a reader would take for it."""

    status = 422
    title = gettext_lazy("This key is taken.")
    detail = gettext_lazy("Nothing was changed. Choose another key, or correct the item that has it.")

    def __init__(self, taken: str) -> None:
        self.taken = taken
        words = _("The project already has the item “%(key)s”. Choose another key, or correct that item.")
        super().__init__(words % {"key": taken})


class Outdated(Refused):
    """Somebody else corrected the item in the meantime."""

    status = 409
    title = gettext_lazy("This item was corrected by somebody else in the meantime.")
    detail = gettext_lazy("Nothing was changed. Look at the newest text, then correct it if you still want to.")


def look_alike(key: str) -> str:
    """Two keys that a reader would take for one another have the same look: case, spaces and Unicode form aside."""
    return "".join(unicodedata.normalize("NFKC", key).casefold().split())


def tidy_text(text: str) -> str:
    """The text with one kind of line end, so that the same text compares equal wherever it was written."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def current_items(project: Project) -> "QuerySet[Item]":
    """The newest revision of every item, switched on or off."""
    newer = Item.objects.filter(project=OuterRef("project"), key=OuterRef("key"), revision__gt=OuterRef("revision"))
    return Item.objects.filter(~Exists(newer), project=project)


def hold_items(project: Project) -> None:
    """Until this transaction ends nobody else adds or corrects items of the project."""
    EventHead.objects.select_for_update().get(project=project)


@transaction.atomic
def add_item(*, project: Project, user: User | None, key: str, text: str, group: str = "") -> Item:
    """A new item that workers can be given from now on."""
    hold_items(project)
    keys = Item.objects.filter(project=project).values_list("key", flat=True).distinct()
    if taken := next((other for other in keys if look_alike(other) == look_alike(key)), None):
        raise KeyTaken(taken)
    item = Item.objects.create(project=project, key=key, text=tidy_text(text), group=group)
    _note(item, user, "added an item", {})
    return item


@transaction.atomic
def correct_item(*, item: Item, user: User | None, text: str, group: str) -> Item:
    """The item with this text and group: other words are a new revision, another group alone is not."""
    hold_items(item.project)
    newest = Item.objects.filter(project=item.project).of_key(item.key)[0]
    if newest.pk != item.pk:
        raise Outdated
    text = tidy_text(text)
    if (text, group) == (newest.text, newest.group):
        return newest
    if text == newest.text:
        changes = {"group": [newest.group, group]}
        newest.group = group
        newest.save(update_fields=["group"])
        _note(newest, user, "moved an item to another group", changes)
        return newest
    Item.objects.filter(pk=newest.pk).update(active=False)
    revised = revision_of(newest, text=text, group=group)
    revised.save()
    _note(revised, user, "corrected an item", {"revision": revised.revision})
    return revised


def revision_of(item: Item, **changes: Any) -> Item:
    """The next revision of this item, not yet stored; it is given out if this one was."""
    kept = {name: getattr(item, name) for name in ("text", "group", "metadata", "features", "active")}
    return Item(project=item.project, key=item.key, revision=item.revision + 1, **{**kept, **changes})


@transaction.atomic
def switch_item(*, item: Item, user: User | None, active: bool) -> Item:
    """The newest revision of this item is given to workers, or no longer is. Twice is once."""
    hold_items(item.project)
    newest = Item.objects.filter(project=item.project).of_key(item.key)[0]
    if newest.active != active:
        newest.active = active
        newest.save(update_fields=["active"])
        _note(newest, user, "switched an item on" if active else "switched an item off", {})
    return newest


def _note(item: Item, user: User | None, action: str, details: dict[str, Any]) -> None:
    """The model learns from other items now, and the audit says why."""
    ledger.raise_inputs_revision(item.project_id)
    audit(item.project, user, action, {"key": item.key, **details})
