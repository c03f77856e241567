"""The same moment, many hands: one id is one row, a pair is answered once, and no pair goes beyond its redundancy.

Over HTTP, on the served application. `make drills` runs the numbers of the promises (LONG), `make test` smaller ones.
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

from annotation import services, throttling
from annotation.access import remember_worker
from annotation.models import Assignment, Judgement, Project, Retraction, Worker
from annotation.refusals import DifferentPayload, NotYours
from tests.drills.client import Client, pairs_of
from tests.drills.crowd import percentile
from tests.drills.serving import serving
from tests.drills.study import make_study
from tests.drills.together import timed, together

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

LONG = os.environ.get("DRILLS") == "long"
IDS, SENDS = (200, 20) if LONG else (8, 20)
OTHER_PAYLOADS = 1000 if LONG else 100
PAIRS = 500 if LONG else 40
WORKERS, REDUNDANCY, ROUNDS = 64, 3, 100 if LONG else 2
LONGEST_WAIT = 1000  # ms
ASSIGNMENTS = 10_000 if LONG else 500
HOUR = timedelta(hours=1)

Visit = Callable[[str], Client]


@pytest.fixture
def visit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Visit]:
    """visit("slug"): a browser on the running server. Nobody is slowed down for being quick."""
    monkeypatch.setattr(throttling, "PER_SECOND", 10**9)
    seeds = count()
    with serving() as port:
        yield lambda slug: Client(port, slug, {"Origin": f"http://127.0.0.1:{port}"}, seed=next(seeds))


@pytest.fixture
def someone(visit: Visit) -> Iterator[Client]:
    """A worker who has joined a study of forty texts, 780 pairs."""
    make_study("crowded", items=40, redundancy=REDUNDANCY)
    client = visit("crowded")
    client.join()
    yield client
    client.close()


def tabs_of(client: Client, count: int) -> list[Client]:
    """As many tabs of the same browser."""
    tabs = [Client(client.port, client.slug, client.headers, seed=n) for n in range(count)]
    for tab in tabs:
        tab.cookies.update(client.cookies)
        tab.token = client.token
    return tabs


def post(client: Client, path: str, **body: str) -> tuple[int, dict[str, Any]]:
    reply = client.request("POST", f"/s/{client.slug}/{path}/", json.dumps(body).encode(), "application/json")
    return reply.status, reply.json()


def pairs(client: Client) -> list[str]:
    return pairs_of(client.request("GET", f"/s/{client.slug}/task/").json())


def new_answer(assignment: str, choice: str = "left") -> dict[str, str]:
    return {"uuid": str(uuid.uuid4()), "assignment": assignment, "choice": choice}


def test_one_id_sent_twenty_times_at_once_is_one_row_and_one_answer(someone: Client) -> None:
    """P3."""
    tabs = tabs_of(someone, SENDS)
    for _ in range(IDS):
        answer = new_answer(pairs(someone)[0])
        replies = together([partial(post, tab, "judgements", **answer) for tab in tabs])
        seen = Counter(status for status, _body in replies)
        assert seen[201] == 1, seen
        assert set(seen) <= {200, 201, 409}, seen
        assert {body["saved"] for status, body in replies if status < 300} == {answer["uuid"]}
        assert post(someone, "judgements", **answer)[0] == 200
    assert Judgement.objects.count() == IDS


def test_an_id_sent_again_with_another_choice_pair_or_worker_changes_nothing(db: None) -> None:
    """P4."""
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
            with pytest.raises((DifferentPayload, NotYours)) as error:
                services.record_judgement(**{**answer, **change})
            refused[error.type] += 1
    assert refused == {DifferentPayload: 2 * OTHER_PAYLOADS, NotYours: OTHER_PAYLOADS}
    assert set(Judgement.objects.values_list("worker", flat=True)) == {worker.pk}
    assert Judgement.objects.count() == OTHER_PAYLOADS


def test_pressing_start_twenty_times_at_once_is_joining_once(visit: Visit) -> None:
    make_study("doorway", items=5, redundancy=REDUNDANCY)
    newcomer = visit("doorway")
    newcomer.token = newcomer.token_on(newcomer.request("GET", "/s/doorway/").text())
    form = urlencode({"consent": "on", "csrfmiddlewaretoken": newcomer.token}).encode()
    press = ("POST", "/s/doorway/join/", form, "application/x-www-form-urlencoded")
    replies = together([partial(tab.request, *press) for tab in tabs_of(newcomer, SENDS)])
    assert {reply.status for reply in replies} == {302}
    assert Worker.objects.count() == 1


def test_two_answers_to_one_pair_at_once_are_one_row_and_a_friendly_no(someone: Client) -> None:
    """P5: one choice in one tab and the other in another, under different ids."""
    tabs = tabs_of(someone, 2)
    for _ in range(PAIRS):
        pair = pairs(someone)[0]
        answers = [new_answer(pair, side) for side in ("left", "right")]
        replies = together([partial(post, tab, "judgements", **a) for tab, a in zip(tabs, answers, strict=True)])
        assert sorted(status for status, _body in replies) == [201, 409]
        won = next(a for a, (status, _body) in zip(answers, replies, strict=True) if status == 201)
        refusal = next(body for status, body in replies if status == 409)
        assert "already answered" in refusal["title"]
        assert (refusal["recorded"]["saved"], refusal["recorded"]["choice"]) == (won["uuid"], won["choice"])
        assert refusal["next"]["pairs"]
    assert Judgement.objects.count() == PAIRS


def test_the_last_places_are_never_given_twice(visit: Visit, record_property: Callable[[str, object], None]) -> None:
    """P7: 64 workers ask at once for ten pairs with one place left each."""
    project = make_study("last-places", items=5, redundancy=REDUNDANCY)
    crowd = [as_browser(visit("last-places"), services.enrol(project=project)) for _ in range(WORKERS)]
    waits: list[float] = []
    for _ in range(ROUNDS):
        leave_one_place_of_each_pair(project)
        answers = together([timed(partial(pairs, client)) for client in crowd])
        waits += [seconds for _pairs, seconds in answers]
        assert most_places_taken(project) == REDUNDANCY
        given = Counter(pair for lent, _seconds in answers for pair in lent)
        assert len(given) == 10
        assert max(given.values()) == 1
    p99 = percentile(sorted(1000 * seconds for seconds in waits), 0.99)
    record_property("p99_ms", p99)
    assert not LONG or p99 <= LONGEST_WAIT, "only where the machine is not shared with other tests"


def as_browser(client: Client, worker: Worker) -> Client:
    """The client carries this worker's cookie."""
    page = HttpResponse()
    remember_worker(page, worker)
    client.cookies.update({name: morsel.value for name, morsel in page.cookies.items()})
    return client


def leave_one_place_of_each_pair(project: Project) -> None:
    """Every pair was given to two of three workers, and nobody holds anything else."""
    Assignment.objects.filter(project=project).delete()
    items = project.items.order_by("pk").values_list("pk", flat=True)
    issued = timezone.now()
    given = {"project": project, "lo_is_left": True, "policy": "test", "issued_at": issued, "closed_at": issued}
    Assignment.objects.bulk_create(
        Assignment(worker=worker, item_lo_id=lo, item_hi_id=hi, slot=place, expires_at=issued + HOUR, **given)
        for place, worker in enumerate([services.enrol(project=project) for _ in range(REDUNDANCY - 1)], start=1)
        for lo, hi in combinations(items, 2)
    )


def most_places_taken(project: Project) -> int:
    """Of the pair that has the most taken."""
    taken = Assignment.objects.filter(project=project, slot__isnull=False).values("item_lo", "item_hi")
    return max(row["n"] for row in taken.annotate(n=Count("pk")))


def test_a_crowd_that_answers_side_by_side_keeps_every_pair_within_its_redundancy(visit: Visit) -> None:
    """P7 while judgements come in, down to the last place: nobody is told an error, and every place is used."""
    project = make_study("side-by-side", items=8, redundancy=REDUNDANCY)
    crowd = [visit("side-by-side") for _ in range(16)]
    together([partial(answer_all, client) for client in crowd])
    assert most_places_taken(project) == REDUNDANCY
    assert Judgement.objects.filter(project=project).count() == REDUNDANCY * 8 * 7 // 2
    assert set().union(*(client.record.statuses for client in crowd)) == {201}


def test_left_and_right_are_fair_and_the_order_shown_is_in_the_rows(db: None) -> None:
    """Must hold of stored assignments, in binomial bounds: four standard deviations of a fair coin."""
    project = make_study("fair", items=200, redundancy=REDUNDANCY)
    for number in range(ASSIGNMENTS // 5):
        services.lease_pairs(worker=services.enrol(project=project), rng=Random(number))
    rows = Assignment.objects.filter(project=project)
    assert rows.count() == ASSIGNMENTS
    assert abs(rows.filter(lo_is_left=True).count() - ASSIGNMENTS / 2) < 4 * (ASSIGNMENTS / 4) ** 0.5
    assert not rows.filter(item_lo=F("item_hi")).exists()


def answer_all(client: Client) -> None:
    client.join()
    while client.answer_next():
        pass
    client.close()


@pytest.mark.parametrize("ids", [1, SENDS], ids=["one id", "an id each"])
def test_undoing_twenty_times_at_once_is_undoing_once(someone: Client, ids: int) -> None:
    """P12."""
    answer = new_answer(pairs(someone)[0])
    post(someone, "judgements", **answer)
    names = [str(uuid.uuid4()) for _ in range(ids)]
    undoing = [
        partial(post, tab, "retractions", uuid=names[number % ids], judgement=answer["uuid"])
        for number, tab in enumerate(tabs_of(someone, SENDS))
    ]
    seen = Counter(status for status, _body in together(undoing))
    assert Retraction.objects.count() == 1
    assert set(seen) <= {200, 201}, seen


def test_what_was_finished_cannot_be_undone(someone: Client) -> None:
    """P12: after the last answer."""
    Project.objects.update(judgements_per_worker=1)
    answer = new_answer(pairs(someone)[0])
    assert post(someone, "judgements", **answer)[1]["next"]["finished"]
    assert post(someone, "retractions", uuid=str(uuid.uuid4()), judgement=answer["uuid"])[0] == 409
    assert Retraction.objects.count() == 0
