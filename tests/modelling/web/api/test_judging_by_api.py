"""Judging through the API has the same guarantees as in the browser."""

import uuid
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
from django.test import Client

from annotation import services
from annotation.http import throttling
from annotation.models import Judgement, JudgementNote, PlatformIdentity, Project, Retraction, Worker
from annotation.services.verification import find_problems
from modelling.updater.update import update_one

pytestmark = pytest.mark.django_db
PETS = "/api/v1/projects/pets"
Send = Callable[..., Any]


@pytest.fixture
def send(olga: Client) -> Send:
    """Return a function that posts a body to a path and returns the response."""

    def answer(end: str, body: Any, **more: Any) -> Any:
        return olga.post(f"{PETS}/{end}" if end else PETS, body, content_type="application/json", **more)

    return answer


@pytest.fixture
def answer(send: Send, project: Project, worker: Worker) -> dict[str, Any]:
    """The body of an answer to a leased pair, not sent yet."""
    pair = send(f"workers/{worker.code}/pairs", {}).json()["pairs"][0]
    return {"uuid": str(uuid.uuid4()), "worker": worker.code, "assignment": pair["assignment"], "choice": "left"}


def test_a_repeated_answer_is_stored_once(send: Send, answer: dict[str, Any]) -> None:
    first, *again = [send("judgements", answer) for _ in range(5)]
    assert [response.status_code for response in (first, *again)] == [201, 200, 200, 200, 200]
    assert {response.json()["saved"] for response in (first, *again)} == {answer["uuid"]}
    stored = Judgement.objects.get()
    assert (str(stored.uuid), stored.source, stored.choice_shown) == (answer["uuid"], "api", "left")


@pytest.mark.parametrize("form", [str.upper, "{{{}}}".format, "urn:uuid:{}".format])
def test_other_notations_of_a_uuid_are_the_same_id(form: Any, send: Send, answer: dict[str, Any]) -> None:
    send("judgements", answer)
    assert send("judgements", answer | {"uuid": form(answer["uuid"])}).status_code == 200


def test_the_same_id_with_another_answer_is_refused(send: Send, answer: dict[str, Any]) -> None:
    send("judgements", answer)
    refused = send("judgements", answer | {"choice": "right"})
    assert refused.status_code == 422
    assert refused.json()["code"] == "different_payload"
    assert refused.json()["recorded"]["choice"] == "left"
    assert Judgement.objects.get().choice_shown == "left"


def test_a_second_answer_to_a_pair_is_refused_with_the_first(send: Send, answer: dict[str, Any]) -> None:
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
    "B13 unknown pair": ({"assignment": str(uuid.uuid4())}, 404, None),
    "B15 unknown worker": ({"worker": "unknown2345"}, 404, "worker"),
    "B16 a number for a worker": ({"worker": 2**63}, 422, "worker"),
    "B17 NaN": ('{"response_ms": NaN}', 400, None),
    "B17 too large": ('{"response_ms": 1e309}', 400, None),
    "B18 NUL": ({"note": "a\0b"}, 422, "note"),
    "B19 half a character": ({"note": "\ud800"}, 422, "note"),
    "B20 a long note": ({"note": "x" * 2001}, 422, "note"),
    "B20 a large body": ("x" * 1_000_001, 413, None),
    "B23 a protected field": ({"source": "browser"}, 422, "source"),
    "B23 a weight": ({"weight": 5}, 422, "weight"),
    "a text for a number": ({"response_ms": "12"}, 422, "response_ms"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_bodies_are_refused_with_a_message(name: str, send: Send, answer: dict[str, Any]) -> None:
    body, status, field = BAD[name]
    refused = send("judgements", answer | body if isinstance(body, dict) else body)
    problem = refused.json()
    assert (refused.status_code, refused["Content-Type"]) == (status, "application/problem+json")
    assert {"type", "title", "status", "detail", "field", "request_id"} <= problem.keys()
    assert problem["title"]
    assert problem["detail"]
    if field:
        assert problem["field"] == field
    assert not Judgement.objects.exists()


def test_an_answer_without_uuid_is_a_bad_request(send: Send, answer: dict[str, Any]) -> None:
    del answer["uuid"]
    refused = send("judgements", answer)
    assert (refused.status_code, refused.json()["field"]) == (400, "uuid")


def test_other_content_types_are_refused(olga: Client, project: Project) -> None:
    for kind in ("text/plain", "application/xml", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert olga.generic("POST", f"{PETS}/judgements", b"{}", content_type=kind).status_code == 415


def test_an_integer_may_have_a_decimal_point(olga: Client, project: Project) -> None:
    for limit, status in (("3.0", 201), ("3.5", 422), ('"3"', 422), ("true", 422)):
        body = f'{{"title": "Whole", "redundancy": {limit}}}'
        assert olga.post("/api/v1/projects", body, content_type="application/json").status_code == status


def test_response_times_outside_the_lease_are_clipped_and_marked(send: Send, answer: dict[str, Any]) -> None:
    assert send("judgements", answer | {"response_ms": -5, "note": "why"}).status_code == 201
    stored = Judgement.objects.get()
    assert (stored.response_ms, stored.clock_doubtful) == (0, True)
    assert JudgementNote.objects.get().text == "why"


@pytest.mark.parametrize("state", ["paused", "closed"])
def test_a_closed_study_accepts_nothing_new_and_confirms_stored_answers(
    state: str, send: Send, answer: dict[str, Any], worker: Worker
) -> None:
    send("judgements", answer)
    Project.objects.update(state=state)
    assert send("judgements", answer).status_code == 200
    refused = send("judgements", answer | {"uuid": str(uuid.uuid4())})
    assert refused.status_code == 409
    assert send(f"workers/{worker.code}/pairs", {}).json()["code"] == "not_open"
    assert send("workers", {"consent": True}).json()["code"] == "not_open"


def test_an_answer_is_retracted_once(send: Send, answer: dict[str, Any], olga: Client) -> None:
    send("judgements", answer)
    body = {"uuid": str(uuid.uuid4()), "worker": answer["worker"], "judgement": answer["uuid"]}
    otherwise = body | {"uuid": str(uuid.uuid4())}
    assert [send("retractions", each).status_code for each in (body, body, otherwise)] == [201, 201, 200]
    assert Retraction.objects.count() == 1
    assert olga.get(f"{PETS}/judgements/{answer['uuid']}").json()["retracted"] is True


def test_a_worker_who_sends_too_fast_is_throttled(
    send: Send, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "REQUESTS_PER_SECOND", 0)
    refused = send("judgements", answer)
    assert (refused.status_code, refused["Retry-After"]) == (429, "1")
    assert not Judgement.objects.exists()


def test_a_known_external_id_is_the_same_worker_and_never_returned(send: Send, olga: Client, project: Project) -> None:
    body = {"consent": True, "external_id": "worker@example.org"}
    first, again = send("workers", body), send("workers", body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert PlatformIdentity.objects.get().external_id == "worker@example.org"
    assert "example.org" not in first.content.decode() + olga.get(f"{PETS}/workers").content.decode()


def test_enrolment_needs_consent_and_known_questions(send: Send, project: Project) -> None:
    for body in ({}, {"consent": False}, {"consent": True, "traits": {"age": "30"}}):
        assert send("workers", body).status_code == 422
    assert not Worker.objects.exists()


def test_traits_are_validated_like_on_the_welcome_page(send: Send, project: Project) -> None:
    Project.objects.update(questionnaire=[{"name": "age", "label": "Age", "choices": ["young", "old"]}])
    assert send("workers", {"consent": True, "traits": {"age": "middling"}}).status_code == 422
    assert send("workers", {"consent": True, "traits": {"age": "old"}}).json()["traits"] == {"age": "old"}


def test_a_complete_session_leaves_a_valid_event_log(send: Send, project: Project, worker: Worker) -> None:
    task = send(f"workers/{worker.code}/pairs", {}).json()
    while task["pairs"]:
        body = {"uuid": str(uuid.uuid4()), "worker": worker.code, "assignment": task["pairs"][0]["assignment"]}
        task = send("judgements", body | {"choice": "tie"}).json()["next"]
    assert Judgement.objects.count() == 9  # the pairs of four cats and of three dogs
    assert not list(find_problems(project))


PAST = [
    {
        "worker": "m001", "a": "cats-1", "b": "cats-2", "choice": "b", "judged_at": "2010-04-14T20:01:15Z",
        "response_ms": 2300, "note": "It is shorter.", "traits": {"age": "31"}, "extra": {"device": "phone"},
    },
    {"worker": "m001", "a": "cats-2", "b": "cats-1", "choice": "tie"},
]  # fmt: skip


def test_past_judgements_are_imported_once_with_their_details(send: Send, project: Project) -> None:
    counts = {"added": 2, "ties": 1, "workers": 1, "unchanged": 0, "traits": 1}
    assert send("judgements/import", {"judgements": PAST}).json() == counts
    assert send("judgements/import", {"judgements": PAST}).json()["unchanged"] == 2
    first = Judgement.objects.select_related("details", "note", "worker").earliest("sequence")
    assert (first.source, first.response_ms, first.note.text) == ("import", 2300, "It is shorter.")
    assert (first.details.judged_at.isoformat(), first.details.columns) == (
        "2010-04-14T20:01:15+00:00", {"device": "phone"},
    )  # fmt: skip
    assert (first.worker.traits, first.worker.identity.external_id) == ({"age": "31"}, "m001")
    assert not list(find_problems(project))


def test_a_script_goes_from_texts_and_past_judgements_to_the_ranking(olga: Client) -> None:
    def post(address: str, body: dict[str, Any]) -> Any:
        return olga.post(f"/api/v1/projects{address}", body, content_type="application/json")

    assert post("", {"slug": "songs", "title": "Songs"}).status_code == 201
    keys = ["best", "good", "fair", "poor"]
    texts = [{"key": key, "text": f"A {key} song."} for key in keys]
    assert post("/songs/items", {"items": texts}).json()["added"] == 4
    past = [
        {"worker": worker, "a": a, "b": b, "choice": "a"}
        for worker in ("m001", "m002", "m003")
        for a, b in combinations(keys, 2)
    ]
    assert post("/songs/judgements/import", {"judgements": past}).json()["added"] == 18
    listed = olga.get("/api/v1/projects/songs/judgements", {"source": "import", "limit": 100}).json()
    assert len(listed["rows"]) == 18
    assert update_one("test") is not None
    rows = olga.get("/api/v1/projects/songs/ranking").json()["rows"]
    assert [row["key"] for row in rows] == keys
    assert [(row["wins"], row["losses"]) for row in rows] == [(9, 0), (6, 3), (3, 6), (0, 9)]


def test_all_unknown_keys_of_imported_judgements_are_named(send: Send, project: Project) -> None:
    unknown = [{**PAST[1], "a": "fish-1"}, {**PAST[1], "b": "fish-2"}]
    refused = send("judgements/import", {"judgements": [PAST[0], *unknown]})
    assert (refused.status_code, refused.json()["field"]) == (422, "judgements")
    assert "“fish-1”, “fish-2”" in refused.json()["problems"][0]
    assert not Judgement.objects.exists()


@pytest.mark.parametrize(
    "change", [{"judged_at": "yesterday"}, {"response_ms": -1}, {"choice": "left"}, {"worker": " "}]
)
def test_an_invalid_past_judgement_is_refused(send: Send, project: Project, change: dict[str, Any]) -> None:
    assert send("judgements/import", {"judgements": [PAST[0] | change]}).status_code == 422
    assert not Judgement.objects.exists()
