"""The document, its page, and the example: what they say is true."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from annotation.forms.projects import ProjectForm
from annotation.models import Judgement, Project, User
from modelling.api.document import operations
from modelling.api.reference import reference
from modelling.api.site import api
from modelling.tokens import make_token
from modelling.updating import run_one
from tests.drills.serving import serving
from tests.modelling.api.conftest import Script

EXAMPLE = Path(settings.BASE_DIR) / "docs" / "examples" / "judge_by_api.py"


def test_the_page_has_every_operation_with_an_example_and_loads_nothing_from_elsewhere() -> None:
    answer = Client().get("/api/v1/")
    assert answer.status_code == 200
    for path, method, operation in operations(api.get_openapi_schema()):
        assert f'id="{operation["operationId"]}"' in answer.text
        assert f"{method.upper()} {path}" in answer.text
    assert "curl -X POST http://testserver/api/v1/projects/pets/judgements" in answer.text
    assert not re.search(r'(src|href)="(https?:)?//', answer.text)
    assert "<script" not in answer.text


@pytest.mark.django_db
def test_the_bodies_of_the_examples_are_taken(project: Project, olga: Client) -> None:
    """404 and 409 speak of ids that nobody has; the shape of each is right."""
    document = api.get_openapi_schema()
    groups = reference(document, "http://testserver").groups
    requests = {operation.name: operation.request for _group, operations in groups for operation in operations}
    sent = {name: json.loads(request.split("-d '")[1][:-1]) for name, request in requests.items() if "-d '" in request}
    assert len(sent) == 9
    for path, method, operation in operations(document):
        if body := sent.get(operation["operationId"]):
            where = path.replace("{slug}", "pets")
            answer = getattr(olga, method)(where, body, content_type="application/json")
            assert answer.status_code in (200, 201, 202, 404, 409), (path, answer.content)


def test_no_two_parts_of_the_document_share_a_name() -> None:
    """ninja would quietly let the last one stand for all of them."""
    document = api.get_openapi_schema()
    named = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document, default=str))
    assert set(named) <= set(document["components"]["schemas"])
    assert not [name for name in document["components"]["schemas"] if name in ("State", "Kind", "Source", "Pairs")]


@pytest.mark.django_db
def test_a_project_started_by_the_api_is_like_one_started_on_the_page(
    owner: User, script: Script, log_in: Callable[[User], Client]
) -> None:
    answer = script(owner).post("/api/v1/projects", {"title": "By script"}, content_type="application/json")
    assert answer.status_code == 201
    log_in(owner).post("/projects/new/", {"title": "By script", **_usual()})
    mine, theirs = (Project.objects.filter(slug=slug).values().get() for slug in ("by-script", "by-script-2"))
    apart = ("id", "slug", "created_at", "import_salt")
    assert {name: value for name, value in mine.items() if name not in apart} == {
        name: value for name, value in theirs.items() if name not in apart
    }


def _usual() -> dict[str, object]:
    """What the form shows before anybody has changed it; a box that is not ticked is not sent."""
    shown = {name: field.initial for name, field in ProjectForm().fields.items() if name not in ("title", "slug")}
    return {name: value for name, value in shown.items() if value is not None and value is not False and value != []}


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_example_runs_as_it_stands(owner: User) -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 45
    _token, words = make_token(user=owner, name="example", scope="write", days=1)
    with serving() as port:
        env = {**os.environ, "CONCORD": f"http://127.0.0.1:{port}", "CONCORD_TOKEN": words}
        ran = subprocess.Popen([sys.executable, EXAMPLE], env=env, stdout=subprocess.PIPE, text=True)
        said = ""
        while ran.poll() is None:
            run_one("test")
            try:
                said, _nothing = ran.communicate(timeout=0.2)
            except subprocess.TimeoutExpired:
                continue
    assert ran.returncode == 0
    assert [line.split()[1] for line in said.splitlines()] == ["purr", "clean", "cheap"]
    assert set(Judgement.objects.values_list("source", flat=True)) == {"api"}
