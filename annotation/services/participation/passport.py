"""Freeze a study's plan before its first answer, verify it, and list what changed afterwards."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from annotation.models import AuditEntry, Item, Judgement, Preparation, Project, StudyPassport
from annotation.models.arms import describe_arms

RULES = ("exclusion_rules", "stop_rule")
SETTINGS = (
    "question", "instructions", "consent", "language", "ties_allowed", "judgements_per_worker", "redundancy", "pairs",
    "repeat_share", "suggestions", "random_share", "top_k", "stop_target", "stop_pauses", "attention_checks",
    "gold_checks", "answers_wanted", "questionnaire",
)  # fmt: skip
PREPARATION = ("practice", "comprehension", "gold", "gold_limit", "gold_consequence")
ARMS, SIMULATION = "arms", "simulation"
# Audit actions that change the active items.
ITEM_ACTIONS = (
    "activated an item", "added an item", "corrected an item", "deactivated an item", "imported items",
    "moved an item to another group",
)  # fmt: skip
ITEM_CHANGES = "items"
NOT_COLLECTED = (Judgement.Source.IMPORT, Judgement.Source.SIMULATED)


def get_passport(project: Project) -> StudyPassport:
    return StudyPassport.objects.filter(project=project).first() or StudyPassport(project=project)


def plan_of(project: Project) -> dict[str, Any]:
    """The plan as it is now: question, design, rules and items (by number and digest)."""
    passport = get_passport(project)
    preparation = Preparation.objects.filter(project=project).first() or Preparation(project=project)
    items = Item.objects.filter(project=project, active=True).order_by("key", "revision")
    rows = list(items.values_list("key", "revision", "text", "group"))
    simulation = {SIMULATION: passport.simulation} if passport.simulation else {}
    return {
        **{name: getattr(project, name) for name in SETTINGS},
        **{name: getattr(preparation, name) for name in PREPARATION},
        **{name: getattr(passport, name) for name in RULES},
        ARMS: describe_arms(project),
        **simulation,
        "n_items": len(rows),
        "items_sha256": digest_of(rows),
    }


def digest_of(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def freeze(project: Project) -> None:
    """Freeze the plan when a study opens. After the first answer of a person nothing is frozen again."""
    if Judgement.objects.filter(project=project).exclude(source__in=NOT_COLLECTED).exists():
        return
    passport = get_passport(project)
    passport.content, passport.frozen_at = plan_of(project), timezone.now()
    passport.digest = digest_of([passport.content, passport.frozen_at.isoformat()])
    passport.save()


def is_intact(content: dict[str, Any], frozen_at: str, digest: str) -> bool:
    """Whether the digest matches the passport's content and time."""
    return digest_of([content, frozen_at]) == digest


@dataclass(frozen=True)
class PlanChange:
    """A change to the plan after it was frozen, with the old and new values.

    For a change of items there is no old value; the new one lists what was done to which items.
    """

    at: datetime
    by: str
    name: str
    old: Any
    new: Any


def list_changes(passport: StudyPassport) -> list[PlanChange]:
    """The changes to the frozen plan in chronological order, from the audit log."""
    if passport.frozen_at is None:
        return []
    entries = AuditEntry.objects.filter(project=passport.project, at__gt=passport.frozen_at).select_related("user")
    return [change for entry in entries.order_by("at", "pk") for change in _changes_in(entry)]


def _changes_in(entry: AuditEntry) -> Iterator[PlanChange]:
    by = entry.user.get_username() if entry.user else ""
    if entry.action in ITEM_ACTIONS:
        details = {name: value for name, value in entry.details.items() if name != "details_before"}
        yield PlanChange(entry.at, by, ITEM_CHANGES, None, {"action": entry.action, **details})
        return
    names = {*SETTINGS, *PREPARATION, *RULES, ARMS, SIMULATION}
    for name, value in entry.details.items():
        if name in names and isinstance(value, list) and len(value) == 2:
            yield PlanChange(entry.at, by, name, *value)


def changed_items(passport: StudyPassport) -> bool:
    """Whether the active items differ from the frozen ones."""
    now = plan_of(passport.project)
    return any(now[name] != passport.content.get(name) for name in ("n_items", "items_sha256"))


def export_passport(project: Project, made_at: datetime) -> dict[str, Any] | None:
    """The passport for the archive of a version made at this time; None if the plan was not frozen then.

    It has every change so far, also those made after the version: a rule may change once the results are known.
    """
    passport = get_passport(project)
    if passport.frozen_at is None or passport.frozen_at > made_at:
        return None
    return {
        "content": passport.content,
        "frozen_at": passport.frozen_at.isoformat(),
        "sha256": passport.digest,
        "changes": [
            {"at": change.at.isoformat(), "name": change.name, "old": change.old, "new": change.new}
            for change in list_changes(passport)
        ],
        "items_changed": changed_items(passport),
    }
