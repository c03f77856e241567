"""The end of a participation: one outcome, set once, and a code only after the last answer is committed."""

import json
import uuid
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.exceptions import TooLateToRetract
from annotation.http import throttling
from annotation.models import Assignment, Judgement, PlatformIdentity, Project, Worker, WorkerCheck
from annotation.services.participation.outcomes import NotFinished, earned_completion, end_participation, finish
from annotation.services.participation.reconciliation import list_participants
from tests.annotation.platforms.studies import CODES, OTHER_PID, join, link, recruit
from tests.helpers.concurrency import run_concurrently

pytestmark = pytest.mark.django_db
Judge = Callable[..., services.Receipt]


@pytest.fixture
def paid_project(project: Project) -> Project:
    """A study on Prolific with a quota of three."""
    recruit(project)
    Project.objects.filter(pk=project.pk).update(judgements_per_worker=3)
    project.refresh_from_db()
    return project


def answer_all(client: Client, count: int) -> list[Any]:
    """Answer this many pairs over HTTP; return every response."""
    responses = [client.get("/s/pets/task/")]
    for _ in range(count):
        body = responses[-1].json()
        pair = (body.get("next") or body)["pairs"][0]
        answer = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": "left"}
        responses.append(client.post("/s/pets/judgements/", json.dumps(answer), content_type="application/json"))
    return responses


def test_no_response_contains_a_code_before_the_participation_has_ended(paid_project: Project, client: Client) -> None:
    before = [client.get(link(paid_project)), join(client, link(paid_project))]
    before += [client.get("/s/pets/"), client.get("/s/pets/finish/"), client.post("/s/pets/finish/")]
    before += answer_all(client, 2)
    before += [client.get("/s/pets/finish/"), client.post("/s/pets/finish/")]
    before += [*answer_all(client, 1), client.get("/s/pets/"), client.get("/s/pets/finish/")]
    assert not [response for response in before for code in CODES.values() if code in response.content.decode()]
    page = client.post("/s/pets/finish/", follow=True).content.decode()
    assert CODES["finished"] in page
    assert f"https://app.prolific.com/submissions/complete?cc={CODES['finished']}" in page
    assert [code for code in CODES.values() if code in page] == [CODES["finished"]]


def test_the_completion_page_is_forbidden_before_and_the_same_after(paid_project: Project, client: Client) -> None:
    join(client, link(paid_project))
    answer_all(client, 2)
    assert client.get("/s/pets/finish/").status_code == 403
    assert client.post("/s/pets/finish/").status_code == 403
    answer_all(client, 1)
    client.post("/s/pets/finish/")
    pages = [client.get(address) for address in ("/s/pets/finish/", "/s/pets/finish/", "/s/pets/")]
    assert [page.status_code for page in pages] == [200, 200, 200]
    assert all(CODES["finished"] in page.content.decode() for page in pages)


def test_no_worker_is_told_to_close_the_page_before_they_have_their_code(paid_project: Project, client: Client) -> None:
    join(client, link(paid_project))
    answer_all(client, 3)
    page = client.get("/s/pets/").content.decode()
    assert "to get your completion code" in page
    assert "You can close this page" not in page


def test_a_stranger_gets_no_code(paid_project: Project, client: Client) -> None:
    join(client, link(paid_project))
    answer_all(client, 3)
    client.post("/s/pets/finish/")
    assert CODES["finished"] not in Client().get("/s/pets/finish/", follow=True).content.decode()


def test_nothing_can_be_undone_once_the_participation_has_ended(
    paid_project: Project, judge: Judge, rng: Random
) -> None:
    worker = services.enrol(project=paid_project)
    last = [judge(worker) for _ in range(3)][-1].judgement
    ended = finish(worker=worker, has_pairs=False)
    with pytest.raises(TooLateToRetract):
        services.retract(worker=ended, judgement=last.uuid, uuid=uuid.uuid4())
    assert earned_completion(ended).code == CODES["finished"]


def test_a_worker_without_pairs_ends_with_no_work_left(paid_project: Project) -> None:
    worker = services.enrol(project=paid_project)
    with pytest.raises(NotFinished):
        finish(worker=worker, has_pairs=True)
    assert finish(worker=worker, has_pairs=False).outcome == Worker.Outcome.NO_WORK_LEFT


def test_a_worker_who_stopped_early_gets_the_code_for_it_and_cannot_continue(
    paid_project: Project, client: Client
) -> None:
    join(client, link(paid_project))
    answer_all(client, 1)
    client.post("/s/pets/stop/")
    assert not [code for code in CODES.values() if code in client.get("/s/pets/").content.decode()]
    assert CODES["stopped"] in client.post("/s/pets/finish/", follow=True).content.decode()
    client.post("/s/pets/resume/")
    assert Worker.objects.get().outcome == "stopped"


def test_a_worker_whose_study_was_closed_can_finish_and_gets_a_code(paid_project: Project, client: Client) -> None:
    join(client, link(paid_project))
    answer_all(client, 1)
    Project.objects.update(state="closed")
    assert "Finish" in client.get("/s/pets/").content.decode()
    assert CODES["no_work_left"] in client.post("/s/pets/finish/", follow=True).content.decode()


def test_the_pairs_of_an_ended_worker_are_free_for_others(paid_project: Project, rng: Random) -> None:
    Project.objects.update(redundancy=1, judgements_per_worker=9)
    paid_project.refresh_from_db()
    first, second = (services.enrol(project=paid_project) for _ in range(2))
    held = {lease.pk for lease in services.lease_pairs(worker=first, rng=rng)}
    end_participation(worker=first, outcome=Worker.Outcome.FAILED_CHECKS)
    while services.lease_pairs(worker=second, rng=rng):
        lease = services.lease_pairs(worker=second, rng=rng)[0]
        services.record_judgement(worker=second, uuid=uuid.uuid4(), assignment=lease.public_id, choice="left")
    assert second.judgements.count() == 9, "also the five pairs that the first worker held"
    assert not Assignment.objects.filter(pk__in=held, slot__isnull=False).exists()


def test_declining_stores_nothing_and_shows_the_code_for_it(paid_project: Project, client: Client) -> None:
    token = client.get(link(paid_project)).context["form"]["arrival"].value()
    page = client.post("/s/pets/decline/", {"arrival": token})
    assert CODES["declined"] in page.content.decode()
    assert not Worker.objects.exists()
    assert "concord_worker" not in str(client.cookies)


def test_without_a_code_for_declining_workers_are_asked_to_return_the_task(project: Project, client: Client) -> None:
    recruit(project, codes={"finished": "DONE"})
    token = client.get(link(project)).context["form"]["arrival"].value()
    assert "Please return the task" in client.post("/s/pets/decline/", {"arrival": token}).content.decode()


def test_workers_who_finished_without_a_code_are_not_asked_to_return_the_task(
    paid_project: Project, client: Client
) -> None:
    recruit(paid_project, codes={})
    join(client, link(paid_project))
    answer_all(client, 3)
    page = client.post("/s/pets/finish/", follow=True).text
    assert "End the task on the platform without a code" in page
    assert "Please return the task" not in page
    assert "come back later" not in page


def test_someone_else_on_a_shared_device_can_decline(paid_project: Project, client: Client) -> None:
    join(client, link(paid_project))
    arrival = client.get(link(paid_project, OTHER_PID)).context["form"]["arrival"].value()
    assert CODES["declined"] in client.post("/s/pets/decline/", {"arrival": arrival}).text
    assert Worker.objects.count() == 1


def test_someone_who_joined_on_another_device_cannot_decline_any_more(paid_project: Project, client: Client) -> None:
    arrival = client.get(link(paid_project)).context["form"]["arrival"].value()
    join(Client(), link(paid_project))
    response = client.post("/s/pets/decline/", {"arrival": arrival})
    assert (response.status_code, response["Location"]) == (302, "/s/pets/")
    assert client.get("/s/pets/").context["worker"] == Worker.objects.get()


def test_a_worker_who_failed_the_checks_and_finds_no_pairs_has_failed_them(paid_project: Project) -> None:
    Project.objects.update(attention_checks=2)
    worker = services.enrol(project=paid_project)
    for number in (1, 2):
        facts = {"number": number, "expected": "left", "choice": "right", "answered_at": timezone.now()}
        WorkerCheck.objects.create(project=paid_project, worker=worker, **facts)
    assert finish(worker=worker, has_pairs=False).outcome == Worker.Outcome.FAILED_CHECKS


def test_a_worker_who_gets_no_more_pairs_can_finish_and_is_paid(paid_project: Project, client: Client) -> None:
    join(client, link(paid_project))
    answer_all(client, 1)
    services.exclude_worker(worker=Worker.objects.get(), user=None, reason="too fast", suspend=True)
    assert "There are no more pairs for you at the moment." in client.get("/s/pets/").text
    assert CODES["no_work_left"] in client.post("/s/pets/finish/", follow=True).text
    [person] = list_participants(paid_project, "prolific")
    assert person.decision == "approve", "leaving someone out of the model is no reason not to pay"


def test_a_pilot_that_pauses_while_someone_judges_keeps_their_answers_and_lets_them_finish(
    paid_project: Project, client: Client
) -> None:
    """A place is free once its worker returns the task, and is taken twice if they come back."""
    recruit(paid_project, pilot_workers=1)
    join(client, link(paid_project))
    end_participation(worker=Worker.objects.get(), outcome="returned")
    PlatformIdentity.objects.update(status=PlatformIdentity.RETURNED)
    other = Client()
    join(other, link(paid_project, OTHER_PID))
    client.get(link(paid_project, SESSION_ID="9d" * 12))
    pair = client.get("/s/pets/task/").json()["pairs"][0]
    answer_all(other, 3)
    other.post("/s/pets/finish/")
    assert Project.objects.get().state == "paused"
    answer = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": "left"}
    refused = client.post("/s/pets/judgements/", json.dumps(answer), content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (409, "not_open"), "the answer waits on the device"
    assert "This study is paused." in client.get("/s/pets/").text
    Project.objects.update(state="open")
    stored = client.post("/s/pets/judgements/", json.dumps(answer), content_type="application/json")
    assert stored.status_code == 201
    Project.objects.update(state="paused")
    assert CODES["no_work_left"] in client.post("/s/pets/finish/", follow=True).text


def test_a_worker_who_deletes_their_data_and_comes_back_starts_anew(paid_project: Project, client: Client) -> None:
    join(client, link(paid_project))
    answer_all(client, 3)
    client.post("/s/pets/finish/")
    client.post("/s/pets/data/delete/", {"confirm": "on"})
    assert client.get(link(paid_project)).context["form"], "they are asked for consent again"
    join(client, link(paid_project))
    new = Worker.objects.exclude(outcome="erased").get()
    assert (client.get("/s/pets/task/").json()["done"], new.judgements.count()) == (0, 0)
    assert client.get("/s/pets/finish/").status_code == 403, "the code has to be earned again"
    assert len(list_participants(paid_project, "prolific")) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.slow
def test_twenty_parallel_finish_calls_make_one_transition(paid_project: Project, judge: Judge) -> None:
    worker = services.enrol(project=paid_project, platform="prolific", external_id="5f" * 12)
    for _ in range(3):
        judge(worker)
    ended = run_concurrently([lambda: finish(worker=worker, has_pairs=False)] * 20)
    assert {(one.outcome, one.ended_at) for one in ended} == {("finished", Worker.objects.get().ended_at)}
    assert {earned_completion(one).code for one in ended} == {CODES["finished"]}


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.slow
def test_twenty_parallel_finish_requests_from_four_devices_show_one_code(paid_project: Project) -> None:
    devices = [Client() for _ in range(4)]
    join(devices[0], link(paid_project))
    for device in devices[1:]:
        device.get(link(paid_project))
    answer_all(devices[0], 3)

    def post_finish(device: Client) -> str:
        copy = Client()  # the cookies of one device, in a thread of its own
        copy.cookies.update(device.cookies)
        return copy.post("/s/pets/finish/", follow=True).text

    pages = run_concurrently([lambda device=device: post_finish(device) for device in devices * 5])
    assert {code for page in pages for code in CODES.values() if code in page} == {CODES["finished"]}
    assert all(CODES["finished"] in page for page in pages)
    assert Worker.objects.exclude(ended_at=None).count() == Worker.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.slow
def test_three_devices_that_reach_the_quota_at_once_give_exactly_its_number_of_answers(
    paid_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "REQUESTS_PER_SECOND", 10**9)
    Project.objects.update(judgements_per_worker=9)
    devices = [Client() for _ in range(3)]
    join(devices[0], link(paid_project))
    for device in devices[1:]:
        device.get(link(paid_project))

    def judge_all(device: Client) -> str:
        while pairs := device.get("/s/pets/task/").json()["pairs"]:
            for pair in pairs:
                answer = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": "left"}
                device.post("/s/pets/judgements/", json.dumps(answer), content_type="application/json")
        return device.post("/s/pets/finish/", follow=True).text

    pages = run_concurrently([lambda device=device: judge_all(device) for device in devices])
    assert Judgement.objects.count() == 9
    assert Assignment.objects.filter(closed_at=None).count() == 0
    assert all(CODES["finished"] in page for page in pages)


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.slow
def test_an_undo_beside_finishing_either_comes_first_or_is_refused(paid_project: Project, judge: Judge) -> None:
    worker = services.enrol(project=paid_project)
    last = [judge(worker) for _ in range(3)][-1].judgement

    def undo() -> str:
        try:
            services.retract(worker=worker, judgement=last.uuid, uuid=uuid.uuid4())
        except TooLateToRetract:
            return "too late"
        return "undone"

    def end() -> str:
        try:
            return finish(worker=worker, has_pairs=True).outcome
        except NotFinished:
            return "not finished"

    assert set(run_concurrently([undo, end])) in ({"undone", "not finished"}, {"too late", "finished"})
