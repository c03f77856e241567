"""Sequence order is commit order without gaps, also with concurrent writers."""

import threading
import uuid
from random import Random

import pytest
from django.db import connection, connections, transaction

from annotation import services
from annotation.models import EventHead, Judgement, Project
from annotation.services.verification import find_problems
from annotation.storage import queries
from tests.conftest import make_items

pytestmark = pytest.mark.both_databases

WRITERS = 20
EACH = 10


@pytest.mark.django_db(transaction=True)
def test_concurrent_writers_leave_a_sequence_without_gaps_in_commit_order(project: Project) -> None:
    make_items(project, [f"Birds, {n}." for n in range(30)], "birds")
    Project.objects.update(redundancy=1000)
    seen_by_reader: list[int] = []
    done = threading.Event()

    def write(seed: int) -> None:
        rng = Random(seed)
        worker = services.enrol(project=Project.objects.get(pk=project.pk))
        for _ in range(EACH):
            lease = services.lease_pairs(worker=worker, rng=rng)[0]
            services.record_judgement(worker=worker, uuid=uuid.uuid4(), assignment=lease.public_id, choice="left")
        connection.close()

    def read() -> None:
        """Check that a reader always sees sequences 1, 2 ... n."""
        while not done.is_set():
            sequences = sorted(Judgement.objects.filter(project=project).values_list("sequence", flat=True))
            seen_by_reader.append(len(sequences) if sequences == list(range(1, len(sequences) + 1)) else -1)
        connection.close()

    reader = threading.Thread(target=read)
    reader.start()
    threads = [threading.Thread(target=write, args=[seed]) for seed in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    reader.join()

    sequences = Judgement.objects.order_by("sequence").values_list("sequence", flat=True)
    assert list(sequences) == list(range(1, WRITERS * EACH + 1))
    assert -1 not in seen_by_reader
    assert seen_by_reader == sorted(seen_by_reader), "an event appeared before one with a lower sequence"
    assert list(find_problems(project)) == []


@pytest.mark.django_db(transaction=True)
def test_a_rolled_back_judgement_leaves_no_gap(project: Project, worker, judge) -> None:
    judge(worker)
    with transaction.atomic():
        queries.take_sequences(project.pk, 1)
        transaction.set_rollback(True)
    assert judge(worker).judgement.sequence == 2


def test_saving_a_stale_project_does_not_move_the_head_back(project: Project, worker, judge) -> None:
    stale = Project.objects.get(pk=project.pk)
    judge(worker)
    stale.title = "Pets and other animals"
    stale.save()
    assert EventHead.objects.get(project=project).sequence == 1


def test_every_connection_syncs_each_commit(db: None) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")  # fsync is off in the test cluster
            assert cursor.fetchone() == ("on",)
        return
    facts: list[dict[str, object]] = []

    def look() -> None:
        fresh = connections["default"]
        with fresh.cursor() as cursor:
            names = ("journal_mode", "synchronous", "foreign_keys", "recursive_triggers")
            facts.append({name: cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in names})
        fresh.close()

    for _ in range(3):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert facts == 3 * [{"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "recursive_triggers": 1}]
