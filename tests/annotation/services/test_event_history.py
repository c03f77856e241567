"""The event log only grows, its hash chain stays intact, and replaying it gives the judgements not retracted."""

import os
import uuid
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from django.utils import timezone

from annotation import services
from annotation.exceptions import AssignmentNotFound
from annotation.models import Item, Judgement, Project, Retraction, Worker
from annotation.services import Receipt
from annotation.services.verification import find_problems
from annotation.storage import event_log
from benchmarks.load.study import make_study

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.both_databases]

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


def test_random_undos_of_own_and_foreign_judgements(
    crowd: list[Worker], rng: Random, judge: Callable[..., Receipt]
) -> None:
    """Own judgements are retracted once; other workers' judgements are not found and do not change."""
    outcomes: Counter[str] = Counter()
    for _ in range(UNDOS):
        worker, target = rng.choice(crowd), rng.choice(Judgement.objects.all())
        outcomes[undo(worker, target)] += 1
        if rng.random() < 0.5:
            judge(rng.choice(crowd))
    own = outcomes["retracted"] + outcomes["already retracted"]
    assert own + outcomes["not found"] == UNDOS
    assert Retraction.objects.count() == outcomes["retracted"] > 0
    assert replay(crowd[0].project) == set(Judgement.objects.not_retracted().values_list("pk", flat=True))
    assert list(find_problems(crowd[0].project)) == []


def undo(worker: Worker, target: Judgement) -> str:
    before = Retraction.objects.count()
    try:
        services.retract(worker=worker, judgement=target.uuid, uuid=uuid.uuid4())
    except AssignmentNotFound:
        assert target.worker_id != worker.pk
        assert Retraction.objects.count() == before
        return "not found"
    assert target.worker_id == worker.pk
    return "retracted" if Retraction.objects.count() > before else "already retracted"


def replay(project: Project) -> set[int]:
    """Apply all events in order and return the judgements that are not retracted."""
    judgements = [(j.sequence, "judgement", j.pk) for j in Judgement.objects.filter(project=project)]
    retractions = [(r.sequence, "retraction", r.judgement_id) for r in Retraction.objects.filter(project=project)]
    standing: set[int] = set()
    for _sequence, kind, judgement in sorted(judgements + retractions):
        (standing.add if kind == "judgement" else standing.remove)(judgement)
    return standing


def test_a_long_hash_chain_is_verified(db: None) -> None:
    project = make_study("chain", items=500)
    items, workers = list(Item.objects.all()), [services.enrol(project=project) for _ in range(20)]
    pairs = ((lo, hi) for number, lo in enumerate(items) for hi in items[number + 1 :])
    events = [
        make_event(project, workers[number % 20], *pair) for number, pair in zip(range(EVENTS), pairs, strict=False)
    ]
    event_log.append(events)
    assert Judgement.objects.count() == EVENTS
    assert list(find_problems(project)) == []


def make_event(project: Project, worker: Worker, lo: Item, hi: Item) -> Judgement:
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
