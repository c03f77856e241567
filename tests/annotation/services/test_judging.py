"""Judging: join, answer pairs, undo, finish."""

import json
import uuid
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from annotation import services
from annotation.models import Judgement, JudgementNote, Project, Retraction, Worker
from annotation.services import to_canonical

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def task_of(client: Client) -> dict[str, Any]:
    return client.get("/s/pets/").context["task"]


def pair_of(client: Client) -> dict[str, Any] | None:
    """The pair that this browser shows."""
    return next(iter(task_of(client)["pairs"]), None)


def post(client: Client, **answer: Any) -> Any:
    payload = {"uuid": str(uuid.uuid4()), "choice": "left", **answer}
    return client.post("/s/pets/judgements/", json.dumps(payload), content_type="application/json")


def test_a_new_worker_joins_by_consenting(project: Project, client: Client) -> None:
    Project.objects.update(consent="We keep your answers.")
    assert "Which argument is more convincing?" in client.get("/s/pets/").text
    assert client.post("/s/pets/join/", {}).status_code == 422
    assert Worker.objects.count() == 0
    assert client.post("/s/pets/join/", {"consent": "on"}).url == "/s/pets/"
    assert Worker.objects.get().consented_at is not None
    assert pair_of(client)


def test_joining_twice_creates_one_worker(worker_client: Client) -> None:
    worker_client.post("/s/pets/join/", {"consent": "on"})
    assert Worker.objects.count() == 1


def test_a_double_click_on_start_creates_one_worker(project: Project, client: Client) -> None:
    """The second request carries the same CSRF cookie and no worker cookie yet."""
    client.get("/s/pets/")
    for _ in range(2):
        client.cookies.pop(f"concord_worker_{project.pk}", None)
        client.post("/s/pets/join/", {"consent": "on"})
    assert Worker.objects.count() == 1
    other = Client()
    other.get("/s/pets/")
    other.post("/s/pets/join/", {"consent": "on"})
    assert Worker.objects.count() == 2


def test_an_erased_worker_who_joins_again_is_a_new_worker(project: Project, client: Client) -> None:
    client.get("/s/pets/")
    client.post("/s/pets/join/", {"consent": "on"})
    services.erase_worker(worker=Worker.objects.get(), user=None)
    client.post("/s/pets/join/", {"consent": "on"})
    assert [worker.state for worker in Worker.objects.all()] == ["withdrawn", "active"]
    assert pair_of(client)


def test_joining_from_one_address_is_limited(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annotation.http.throttling.time.time", lambda: 1_000_000.5)
    monkeypatch.setattr("annotation.http.throttling.JOINS_PER_MINUTE", 20)
    answers = [Client().post("/s/pets/join/", {"consent": "on"}).status_code for _ in range(21)]
    assert Counter(answers) == {302: 20, 429: 1}
    assert Worker.objects.count() == 20


def test_questionnaire_answers_are_stored_as_traits(project: Project, client: Client) -> None:
    project.questionnaire = [{"name": "age", "label": "Your age", "choices": ["18-29", "30+"]}]
    project.save()
    client.post("/s/pets/join/", {"consent": "on", "q_age": "30+"})
    assert Worker.objects.get().traits == {"age": "30+"}


def test_one_post_stores_one_judgement_and_returns_the_next_pair(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    answer = post(worker_client, assignment=pair["assignment"], choice="right", response_ms=5)
    assert answer.status_code == 201
    judgement = Judgement.objects.get()
    assert judgement.source == "browser"
    chosen = judgement.item_lo if judgement.choice == "lo" else judgement.item_hi
    assert chosen.text == pair["right"]["text"]
    assert answer.json()["next"]["done"] == 1
    assert answer.json()["next"]["pairs"][0]["assignment"] != pair["assignment"]


def test_second_submit_returns_the_same_receipt(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    same = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"]}
    first, second = post(worker_client, **same), post(worker_client, **same)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["saved"] == second.json()["saved"] == same["uuid"]
    assert Judgement.objects.count() == 1


def test_a_second_answer_to_a_pair_returns_the_stored_one_and_the_next_pair(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    post(worker_client, assignment=pair["assignment"])
    answer = post(worker_client, assignment=pair["assignment"], choice="right")
    assert answer.status_code == 409
    assert answer.json()["next"]["pairs"]
    recorded = {"saved": str(Judgement.objects.get().uuid), "choice": "left", "skip_reason": ""}
    assert answer.json()["recorded"] == recorded


def test_a_browser_without_a_worker_cookie_is_refused(project: Project, client: Client) -> None:
    answer = post(client, assignment=str(uuid.uuid4()))
    assert answer.status_code == 401
    assert "kept on this device" in answer.json()["detail"]


def test_a_forged_cookie_is_refused(project: Project, worker: Worker, client: Client) -> None:
    client.cookies[f"concord_worker_{project.pk}"] = worker.code
    assert post(client, assignment=str(uuid.uuid4())).status_code == 401


@pytest.mark.parametrize("state", ["paused", "closed"])
def test_a_closed_study_refuses_answers_and_says_that_earlier_ones_are_saved(
    worker_client: Client, project: Project, state: str
) -> None:
    pair = pair_of(worker_client)
    Project.objects.update(state=state)
    answer = post(worker_client, assignment=pair["assignment"])
    assert answer.status_code == 409
    assert "earlier answers are saved" in answer.json()["detail"]
    assert "earlier answers are saved" in worker_client.get("/s/pets/").text


def test_a_tie_is_refused_if_the_study_offers_none(worker_client: Client) -> None:
    Project.objects.update(ties_allowed=False)
    pair = pair_of(worker_client)
    assert post(worker_client, assignment=pair["assignment"], choice="tie").status_code == 422


def test_a_tie_is_accepted_if_it_was_offered_with_the_pair(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    Project.objects.update(ties_allowed=False)
    assert post(worker_client, assignment=pair["assignment"], choice="tie").status_code == 201


def test_a_comment_is_stored_as_a_note(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    post(worker_client, assignment=pair["assignment"], choice="skip", skip_reason="both_poor", note="Neither!")
    assert JudgementNote.objects.get().text == "Neither!"
    assert Judgement.objects.get().skip_reason == "both_poor"


def test_a_worker_finishes_after_the_last_judgement(worker_client: Client) -> None:
    Project.objects.update(judgements_per_worker=2)
    for _ in range(2):
        post(worker_client, assignment=pair_of(worker_client)["assignment"])
    assert Worker.objects.get().state == "finished"
    page = worker_client.get("/s/pets/").text
    assert "Your 2 answers are saved." in page
    assert "You have finished" in page


def test_a_worker_who_has_judged_every_pair_has_finished(worker_client: Client) -> None:
    answered = 0
    while pair := pair_of(worker_client):
        post(worker_client, assignment=pair["assignment"])
        answered += 1
    assert answered == 6 + 3  # every pair of four cats and of three dogs
    assert "You have finished." in worker_client.get("/s/pets/").text


def test_pairs_are_within_a_group_and_never_repeated(project: Project, worker: Worker, judge: Any) -> None:
    judgements = [judge(worker).judgement for _ in range(9)]
    assert all(j.item_lo.group == j.item_hi.group for j in judgements)
    assert len({(j.item_lo_id, j.item_hi_id) for j in judgements}) == 9


def test_reloading_the_page_shows_the_same_pair(worker_client: Client) -> None:
    assert pair_of(worker_client) == pair_of(worker_client)


def test_a_worker_receives_no_keys_scores_or_data_of_others(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    body = post(worker_client, assignment=pair["assignment"]).json()
    assert set(body) == {"saved", "late", "next"}
    assert set(body["next"]) == {"pairs", "done", "total", "undo", "undo_choice", "finished"}
    assert set(body["next"]["pairs"][0]) == {"assignment", "left", "right"}
    assert set(body["next"]["pairs"][0]["left"]) == {"text", "group"}


@pytest.mark.parametrize(
    ("choice", "lo_is_left", "canonical"),
    [("left", True, "lo"), ("left", False, "hi"), ("right", True, "hi"), ("right", False, "lo"),
     ("a", True, "lo"), ("b", True, "hi"), ("tie", False, "tie"), ("skip", True, "skip")],
)  # fmt: skip
def test_choices_are_translated_to_canonical_order(choice: str, lo_is_left: bool, canonical: str) -> None:
    assert to_canonical(choice, lo_is_left=lo_is_left) == canonical


def test_retracting_twice_stores_one_event(worker: Worker, judge: Any) -> None:
    judgement = judge(worker).judgement
    first = services.retract(worker=worker, judgement=judgement.uuid, uuid=uuid.uuid4())
    again = services.retract(worker=worker, judgement=judgement.uuid, uuid=uuid.uuid4())
    assert (first.sequence, again.pk) == (2, first.pk)
    assert Judgement.objects.not_retracted().count() == 0


@pytest.mark.parametrize("state", ["paused", "closed"])
def test_a_stored_answer_is_acknowledged_again_after_the_study_has_closed(worker_client: Client, state: str) -> None:
    same = {"uuid": str(uuid.uuid4()), "assignment": pair_of(worker_client)["assignment"]}
    assert post(worker_client, **same).status_code == 201
    Project.objects.update(state=state)
    assert post(worker_client, **same).status_code == 200


def send_undo(client: Client, judgement: Judgement, **more: Any) -> Any:
    payload = {"uuid": str(uuid.uuid4()), "judgement": str(judgement.uuid), **more}
    return client.post("/s/pets/retractions/", json.dumps(payload), content_type="application/json")


def test_undo_is_idempotent_and_the_pair_comes_first(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    post(worker_client, assignment=pair["assignment"])
    same = {"uuid": str(uuid.uuid4())}
    first, second = (send_undo(worker_client, Judgement.objects.get(), **same) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert send_undo(worker_client, Judgement.objects.get()).status_code == 200
    assert Retraction.objects.count() == 1
    assert first.json()["next"]["pairs"][0]["left"] == pair["left"]
    assert first.json()["next"]["done"] == 0


def test_a_finished_worker_can_undo_the_last_answer_for_a_minute(
    worker_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    Project.objects.update(judgements_per_worker=1)
    body = post(worker_client, assignment=pair_of(worker_client)["assignment"], choice="right").json()
    judgement = Judgement.objects.get()
    assert (body["next"]["undo"], body["next"]["undo_choice"]) == (str(judgement.uuid), "right")
    monkeypatch.setattr("annotation.services.judging.UNDO_AFTER_FINISHING", timedelta(0))
    refused = send_undo(worker_client, judgement)
    assert (refused.status_code, refused.json()["code"]) == (409, "too_late")
    assert refused.json()["next"]["undo"] is None
    monkeypatch.undo()
    assert send_undo(worker_client, judgement).status_code == 201
    assert Worker.objects.get().state == "active"
    assert post(worker_client, assignment=pair_of(worker_client)["assignment"]).json()["next"]["finished"]


def test_undo_is_refused_to_other_workers_and_in_a_closed_study(worker_client: Client, project: Project) -> None:
    post(worker_client, assignment=pair_of(worker_client)["assignment"])
    judgement = Judgement.objects.get()
    other = Client()
    other.post("/s/pets/join/", {"consent": "on"})
    assert send_undo(other, judgement).status_code == 404
    Project.objects.update(state="closed")
    assert send_undo(worker_client, judgement).status_code == 409
    assert Retraction.objects.count() == 0


def test_an_erased_worker_can_no_longer_answer(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    services.erase_worker(worker=Worker.objects.get(), user=None)
    assert post(worker_client, assignment=pair["assignment"], note="It is me").status_code == 401
    assert JudgementNote.objects.count() == 0
    assert "Start" in worker_client.get("/s/pets/").text


def test_opening_the_address_of_a_form_redirects_or_explains(project: Project, client: Client) -> None:
    assert client.get("/s/pets/join/").url == "/s/pets/"
    wrong = client.get("/s/pets/judgements/")
    assert wrong.status_code == 405
    assert "Nothing was changed." in wrong.text


def test_a_worker_who_declares_to_be_simulated_is_marked(client: Client, project: Project) -> None:
    client.post(f"/s/{project.slug}/join/", {"consent": "on", "simulated": "yes"})
    task = client.get(f"/s/{project.slug}/task/").json()
    answer = {"uuid": str(uuid.uuid4()), "assignment": task["pairs"][0]["assignment"], "choice": "left"}
    assert client.post(f"/s/{project.slug}/judgements/", answer, content_type="application/json").status_code == 201
    judgement = Judgement.objects.get()
    assert (judgement.source, judgement.worker.simulated) == ("simulated", True)
    assert judgement.worker.code.startswith("simulated-")
    project.refresh_from_db()
    assert not project.simulated  # only an owner or a command marks a study


def test_a_worker_is_a_person_by_default(client: Client, project: Project) -> None:
    client.post(f"/s/{project.slug}/join/", {"consent": "on", "simulated": "no"})
    assert not Worker.objects.get().simulated
