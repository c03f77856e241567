"""Import items: plan the changes to the project, then store them in one transaction. `item_files` reads the file."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from django.db import connection, transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from annotation.importing.cells import strip_export_apostrophe as strip
from annotation.importing.item_files import ImportedItem
from annotation.importing.problems import ImportFileError, ProblemList, format_count, quote
from annotation.models import Item, Project, User
from annotation.models.items import MOST_MODEL_ITEMS
from annotation.services import audit
from annotation.services.items import current_items, lock_items, next_revision, normalise_key
from annotation.services.participation.quotas import renew_quotas
from annotation.storage import event_log

MIN_ITEMS = 2
BATCH = 500
MAX_AUDITED = 100
MAX_LISTED = 20


@dataclass(slots=True)
class ItemImportPlan:
    """What the import will change, row by row; `updated` items keep their text."""

    in_background: ClassVar[bool] = False
    added: list[ImportedItem] = field(default_factory=list)
    corrected: list[tuple[ImportedItem, Item]] = field(default_factory=list)
    updated: list[tuple[ImportedItem, Item]] = field(default_factory=list)
    unchanged: list[ImportedItem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        names = ("added", "corrected", "updated", "unchanged")
        return {name: len(getattr(self, name)) for name in names}

    def outcomes(self) -> dict[str, str]:
        """Return added, corrected, updated or unchanged for each key of the file."""
        rows = [(row.key, "added") for row in self.added] + [(row.key, "unchanged") for row in self.unchanged]
        rows += [(row.key, "corrected") for row, _ in self.corrected] + [
            (row.key, "updated") for row, _ in self.updated
        ]
        return dict(rows)

    @property
    def basis(self) -> str:
        """A hash of the changes and of what they replace; if it differs, the preview is out of date."""
        replaced = [
            [row.key, item.pk, item.metadata, item.features, item.group] for row, item in self.corrected + self.updated
        ]
        content = json.dumps([self.counts, [row.key for row in self.added], replaced], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def changes_anything(self) -> bool:
        return bool(self.added or self.corrected or self.updated)


def plan_items(project: Project, rows: Iterable[ImportedItem]) -> ItemImportPlan:
    """Compare the rows with the project's current items."""
    known = {item.key: item for item in current_items(project)}
    lookalikes = {normalise_key(key): key for key in known}
    plan, problems, rows = ItemImportPlan(), ProblemList(), list(rows)
    unmentioned = known.keys() - {row.key for row in rows}
    for row in (_strip_apostrophes(row, known, unmentioned) for row in rows):
        existing = lookalikes.get(normalise_key(row.key))
        if existing is not None and existing != row.key:
            pair = _("%(key)s and the existing key %(existing)s") % {"key": quote(row.key), "existing": quote(existing)}
            problems.add(row.line, "key", _("Keys that are too similar: %(values)s."), pair)
        else:
            _add_to_plan(plan, row, known.get(row.key))
    problems.raise_if_any()
    if len(known) + len(plan.added) < MIN_ITEMS:
        raise ImportFileError(_("At least 2 items are needed."))
    plan.warnings = _find_warnings(project, plan, known)
    return plan


def _find_warnings(project: Project, plan: ItemImportPlan, known: dict[str, Item]) -> list[str]:
    """Warn about identical texts in a group and groups with one item, as the study will be after the import."""
    contents = {item.key: (item.group, item.text) for item in known.values() if item.active}
    for row in [*plan.added, *(row for row, _item in plan.corrected + plan.updated)]:
        group = known[row.key].group if row.group is None and row.key in known else row.group or ""
        contents[row.key] = (group, row.text)
    same_text, by_group = defaultdict[tuple[str, str], list[str]](list), defaultdict[str, list[str]](list)
    for key, (group, text) in contents.items():
        same_text[group, text.strip()].append(key)
        by_group[group].append(key)
    warnings = []
    if twins := [keys for keys in same_text.values() if len(keys) > 1]:
        message = ngettext(
            "%(count)s text appears more than once in its group: %(keys)s. Deactivate all but one of the items.",
            "%(count)s texts appear more than once in their group: %(keys)s. Deactivate all but one of the items.",
            len(twins),
        )
        warnings.append(message % {"count": len(twins), "keys": join_keys(" = ".join(keys) for keys in twins)})
    lone = [keys[0] for group, keys in by_group.items() if len(keys) == 1 and group]
    if lone and project.pairs == Project.Pairs.WITHIN_GROUP:
        message = ngettext(
            "%(count)s item is alone in its group and will never be judged: %(keys)s.",
            "%(count)s items are alone in their group and will never be judged: %(keys)s.",
            len(lone),
        )
        warnings.append(message % {"count": len(lone), "keys": join_keys(lone)})
    if len(contents) > MOST_MODEL_ITEMS:
        message = _(
            "The study will have %(count)s items. The model can fit at most %(most)s; with more, there is no ranking. "
            "Split the items among several studies."
        )
        warnings.append(message % {"count": format_count(len(contents)), "most": format_count(MOST_MODEL_ITEMS)})
    return warnings


def join_keys(keys: Iterable[str]) -> str:
    """Join the first few keys into a comma-separated text."""
    keys = list(keys)
    shown = ", ".join(keys[:MAX_LISTED])
    return shown if len(keys) <= MAX_LISTED else shown + ", …"


@transaction.atomic
def import_items(*, project: Project, user: User | None, rows: list[ImportedItem]) -> ItemImportPlan:
    """Store these items; importing the same rows again changes nothing."""
    lock_items(project)
    plan = plan_items(project, rows)
    if plan.changes_anything:
        _store(project, user, plan)
    return plan


def _strip_apostrophes(row: ImportedItem, known: dict[str, Item], unmentioned: Container[str]) -> ImportedItem:
    """Remove the apostrophes that an export put before formulas, if the project has the same value without one."""
    key = strip(row.key, unmentioned)
    item = known.get(key)
    if item is None:
        return row
    group = None if row.group is None else strip(row.group, [item.group])
    return replace(row, key=key, text=strip(row.text, [item.text]), group=group)


def _add_to_plan(plan: ItemImportPlan, row: ImportedItem, item: Item | None) -> None:
    if item is None:
        plan.added.append(row)
    elif item.text != row.text:
        plan.corrected.append((row, item))
    elif not _has_same_details(row, item):
        plan.updated.append((row, item))
    else:
        plan.unchanged.append(row)


def _has_same_details(row: ImportedItem, item: Item) -> bool:
    """Whether the row has the item's group, metadata and features; columns missing from the file are ignored."""
    return (
        row.group in (None, item.group)
        and item.metadata.items() >= row.metadata.items()
        and item.features.items() >= row.features.items()
    )


def _store(project: Project, user: User | None, plan: ItemImportPlan) -> None:
    """Store new items, new revisions and changed details; the caller has locked the project's items."""
    replaced = [item.pk for _, item in plan.corrected]
    for start in range(0, len(replaced), BATCH):
        Item.objects.filter(pk__in=replaced[start : start + BATCH]).update(active=False)
    revised = [next_revision(item, text=row.text, **_merge_details(row, item)) for row, item in plan.corrected]
    added = [_new_item(project, row) for row in plan.added]
    Item.objects.bulk_create([*revised, *added], batch_size=BATCH)
    _store_details(plan.updated)
    event_log.raise_inputs_revision(project.pk)
    renew_quotas(project)
    new_revisions = [[item.key, item.revision + 1] for _, item in plan.corrected[:MAX_AUDITED]]
    before = {item.key: [item.group, item.metadata, item.features] for _, item in plan.updated[:MAX_AUDITED]}
    details = {**plan.counts, "new_revisions": new_revisions, "details_before": before}
    audit(project, user, "imported items", details)


def _new_item(project: Project, row: ImportedItem) -> Item:
    details = {"group": row.group or "", "metadata": row.metadata, "features": row.features}
    return Item(project=project, key=row.key, text=row.text, **details)


def _merge_details(row: ImportedItem, item: Item) -> dict[str, Any]:
    """Merge the row's details into the item's; the row's values win."""
    return {
        "group": item.group if row.group is None else row.group,
        "metadata": {**item.metadata, **row.metadata},
        "features": {**item.features, **row.features},
    }


def _store_details(updated: list[tuple[ImportedItem, Item]]) -> None:
    """Update group, metadata and features; one statement for many rows keeps the write lock short."""
    rows = []
    for row, item in updated:
        details = _merge_details(row, item)
        rows.append((details["group"], json.dumps(details["metadata"]), json.dumps(details["features"]), item.pk))
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(
                'UPDATE annotation_item SET "group" = %s, metadata = %s, features = %s WHERE id = %s', rows
            )
