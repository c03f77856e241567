"""Erasing a person removes the person, not the study."""

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from annotation import services
from annotation.models import AuditEntry, Judgement, JudgementNote, Project, User, Worker
from annotation.services import Receipt
from annotation.verification import problems_of

pytestmark = pytest.mark.django_db

CANARY = "5f00canary00canary00cana"


@pytest.fixture
def person(project: Project, judge: Callable[..., Receipt]) -> Worker:
    worker = services.enrol(
        project=project, platform="prolific", external_id=CANARY, traits={"town": f"{CANARY}-ville"}
    )
    judge(worker, "left", note=f"I am {CANARY}")
    judge(worker, "right")
    return worker


def everything_in_the_database() -> str:
    """Every value of every table, as text."""
    words = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'SELECT * FROM "{table}"')
            words += [repr(row) for row in cursor.fetchall()]
    return "\n".join(words)


def test_nothing_of_the_person_is_left_and_every_count_stays(project: Project, person: Worker, owner: User) -> None:
    assert CANARY in everything_in_the_database()
    services.erase_worker(worker=person, user=owner)
    assert CANARY not in everything_in_the_database()
    assert Judgement.objects.standing().count() == 2
    assert JudgementNote.objects.count() == 0
    assert list(problems_of(project)) == []
    assert AuditEntry.objects.filter(action="erased a worker", user=owner).exists()


def test_with_their_judgements_each_is_taken_back_by_an_event(project: Project, person: Worker, owner: User) -> None:
    assert services.erase_worker(worker=person, user=owner, remove_judgements=True) == 2
    assert Judgement.objects.standing().count() == 0
    assert Judgement.objects.count() == 2
    assert list(problems_of(project)) == []


def test_erasing_twice_is_erasing_once(person: Worker, owner: User) -> None:
    services.erase_worker(worker=person, user=owner, remove_judgements=True)
    assert services.erase_worker(worker=person, user=owner, remove_judgements=True) == 0


def test_the_command_finds_a_worker_by_code_or_by_the_platform_s_id(project: Project, person: Worker) -> None:
    out = StringIO()
    call_command("erase_worker", "pets", CANARY, stdout=out)
    assert CANARY not in everything_in_the_database()
    assert "2 judgements stay" in out.getvalue()
    with pytest.raises(CommandError, match="no worker"):
        call_command("erase_worker", "pets", CANARY)


def test_the_owner_has_a_button_and_others_have_not(
    project: Project, person: Worker, owner: User, analyst: User, log_in: Callable[[User], Client]
) -> None:
    where = f"/projects/pets/workers/{person.code}/erase/"
    assert log_in(analyst).post(where).status_code == 403
    assert log_in(owner).post(where, {"remove_judgements": "on"}).status_code == 302
    assert Judgement.objects.standing().count() == 0
    person.refresh_from_db()
    assert (person.state, person.outcome) == ("withdrawn", "erased")
