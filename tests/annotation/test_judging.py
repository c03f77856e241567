"""The worker's way: welcome, a pair, one POST an answer, thank you."""

import json
import uuid
from collections import Counter
from typing import Any

import pytest
from django.test import Client

from annotation import services
from annotation.models import Judgement, JudgementNote, Project, Retraction, Worker
from annotation.services import to_canonical

pytestmark = pytest.mark.django_db


def task_of(client: Client) -> dict[str, Any]:
    return client.get("/s/pets/").context["task"]


def pair_of(client: Client) -> dict[str, Any] | None:
    """The pair this browser shows now."""
    return next(iter(task_of(client)["pairs"]), None)


def post(client: Client, **answer: Any) -> Any:
    payload = {"uuid": str(uuid.uuid4()), "choice": "left", **answer}
    return client.post("/s/pets/judgements/", json.dumps(payload), content_type="application/json")


def test_a_newcomer_is_welcomed_and_joins_by_consenting(project: Project, client: Client) -> None:
    assert "Which argument is more convincing?" in client.get("/s/pets/").text
    assert client.post("/s/pets/join/", {}).status_code == 422
    assert Worker.objects.count() == 0
    assert client.post("/s/pets/join/", {"consent": "on"}).url == "/s/pets/"
    assert Worker.objects.get().consented_at is not None
    assert pair_of(client)


def test_joining_twice_is_joining_once(worker_client: Client) -> None:
    worker_client.post("/s/pets/join/", {"consent": "on"})
    assert Worker.objects.count() == 1


def test_pressing_start_twice_before_the_first_was_answered_is_joining_once(project: Project, client: Client) -> None:
    """The second press carries what the first did: the page's token, and no worker's cookie yet."""
    client.get("/s/pets/")
    for _ in range(2):
        client.cookies.pop(f"concord_worker_{project.pk}", None)
        client.post("/s/pets/join/", {"consent": "on"})
    assert Worker.objects.count() == 1
    other = Client()
    other.get("/s/pets/")
    other.post("/s/pets/join/", {"consent": "on"})
    assert Worker.objects.count() == 2


def test_whoever_was_erased_and_joins_again_is_somebody_new(project: Project, client: Client) -> None:
    client.get("/s/pets/")
    client.post("/s/pets/join/", {"consent": "on"})
    services.erase_worker(worker=Worker.objects.get(), user=None)
    client.post("/s/pets/join/", {"consent": "on"})
    assert [worker.state for worker in Worker.objects.all()] == ["withdrawn", "active"]
    assert pair_of(client)


def test_two_hundred_from_one_address_may_join_at_once_and_a_flood_is_asked_to_wait(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annotation.throttling.time.time", lambda: 1_000_000.5)
    monkeypatch.setattr("annotation.throttling.JOINS_PER_MINUTE", 200)
    answers = [Client().post("/s/pets/join/", {"consent": "on"}).status_code for _ in range(201)]
    assert Counter(answers) == {302: 200, 429: 1}
    assert Worker.objects.count() == 200


def test_answers_to_the_questionnaire_are_kept_as_traits(project: Project, client: Client) -> None:
    project.questionnaire = [{"name": "age", "label": "Your age", "choices": ["18-29", "30+"]}]
    project.save()
    client.post("/s/pets/join/", {"consent": "on", "q_age": "30+"})
    assert Worker.objects.get().traits == {"age": "30+"}


def test_one_post_stores_one_judgement_and_answers_with_the_next_pair(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    answer = post(worker_client, assignment=pair["assignment"], choice="right", response_ms=5)
    assert answer.status_code == 201
    judgement = Judgement.objects.get()
    assert judgement.source == "browser"
    chosen = judgement.item_lo if judgement.choice == "lo" else judgement.item_hi
    assert chosen.text == pair["right"]["text"]
    assert answer.json()["next"]["done"] == 1
    assert answer.json()["next"]["pairs"][0]["assignment"] != pair["assignment"]


def test_the_same_id_twice_is_one_judgement_and_one_answer(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    same = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"]}
    first, second = post(worker_client, **same), post(worker_client, **same)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["saved"] == second.json()["saved"] == same["uuid"]
    assert Judgement.objects.count() == 1


def test_another_id_for_an_answered_pair_is_told_that_it_is_saved_and_goes_on(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    post(worker_client, assignment=pair["assignment"])
    answer = post(worker_client, assignment=pair["assignment"], choice="right")
    assert answer.status_code == 409
    assert answer.json()["next"]["pairs"]
    recorded = {"saved": str(Judgement.objects.get().uuid), "choice": "left", "skip_reason": ""}
    assert answer.json()["recorded"] == recorded


def test_a_browser_nobody_knows_is_told_to_reload(project: Project, client: Client) -> None:
    answer = post(client, assignment=str(uuid.uuid4()))
    assert answer.status_code == 401
    assert "kept on this device" in answer.json()["detail"]


def test_a_forged_cookie_is_nobody(project: Project, worker: Worker, client: Client) -> None:
    client.cookies[f"concord_worker_{project.pk}"] = worker.code
    assert post(client, assignment=str(uuid.uuid4())).status_code == 401


@pytest.mark.parametrize("state", ["paused", "closed"])
def test_a_closed_study_takes_no_answer_and_says_that_earlier_ones_are_safe(
    worker_client: Client, project: Project, state: str
) -> None:
    pair = pair_of(worker_client)
    Project.objects.update(state=state)
    answer = post(worker_client, assignment=pair["assignment"])
    assert answer.status_code == 409
    assert "earlier answers are saved" in answer.json()["detail"]
    assert "earlier answers are saved" in worker_client.get("/s/pets/").text


def test_a_tie_is_refused_where_the_study_offers_none(worker_client: Client) -> None:
    Project.objects.update(ties_allowed=False)
    pair = pair_of(worker_client)
    assert post(worker_client, assignment=pair["assignment"], choice="tie").status_code == 422


def test_a_tie_that_was_offered_is_kept_after_the_study_stopped_offering_them(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    Project.objects.update(ties_allowed=False)
    assert post(worker_client, assignment=pair["assignment"], choice="tie").status_code == 201


def test_a_reason_goes_to_a_note_outside_the_chain(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    post(worker_client, assignment=pair["assignment"], choice="skip", skip_reason="both_poor", note="Neither!")
    assert JudgementNote.objects.get().text == "Neither!"
    assert Judgement.objects.get().skip_reason == "both_poor"


def test_a_worker_who_has_given_enough_is_thanked(worker_client: Client) -> None:
    Project.objects.update(judgements_per_worker=2)
    for _ in range(2):
        post(worker_client, assignment=pair_of(worker_client)["assignment"])
    assert Worker.objects.get().state == "finished"
    page = worker_client.get("/s/pets/").text
    assert "Your 2 answers are saved." in page
    assert "You have finished" in page


def test_a_worker_for_whom_no_pair_is_left_is_told_so(worker_client: Client) -> None:
    given = 0
    while pair := pair_of(worker_client):
        post(worker_client, assignment=pair["assignment"])
        given += 1
    assert given == 6 + 3  # every pair of four cats and of three dogs, once
    assert "no more pairs for you" in worker_client.get("/s/pets/").text


def test_pairs_stay_within_a_group_and_never_come_twice(project: Project, worker: Worker, judge: Any) -> None:
    judgements = [judge(worker).judgement for _ in range(9)]
    assert all(j.item_lo.group == j.item_hi.group for j in judgements)
    assert len({(j.item_lo_id, j.item_hi_id) for j in judgements}) == 9


def test_a_page_asked_for_twice_shows_the_same_pair(worker_client: Client) -> None:
    assert pair_of(worker_client) == pair_of(worker_client)


def test_a_worker_is_never_shown_keys_scores_or_other_people(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    body = post(worker_client, assignment=pair["assignment"]).json()
    assert set(body) == {"saved", "late", "next"}
    assert set(body["next"]) == {"pairs", "done", "total", "undo", "finished"}
    assert set(body["next"]["pairs"][0]) == {"assignment", "left", "right"}
    assert set(body["next"]["pairs"][0]["left"]) == {"text", "group"}


@pytest.mark.parametrize(
    ("choice", "lo_is_left", "canonical"),
    [("left", True, "lo"), ("left", False, "hi"), ("right", True, "hi"), ("right", False, "lo"),
     ("a", True, "lo"), ("b", True, "hi"), ("tie", False, "tie"), ("skip", True, "skip")],
)  # fmt: skip
def test_left_and_right_become_the_item_that_was_meant(choice: str, lo_is_left: bool, canonical: str) -> None:
    assert to_canonical(choice, lo_is_left=lo_is_left) == canonical


def test_taking_an_answer_back_is_an_event_of_its_own_and_happens_once(worker: Worker, judge: Any) -> None:
    judgement = judge(worker).judgement
    first = services.retract(worker=worker, judgement=judgement.uuid, uuid=uuid.uuid4())
    again = services.retract(worker=worker, judgement=judgement.uuid, uuid=uuid.uuid4())
    assert (first.sequence, again.pk) == (2, first.pk)
    assert Judgement.objects.standing().count() == 0


@pytest.mark.parametrize("state", ["paused", "closed"])
def test_an_answer_that_is_stored_is_acknowledged_again_after_the_study_has_closed(
    worker_client: Client, state: str
) -> None:
    same = {"uuid": str(uuid.uuid4()), "assignment": pair_of(worker_client)["assignment"]}
    assert post(worker_client, **same).status_code == 201
    Project.objects.update(state=state)
    assert post(worker_client, **same).status_code == 200


def take_back(client: Client, judgement: Judgement, **more: Any) -> Any:
    payload = {"uuid": str(uuid.uuid4()), "judgement": str(judgement.uuid), **more}
    return client.post("/s/pets/retractions/", json.dumps(payload), content_type="application/json")


def test_undoing_twice_is_undoing_once_and_the_pair_comes_first(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    post(worker_client, assignment=pair["assignment"])
    same = {"uuid": str(uuid.uuid4())}
    first, second = (take_back(worker_client, Judgement.objects.get(), **same) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert take_back(worker_client, Judgement.objects.get()).status_code == 200
    assert Retraction.objects.count() == 1
    assert first.json()["next"]["pairs"][0]["left"] == pair["left"]
    assert first.json()["next"]["done"] == 0


def test_nothing_is_undone_in_a_study_that_has_closed_or_by_somebody_else(
    worker_client: Client, project: Project
) -> None:
    post(worker_client, assignment=pair_of(worker_client)["assignment"])
    judgement = Judgement.objects.get()
    other = Client()
    other.post("/s/pets/join/", {"consent": "on"})
    assert take_back(other, judgement).status_code == 404
    Project.objects.update(state="closed")
    assert take_back(worker_client, judgement).status_code == 409
    assert Retraction.objects.count() == 0


def test_an_erased_worker_is_nobody_and_can_say_nothing_more(worker_client: Client) -> None:
    pair = pair_of(worker_client)
    services.erase_worker(worker=Worker.objects.get(), user=None)
    assert post(worker_client, assignment=pair["assignment"], note="It is me").status_code == 401
    assert JudgementNote.objects.count() == 0
    assert "Start" in worker_client.get("/s/pets/").text


def test_a_worker_who_types_the_address_of_a_form_is_led_to_the_study(project: Project, client: Client) -> None:
    assert client.get("/s/pets/join/").url == "/s/pets/"
    wrong = client.get("/s/pets/judgements/")
    assert wrong.status_code == 405
    assert "Nothing was changed." in wrong.text


def test_a_visitor_may_declare_itself_simulated_and_its_answers_say_so(client: Client, project: Project) -> None:
    client.post(f"/s/{project.slug}/join/", {"consent": "on", "simulated": "yes"})
    task = client.get(f"/s/{project.slug}/task/").json()
    answer = {"uuid": str(uuid.uuid4()), "assignment": task["pairs"][0]["assignment"], "choice": "left"}
    assert client.post(f"/s/{project.slug}/judgements/", answer, content_type="application/json").status_code == 201
    judgement = Judgement.objects.get()
    assert (judgement.source, judgement.worker.simulated) == ("simulated", True)
    assert judgement.worker.code.startswith("simulated-")
    project.refresh_from_db()
    assert not project.simulated  # what a study is called is not left to visitors


def test_whoever_does_not_declare_it_is_a_person(client: Client, project: Project) -> None:
    client.post(f"/s/{project.slug}/join/", {"consent": "on", "simulated": "no"})
    assert not Worker.objects.get().simulated
