"""The items of a file as rows: drafts, what they would change, and the change itself, written in bulk."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from django.db import connection

from annotation import ledger
from annotation.curation import revision_of
from annotation.models import Item, Project, User
from annotation.services import audit

BATCH = 500
MOST_NAMED = 100


@dataclass(frozen=True, slots=True)
class Draft:
    """One row of the file. The group is None where the file does not speak of groups."""

    line: int
    key: str
    text: str
    group: str | None
    metadata: dict[str, str]
    features: dict[str, float]


@dataclass(slots=True)
class Plan:
    """What an import would do, row by row."""

    added: list[Draft] = field(default_factory=list)
    corrected: list[tuple[Draft, Item]] = field(default_factory=list)
    updated: list[tuple[Draft, Item]] = field(default_factory=list)
    unchanged: list[Draft] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        names = ("added", "corrected", "updated", "unchanged")
        return {name: len(getattr(self, name)) for name in names}

    def outcomes(self) -> dict[str, str]:
        """What happens to each key of the file: added, corrected, updated or unchanged."""
        rows = [(d.key, "added") for d in self.added] + [(d.key, "unchanged") for d in self.unchanged]
        rows += [(d.key, "corrected") for d, _ in self.corrected] + [(d.key, "updated") for d, _ in self.updated]
        return dict(rows)

    @property
    def basis(self) -> str:
        """A fingerprint of what would change and of what it would replace: another basis is another preview."""
        facts = [
            [d.key, item.pk, item.metadata, item.features, item.group] for d, item in self.corrected + self.updated
        ]
        said = json.dumps([self.counts, [draft.key for draft in self.added], facts], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()

    @property
    def changes_anything(self) -> bool:
        return bool(self.added or self.corrected or self.updated)


def store_items(project: Project, user: User | None, plan: Plan) -> None:
    """New items, new revisions and changed details are stored. Call while the project's items are held."""
    for batch in _batches(item.pk for _, item in plan.corrected):
        Item.objects.filter(pk__in=batch).update(active=False)
    revised = [revision_of(item, text=draft.text, **_details(draft, item)) for draft, item in plan.corrected]
    added = [_new_item(project, draft) for draft in plan.added]
    Item.objects.bulk_create([*revised, *added], batch_size=BATCH)
    _store_details(plan.updated)
    ledger.raise_inputs_revision(project.pk)
    audit(project, user, "imported items", _summary(plan))


def _new_item(project: Project, draft: Draft) -> Item:
    return Item(
        project=project,
        key=draft.key,
        text=draft.text,
        group=draft.group or "",
        metadata=draft.metadata,
        features=draft.features,
    )


def _details(draft: Draft, item: Item) -> dict[str, Any]:
    """What the file says about the item, over what it does not speak of."""
    return {
        "group": item.group if draft.group is None else draft.group,
        "metadata": {**item.metadata, **draft.metadata},
        "features": {**item.features, **draft.features},
    }


def _store_details(updated: list[tuple[Draft, Item]]) -> None:
    """Group, metadata and features of items whose text stays. One statement for many rows keeps the lock short."""
    rows = []
    for draft, item in updated:
        details = _details(draft, item)
        rows.append((details["group"], json.dumps(details["metadata"]), json.dumps(details["features"]), item.pk))
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(
                'UPDATE annotation_item SET "group" = %s, metadata = %s, features = %s WHERE id = %s', rows
            )


def _summary(plan: Plan) -> dict[str, Any]:
    """Numbers, and the first keys of what was changed rather than added, with the details as they were."""
    corrected = [[item.key, item.revision + 1] for _, item in plan.corrected[:MOST_NAMED]]
    before = {item.key: [item.group, item.metadata, item.features] for _, item in plan.updated[:MOST_NAMED]}
    return {**plan.counts, "new_revisions": corrected, "details_before": before}


def _batches(values: Iterable[int]) -> Iterator[list[int]]:
    iterator = iter(values)
    while batch := list(islice(iterator, BATCH)):
        yield batch
