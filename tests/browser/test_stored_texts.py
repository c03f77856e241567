"""Hostile strings in every text column and every JSON field of the database: no page runs one."""

from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models, transaction
from playwright.sync_api import Browser

from annotation.models import Project, User
from annotation.storage import event_log
from tests.browser.judging.hostile_texts import TEXTS
from tests.browser.judging.test_texts import WATCH
from tests.browser.test_end_to_end import log_in
from tests.browser.test_every_page import ACCOUNT, PAID, PUBLIC, invitation, study_pages

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

invitation = invitation  # the fixture: studies with versions, files, arms, gold pairs, webhooks and tokens
# Columns with a fixed set of values or a format that the program itself writes: no one can enter a text there.
NOT_TEXTS = {
    "annotation.User": {"password", "username", "email"},
    "annotation.Project": {"slug", "language"},
    "annotation.Item": {"key"},
    "annotation.Worker": {"code", "return_digest"},
    "annotation.Arm": set(),
    "modelling.Webhook": {"url", "secret"},
}
FORMATS = (
    "digest",
    "hash",
    "checksum",
    "secret",
    "token",
    "prefix",
    "code_version",
    "state",
    "kind",
    "language",
    "url",
)
JSON_OF_THE_PROGRAM = {"model_settings", "diagnostics", "progress", "settings", "plain_texts", "values", "payload"}
# Plotly sets the style attribute of heat maps, which the policy blocks; that is no script.
HARMED = "'pwned' in window || violations.some(each => each !== 'style-src-attr')"
PAGES_OF_STUDIES = ["items/", "workers/", "history/", "members/", "exports/", "webhooks/"]


def text_fields(model: type[models.Model]) -> "list[models.Field[Any, Any]]":
    """The columns that hold what people typed or imported."""
    excluded = NOT_TEXTS.get(model._meta.label, set())
    return [
        field
        for field in model._meta.concrete_fields
        if isinstance(field, models.CharField | models.TextField)
        and not (field.choices or field.unique or field.primary_key or field.name in excluded)
        and not field.name.endswith(FORMATS)
    ]


def with_hostile_leaves(value: Any, text: str) -> Any:
    """The same JSON with every text replaced, except those that name a kind of thing."""
    if isinstance(value, dict):
        return {
            key: each if key in ("kind", "type", "answer") else with_hostile_leaves(each, text)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [with_hostile_leaves(each, text) for each in value]
    return text if isinstance(value, str) else value


def fill_every_text(texts: list[str]) -> set[str]:
    """Write another string into each row of each text column; return the columns."""
    filled, count = set(), 0
    event_log.drop_triggers(connection)
    for model in [*apps.get_app_config("annotation").get_models(), *apps.get_app_config("modelling").get_models()]:
        fields = text_fields(model)
        documents = [
            field
            for field in model._meta.concrete_fields
            if isinstance(field, models.JSONField) and field.name not in JSON_OF_THE_PROGRAM
        ]
        for row in model._default_manager.all()[:100]:
            changes: dict[str, Any] = {}
            for field in [*fields, *documents]:
                count += 1
                text, old = texts[count % len(texts)], getattr(row, field.name)
                if isinstance(field, models.JSONField):
                    changes[field.name] = with_hostile_leaves(old, text)
                elif old:
                    changes[field.name] = text[: field.max_length]
            if changes and try_update(model, row.pk, changes):
                filled |= {f"{model._meta.label}.{name}" for name in changes}
    event_log.create_triggers(connection)
    return filled


def try_update(model: type[models.Model], pk: Any, changes: dict[str, Any]) -> bool:
    """Update one row; False if a constraint of the database refuses the text."""
    try:
        with transaction.atomic():
            return bool(model._default_manager.filter(pk=pk).update(**changes))
    except Exception:
        return False


@pytest.mark.parametrize("half", [0, 1])
def test_no_stored_text_runs_on_any_page(
    half: int, served: str, browser: Browser, project: Project, owner: User, invitation: str
) -> None:
    filled = fill_every_text(TEXTS[half::2])
    assert {"annotation.Item.text", "annotation.Project.title", "annotation.Arm.name"} <= filled
    assert len(filled) >= 25, sorted(filled)
    context = browser.new_context()
    context.add_init_script(WATCH)
    page, ran = context.new_page(), list[str]()
    page.on("dialog", lambda dialog: (ran.append(dialog.message), dialog.dismiss()))
    problems = []

    def visit(path: str) -> None:
        response = page.goto(served + path)
        status = response.status if response else 0
        if page.evaluate(HARMED) or status >= 500:
            problems.append((path, status, page.evaluate("violations")))

    private = [*ACCOUNT, *study_pages(), *(f"/projects/paid/{each}" for each in [*PAID, *PAGES_OF_STUDIES])]
    for path in [*PUBLIC, invitation]:
        visit(path)
    log_in(page, served, owner.username)
    for path in private:
        visit(path)
    assert (ran, problems) == ([], [])
