"""B1 to B29: everything that can be wrong with an answer, and what it is told. One table, one test."""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.models import Assignment, Judgement, Project, Worker
from annotation.throttling import PER_SECOND
from tests.conftest import make_items

pytestmark = pytest.mark.django_db

NOTHING_SAVED = "Nothing was saved"
KEPT_HERE = "kept on this device"
ELSEWHERE = "https://elsewhere.example"


@dataclass
class Stage:
    """A browser that has joined the study, and the good answer that a case spoils."""

    browser: Client
    answer: dict[str, Any]

    def send(self, body: Any = None, kind: str = "application/json", **headers: str) -> Any:
        body = self.answer if body is None else body
        body = body if isinstance(body, bytes) else json.dumps(body)
        return self.browser.post("/s/pets/judgements/", body, content_type=kind, headers=headers)


@dataclass(frozen=True)
class Case:
    """What is wrong, and what is said. `before` happens first and may change the answer."""

    status: int
    says: str = ""
    change: dict[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    before: Callable[[Stage], object] = lambda stage: None
    names: str = ""  # the field that is wrong
    tells: dict[str, Any] = field(default_factory=dict)
    stored: dict[str, Any] | None = None  # of the one judgement there is in the end; None: there is none


@pytest.fixture
def stage(worker_client: Client) -> Stage:
    pair = worker_client.get("/s/pets/task/").json()["pairs"][0]["assignment"]
    return Stage(worker_client, {"uuid": str(uuid.uuid4()), "assignment": pair, "choice": "left"})


def answered(stage: Stage) -> None:
    assert stage.send().status_code == 201


def answered_then(**change: Any) -> Callable[[Stage], None]:
    def before(stage: Stage) -> None:
        answered(stage)
        stage.answer |= {name: make(stage.answer[name]) for name, make in change.items()}

    return before


def the_id_of_somebody_else(stage: Stage) -> None:
    pair, other = pair_of_somebody_else()
    services.record_judgement(worker=other, uuid=uuid.UUID(stage.answer["uuid"]), assignment=pair, choice="right")


def the_pair_of_somebody_else(stage: Stage) -> None:
    stage.answer["assignment"] = str(pair_of_somebody_else()[0])


def pair_of_somebody_else() -> tuple[uuid.UUID, Worker]:
    other = services.enrol(project=Project.objects.get(slug="pets"))
    return services.lease_pairs(worker=other, rng=Random(2))[0].public_id, other


def the_pair_of_another_study(stage: Stage) -> None:
    study = services.create_project(owner=None, slug="birds", title="Birds", state="open")
    make_items(study, ["Birds sing.", "Birds fly."], "birds")
    lease = services.lease_pairs(worker=services.enrol(project=study), rng=Random(3))[0]
    stage.answer["assignment"] = str(lease.public_id)


def forgotten(stage: Stage) -> None:
    del stage.browser.cookies[f"concord_worker_{Project.objects.get().pk}"]


def now_in_state(state: str) -> Callable[[Stage], object]:
    return lambda stage: Project.objects.update(state=state)


def lease_ran_out(stage: Stage) -> None:
    long_ago = timezone.now() - timedelta(days=1)
    Assignment.objects.update(issued_at=long_ago, expires_at=long_ago + timedelta(minutes=30))


def asked_twenty_times_in_this_second(stage: Stage) -> None:
    for _ in range(PER_SECOND):
        assert stage.browser.get("/s/pets/task/").status_code == 200


def strict(stage: Stage) -> None:
    """The browser's token is asked for, as it is outside of tests."""
    stage.browser.handler.enforce_csrf_checks = True


WRONG_ID = {"names": "uuid", "says": NOTHING_SAVED}
WRONG_PAIR = {"names": "assignment", "says": NOTHING_SAVED}
WRONG_NOTE = {"names": "note", "says": NOTHING_SAVED}
SAVED = {"choice_shown": "left", "clock_doubtful": False}

CASES: dict[str, Case] = {
    "B1 empty": Case(400, "The answer was empty. Nothing was saved; please choose again.", body=b""),
    "B1 white space": Case(400, "The answer was empty.", body=b"  \n"),
    "B2 cut short": Case(400, NOTHING_SAVED, body=b'{"uuid": "'),
    "B2 not UTF-8": Case(400, NOTHING_SAVED, body=b'{"note": "\xff"}'),
    "B3 an array": Case(422, NOTHING_SAVED, body=b"[]"),
    "B3 a string": Case(422, NOTHING_SAVED, body=b'"left"'),
    "B4 deeply nested": Case(400, NOTHING_SAVED, body=b"[" * 100_000),
    "B5 a name twice": Case(400, NOTHING_SAVED, body=b'{"choice": "left", "choice": "right"}'),
    "B6 no id": Case(400, change={"uuid": None}, **WRONG_ID),
    "B6 an empty id": Case(400, change={"uuid": ""}, **WRONG_ID),
    "B7 no UUID": Case(422, change={"uuid": "not-a-uuid"}, **WRONG_ID),
    "B7 10 kB": Case(422, change={"uuid": "f" * 10_000}, **WRONG_ID),
    "B8 upper case": Case(200, before=answered_then(uuid=str.upper), stored=SAVED),
    "B8 braces": Case(200, before=answered_then(uuid="{{{}}}".format), stored=SAVED),
    "B8 urn": Case(200, before=answered_then(uuid="urn:uuid:{}".format), stored=SAVED),
    "B9 the nil id": Case(422, change={"uuid": str(uuid.UUID(int=0))}, **WRONG_ID),
    "B10 same id, other choice": Case(
        422,
        "This answer was already recorded as “First”. The first answer is saved and was not changed.",
        before=answered_then(choice=lambda choice: "right"),
        tells={"recorded.choice": "left"},
        stored=SAVED,
    ),
    "B11 somebody else's id": Case(
        404, NOTHING_SAVED, before=the_id_of_somebody_else, stored={"choice_shown": "right"}
    ),
    "B12 an item outside the pair": Case(422, change={"choice": "item-77"}, names="choice", says=NOTHING_SAVED),
    "B13 somebody else's pair": Case(
        409,
        "This pair is not yours. Nothing was saved. Here is your next pair.",
        before=the_pair_of_somebody_else,
    ),
    "B14 left is right": Case(422, change={"assignment": None, "left": 1, "right": 1}, **WRONG_PAIR),
    "B15 another study's pair": Case(404, NOTHING_SAVED, before=the_pair_of_another_study),
    "B15 nobody's pair": Case(404, NOTHING_SAVED, change={"assignment": str(uuid.uuid4())}),
    "B16 2^63": Case(422, change={"assignment": 2**63}, **WRONG_PAIR),
    "B16 -1": Case(422, change={"assignment": -1}, **WRONG_PAIR),
    "B16 1.5": Case(422, change={"assignment": 1.5}, **WRONG_PAIR),
    "B16 1e3 as text": Case(422, change={"assignment": "1e3"}, **WRONG_PAIR),
    "B16 true": Case(422, change={"assignment": True}, **WRONG_PAIR),
    "B17 NaN": Case(400, NOTHING_SAVED, body=b'{"response_ms": NaN}'),
    "B17 Infinity": Case(400, NOTHING_SAVED, body=b'{"response_ms": Infinity}'),
    "B17 1e309": Case(400, NOTHING_SAVED, body=b'{"response_ms": 1e309}'),
    "B17 400 digits": Case(400, NOTHING_SAVED, body=b'{"response_ms": ' + b"1" * 400 + b"}"),
    "B18 NUL": Case(422, change={"note": "a\0b"}, **WRONG_NOTE),
    "B19 half a character": Case(422, change={"note": "\ud800"}, **WRONG_NOTE),
    "B20 a note of 1 MB": Case(422, change={"note": "x" * 900_000}, **WRONG_NOTE),
    "B20 a note that is no text": Case(422, change={"note": {"a": 1}}, **WRONG_NOTE),
    "B20 20 MB": Case(413, NOTHING_SAVED, body=b'{"note": "' + b"x" * 20_000_000 + b'"}'),
    "B21 sent in 1970": Case(201, change={"sent_at": "1970-01-01T00:00:00Z"}, stored=SAVED),
    "B21 sent in 9999": Case(201, change={"sent_at": "9999-12-31T23:59:59Z"}, stored=SAVED),
    "B21 no time": Case(422, change={"response_ms": "yesterday"}, names="response_ms", says=NOTHING_SAVED),
    "B21 true": Case(422, change={"response_ms": True}, names="response_ms", says=NOTHING_SAVED),
    "B22 before it was shown": Case(201, change={"response_ms": -5}, stored={"response_ms": 0, "clock_doubtful": True}),
    "B22 for eleven days": Case(201, change={"response_ms": 10**9}, stored={"clock_doubtful": True}),
    "B22 for ever": Case(201, change={"response_ms": 1e300}, stored={"clock_doubtful": True}),
    "B23 fields nobody may set": Case(
        201,
        change={"worker_id": 999, "created_at": "1970-01-01", "is_gold": True, "weight": 100, "source": "api"},
        stored={"source": "browser", "sequence": 1},
    ),
    "B24 plain text": Case(415, NOTHING_SAVED, kind="text/plain"),
    "B24 XML": Case(415, NOTHING_SAVED, kind="application/xml"),
    "B24 a form": Case(415, NOTHING_SAVED, kind="application/x-www-form-urlencoded"),
    "B25 no token": Case(403, KEPT_HERE, before=strict),
    "B25 another site": Case(403, KEPT_HERE, before=strict, headers={"origin": ELSEWHERE}),
    "B26 the cookie is gone": Case(401, KEPT_HERE, before=forgotten, tells={"enter": "/s/pets/"}),
    "B27 paused": Case(409, "Your earlier answers are saved.", before=now_in_state("paused")),
    "B27 closed": Case(409, "Your earlier answers are saved.", before=now_in_state("closed")),
    "B28 late": Case(201, before=lease_ran_out, tells={"late": True}, stored={"late": True}),
    "B29 too fast": Case(429, "What was saved is safe.", before=asked_twenty_times_in_this_second),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_every_bad_input_is_answered_as_promised(stage: Stage, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annotation.throttling.time.time", lambda: 1_000_000.5)
    case.before(stage)
    stage.answer |= case.change
    reply = stage.send(case.body, case.kind, **case.headers)
    said = reply.json()
    assert reply.status_code == case.status, said
    assert {name: look_up(said, name) for name in case.tells} == case.tells
    assert (said.get("field") or "") == case.names
    if case.status >= 400:
        assert reply["Content-Type"] == "application/problem+json"
        assert case.says in f"{said['title']} {said['detail']}"
    assert [{name: getattr(one, name) for name in case.stored or {}} for one in Judgement.objects.all()] == (
        [] if case.stored is None else [case.stored]
    )


def look_up(said: dict[str, Any], path: str) -> Any:
    """said["a"]["b"] for "a.b"."""
    for name in path.split("."):
        said = said[name]
    return said


def test_the_table_leaves_none_out() -> None:
    assert {name.split()[0] for name in CASES} == {f"B{number}" for number in range(1, 30)}


def test_who_is_too_fast_is_told_when_to_come_back(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annotation.throttling.time.time", lambda: 1_000_000.5)
    asked_twenty_times_in_this_second(stage)
    assert stage.send()["Retry-After"] == "1"
    monkeypatch.setattr("annotation.throttling.time.time", lambda: 1_000_001.5)
    assert stage.send().status_code == 201


def test_a_clock_outside_the_lease_is_clipped_to_it(stage: Stage) -> None:
    stage.answer["response_ms"] = 10**9
    stage.send()
    assert 0 <= Judgement.objects.get().response_ms < 60_000
