"""Erasing a worker removes personal data and keeps the study."""

import subprocess
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from pathlib import Path
from random import Random

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from annotation import services
from annotation.exceptions import AssignmentNotFound
from annotation.models import AuditEntry, Item, Judgement, JudgementNote, Project, User, Worker
from annotation.services import Receipt
from annotation.services.verification import find_problems
from annotation.storage import queries

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CANARY = "5f00canary00canary00cana"


@pytest.fixture
def person(project: Project, judge: Callable[..., Receipt]) -> Worker:
    worker = services.enrol(
        project=project, platform="prolific", external_id=CANARY, traits={"town": f"{CANARY}-ville"}
    )
    judge(worker, "left", note=f"I am {CANARY}")
    judge(worker, "right")
    return worker


def dump_database() -> str:
    """Every value of every table, as text."""
    rows = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'SELECT * FROM "{table}"')
            rows += [repr(row) for row in cursor.fetchall()]
    return "\n".join(rows)


def test_no_personal_data_is_left_and_judgements_stay(project: Project, person: Worker, owner: User) -> None:
    assert CANARY in dump_database()
    services.erase_worker(worker=person, user=owner)
    assert CANARY not in dump_database()
    assert Judgement.objects.not_retracted().count() == 2
    assert JudgementNote.objects.count() == 0
    assert list(find_problems(project)) == []
    assert AuditEntry.objects.filter(action="erased a worker", user=owner).exists()


@pytest.mark.django_db(transaction=True)
def test_erased_workers_leave_no_trace_in_tables_files_or_logs(
    project: Project, judge: Callable[..., Receipt], capfd: pytest.CaptureFixture[str]
) -> None:
    """Searches the raw database file too: deleted rows may remain there until they are overwritten."""
    names = [f"{CANARY}{number:02}" for number in range(50)]
    people = [services.enrol(project=project, platform="prolific", external_id=name) for name in names]
    for worker, name in zip(people, names, strict=True):
        if services.lease_pairs(worker=worker, rng=Random(1)):
            judge(worker, "left", note=f"I am {name}")
    before = Judgement.objects.not_retracted().count()
    assert CANARY in dump_database() + read_database_files()
    for worker in people:
        services.erase_worker(worker=worker, user=None)
    assert CANARY not in dump_database() + read_database_files() + "".join(capfd.readouterr())
    assert Judgement.objects.not_retracted().count() == before > 0
    assert list(find_problems(project)) == []


def read_database_files() -> str:
    """The bytes of SQLite's database file and write-ahead log; empty on PostgreSQL."""
    if connection.vendor != "sqlite":
        return ""
    file = Path(connection.settings_dict["NAME"])
    # Another process reads: closing the file in this one would drop the locks that SQLite holds on it.
    command = ["cat", *map(str, file.parent.glob(f"{file.name}*"))]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode("latin-1")


def test_removed_judgements_are_retracted_by_events(project: Project, person: Worker, owner: User) -> None:
    assert services.erase_worker(worker=person, user=owner, remove_judgements=True) == 2
    assert Judgement.objects.not_retracted().count() == 0
    assert Judgement.objects.count() == 2
    assert list(find_problems(project)) == []


@pytest.mark.django_db(transaction=True)
def test_an_answer_sent_during_the_erasure_is_removed(
    project: Project, person: Worker, rng: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL the erasure commits just before the answer locks the log; on SQLite it waits for the answer."""
    take, erasing = queries.take_sequences, threading.Thread(target=_erase, args=[person])

    def take_late(project_id: int, count: int) -> tuple[int, str]:
        monkeypatch.setattr(queries, "take_sequences", take)
        erasing.start()
        if connection.vendor == "postgresql":
            erasing.join()
        return take(project_id, count)

    [pair, *_more] = services.lease_pairs(worker=person, rng=rng)
    monkeypatch.setattr(queries, "take_sequences", take_late)
    with suppress(AssignmentNotFound):
        services.record_judgement(
            worker=person, uuid=uuid.uuid4(), assignment=pair.public_id, choice="left", note=CANARY
        )
    erasing.join()
    person.refresh_from_db()
    assert (person.state, person.outcome) == (Worker.State.WITHDRAWN, Worker.ERASED)
    assert not person.judgements.filter(retraction=None).exists()
    assert not JudgementNote.objects.exists()
    assert list(find_problems(project)) == []


def _erase(person: Worker) -> None:
    try:
        services.erase_worker(worker=Worker.objects.get(pk=person.pk), user=None, remove_judgements=True)
    finally:
        connection.close()


def test_erasing_is_idempotent(person: Worker, owner: User) -> None:
    services.erase_worker(worker=person, user=owner, remove_judgements=True)
    assert services.erase_worker(worker=person, user=owner, remove_judgements=True) == 0


def test_the_command_finds_a_worker_by_platform_id(project: Project, person: Worker) -> None:
    out = StringIO()
    call_command("erase_worker", "pets", CANARY, stdout=out)
    assert CANARY not in dump_database()
    assert "2 judgements stay" in out.getvalue()
    with pytest.raises(CommandError, match="no worker"):
        call_command("erase_worker", "pets", CANARY)


def test_only_an_owner_can_erase_a_worker(
    project: Project, person: Worker, owner: User, analyst: User, log_in: Callable[[User], Client]
) -> None:
    where = f"/projects/pets/workers/{person.code}/erase/"
    assert log_in(analyst).post(where).status_code == 403
    assert log_in(owner).post(where, {"remove_judgements": "on"}).status_code == 302
    assert Judgement.objects.not_retracted().count() == 0
    person.refresh_from_db()
    assert (person.state, person.outcome) == ("withdrawn", "erased")


@pytest.mark.parametrize("judged", [False, True], ids=["held", "judged"])
def test_the_pairs_of_a_worker_who_deletes_their_data_go_to_others(
    project: Project, judge: Callable[..., Receipt], rng: Random, judged: bool
) -> None:
    Project.objects.update(redundancy=1)
    Item.objects.exclude(key__in=["cats-1", "cats-2"]).update(active=False)
    project.refresh_from_db()
    first, second = (services.enrol(project=project) for _ in range(2))
    assert len(services.lease_pairs(worker=first, rng=rng)) == 1, "the only pair of the study"
    if judged:
        judge(first)
    assert services.lease_pairs(worker=second, rng=rng) == []
    services.erase_worker(worker=first, user=None, remove_judgements=True)
    judge(second)
    assert list(find_problems(project)) == []
    assert set(Item.objects.filter(active=True).values_list("load", flat=True)) == {1}


def test_answers_that_stay_keep_their_place(project: Project, person: Worker) -> None:
    before = person.assignments.exclude(closed_at=None).filter(slot__isnull=False).count()
    services.erase_worker(worker=person, user=None)
    assert person.assignments.filter(slot__isnull=False).count() == before == 2
