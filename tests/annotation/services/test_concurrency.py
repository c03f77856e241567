"""Concurrent requests over HTTP: a UUID is stored once, a pair answered once, and no pair exceeds its redundancy.

`make test` runs a small form, `make long-tests` (DRILLS=long) the full one.
"""

import json
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import combinations, count
from random import Random
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db.models import Count, F
from django.http import HttpResponse
from django.utils import timezone

from annotation import services
from annotation.exceptions import AssignmentNotFound, PayloadConflict
from annotation.http import throttling
from annotation.http.access import set_worker_cookie
from annotation.models import Assignment, Judgement, Project, Retraction, Worker
from annotation.services import judging
from benchmarks.load.client import LoadClient, assignment_ids
from benchmarks.load.crowd import percentile
from benchmarks.load.study import make_study
from tests.helpers.concurrency import run_concurrently, timed
from tests.helpers.serving import serving

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.both_databases]

LONG = os.environ.get("DRILLS") == "long"
IDS, SENDS = (200, 20) if LONG else (8, 20)
OTHER_PAYLOADS = 1000 if LONG else 100
PAIRS = 500 if LONG else 40
WORKERS, REDUNDANCY, ROUNDS = 64, 3, 100 if LONG else 2
LONGEST_WAIT = 1000  # ms
ASSIGNMENTS = 10_000 if LONG else 500
HOUR = timedelta(hours=1)

Visit = Callable[[str], LoadClient]


@pytest.fixture
def visit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Visit]:
    """Return a function that opens a study in a new client of the running server, without rate limits."""
    monkeypatch.setattr(throttling, "REQUESTS_PER_SECOND", 10**9)
    seeds = count()
    with serving() as port:
        yield lambda slug: LoadClient(port, slug, {"Origin": f"http://127.0.0.1:{port}"}, seed=next(seeds))


@pytest.fixture
def joined_client(visit: Visit) -> Iterator[LoadClient]:
    """The client of a worker in a study of 40 items (780 pairs)."""
    make_study("crowded", items=40, redundancy=REDUNDANCY)
    client = visit("crowded")
    client.join()
    yield client
    client.close()


def tabs_of(client: LoadClient, count: int) -> list[LoadClient]:
    """Return clients with the same cookies, like further tabs of one browser."""
    tabs = [LoadClient(client.port, client.slug, client.headers, seed=n) for n in range(count)]
    for tab in tabs:
        tab.cookies.update(client.cookies)
        tab.token = client.token
    return tabs


def post(client: LoadClient, path: str, **body: str) -> tuple[int, dict[str, Any]]:
    reply = client.request("POST", f"/s/{client.slug}/{path}/", json.dumps(body).encode(), "application/json")
    return reply.status, reply.json()


def pairs(client: LoadClient) -> list[str]:
    return assignment_ids(client.request("GET", f"/s/{client.slug}/task/").json())


def new_answer(assignment: str, choice: str = "left") -> dict[str, str]:
    return {"uuid": str(uuid.uuid4()), "assignment": assignment, "choice": choice}


def test_one_uuid_sent_twenty_times_at_once_is_stored_once(joined_client: LoadClient) -> None:
    tabs = tabs_of(joined_client, SENDS)
    for _ in range(IDS):
        answer = new_answer(pairs(joined_client)[0])
        replies = run_concurrently([partial(post, tab, "judgements", **answer) for tab in tabs])
        seen = Counter(status for status, _body in replies)
        assert seen[201] == 1, seen
        assert set(seen) <= {200, 201, 409}, seen
        assert {body["saved"] for status, body in replies if status < 300} == {answer["uuid"]}
        assert post(joined_client, "judgements", **answer)[0] == 200
    assert Judgement.objects.count() == IDS


def test_a_uuid_sent_again_with_another_choice_pair_or_worker_changes_nothing(db: None) -> None:
    project = make_study("resent", items=50, redundancy=REDUNDANCY)
    worker, other = services.enrol(project=project), services.enrol(project=project)
    foreign = services.lease_pairs(worker=other, rng=Random(0))[0]
    refused: Counter[type] = Counter()
    for number in range(OTHER_PAYLOADS):
        first, second = services.lease_pairs(worker=worker, rng=Random(number))[:2]
        answer = {"worker": worker, "uuid": uuid.uuid4(), "assignment": first.public_id, "choice": "left"}
        services.record_judgement(**answer)
        changes = (
            {"choice": "right"},
            {"assignment": second.public_id},
            {"worker": other, "assignment": foreign.public_id},
        )
        for change in changes:
            with pytest.raises((PayloadConflict, AssignmentNotFound)) as error:
                services.record_judgement(**{**answer, **change})
            refused[error.type] += 1
    assert refused == {PayloadConflict: 2 * OTHER_PAYLOADS, AssignmentNotFound: OTHER_PAYLOADS}
    assert set(Judgement.objects.values_list("worker", flat=True)) == {worker.pk}
    assert Judgement.objects.count() == OTHER_PAYLOADS


def test_joining_twenty_times_at_once_creates_one_worker(visit: Visit) -> None:
    make_study("doorway", items=5, redundancy=REDUNDANCY)
    newcomer = visit("doorway")
    newcomer.token = newcomer.find_token(newcomer.request("GET", "/s/doorway/").text())
    form = urlencode({"consent": "on", "csrfmiddlewaretoken": newcomer.token}).encode()
    press = ("POST", "/s/doorway/join/", form, "application/x-www-form-urlencoded")
    replies = run_concurrently([partial(tab.request, *press) for tab in tabs_of(newcomer, SENDS)])
    assert {reply.status for reply in replies} == {302}
    assert Worker.objects.count() == 1


def test_of_two_simultaneous_answers_to_one_pair_one_is_stored(joined_client: LoadClient) -> None:
    """Two tabs send different choices with different UUIDs."""
    tabs = tabs_of(joined_client, 2)
    for _ in range(PAIRS):
        pair = pairs(joined_client)[0]
        answers = [new_answer(pair, side) for side in ("left", "right")]
        replies = run_concurrently(
            [partial(post, tab, "judgements", **a) for tab, a in zip(tabs, answers, strict=True)]
        )
        assert sorted(status for status, _body in replies) == [201, 409]
        won = next(a for a, (status, _body) in zip(answers, replies, strict=True) if status == 201)
        refusal = next(body for status, body in replies if status == 409)
        assert "already answered" in refusal["title"]
        assert (refusal["recorded"]["saved"], refusal["recorded"]["choice"]) == (won["uuid"], won["choice"])
        assert refusal["next"]["pairs"]
    assert Judgement.objects.count() == PAIRS


def test_the_last_slots_are_never_issued_twice(visit: Visit, record_property: Callable[[str, object], None]) -> None:
    """64 workers request pairs at once while each of ten pairs has one free slot."""
    project = make_study("last-slots", items=5, redundancy=REDUNDANCY)
    crowd = [as_browser(visit("last-slots"), services.enrol(project=project)) for _ in range(WORKERS)]
    waits: list[float] = []
    for _ in range(ROUNDS):
        leave_one_slot_of_each_pair(project)
        answers = run_concurrently([timed(partial(pairs, client)) for client in crowd])
        waits += [seconds for _pairs, seconds in answers]
        assert most_slots_taken(project) == REDUNDANCY
        issued = Counter(pair for leased, _seconds in answers for pair in leased)
        assert len(issued) == 10
        assert max(issued.values()) == 1
    p99 = percentile(sorted(1000 * seconds for seconds in waits), 0.99)
    record_property("p99_ms", p99)
    assert not LONG or p99 <= LONGEST_WAIT, "checked only in drills, which have the machine to themselves"


def as_browser(client: LoadClient, worker: Worker) -> LoadClient:
    """Set this worker's cookie in the client."""
    page = HttpResponse()
    set_worker_cookie(page, worker)
    client.cookies.update({name: morsel.value for name, morsel in page.cookies.items()})
    return client


def leave_one_slot_of_each_pair(project: Project) -> None:
    """Issue every pair to two of three workers, so that one slot stays free."""
    Assignment.objects.filter(project=project).delete()
    items = project.items.order_by("pk").values_list("pk", flat=True)
    issued = timezone.now()
    fields = {"project": project, "lo_is_left": True, "policy": "test", "issued_at": issued, "closed_at": issued}
    Assignment.objects.bulk_create(
        Assignment(worker=worker, item_lo_id=lo, item_hi_id=hi, slot=slot, expires_at=issued + HOUR, **fields)
        for slot, worker in enumerate([services.enrol(project=project) for _ in range(REDUNDANCY - 1)], start=1)
        for lo, hi in combinations(items, 2)
    )


def most_slots_taken(project: Project) -> int:
    """The largest number of slots taken of any pair."""
    taken = Assignment.objects.filter(project=project, slot__isnull=False).values("item_lo", "item_hi")
    return max(row["n"] for row in taken.annotate(n=Count("pk")))


def test_concurrent_workers_keep_every_pair_within_its_redundancy(visit: Visit) -> None:
    """Workers answer until every slot is used, and none of them gets an error."""
    project = make_study("side-by-side", items=8, redundancy=REDUNDANCY)
    crowd = [visit("side-by-side") for _ in range(16)]
    run_concurrently([partial(answer_all, client) for client in crowd])
    assert most_slots_taken(project) == REDUNDANCY
    assert Judgement.objects.filter(project=project).count() == REDUNDANCY * 8 * 7 // 2
    assert set().union(*(client.stats.statuses for client in crowd)) == {201}


def test_sides_of_stored_assignments_are_balanced(db: None) -> None:
    """The share of swapped pairs is within four standard deviations of one half."""
    project = make_study("fair", items=200, redundancy=REDUNDANCY)
    for number in range(ASSIGNMENTS // 5):
        services.lease_pairs(worker=services.enrol(project=project), rng=Random(number))
    rows = Assignment.objects.filter(project=project)
    assert rows.count() == ASSIGNMENTS
    assert abs(rows.filter(lo_is_left=True).count() - ASSIGNMENTS / 2) < 4 * (ASSIGNMENTS / 4) ** 0.5
    assert not rows.filter(item_lo=F("item_hi")).exists()


def answer_all(client: LoadClient) -> None:
    client.join()
    while client.answer_next():
        pass
    client.close()


@pytest.mark.parametrize("ids", [1, SENDS], ids=["one uuid", "a uuid each"])
def test_twenty_simultaneous_undos_retract_once(joined_client: LoadClient, ids: int) -> None:
    answer = new_answer(pairs(joined_client)[0])
    post(joined_client, "judgements", **answer)
    names = [str(uuid.uuid4()) for _ in range(ids)]
    undoing = [
        partial(post, tab, "retractions", uuid=names[number % ids], judgement=answer["uuid"])
        for number, tab in enumerate(tabs_of(joined_client, SENDS))
    ]
    seen = Counter(status for status, _body in run_concurrently(undoing))
    assert Retraction.objects.count() == 1
    assert set(seen) <= {200, 201}, seen


def test_a_finished_worker_cannot_undo_after_a_minute(
    joined_client: LoadClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "UNDO_AFTER_FINISHING", timedelta(0))
    Project.objects.update(judgements_per_worker=1)
    answer = new_answer(pairs(joined_client)[0])
    assert post(joined_client, "judgements", **answer)[1]["next"]["finished"]
    assert post(joined_client, "retractions", uuid=str(uuid.uuid4()), judgement=answer["uuid"])[0] == 409
    assert Retraction.objects.count() == 0
