"""Every kind of invalid answer and its response, in one table."""

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
from annotation.http.throttling import REQUESTS_PER_SECOND
from annotation.models import Assignment, Judgement, Project, Worker
from tests.conftest import make_items

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

NOTHING_SAVED = "Nothing was saved"
KEPT_ON_DEVICE = "kept on this device"
ELSEWHERE = "https://elsewhere.example"


@dataclass
class Attempt:
    """The browser of a worker, and a valid answer for each case to change."""

    browser: Client
    answer: dict[str, Any]

    def send(self, body: Any = None, kind: str = "application/json", **headers: str) -> Any:
        body = self.answer if body is None else body
        body = body if isinstance(body, bytes) else json.dumps(body)
        return self.browser.post("/s/pets/judgements/", body, content_type=kind, headers=headers)


@dataclass(frozen=True)
class Case:
    """An invalid answer and the expected response. `before` runs first and may change the answer."""

    status: int
    message: str = ""
    change: dict[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    before: Callable[[Attempt], object] = lambda attempt: None
    field_name: str = ""  # the invalid field
    contains: dict[str, Any] = field(default_factory=dict)
    stored: dict[str, Any] | None = None  # fields of the one stored judgement; None if none is stored


@pytest.fixture
def attempt(worker_client: Client) -> Attempt:
    pair = worker_client.get("/s/pets/task/").json()["pairs"][0]["assignment"]
    return Attempt(worker_client, {"uuid": str(uuid.uuid4()), "assignment": pair, "choice": "left"})


def answered(attempt: Attempt) -> None:
    assert attempt.send().status_code == 201


def answered_then(**change: Any) -> Callable[[Attempt], None]:
    def before(attempt: Attempt) -> None:
        answered(attempt)
        attempt.answer |= {name: make(attempt.answer[name]) for name, make in change.items()}

    return before


def uuid_of_another_worker(attempt: Attempt) -> None:
    pair, other = lease_to_another_worker()
    services.record_judgement(worker=other, uuid=uuid.UUID(attempt.answer["uuid"]), assignment=pair, choice="right")


def pair_of_another_worker(attempt: Attempt) -> None:
    attempt.answer["assignment"] = str(lease_to_another_worker()[0])


def lease_to_another_worker() -> tuple[uuid.UUID, Worker]:
    other = services.enrol(project=Project.objects.get(slug="pets"))
    return services.lease_pairs(worker=other, rng=Random(2))[0].public_id, other


def pair_of_another_study(attempt: Attempt) -> None:
    study = services.create_project(owner=None, slug="birds", title="Birds", state="open")
    make_items(study, ["Birds sing.", "Birds fly."], "birds")
    lease = services.lease_pairs(worker=services.enrol(project=study), rng=Random(3))[0]
    attempt.answer["assignment"] = str(lease.public_id)


def without_cookie(attempt: Attempt) -> None:
    del attempt.browser.cookies[f"concord_worker_{Project.objects.get().pk}"]


def study_in_state(state: str) -> Callable[[Attempt], object]:
    return lambda attempt: Project.objects.update(state=state)


def lease_expired(attempt: Attempt) -> None:
    long_ago = timezone.now() - timedelta(days=1)
    Assignment.objects.update(issued_at=long_ago, expires_at=long_ago + timedelta(minutes=30))


def twenty_requests_in_one_second(attempt: Attempt) -> None:
    for _ in range(REQUESTS_PER_SECOND):
        assert attempt.browser.get("/s/pets/task/").status_code == 200


def enforce_csrf(attempt: Attempt) -> None:
    """Enable the CSRF check, which the test client skips by default."""
    attempt.browser.handler.enforce_csrf_checks = True


INVALID_UUID = {"field_name": "uuid", "message": NOTHING_SAVED}
INVALID_PAIR = {"field_name": "assignment", "message": NOTHING_SAVED}
INVALID_NOTE = {"field_name": "note", "message": NOTHING_SAVED}
INVALID_TIME = {"field_name": "response_ms", "message": NOTHING_SAVED}
SAVED = {"choice_shown": "left", "clock_doubtful": False}

CASES: dict[str, Case] = {
    "empty body": Case(400, "The answer was empty. Nothing was saved; please choose again.", body=b""),
    "blank body": Case(400, "The answer was empty.", body=b"  \n"),
    "truncated JSON": Case(400, NOTHING_SAVED, body=b'{"uuid": "'),
    "not UTF-8": Case(400, NOTHING_SAVED, body=b'{"note": "\xff"}'),
    "an array": Case(422, NOTHING_SAVED, body=b"[]"),
    "a string": Case(422, NOTHING_SAVED, body=b'"left"'),
    "deeply nested": Case(400, NOTHING_SAVED, body=b"[" * 100_000),
    "duplicate name": Case(400, NOTHING_SAVED, body=b'{"choice": "left", "choice": "right"}'),
    "no UUID": Case(400, change={"uuid": None}, **INVALID_UUID),
    "empty UUID": Case(400, change={"uuid": ""}, **INVALID_UUID),
    "not a UUID": Case(422, change={"uuid": "not-a-uuid"}, **INVALID_UUID),
    "UUID of 10 kB": Case(422, change={"uuid": "f" * 10_000}, **INVALID_UUID),
    "UUID sent again in upper case": Case(200, before=answered_then(uuid=str.upper), stored=SAVED),
    "UUID sent again in braces": Case(200, before=answered_then(uuid="{{{}}}".format), stored=SAVED),
    "UUID sent again as URN": Case(200, before=answered_then(uuid="urn:uuid:{}".format), stored=SAVED),
    "nil UUID": Case(422, change={"uuid": str(uuid.UUID(int=0))}, **INVALID_UUID),
    "same UUID, other choice": Case(
        422,
        "This answer was already recorded as “First”. The first answer is saved and was not changed.",
        before=answered_then(choice=lambda choice: "right"),
        contains={"recorded.choice": "left"},
        stored=SAVED,
    ),
    "another worker's UUID": Case(404, NOTHING_SAVED, before=uuid_of_another_worker, stored={"choice_shown": "right"}),
    "choice outside the pair": Case(422, change={"choice": "item-77"}, field_name="choice", message=NOTHING_SAVED),
    "another worker's pair": Case(
        409,
        "This pair is not assigned to you. Nothing was saved. Here is your next pair.",
        before=pair_of_another_worker,
    ),
    "same item twice": Case(422, change={"assignment": None, "left": 1, "right": 1}, **INVALID_PAIR),
    "another study's pair": Case(404, NOTHING_SAVED, before=pair_of_another_study),
    "unknown pair": Case(404, NOTHING_SAVED, change={"assignment": str(uuid.uuid4())}),
    "assignment 2^63": Case(422, change={"assignment": 2**63}, **INVALID_PAIR),
    "assignment -1": Case(422, change={"assignment": -1}, **INVALID_PAIR),
    "assignment 1.5": Case(422, change={"assignment": 1.5}, **INVALID_PAIR),
    "assignment 1e3 as text": Case(422, change={"assignment": "1e3"}, **INVALID_PAIR),
    "assignment true": Case(422, change={"assignment": True}, **INVALID_PAIR),
    "NaN": Case(400, NOTHING_SAVED, body=b'{"response_ms": NaN}'),
    "Infinity": Case(400, NOTHING_SAVED, body=b'{"response_ms": Infinity}'),
    "1e309": Case(400, NOTHING_SAVED, body=b'{"response_ms": 1e309}'),
    "400 digits": Case(400, NOTHING_SAVED, body=b'{"response_ms": ' + b"1" * 400 + b"}"),
    "note with NUL": Case(422, change={"note": "a\0b"}, **INVALID_NOTE),
    "note with a lone surrogate": Case(422, change={"note": "\ud800"}, **INVALID_NOTE),
    "note of 1 MB": Case(422, change={"note": "x" * 900_000}, **INVALID_NOTE),
    "note that is not text": Case(422, change={"note": {"a": 1}}, **INVALID_NOTE),
    "body of 20 MB": Case(413, NOTHING_SAVED, body=b'{"note": "' + b"x" * 20_000_000 + b'"}'),
    "sent in 1970": Case(201, change={"sent_at": "1970-01-01T00:00:00Z"}, stored=SAVED),
    "sent in 9999": Case(201, change={"sent_at": "9999-12-31T23:59:59Z"}, stored=SAVED),
    "response time in words": Case(422, change={"response_ms": "yesterday"}, **INVALID_TIME),
    "response time true": Case(422, change={"response_ms": True}, **INVALID_TIME),
    "response time negative": Case(201, change={"response_ms": -5}, stored={"response_ms": 0, "clock_doubtful": True}),
    "response time of eleven days": Case(201, change={"response_ms": 10**9}, stored={"clock_doubtful": True}),
    "response time 1e300": Case(201, change={"response_ms": 1e300}, stored={"clock_doubtful": True}),
    "fields that cannot be set": Case(
        201,
        change={"worker_id": 999, "created_at": "1970-01-01", "is_gold": True, "weight": 100, "source": "api"},
        stored={"source": "browser", "sequence": 1},
    ),
    "plain text": Case(415, NOTHING_SAVED, kind="text/plain"),
    "XML": Case(415, NOTHING_SAVED, kind="application/xml"),
    "form data": Case(415, NOTHING_SAVED, kind="application/x-www-form-urlencoded"),
    "no CSRF token": Case(403, KEPT_ON_DEVICE, before=enforce_csrf),
    "another origin": Case(403, KEPT_ON_DEVICE, before=enforce_csrf, headers={"origin": ELSEWHERE}),
    "no cookie": Case(401, KEPT_ON_DEVICE, before=without_cookie, contains={"enter": "/s/pets/"}),
    "study paused": Case(409, "Your earlier answers are saved.", before=study_in_state("paused")),
    "study closed": Case(409, "Your earlier answers are saved.", before=study_in_state("closed")),
    "lease expired": Case(201, before=lease_expired, contains={"late": True}, stored={"late": True}),
    "too fast": Case(429, "Everything already saved is safe.", before=twenty_requests_in_one_second),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_invalid_answers_are_refused(attempt: Attempt, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annotation.http.throttling.time.time", lambda: 1_000_000.5)
    case.before(attempt)
    attempt.answer |= case.change
    response = attempt.send(case.body, case.kind, **case.headers)
    body = response.json()
    assert response.status_code == case.status, body
    assert {name: look_up(body, name) for name in case.contains} == case.contains
    assert (body.get("field") or "") == case.field_name
    if case.status >= 400:
        assert response["Content-Type"] == "application/problem+json"
        assert case.message in f"{body['title']} {body['detail']}"
    assert [{name: getattr(one, name) for name in case.stored or {}} for one in Judgement.objects.all()] == (
        [] if case.stored is None else [case.stored]
    )


def look_up(body: dict[str, Any], path: str) -> Any:
    """Return body["a"]["b"] for the path "a.b"."""
    for name in path.split("."):
        body = body[name]
    return body


def test_a_throttled_worker_gets_retry_after(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annotation.http.throttling.time.time", lambda: 1_000_000.5)
    twenty_requests_in_one_second(attempt)
    assert attempt.send()["Retry-After"] == "1"
    monkeypatch.setattr("annotation.http.throttling.time.time", lambda: 1_000_001.5)
    assert attempt.send().status_code == 201


def test_the_response_time_is_clipped_to_the_lease(attempt: Attempt) -> None:
    attempt.answer["response_ms"] = 10**9
    attempt.send()
    assert 0 <= Judgement.objects.get().response_ms < 60_000
