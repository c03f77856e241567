"""Recent changes on the overview: every action has a text, and settings have the labels of their forms."""

import ast
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from django.utils import translation

from annotation import services
from annotation.models import AuditEntry, Project, User
from annotation.views.projects import history

AUDITS = {"audit", "_record_change", "_change"}
OF_NO_PROJECT = {"deleted a project", "listed a host for webhooks", "took a host for webhooks off the list"}


def audited_texts() -> set[str]:
    """The text constants among the arguments of every call that writes an audit entry."""
    files = [path for app in ("annotation", "modelling") for path in (Path(settings.BASE_DIR) / app).rglob("*.py")]
    sources = [
        source for path in files if any(f"{name}(" in (source := path.read_text(encoding="utf-8")) for name in AUDITS)
    ]
    calls = [node for source in sources for node in ast.walk(ast.parse(source))]
    texts = [
        part.value
        for node in calls
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in AUDITS
        for argument in node.args[:4]
        for part in ([argument.body, argument.orelse] if isinstance(argument, ast.IfExp) else [argument])
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    return {text for text in texts if text} - OF_NO_PROJECT


def test_every_audited_action_can_be_translated() -> None:
    texts = audited_texts()
    assert len(texts) > 30
    assert texts <= set(history.ACTIONS)


@pytest.mark.django_db
def test_changes_are_shown_in_the_language_of_the_page(project: Project, owner: User, olga: Client) -> None:
    services.change_project(project=project, user=owner, changes={"ranking_public": True, "judgements_per_worker": 7})
    page = olga.get("/projects/pets/").text
    assert "changed settings" in page
    assert "public ranking: no → yes; judgements per worker: 40 → 7" in page
    with translation.override("de"):
        (change,) = [each for each in history.recent_changes(project) if each.entry.action == "changed settings"]
    assert change.action == "hat Einstellungen geändert"
    assert change.details == ["öffentliche Rangfolge: nein → ja", "Urteile je Person: 40 → 7"]


@pytest.mark.django_db
def test_exports_and_entries_of_earlier_releases_are_shown(project: Project) -> None:
    AuditEntry.objects.create(project=project, action="exported judgements", details={"as_of_seq": 3, "format": ""})
    AuditEntry.objects.create(project=project, action="changed settings", details={"old_field": [1, 2]})
    AuditEntry.objects.create(project=project, action="did something else", details={"some_count": 4321})
    other, old, export = history.recent_changes(project)[:3]
    assert (other.action, other.details) == ("did something else", ["some count: 4,321"])
    assert old.details == ["old field: 1 → 2"]
    assert (export.action, export.details) == ("exported judgements", ["up to event: 3"])
    with translation.override("de"):
        assert history.recent_changes(project)[2].action == "hat exportiert: judgements"
