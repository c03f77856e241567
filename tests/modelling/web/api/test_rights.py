"""Access to every operation by every kind of token; ids of another project are never found."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from django.test import Client

from annotation import services
from annotation.models import Item, Judgement, Project, User, Worker
from modelling.models import ModelSnapshot
from modelling.web.api.router import api
from tests.modelling.samples.studies import make_version
from tests.modelling.web.api.conftest import Script
from tests.modelling.web.api.rights import API, TOKENS

pytestmark = pytest.mark.django_db
PETS = "/api/v1/projects/pets"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Study:
    """A study and one object of each kind that a URL or a body can refer to."""

    project: Project
    worker: Worker
    lease: str
    judgement: Judgement
    snapshot: ModelSnapshot

    def address(self, route: str) -> str:
        values = {
            "<slug>": self.project.slug,
            "<item_id>": str(Item.objects.filter(project=self.project).latest("pk").pk),
            "<number>": str(self.snapshot.number),
            "<code>": self.worker.code,
            "<judgement>": str(self.judgement.uuid),
            "<what>": "ranking",
            "<format>": "csv",
        }
        for part, value in values.items():
            route = route.replace(part, value)
        return f"/{route}"

    def body(self, route: str) -> dict[str, Any]:
        """A valid body for this route."""
        end = route.rsplit("/", 1)[1]
        answer = {"uuid": str(uuid.UUID(int=7)), "worker": self.worker.code}
        return {
            "projects": {"title": "Another study"},
            "<slug>": {"state": "open"},
            "items": {"items": [{"key": "new", "text": "New."}]},
            "workers": {"consent": True},
            "judgements": {**answer, "assignment": self.lease, "choice": "left"},
            "import": {"judgements": [{"worker": "ann", "a": "cats-1", "b": "cats-2", "choice": "a"}]},
            "retractions": {**answer, "judgement": str(self.judgement.uuid)},
            "suggestions": {"suggestions": []},
            "exports": {"what": "judgements"},
        }.get(end, {})


@pytest.fixture
def study(project: Project, worker: Worker, judge: Callable[..., services.Receipt]) -> Study:
    return study_of(project, worker, judge)


def study_of(project: Project, worker: Worker, judge: Callable[..., services.Receipt]) -> Study:
    judged = judge(worker).judgement
    lease = services.lease_pairs(worker=worker, rng=Random(1))[0]
    return Study(project, worker, str(lease.public_id), judged, make_version(project, 1))


@pytest.fixture
def tokens(
    study: Study, stranger: User, viewer: User, analyst: User, owner: User, admin_user: User, script: Script,
    log_in: Callable[[User], Client],
) -> dict[str, Client]:  # fmt: skip
    other = services.create_project(owner=owner, slug="other", title="Other")
    people = {"stranger": stranger, "viewer": viewer, "analyst": analyst, "owner": owner, "staff": admin_user}
    return {
        **{name: script(person) for name, person in people.items()},
        "none": Client(),
        "cookie": log_in(owner),
        "junk": Client(headers={"authorization": f"Bearer concord_abcdefgh_{'x' * 43}"}),
        "reader": script(owner, scope="read"),
        "elsewhere": script(owner, project=other),
    }


def send(client: Client, method: str, where: str, body: dict[str, Any] | None) -> Any:
    sent = {"data": body, "content_type": "application/json"} if body is not None and method != "GET" else {}
    return getattr(client, method.lower())(where, **sent)


@pytest.mark.parametrize("route", sorted({route for _, route in API}))
def test_every_token_gets_the_listed_status(route: str, study: Study, tokens: dict[str, Client]) -> None:
    where = study.address(route)
    for method in METHODS:
        for position, name in enumerate(TOKENS):
            answer = send(tokens[name], method, where, study.body(route))
            status = 200 if answer.status_code in (201, 202) else answer.status_code
            allowed = API[method, route][position] if (method, route) in API else 405
            assert status == allowed, f"{name} {method} {where}: {answer.status_code}"
            if status >= 400:
                assert answer["Content-Type"] == "application/problem+json"


def test_an_archived_project_can_only_be_read(study: Study, tokens: dict[str, Client]) -> None:
    """Exports and predictions read; judging is refused because the study is closed."""
    services.archive_project(project=study.project, user=None, archived=True)
    writes = [(method, route) for method, route in API if method != "GET" and "<slug>" in route]
    responses = {
        route: send(tokens["owner"], method, study.address(route), study.body(route)) for method, route in writes
    }
    codes = {
        route.rsplit("/", 1)[1]: (response.status_code, response.json().get("code"))
        for route, response in responses.items()
    }
    archived = dict.fromkeys(["<slug>", "items", "workers", "pairs", "suggestions", "import"], (409, "archived"))
    closed = dict.fromkeys(["judgements", "retractions"], (409, "not_open"))
    assert codes.items() >= {**archived, **closed}.items()
    assert codes["exports"][0] == 202
    assert codes["predict"] != (409, "archived")


def test_document_and_table_list_the_same_operations() -> None:
    documented = {
        (method.upper(), path.removeprefix("/").replace("{", "<").replace("}", ">"))
        for path, methods in api.get_openapi_schema()["paths"].items()
        for method in methods
    }
    assert documented == set(API)


def test_ids_of_another_project_are_not_found_in_urls(
    study: Study, stranger: User, script: Script, judge: Callable[..., services.Receipt]
) -> None:
    mine = _own_study(stranger)
    client = script(stranger)
    named = [route for method, route in API if method == "GET" and route.count("<") == 2]
    assert len(named) == 6
    requested = send(
        script(study.project.membership_set.get().user), "POST", f"{PETS}/exports", {"what": "workers"}
    ).json()
    for route in named:
        foreign = study.address(route.replace("files/<number>", f"files/{requested['number']}"))
        assert client.get(foreign.replace("/pets/", f"/{mine.slug}/")).status_code == 404, route


def test_ids_of_another_project_are_not_found_in_bodies(study: Study, stranger: User, script: Script) -> None:
    mine = _own_study(stranger)
    make_version(mine, 1)
    my_worker = services.enrol(project=mine)
    client, base = script(stranger), f"/api/v1/projects/{mine.slug}"
    answer = {"uuid": str(uuid.uuid4()), "worker": study.worker.code}
    own = {**answer, "worker": my_worker.code}
    pair = {"a": "cats-1", "b": "cats-2"}
    bodies = [
        ("judgements", {**answer, "assignment": study.lease, "choice": "left"}),
        ("judgements", {**own, "assignment": study.lease, "choice": "left"}),
        ("retractions", {**answer, "judgement": str(study.judgement.uuid)}),
        ("retractions", {**own, "judgement": str(study.judgement.uuid)}),
        ("suggestions", {"suggestions": [{**pair, "gain": 1}]}),
        ("suggestions", {"suggestions": [{"a": "x-1", "b": "x-2", "worker": study.worker.code, "gain": 1}]}),
    ]
    for end, body in bodies:
        response = send(client, "PUT" if end == "suggestions" else "POST", f"{base}/{end}", body)
        assert response.status_code == 404, (end, body, response.text)
    for query in ({"worker": study.worker.code}, {"item": "cats-1"}):
        assert client.get(f"{base}/judgements", query).json()["rows"] == []
    assert Judgement.objects.count() == 1


def test_the_id_of_another_workers_judgement_reveals_nothing(study: Study, owner: User, script: Script) -> None:
    other = services.enrol(project=study.project)
    lease = services.lease_pairs(worker=other, rng=Random(2))[0]
    body = {
        "uuid": str(study.judgement.uuid), "worker": other.code, "assignment": str(lease.public_id), "choice": "left",
    }  # fmt: skip
    response = send(script(owner), "POST", "/api/v1/projects/pets/judgements", body)
    assert response.status_code == 404
    assert "recorded" not in response.json()


def _own_study(owner: User) -> Project:
    project = services.create_project(owner=owner, slug="mine", title="Mine", state="open")
    for number in (1, 2):
        Item.objects.create(project=project, key=f"x-{number}", text=f"Text {number}.", group="x")
    return project
