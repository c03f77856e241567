"""Judgements by the API: the same promises as in the browser, and the same services behind them."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from annotation import services, throttling
from annotation.models import Judgement, JudgementNote, PlatformIdentity, Project, Retraction, Worker
from annotation.verification import problems_of

pytestmark = pytest.mark.django_db
PETS = "/api/v1/projects/pets"
Send = Callable[..., Any]


@pytest.fixture
def send(olga: Client) -> Send:
    """send("judgements", {...}): the answer to this body."""

    def answer(end: str, body: Any, **more: Any) -> Any:
        return olga.post(f"{PETS}/{end}" if end else PETS, body, content_type="application/json", **more)

    return answer


@pytest.fixture
def answer(send: Send, project: Project, worker: Worker) -> dict[str, Any]:
    """An answer to a pair that was lent to the worker, not sent yet."""
    pair = send(f"workers/{worker.code}/pairs", {}).json()["pairs"][0]
    return {"uuid": str(uuid.uuid4()), "worker": worker.code, "assignment": pair["assignment"], "choice": "left"}


def test_the_same_answer_any_number_of_times_is_one_judgement(send: Send, answer: dict[str, Any]) -> None:
    first, *again = [send("judgements", answer) for _ in range(5)]
    assert [said.status_code for said in (first, *again)] == [201, 200, 200, 200, 200]
    assert {said.json()["saved"] for said in (first, *again)} == {answer["uuid"]}
    stored = Judgement.objects.get()
    assert (str(stored.uuid), stored.source, stored.choice_shown) == (answer["uuid"], "api", "left")


@pytest.mark.parametrize("form", [str.upper, "{{{}}}".format, "urn:uuid:{}".format])
def test_an_id_written_in_another_way_is_the_same_id(form: Any, send: Send, answer: dict[str, Any]) -> None:
    send("judgements", answer)
    assert send("judgements", answer | {"uuid": form(answer["uuid"])}).status_code == 200


def test_the_same_id_with_another_answer_is_refused_and_the_first_stays(send: Send, answer: dict[str, Any]) -> None:
    send("judgements", answer)
    refused = send("judgements", answer | {"choice": "right"})
    assert refused.status_code == 422
    assert refused.json()["code"] == "different_payload"
    assert refused.json()["recorded"]["choice"] == "left"
    assert Judgement.objects.get().choice_shown == "left"


def test_a_second_answer_to_a_pair_is_refused_and_told_the_first(send: Send, answer: dict[str, Any]) -> None:
    send("judgements", answer)
    refused = send("judgements", answer | {"uuid": str(uuid.uuid4()), "choice": "right"})
    assert (refused.status_code, refused.json()["recorded"]["saved"]) == (409, answer["uuid"])


def test_a_pair_of_another_worker_is_refused(send: Send, answer: dict[str, Any], project: Project) -> None:
    other = services.enrol(project=project)
    assert send("judgements", answer | {"worker": other.code}).status_code == 409
    assert not Judgement.objects.exists()


BAD: dict[str, tuple[Any, int, str | None]] = {
    "B1 empty": ("", 400, None),
    "B2 truncated": ('{"uuid": ', 400, None),
    "B3 array": ("[]", 422, None),
    "B4 nested": ("[" * 100_000, 400, None),
    "B5 a name twice": ('{"choice": "left", "choice": "right"}', 400, None),
    "B6 no id": ({"uuid": None}, 422, "uuid"),
    "B7 no uuid": ({"uuid": "not-a-uuid"}, 422, "uuid"),
    "B7 a long one": ({"uuid": "a" * 10_000}, 422, "uuid"),
    "B9 nil": ({"uuid": str(uuid.UUID(int=0))}, 422, "uuid"),
    "B12 another winner": ({"choice": "middle"}, 422, "choice"),
    "B13 nobody's pair": ({"assignment": str(uuid.uuid4())}, 404, None),
    "B15 nobody": ({"worker": "nobody2345"}, 404, "worker"),
    "B16 a number for a worker": ({"worker": 2**63}, 422, "worker"),
    "B17 NaN": ('{"response_ms": NaN}', 400, None),
    "B17 too large": ('{"response_ms": 1e309}', 400, None),
    "B18 NUL": ({"note": "a\0b"}, 422, "note"),
    "B19 half a character": ({"note": "\ud800"}, 422, "note"),
    "B20 a long note": ({"note": "x" * 2001}, 422, "note"),
    "B20 a large body": ("x" * 1_000_001, 413, None),
    "B23 a field nobody may set": ({"source": "browser"}, 422, "source"),
    "B23 a weight": ({"weight": 5}, 422, "weight"),
    "a text for a number": ({"response_ms": "12"}, 422, "response_ms"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_bodies_are_refused_in_words_and_store_nothing(name: str, send: Send, answer: dict[str, Any]) -> None:
    body, status, field = BAD[name]
    refused = send("judgements", answer | body if isinstance(body, dict) else body)
    said = refused.json()
    assert (refused.status_code, refused["Content-Type"]) == (status, "application/problem+json")
    assert {"type", "title", "status", "detail", "field", "request_id"} <= said.keys()
    assert said["title"]
    assert said["detail"]
    if field:
        assert said["field"] == field
    assert not Judgement.objects.exists()


def test_an_answer_without_its_id_is_a_bad_request(send: Send, answer: dict[str, Any]) -> None:
    del answer["uuid"]
    refused = send("judgements", answer)
    assert (refused.status_code, refused.json()["field"]) == (400, "uuid")


def test_a_body_that_does_not_come_as_json_is_refused(olga: Client, project: Project) -> None:
    for kind in ("text/plain", "application/xml", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert olga.generic("POST", f"{PETS}/judgements", b"{}", content_type=kind).status_code == 415


def test_a_whole_number_may_be_written_with_a_point(olga: Client, project: Project) -> None:
    for limit, status in (("3.0", 201), ("3.5", 422), ('"3"', 422), ("true", 422)):
        body = f'{{"title": "Whole", "redundancy": {limit}}}'
        assert olga.post("/api/v1/projects", body, content_type="application/json").status_code == status


def test_times_outside_the_lease_are_clipped_and_marked(send: Send, answer: dict[str, Any]) -> None:
    assert send("judgements", answer | {"response_ms": -5, "note": "why"}).status_code == 201
    stored = Judgement.objects.get()
    assert (stored.response_ms, stored.clock_doubtful) == (0, True)
    assert JudgementNote.objects.get().text == "why"


@pytest.mark.parametrize("state", ["paused", "closed"])
def test_a_study_that_is_not_open_takes_nothing_new_and_confirms_what_it_has(
    state: str, send: Send, answer: dict[str, Any], worker: Worker
) -> None:
    send("judgements", answer)
    Project.objects.update(state=state)
    assert send("judgements", answer).status_code == 200
    refused = send("judgements", answer | {"uuid": str(uuid.uuid4())})
    assert refused.status_code == 409
    assert send(f"workers/{worker.code}/pairs", {}).json()["code"] == "not_open"
    assert send("workers", {"consent": True}).json()["code"] == "not_open"


def test_an_answer_taken_back_twice_is_taken_back_once_and_its_pair_comes_again(
    send: Send, answer: dict[str, Any], olga: Client
) -> None:
    send("judgements", answer)
    body = {"uuid": str(uuid.uuid4()), "worker": answer["worker"], "judgement": answer["uuid"]}
    otherwise = body | {"uuid": str(uuid.uuid4())}
    assert [send("retractions", each).status_code for each in (body, body, otherwise)] == [201, 201, 200]
    assert Retraction.objects.count() == 1
    assert olga.get(f"{PETS}/judgements/{answer['uuid']}").json()["retracted"] is True


def test_a_worker_who_is_too_fast_is_slowed_down(
    send: Send, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "PER_SECOND", 0)
    refused = send("judgements", answer)
    assert (refused.status_code, refused["Retry-After"]) == (429, "1")
    assert not Judgement.objects.exists()


def test_a_worker_under_a_known_name_is_the_same_worker_and_the_name_is_never_told(
    send: Send, olga: Client, project: Project
) -> None:
    body = {"consent": True, "external_id": "somebody@example.org"}
    first, again = send("workers", body), send("workers", body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert PlatformIdentity.objects.get().external_id == "somebody@example.org"
    assert "example.org" not in first.content.decode() + olga.get(f"{PETS}/workers").content.decode()


def test_nobody_is_enrolled_without_consent_or_with_answers_to_no_question(send: Send, project: Project) -> None:
    for body in ({}, {"consent": False}, {"consent": True, "traits": {"age": "30"}}):
        assert send("workers", body).status_code == 422
    assert not Worker.objects.exists()


def test_traits_are_checked_as_the_welcome_page_checks_them(send: Send, project: Project) -> None:
    Project.objects.update(questionnaire=[{"name": "age", "label": "Age", "choices": ["young", "old"]}])
    assert send("workers", {"consent": True, "traits": {"age": "middling"}}).status_code == 422
    assert send("workers", {"consent": True, "traits": {"age": "old"}}).json()["traits"] == {"age": "old"}


def test_a_whole_sitting_by_the_api_leaves_the_log_in_order(send: Send, project: Project, worker: Worker) -> None:
    task = send(f"workers/{worker.code}/pairs", {}).json()
    while task["pairs"]:
        body = {"uuid": str(uuid.uuid4()), "worker": worker.code, "assignment": task["pairs"][0]["assignment"]}
        task = send("judgements", body | {"choice": "tie"}).json()["next"]
    assert Judgement.objects.count() == 9  # the pairs of four cats and of three dogs
    assert not list(problems_of(project))
