"""P11: history only grows. Whatever is undone by whomever, the log replayed is what stands, and its chain is whole."""

import os
import uuid
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from django.utils import timezone

from annotation import ledger, services
from annotation.models import Item, Judgement, Project, Retraction, Worker
from annotation.refusals import NotYours
from annotation.services import Receipt
from annotation.verification import problems_of
from tests.drills.study import make_study

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

LONG = os.environ.get("DRILLS") == "long"
UNDOS = 1000 if LONG else 100
EVENTS = 100_000 if LONG else 2_000


@pytest.fixture
def crowd(db: None, judge: Callable[..., Receipt]) -> list[Worker]:
    """Four workers who have given ten answers each."""
    project = make_study("history", items=60)
    workers = [services.enrol(project=project) for _ in range(4)]
    for worker in workers * 10:
        judge(worker)
    return workers


def test_undoing_one_s_own_and_other_people_s_answers_at_random(
    crowd: list[Worker], rng: Random, judge: Callable[..., Receipt]
) -> None:
    """Own ones, old or just given, are taken back once; other people's are not found, and nothing changes."""
    outcomes: Counter[str] = Counter()
    for _ in range(UNDOS):
        worker, target = rng.choice(crowd), rng.choice(Judgement.objects.all())
        outcomes[undo(worker, target)] += 1
        if rng.random() < 0.5:
            judge(rng.choice(crowd))
    own = outcomes["taken back"] + outcomes["once is enough"]
    assert own + outcomes["not found"] == UNDOS
    assert Retraction.objects.count() == outcomes["taken back"] > 0
    assert replayed(crowd[0].project) == set(Judgement.objects.standing().values_list("pk", flat=True))
    assert list(problems_of(crowd[0].project)) == []


def undo(worker: Worker, target: Judgement) -> str:
    before = Retraction.objects.count()
    try:
        services.retract(worker=worker, judgement=target.uuid, uuid=uuid.uuid4())
    except NotYours:
        assert target.worker_id != worker.pk
        assert Retraction.objects.count() == before
        return "not found"
    assert target.worker_id == worker.pk
    return "taken back" if Retraction.objects.count() > before else "once is enough"


def replayed(project: Project) -> set[int]:
    """The judgements that stand once every event has been gone through in order."""
    judgements = [(j.sequence, "given", j.pk) for j in Judgement.objects.filter(project=project)]
    retractions = [(r.sequence, "taken", r.judgement_id) for r in Retraction.objects.filter(project=project)]
    standing: set[int] = set()
    for _sequence, kind, judgement in sorted(judgements + retractions):
        (standing.add if kind == "given" else standing.remove)(judgement)
    return standing


def test_a_long_chain_is_verified_from_end_to_end(db: None) -> None:
    project = make_study("chain", items=500)
    items, workers = list(Item.objects.all()), [services.enrol(project=project) for _ in range(20)]
    pairs = ((lo, hi) for number, lo in enumerate(items) for hi in items[number + 1 :])
    events = [
        an_event(project, workers[number % 20], *pair) for number, pair in zip(range(EVENTS), pairs, strict=False)
    ]
    ledger.append(events)
    assert Judgement.objects.count() == EVENTS
    assert list(problems_of(project)) == []


def an_event(project: Project, worker: Worker, lo: Item, hi: Item) -> Judgement:
    return Judgement(
        uuid=uuid.uuid4(),
        project=project,
        worker=worker,
        item_lo=lo,
        item_hi=hi,
        choice=Judgement.Choice.LO,
        source=Judgement.Source.IMPORT,
        created_at=timezone.now(),
    )
