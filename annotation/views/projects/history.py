"""A project's recent changes: its audit entries as text, in the page's language."""

from dataclasses import dataclass
from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from annotation.models import AuditEntry, Preparation, Project, Recruitment, StudyPassport

MAX_CHANGES = 8
MAX_VALUE = 60
# Every action passed to `audit`, listed for translation: rows store the English text.
ACTIONS = (
    gettext_noop("accepted an invitation"),
    gettext_noop("activated an item"),
    gettext_noop("added a webhook"),
    gettext_noop("added an item"),
    gettext_noop("archived the project"),
    gettext_noop("asked for a fit from scratch"),
    gettext_noop("asked for a search for settings"),
    gettext_noop("asked for a simulation of the study"),
    gettext_noop("cancelled the simulation of the study"),
    gettext_noop("changed a member"),
    gettext_noop("changed recruitment"),
    gettext_noop("changed settings"),
    gettext_noop("changed the arms"),
    gettext_noop("changed the gold pairs"),
    gettext_noop("changed the passport"),
    gettext_noop("changed the preparation"),
    gettext_noop("copied from a project"),
    gettext_noop("corrected an item"),
    gettext_noop("created the project"),
    gettext_noop("deactivated an item"),
    gettext_noop("ended a participation"),
    gettext_noop("erased a worker"),
    gettext_noop("erased workers' data after a time without answers"),
    gettext_noop("excluded a worker"),
    gettext_noop("exported the numbers of a figure"),
    gettext_noop("exported the ranking"),
    gettext_noop("gave a worker no more pairs"),
    gettext_noop("gave a worker pairs again"),
    gettext_noop("imported items"),
    gettext_noop("imported judgements"),
    gettext_noop("included a worker again"),
    gettext_noop("invited a member"),
    gettext_noop("invited workers"),
    gettext_noop("made an API token"),
    gettext_noop("moved an item to another group"),
    gettext_noop("named a component"),
    gettext_noop("pinned a version"),
    gettext_noop("released the pinned version"),
    gettext_noop("removed a webhook"),
    gettext_noop("renewed the secret of a webhook"),
    gettext_noop("replaced the suggested pairs"),
    gettext_noop("restored the project"),
    gettext_noop("revoked an API token"),
    gettext_noop("revoked invitations of workers"),
    gettext_noop("sent a test to a webhook"),
    gettext_noop("simulated a crowd"),
    gettext_noop("simulated the study"),
    gettext_noop("switched a webhook off"),
    gettext_noop("switched a webhook on"),
    gettext_noop("withdrew an invitation"),
)
# Actions followed by the name of a table, a format or the archive.
EXPORTS = (gettext_noop("exported %(what)s"), gettext_noop("asked for an export: %(what)s"))
# Labels for details. Changed settings use their field labels instead.
LABELS = {
    "added": gettext_noop("added"),
    "address": gettext_noop("address"),
    "answers": gettext_noop("answers"),
    "arms": gettext_noop("arms"),
    "as_of_seq": gettext_noop("up to event"),
    "component": gettext_noop("component"),
    "comprehension": gettext_noop("comprehension check"),
    "corrected": gettext_noop("corrected"),
    "days": gettext_noop("days"),
    "details": gettext_noop("details"),
    "details_before": gettext_noop("details before"),
    "file": gettext_noop("file"),
    "format": gettext_noop("format"),
    "group": gettext_noop("group"),
    "identities": gettext_noop("platform IDs"),
    "invitations": gettext_noop("invitations"),
    "items": gettext_noop("items"),
    "judgements": gettext_noop("judgements"),
    "judgements_removed": gettext_noop("judgements removed"),
    "key": gettext_noop("key"),
    "member": gettext_noop("member"),
    "new": gettext_noop("new"),
    "new_revisions": gettext_noop("new revisions"),
    "notes": gettext_noop("written reasons"),
    "old": gettext_noop("old"),
    "outcome": gettext_noop("outcome"),
    "pairs": gettext_noop("pairs"),
    "practice": gettext_noop("practice pairs"),
    "reason": gettext_noop("reason"),
    "revision": gettext_noop("revision"),
    "role": gettext_noop("role"),
    "scope": gettext_noop("scope"),
    "seed": gettext_noop("seed"),
    "slug": gettext_noop("short name"),
    "ties": gettext_noop("ties"),
    "to": gettext_noop("address"),
    "token": gettext_noop("token"),
    "traits": gettext_noop("traits"),
    "unchanged": gettext_noop("unchanged"),
    "updated": gettext_noop("changed"),
    "version": gettext_noop("version"),
    "worker": gettext_noop("worker"),
    "workers": gettext_noop("workers"),
}
SETTINGS = {
    "changed settings": Project,
    "changed recruitment": Recruitment,
    "changed the passport": StudyPassport,
    "changed the preparation": Preparation,
    "changed the gold pairs": Preparation,
}


@dataclass(frozen=True)
class Change:
    """An audit entry with its action and details as text."""

    entry: AuditEntry
    action: str
    details: list[str]


def recent_changes(project: Project) -> list[Change]:
    """The newest changes of a project."""
    return [
        Change(entry, describe_action(entry.action), describe_details(entry.action, entry.details))
        for entry in project.audit.select_related("user")[:MAX_CHANGES]
    ]


def describe_action(action: str) -> str:
    """Describe what a user did, in the page's language."""
    if action in ACTIONS:
        return _(action)
    for message in EXPORTS:
        start = message.removesuffix("%(what)s")
        if action.startswith(start):
            return _(message) % {"what": action.removeprefix(start)}
    return action


def describe_details(action: str, details: dict[str, Any]) -> list[str]:
    """Format the details of an audit entry that are not empty; for long values show only the label."""
    values = [(_label(action, name), _format_value(value)) for name, value in details.items()]
    return [f"{label}: {value}" if len(value) <= MAX_VALUE else label for label, value in values if value]


def _label(action: str, name: str) -> str:
    if model := SETTINGS.get(action):
        fields = {field.name: field for field in model._meta.concrete_fields}
        if name in fields:
            return str(fields[name].verbose_name)
    return _(LABELS[name]) if name in LABELS else name.replace("_", " ")


def _format_value(value: Any) -> str:
    """Format a value, or “3 → 5” for old and new; None and booleans become words, 0 and empty values become ""."""
    if isinstance(value, list) and len(value) == 2:
        return " → ".join(_format_value(side) or "–" for side in value)
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_format_value(part)}" for name, part in value.items())
    if value is None or isinstance(value, bool):
        return {True: _("yes"), False: _("no"), None: _("none")}[value]
    if isinstance(value, int):
        return number_format(value, force_grouping=True) if value else ""
    return str(value) if value else ""
