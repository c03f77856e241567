"""The statements of judging, written out.

An answer sends about a dozen, and Django takes ten times as long to compose one as a database to answer it. These are
sent as they stand, on SQLite and PostgreSQL alike, and answered with instances of the models; whatever is not asked
with every answer goes through the models' own managers.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Any, NamedTuple
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.models import Field, Model

from annotation.models import Assignment, Item, Project, Worker

Row = tuple[Any, ...]
Given = tuple[int, int, int | None, int]  # lower item, higher item, slot, worker
BATCH = 500


def rows(statement: str, *values: Any) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


def change(statement: str, *values: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def fetch(models: tuple[type[Model], ...], statement: str, *values: Any) -> list[Row]:
    """Each row as an instance of each model. A model's columns begin with its id; others are read when asked for."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        parts = _parts(models, tuple(column[0] for column in cursor.description))
        return [tuple(part.read(row) for part in parts) for row in cursor.fetchall()]


class Part(NamedTuple):
    """The values of a row, by their places, that become an instance of one model."""

    model: type[Model]
    columns: list[str]  # in the model's own order, as Django wants them
    places: list[int]
    conversions: list[tuple[int, Callable[[Any], Any]]]

    def read(self, row: Row) -> Model:
        values = [row[place] for place in self.places]
        for number, convert in self.conversions:
            values[number] = convert(values[number])
        return self.model.from_db(DEFAULT_DB_ALIAS, self.columns, values)


@cache
def _parts(models: tuple[type[Model], ...], columns: tuple[str, ...]) -> list[Part]:
    starts = [place for place, column in enumerate(columns) if column == "id"]
    spans = zip(models, starts, [*starts[1:], len(columns)], strict=True)
    return [_part(model, {columns[place]: place for place in range(start, end)}) for model, start, end in spans]


def _part(model: type[Model], places: dict[str, int]) -> Part:
    fields = [field for field in model._meta.concrete_fields if field.attname in places]
    columns = [field.attname for field in fields]
    return Part(model, columns, [places[column] for column in columns], _conversions(fields))


def _conversions(fields: list[Field]) -> list[tuple[int, Callable[[Any], Any]]]:
    """Which values this database gives in another form than the field has, by their number."""
    database = connections[DEFAULT_DB_ALIAS]
    return [
        (number, partial(convert, expression=field.cached_col, connection=database))
        for number, field in enumerate(fields)
        for convert in [*database.ops.get_db_converters(field.cached_col), *field.get_db_converters(database)]
    ]


def insert(instances: Sequence[Model]) -> None:
    """New rows of one model are stored, many to a statement; each instance knows its key afterwards."""
    fields, into, marks = _insertion(type(instances[0]))
    for start in range(0, len(instances), BATCH):
        batch = instances[start : start + BATCH]
        values = [field.get_db_prep_save(getattr(one, field.attname), connection) for one in batch for field in fields]
        keys = rows(f"{into} VALUES {', '.join([marks] * len(batch))} RETURNING id", *values)
        for one, (key,) in zip(batch, keys, strict=True):
            one.pk, one._state.adding, one._state.db = key, False, DEFAULT_DB_ALIAS


@cache
def _insertion(model: type[Model]) -> tuple[list[Field], str, str]:
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    return fields, f"INSERT INTO {model._meta.db_table} ({columns})", f"({', '.join(['%s'] * len(fields))})"


def _moment(at: datetime) -> Any:
    """A time as this database keeps it."""
    return connection.ops.adapt_datetimefield_value(at)


def _name(public_id: UUID) -> Any:
    """An id as this database keeps it."""
    return public_id if connection.features.has_native_uuid_field else public_id.hex


# The head of the log -------------------------------------------------------------------------------------------------

TAKE_SEQUENCES = """
UPDATE annotation_eventhead SET sequence = sequence + %s WHERE project_id = %s RETURNING sequence, hash
"""
SET_HEAD = "UPDATE annotation_eventhead SET hash = %s WHERE project_id = %s"


def take_sequences(project_id: int, count: int) -> tuple[int, str]:
    """The last of `count` new sequence numbers, and the hash of the event before them."""
    [(sequence, previous)] = rows(TAKE_SEQUENCES, count, project_id)
    return sequence, previous


def set_head(project_id: int, last_hash: str) -> None:
    change(SET_HEAD, last_hash, project_id)


# Who asks ------------------------------------------------------------------------------------------------------------

PROJECT_BY_SLUG = "SELECT * FROM annotation_project WHERE slug = %s"
WORKER_BY_CODE = "SELECT * FROM annotation_worker WHERE project_id = %s AND code = %s"
STATES = """
SELECT w.state, p.state FROM annotation_worker w JOIN annotation_project p ON p.id = w.project_id WHERE w.id = %s
"""
STANDING = """
SELECT COUNT(*) FROM annotation_judgement j LEFT JOIN annotation_retraction r ON r.judgement_id = j.id
WHERE j.worker_id = %s AND r.id IS NULL
"""


def project_by_slug(slug: str) -> Project | None:
    return next((project for (project,) in fetch((Project,), PROJECT_BY_SLUG, slug)), None)


def worker_by_code(project: Project, code: str | None) -> Worker | None:
    return next((worker for (worker,) in fetch((Worker,), WORKER_BY_CODE, project.pk, code)), None)


def states_of(worker: Worker) -> tuple[str, str]:
    """The worker's own and the project's, as they are now."""
    [(own, project)] = rows(STATES, worker.pk)
    return own, project


def count_standing(worker: Worker) -> int:
    """How many judgements the worker has given and not taken back."""
    [(count,)] = rows(STANDING, worker.pk)
    return int(count)


# Leases --------------------------------------------------------------------------------------------------------------

LEASES = """
SELECT a.id, a.public_id, a.item_lo_id, a.item_hi_id, a.lo_is_left, a.tie_offered, a.round, a.purpose, a.slot,
    a.issued_at, a.expires_at,
    lo.id, lo.key, lo.revision, lo.text, lo."group", lo.active,
    hi.id, hi.key, hi.revision, hi.text, hi."group", hi.active
FROM annotation_assignment a
JOIN annotation_item lo ON lo.id = a.item_lo_id JOIN annotation_item hi ON hi.id = a.item_hi_id
"""
LEASE_BY_ID = LEASES + "WHERE a.worker_id = %s AND a.public_id = %s"
OPEN_LEASES = LEASES + "WHERE a.worker_id = %s AND a.closed_at IS NULL ORDER BY a.id"
COUNT_OPEN_LEASES = "SELECT COUNT(*) FROM annotation_assignment WHERE worker_id = %s AND closed_at IS NULL"
CLOSE_LEASE = "UPDATE annotation_assignment SET closed_at = %s WHERE id = %s"


def lease_of(worker: Worker, public_id: UUID) -> Assignment | None:
    """The lease of this name, with its two items, if it is this worker's."""
    return next(iter(_leases(worker, LEASE_BY_ID, worker.pk, _name(public_id))), None)


def open_leases_of(worker: Worker) -> list[Assignment]:
    """Those not closed, with their items, in the order in which they were given."""
    return _leases(worker, OPEN_LEASES, worker.pk)


def _leases(worker: Worker, statement: str, *values: Any) -> list[Assignment]:
    leases = []
    for lease, lo, hi in fetch((Assignment, Item, Item), statement, *values):
        lease.worker, lease.project, lease.item_lo, lease.item_hi = worker, worker.project, lo, hi
        leases.append(lease)
    return leases


def count_open_leases(worker: Worker) -> int:
    [(count,)] = rows(COUNT_OPEN_LEASES, worker.pk)
    return int(count)


def close_lease(lease: Assignment, at: datetime) -> None:
    change(CLOSE_LEASE, _moment(at), lease.pk)


# Which pair next -----------------------------------------------------------------------------------------------------

ACTIVE_ITEMS = 'SELECT id, "group", load FROM annotation_item WHERE project_id = %s AND active'
ANY_SUGGESTION = "SELECT 1 FROM annotation_suggestion WHERE project_id = %s LIMIT 1"
GIVEN = "SELECT item_lo_id, item_hi_id, slot, worker_id FROM annotation_assignment WHERE "
GIVEN_IN = GIVEN + "project_id = %s"
GIVEN_WITH = GIVEN + "item_lo_id = %s UNION ALL " + GIVEN + "item_hi_id = %s"  # in two halves, each has its index
GIVEN_PAIR = GIVEN + "item_lo_id = %s AND item_hi_id = %s"
EXPIRED = """
SELECT id, item_lo_id, item_hi_id FROM annotation_assignment
WHERE project_id = %s AND closed_at IS NULL AND slot IS NOT NULL AND (expires_at < %s OR issued_at > %s) ORDER BY id
"""
HOLD_PROJECT = "SELECT id FROM annotation_project WHERE id = %s"


def active_items(project: Project) -> list[tuple[int, str, int]]:
    """Key, group and load of every item that is given out."""
    return rows(ACTIVE_ITEMS, project.pk)


def has_suggestions(project: Project) -> bool:
    return bool(rows(ANY_SUGGESTION, project.pk))


def given(project: Project) -> list[Given]:
    """Every lease of the study."""
    return rows(GIVEN_IN, project.pk)


def given_with(item: int) -> list[Given]:
    """Every lease in which this item is one of the two."""
    return rows(GIVEN_WITH, item, item)


def given_pair(lo: int, hi: int) -> list[Given]:
    """Every lease of this pair."""
    return rows(GIVEN_PAIR, lo, hi)


def expired_leases(project: Project, now: datetime) -> list[tuple[int, int, int]]:
    """Key and items of each open lease that ran out and still has its slot.

    One from the future was given before the clock was set back, and would else live longer than twice its length.
    """
    return rows(EXPIRED, project.pk, _moment(now), _moment(now))


def hold(project: Project) -> None:
    """Nobody else holds this project until the transaction ends. SQLite has one writer at a time anyway."""
    rows(HOLD_PROJECT + (" FOR NO KEY UPDATE" if connection.features.has_select_for_update else ""), project.pk)
