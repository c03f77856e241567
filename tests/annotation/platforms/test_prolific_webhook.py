"""Prolific's webhook: forged messages are refused, repeated ones change nothing, the newest status counts."""

import json
import re
import time
from http.cookiejar import CookieJar
from random import Random
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from django.test import Client

from annotation import services
from annotation.models import Item, PlatformEvent, PlatformIdentity, Project, Worker
from annotation.platforms.prolific_webhook import sign
from annotation.services.participation import platform_events
from annotation.services.participation.outcomes import end_participation, finish
from annotation.services.participation.payment import summarise_payment
from annotation.services.participation.reconciliation import list_participants
from annotation.services.privacy.retention import erase_worker_data
from tests.annotation.platforms.studies import OTHER_PID, PID, SESSION, STUDY, join, link, recruit
from tests.helpers.concurrency import run_concurrently
from tests.helpers.serving import serving

pytestmark = pytest.mark.django_db
SECRET = "a secret of the workspace"
ADDRESS = "/hooks/prolific/pets/"
FORM = ("csrfmiddlewaretoken", "arrival")  # hidden fields of the form to join


def post(
    status: str,
    *,
    at: float | None = None,
    event: str = "e1",
    event_at: float | str | None = None,
    secret: str = SECRET,
    **changes: Any,
) -> Any:
    """Send a status as Prolific does."""
    message = {"event_type": "submission.status.change", "resource_id": SESSION, "participant_id": PID}
    message |= {"status": status} | changes
    body, timestamp = json.dumps(message, indent=1), str(at or time.time())
    headers = {
        "X-Prolific-Request-Timestamp": timestamp,
        "X-Prolific-Request-Signature": sign(secret, timestamp, body.encode()),
        "X-Event-Id": event,
        "X-Timestamp": timestamp if event_at is None else str(event_at),
    }
    return Client().post(ADDRESS, body, content_type="application/json", headers=headers)


@pytest.fixture
def worker(project: Project, client: Client) -> Worker:
    """A worker who arrived from Prolific; each pair is for one worker."""
    recruit(project, webhook_secret=SECRET)
    Project.objects.filter(pk=project.pk).update(redundancy=1)
    join(client, link(project))
    return Worker.objects.select_related("project").get()


@pytest.mark.parametrize("status", ["RETURNED", "TIMED-OUT", "REJECTED"])
def test_the_pairs_of_a_worker_who_left_go_to_others(worker: Worker, rng: Random, status: str) -> None:
    held = {(lease.item_lo_id, lease.item_hi_id) for lease in services.lease_pairs(worker=worker, rng=rng)}
    assert post(status).json() == {"recorded": True}
    others = [services.enrol(project=worker.project) for _ in range(2)]
    leased = [lease for other in others for lease in services.lease_pairs(worker=other, rng=rng)]
    assert held <= {(lease.item_lo_id, lease.item_hi_id) for lease in leased}


def test_a_returned_task_ends_the_participation_until_a_new_session(worker: Worker, client: Client) -> None:
    post("RETURNED")
    worker.refresh_from_db()
    assert (worker.state, worker.outcome) == ("finished", "returned")
    client.get(link(worker.project, SESSION_ID="9d" * 12))
    assert client.get("/s/pets/").context["task"]["pairs"]


def test_a_late_report_does_not_change_a_participation_that_has_ended(worker: Worker, client: Client) -> None:
    client.post("/s/pets/stop/")
    client.post("/s/pets/finish/")
    assert post("RETURNED").json() == {"recorded": True}
    worker.refresh_from_db()
    assert worker.outcome == "stopped"
    assert PlatformIdentity.objects.get().status == "RETURNED", "the owner sees both"


def test_a_late_report_about_an_earlier_session_does_not_end_the_new_one(worker: Worker, client: Client) -> None:
    client.get(link(worker.project, SESSION_ID="9d" * 12))
    assert post("RETURNED").json() == {"recorded": True}
    worker.refresh_from_db()
    assert (worker.state, worker.outcome) == ("active", "")


def test_a_task_returned_before_consent_does_not_begin(project: Project, client: Client) -> None:
    recruit(project, webhook_secret=SECRET)
    arrival = client.get(link(project)).context["form"]["arrival"].value()
    post("RETURNED")
    client.post("/s/pets/join/", {"arrival": arrival, "consent": "on"})
    worker = Worker.objects.get()
    assert (worker.outcome, PlatformIdentity.objects.get().status) == ("returned", "RETURNED")
    assert PlatformEvent.objects.get().worker == worker, "it is erased with the worker"


def test_a_task_returned_while_its_worker_joins_does_not_begin(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message looks for the worker before they have joined, and they look for messages before it is committed."""
    record = platform_events._record

    def record_before_the_worker_is_known(*args: Any) -> Any:
        PlatformIdentity.objects.update(session_id="")
        found = record(*args)
        PlatformIdentity.objects.update(session_id=SESSION)
        return found

    monkeypatch.setattr(platform_events, "_record", record_before_the_worker_is_known)
    assert post("RETURNED").json() == {"recorded": True}
    worker.refresh_from_db()
    assert worker.outcome == "returned"
    assert PlatformEvent.objects.get().worker == worker


def test_a_new_session_has_its_own_status(worker: Worker, client: Client) -> None:
    post("RETURNED")
    post("ACTIVE", event="e2", resource_id="9d" * 12)
    client.get(link(worker.project, SESSION_ID="9d" * 12))
    assert PlatformIdentity.objects.get().status == "ACTIVE"
    worker.refresh_from_db()
    assert worker.state == "active"
    client.get(link(worker.project, SESSION_ID="0e" * 12))
    assert PlatformIdentity.objects.get().status == ""


def test_an_ended_participation_keeps_its_session_unless_the_worker_left_it(worker: Worker, client: Client) -> None:
    end_participation(worker=worker, outcome="finished")
    client.get(link(worker.project, SESSION_ID="9d" * 12))
    assert PlatformIdentity.objects.get().session_id == SESSION
    post("RETURNED")
    client.get(link(worker.project, SESSION_ID="9d" * 12))
    assert PlatformIdentity.objects.get().session_id == "9d" * 12


def test_a_worker_who_was_too_slow_may_still_finish(worker: Worker, client: Client) -> None:
    post("TIMED-OUT")
    worker.refresh_from_db()
    assert (worker.state, worker.outcome) == ("active", "")
    assert PlatformIdentity.objects.get().status == "TIMED_OUT"


def test_a_repeated_event_is_acknowledged_and_stored_once(worker: Worker) -> None:
    now = time.time()
    answers = [post("TIMED-OUT", at=now) for _ in range(3)]
    assert [answer.json()["recorded"] for answer in answers] == [True, False, False]
    assert PlatformEvent.objects.count() == 1


def test_the_status_that_was_sent_last_counts_in_any_order(worker: Worker) -> None:
    now = time.time()
    post("APPROVED", at=now, event="e2")
    post("AWAITING REVIEW", at=now - 60, event="e1")
    assert PlatformIdentity.objects.get().status == "APPROVED"
    assert PlatformEvent.objects.count() == 2


def test_an_old_event_that_is_delivered_again_later_does_not_undo_a_newer_one(worker: Worker) -> None:
    now = time.time()
    post("APPROVED", at=now - 30, event="e2")
    post("AWAITING REVIEW", at=now, event="e1", event_at=now - 60)
    assert PlatformIdentity.objects.get().status == "APPROVED"


@pytest.mark.parametrize("event_at", ["", "yesterday", "1e300"])
def test_an_event_without_a_readable_time_has_that_of_its_request(worker: Worker, event_at: str) -> None:
    assert post("APPROVED", event_at=event_at).json() == {"recorded": True}
    assert PlatformIdentity.objects.get().status == "APPROVED"


@pytest.mark.parametrize(
    "changes",
    [{"secret": "another"}, {"at": time.time() - 4 * 86400}, {"at": time.time() + 4 * 86400}],
    ids=["forged", "late", "from the future"],
)
def test_a_forged_or_outdated_message_changes_nothing(worker: Worker, changes: Any) -> None:
    assert post("RETURNED", **changes).status_code == 403
    assert not PlatformEvent.objects.exists()
    worker.refresh_from_db()
    assert worker.state == "active"


UNREADABLE = [
    b"", b"[]", b"{}", b'{"event_type": "submission.status.change"}', b"\xff", b"[" * 50_000,
    b'{"event_type": "submission.status.change", "resource_id": "a\\u0000", "status": "RETURNED"}',
    b'{"event_type": "submission.status.change", "resource_id": "\\ud800", "status": "RETURNED"}',
    b'{"event_type": "submission.status.change", "resource_id": "a", "status": "\\u0000"}',
]  # fmt: skip


@pytest.mark.both_databases
@pytest.mark.parametrize("body", UNREADABLE, ids=range(len(UNREADABLE)))
def test_an_unreadable_message_is_refused(worker: Worker, body: bytes) -> None:
    timestamp = str(time.time())
    headers = {
        "X-Prolific-Request-Timestamp": timestamp,
        "X-Prolific-Request-Signature": sign(SECRET, timestamp, body),
    }
    assert Client().post(ADDRESS, body, content_type="application/json", headers=headers).status_code == 403


def test_an_event_about_something_else_is_acknowledged(worker: Worker) -> None:
    assert post("ACTIVE", event_type="study.status.change").json() == {"recorded": False}


def test_an_event_about_an_unknown_submission_is_only_stored(worker: Worker) -> None:
    assert post("RETURNED", resource_id="0" * 24).json() == {"recorded": True}
    worker.refresh_from_db()
    assert worker.state == "active"


def test_erasing_a_worker_erases_what_the_platform_reported(worker: Worker) -> None:
    post("TIMED-OUT")
    services.erase_worker(worker=worker, user=None)
    assert not PlatformEvent.objects.exists()


def test_retention_erases_what_the_platform_reported(worker: Worker) -> None:
    post("RETURNED", resource_id="0" * 24)
    erase_worker_data(worker.project)
    assert not PlatformEvent.objects.exists()


def test_without_a_secret_there_is_no_address(project: Project) -> None:
    recruit(project)
    assert post("RETURNED").status_code == 404


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.slow
def test_the_same_event_ten_times_at_once_is_stored_once(project: Project) -> None:
    recruit(project, webhook_secret=SECRET)
    services.enrol(project=project, platform="prolific", external_id=PID)
    PlatformIdentity.objects.update(study_id=STUDY, session_id=SESSION)
    now = time.time()
    answers = run_concurrently([lambda: post("RETURNED", at=now).json()["recorded"]] * 10)
    assert sorted(answers) == [False] * 9 + [True]
    assert Worker.objects.get().outcome == "returned"


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.slow
def test_a_task_returned_while_its_worker_finishes_is_never_paid(project: Project) -> None:
    """Returning and finishing run at the same time; in either order the submission is not paid."""
    recruit(project, webhook_secret=SECRET)
    for number in range(8):
        worker = services.enrol(project=project, platform="prolific", external_id=f"{number:024x}")
        session = f"{number + 100:024x}"
        PlatformIdentity.objects.filter(worker=worker).update(study_id=STUDY, session_id=session)

        def end(worker: Worker = worker) -> str:
            return finish(worker=worker, has_pairs=False).outcome

        def report(session: str = session) -> Any:
            return post("RETURNED", event=session, resource_id=session).json()["recorded"]

        ended, recorded = run_concurrently([end, report])
        stored = Worker.objects.get(pk=worker.pk)
        assert recorded
        assert stored.outcome == ended in ("no_work_left", "returned")
        assert stored.identity.status == "RETURNED"
    assert {person.decision for person in list_participants(project, "prolific")} == {"review"}
    assert summarise_payment(project, project.recruitment).spent == 0


class Visitor:
    """A worker who joins over HTTP with cookies of their own."""

    def __init__(self, address: str, path: str) -> None:
        self.address, self.opener = address, build_opener(HTTPCookieProcessor(CookieJar()))
        page = self.get(path)
        values = {name: re.findall(f'name="{name}"[^>]* value="([^"]*)"', page)[0] for name in FORM}
        self.opener.open(f"{address}/s/pets/join/", urlencode(values | {"consent": "on"}).encode(), timeout=60)

    def get(self, path: str) -> str:
        return str(self.opener.open(self.address + path, timeout=60).read().decode())

    def pairs(self) -> list[Any]:
        return list(json.loads(self.get("/s/pets/task/"))["pairs"])


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.slow
def test_another_worker_gets_the_pairs_of_a_returned_task_within_five_seconds(project: Project) -> None:
    recruit(project, webhook_secret=SECRET)
    Project.objects.update(redundancy=1)
    two = Item.objects.filter(group="cats").order_by("pk").values_list("pk", flat=True)[:2]
    Item.objects.exclude(pk__in=list(two)).update(active=False)
    with serving() as port:
        links = [link(project, pid, SESSION_ID=session) for pid, session in ((PID, SESSION), (OTHER_PID, "9d" * 12))]
        held, waiting = (Visitor(f"http://127.0.0.1:{port}", each) for each in links)
        assert len(held.pairs()) == 1, "the only pair of the study"
        assert waiting.pairs() == []
        began = time.monotonic()
        assert post("RETURNED").json() == {"recorded": True}
        assert len(waiting.pairs()) == 1
        assert time.monotonic() - began < 5
