"""Database constraints, tested with raw SQL so that no Python code is involved."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from annotation.models import Assignment, Item, Judgement, Project, Retraction, Worker
from annotation.services import Receipt, retract

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def insert(table: str, row: dict[str, Any]) -> None:
    columns = ", ".join(f'"{name}"' for name in row)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} ({columns}) VALUES ({', '.join(['%s'] * len(row))})", list(row.values()))


def copy_of(instance: Any, **changes: Any) -> dict[str, Any]:
    """The database values of a row without its primary key, with some columns changed."""
    row = {}
    for field in instance._meta.concrete_fields:
        if not field.primary_key or field.is_relation:
            row[field.column] = field.get_db_prep_save(getattr(instance, field.attname), connection)
    return {**row, **changes}


@pytest.fixture
def judgement(worker: Worker, judge: Callable[..., Receipt]) -> Judgement:
    return judge(worker).judgement


FRESH = {"uuid": "0" * 31 + "1", "sequence": 99, "assignment_id": None, "source": "import", "round": 7}

BAD_JUDGEMENTS = {
    "an item against itself": lambda j: {**FRESH, "item_hi_id": j.item_lo_id},
    "items out of canonical order": lambda j: {**FRESH, "item_lo_id": j.item_hi_id, "item_hi_id": j.item_lo_id},
    "the same UUID twice": lambda j: {**FRESH, "uuid": j.uuid.hex},
    "the same worker, pair and round twice": lambda j: {**FRESH, "round": j.round},
    "the same sequence twice": lambda j: {**FRESH, "sequence": j.sequence},
    "sequence 0": lambda j: {**FRESH, "sequence": 0},
    "round 0": lambda j: {**FRESH, "round": 0},
    "an unknown choice": lambda j: {**FRESH, "choice": "both"},
    "a skip without a reason": lambda j: {**FRESH, "choice": "skip", "skip_reason": ""},
    "a reason without a skip": lambda j: {**FRESH, "choice": "lo", "skip_reason": "other"},
    "an unknown source": lambda j: {**FRESH, "source": "rumour"},
    "a browser's answer without an assignment": lambda j: {**FRESH, "source": "browser"},
    "the same assignment twice": lambda j: {**FRESH, "assignment_id": j.assignment_id},
    "a negative response time": lambda j: {**FRESH, "response_ms": -1},
    "no worker": lambda j: {**FRESH, "worker_id": None},
}


@pytest.mark.parametrize("change", BAD_JUDGEMENTS.values(), ids=BAD_JUDGEMENTS.keys())
def test_an_invalid_judgement_is_refused(judgement: Judgement, change: Callable[[Judgement], dict]) -> None:
    with pytest.raises(DatabaseError):
        insert("annotation_judgement", copy_of(judgement, **change(judgement)))
    assert Judgement.objects.count() == 1


def test_a_valid_judgement_is_stored(judgement: Judgement) -> None:
    insert("annotation_judgement", copy_of(judgement, **FRESH))
    assert Judgement.objects.count() == 2


def test_a_judgement_of_an_unknown_item_is_refused(judgement: Judgement) -> None:
    orphan = copy_of(judgement, **FRESH, item_hi_id=10**9)

    def insert_and_check() -> None:
        with transaction.atomic():
            insert("annotation_judgement", orphan)
            connection.check_constraints()

    with pytest.raises(DatabaseError):
        insert_and_check()


CHANGES = ["UPDATE {} SET sequence = sequence + 1", "DELETE FROM {}"]
if connection.vendor == "postgresql":
    CHANGES.append("TRUNCATE {} CASCADE")


@pytest.mark.parametrize("statement", CHANGES)
@pytest.mark.parametrize("table", ["annotation_judgement", "annotation_retraction"])
def test_an_event_cannot_be_changed_or_deleted(
    judgement: Judgement, worker: Worker, table: str, statement: str
) -> None:
    retract(worker=worker, judgement=judgement.uuid, uuid=judgement.uuid)
    connection.check_constraints()  # otherwise PostgreSQL refuses TRUNCATE because of pending checks
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement.format(table))
    assert Judgement.objects.get().hash == judgement.hash
    assert Retraction.objects.get().judgement == judgement


def test_an_event_cannot_be_replaced_by_an_insert(judgement: Judgement) -> None:
    verb = "INSERT OR REPLACE" if connection.vendor == "sqlite" else "INSERT"
    clause = "" if connection.vendor == "sqlite" else " ON CONFLICT (uuid) DO UPDATE SET choice = 'tie'"
    row = {"id": judgement.pk, **copy_of(judgement, choice="tie")}
    columns, marks = ", ".join(f'"{name}"' for name in row), ", ".join(["%s"] * len(row))
    statement = f"{verb} INTO annotation_judgement ({columns}) VALUES ({marks}){clause}"
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement, list(row.values()))
    assert Judgement.objects.get().choice == judgement.choice


def test_saving_or_deleting_an_event_through_the_orm_is_refused(judgement: Judgement) -> None:
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        judgement.save()
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        Judgement.objects.filter(pk=judgement.pk)._raw_delete("default")


def assignment_row(worker: Worker, **changes: Any) -> dict[str, Any]:
    first = Assignment.objects.filter(worker=worker).earliest("pk")
    return copy_of(first, public_id="0" * 31 + "2", round=9, slot=9, **changes)


def test_an_invalid_assignment_is_refused(judgement: Judgement, worker: Worker) -> None:
    first = Assignment.objects.filter(worker=worker).earliest("pk")
    for change in (
        {"slot": first.slot},
        {"slot": 0},
        {"item_lo_id": first.item_hi_id, "item_hi_id": first.item_lo_id},
        {"item_lo_id": first.item_hi_id},
        {"round": 1},
        {"round": 0},
        {"public_id": first.public_id.hex},
        {"expires_at": assignment_row(worker)["issued_at"]},
    ):
        with pytest.raises(DatabaseError):
            insert("annotation_assignment", {**assignment_row(worker), **change})
    insert("annotation_assignment", assignment_row(worker))


def test_an_invalid_item_is_refused(project: Project) -> None:
    first = Item.objects.filter(project=project).first()
    for change in ({"text": ""}, {"key": ""}, {"revision": 0}, {"revision": 2, "active": True}, {"revision": 1}):
        with pytest.raises(DatabaseError):
            insert("annotation_item", copy_of(first, **{"active": False, "revision": 5, **change}))
    insert("annotation_item", copy_of(first, revision=2, active=False))


def test_an_invalid_project_is_refused(project: Project) -> None:
    for change in (
        {"redundancy": 0},
        {"redundancy": 1001},
        {"judgements_per_worker": 0},
        {"lease_minutes": 0},
        {"pairs_ahead": 21},
        {"update_batch": 0},
        {"state": "ajar"},
        {"pairs": "some"},
        {"slug": project.slug},
    ):
        with pytest.raises(DatabaseError):
            insert("annotation_project", copy_of(project, **{"slug": "other", **change}))


def test_worker_codes_are_unique_and_roles_valid(project: Project, worker: Worker) -> None:
    with pytest.raises(DatabaseError):
        insert("annotation_worker", copy_of(worker))
    membership = project.membership_set.get()
    with pytest.raises(DatabaseError):
        insert("annotation_membership", copy_of(membership))
    with pytest.raises(DatabaseError), transaction.atomic():
        project.membership_set.update(role="emperor")
