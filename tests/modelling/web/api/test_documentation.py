"""The OpenAPI document, the reference page and the example script are correct."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from annotation.forms.projects import ProjectForm
from annotation.models import Judgement, Project, User
from modelling.updater.update import update_one
from modelling.web.api.openapi import operations
from modelling.web.api.router import api
from modelling.web.api.tokens import create_token
from tests.helpers.serving import serving
from tests.modelling.web.api.conftest import Script

EXAMPLE = Path(settings.BASE_DIR) / "docs" / "examples" / "judge_by_api.py"


def test_the_page_shows_the_document_and_loads_nothing_from_other_hosts() -> None:
    response = Client().get("/api/v1/")
    assert response.status_code == 200
    assert 'data-openapi="/api/v1/openapi.json"' in response.text
    assert "curl -H" in response.text
    assert not re.search(r'(src|href)="(https?:)?//', response.text)
    assert not re.search(r"<script(?! src=)", response.text), "no inline script"
    policy = response["Content-Security-Policy"]
    assert "script-src 'self';" in f"{policy};"
    assert "unsafe-eval" not in policy


def example(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """Build a body from the examples in the document, as Swagger UI does."""
    if examples := schema.get("examples"):
        return examples[0]
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    schema = next(iter(schema.get("anyOf", [schema])))
    if "const" in schema or "default" in schema:
        return schema.get("const", schema.get("default"))
    if schema.get("type") == "array":
        return [example(schema["items"], schemas)]
    if schema.get("type") != "object":
        return {"number": 0.5, "string": "text"}[schema["type"]]
    required, members = schema.get("required", []), schema["properties"].items()
    return {name: example(each, schemas) for name, each in members if name in required or "examples" in each}


@pytest.mark.django_db
def test_example_bodies_are_accepted(project: Project, olga: Client) -> None:
    """404 and 409 are about ids that do not exist; the shape of each body is right."""
    document, sent = api.get_openapi_schema(), 0
    for path, method, operation in operations(document):
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            body = example(schema, document["components"]["schemas"])
            response = getattr(olga, method)(path.replace("{slug}", "pets"), body, content_type="application/json")
            assert response.status_code in (200, 201, 202, 404, 409), (path, response.content)
            sent += 1
    assert sent == 10


def test_schema_names_in_the_document_are_unique() -> None:
    """ninja would silently use the last one for all of them."""
    document = api.get_openapi_schema()
    named = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document, default=str))
    assert set(named) <= set(document["components"]["schemas"])
    assert not [name for name in document["components"]["schemas"] if name in ("State", "Kind", "Source", "Pairs")]


@pytest.mark.django_db
def test_a_project_created_by_the_api_equals_one_created_on_the_page(
    owner: User, script: Script, log_in: Callable[[User], Client]
) -> None:
    answer = script(owner).post("/api/v1/projects", {"title": "By script"}, content_type="application/json")
    assert answer.status_code == 201
    log_in(owner).post("/projects/new/", {"title": "By script", **_form_defaults()})
    mine, theirs = (Project.objects.filter(slug=slug).values().get() for slug in ("by-script", "by-script-2"))
    apart = ("id", "slug", "created_at", "import_salt")
    assert {name: value for name, value in mine.items() if name not in apart} == {
        name: value for name, value in theirs.items() if name not in apart
    }


def _form_defaults() -> dict[str, object]:
    """The initial values of the form; an unticked checkbox is not sent."""
    shown = {name: field.initial for name, field in ProjectForm().fields.items() if name not in ("title", "slug")}
    return {name: value for name, value in shown.items() if value is not None and value is not False and value != []}


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_example_script_runs(owner: User) -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 45
    _token, secret = create_token(user=owner, name="example", scope="write", days=1)
    with serving() as port:
        env = {**os.environ, "CONCORD": f"http://127.0.0.1:{port}", "CONCORD_TOKEN": secret}
        ran = subprocess.Popen([sys.executable, EXAMPLE], env=env, stdout=subprocess.PIPE, text=True)
        output = None
        while output is None:
            update_one("test")
            with contextlib.suppress(subprocess.TimeoutExpired):
                output, _errors = ran.communicate(timeout=0.2)
    assert ran.returncode == 0
    assert [line.split()[1] for line in output.splitlines()] == ["purr", "clean", "cheap"]
    assert set(Judgement.objects.values_list("source", flat=True)) == {"api"}
