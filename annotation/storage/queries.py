"""Hand-written SQL for the judging hot path.

Recording an answer takes about a dozen statements, and the ORM takes ten times as long to compose one as the database
takes to run it. The statements run unchanged on SQLite and PostgreSQL and return model instances. Everything
that does not run with every answer uses the models' managers.
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
IssuedPair = tuple[int, int, int | None, int]  # lower item, higher item, slot, worker
BATCH = 500


def fetch_rows(sql: str, *params: Any) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall()


def execute(sql: str, *params: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)


def fetch_instances(models: tuple[type[Model], ...], sql: str, *params: Any) -> list[Row]:
    """Fetch each row as one instance per model. Each model's columns start with its id; missing fields are deferred."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        readers = _readers(models, tuple(column[0] for column in cursor.description))
        return [tuple(reader.read(row) for reader in readers) for row in cursor.fetchall()]


class InstanceReader(NamedTuple):
    """Build an instance of one model from its columns in a row."""

    model: type[Model]
    columns: list[str]  # in the order of the model's fields, as `from_db` expects
    positions: list[int]
    converters: list[tuple[int, Callable[[Any], Any]]]

    def read(self, row: Row) -> Model:
        values = [row[position] for position in self.positions]
        for number, convert in self.converters:
            values[number] = convert(values[number])
        return self.model.from_db(DEFAULT_DB_ALIAS, self.columns, values)


@cache
def _readers(models: tuple[type[Model], ...], columns: tuple[str, ...]) -> list[InstanceReader]:
    starts = [position for position, column in enumerate(columns) if column == "id"]
    spans = zip(models, starts, [*starts[1:], len(columns)], strict=True)
    return [
        _reader(model, {columns[position]: position for position in range(start, end)}) for model, start, end in spans
    ]


def _reader(model: type[Model], positions: dict[str, int]) -> InstanceReader:
    fields = [field for field in model._meta.concrete_fields if field.attname in positions]
    columns = [field.attname for field in fields]
    return InstanceReader(model, columns, [positions[column] for column in columns], _converters(fields))


def _converters(fields: list[Field]) -> list[tuple[int, Callable[[Any], Any]]]:
    """The converters from database values to field values, by position of the field."""
    database = connections[DEFAULT_DB_ALIAS]
    return [
        (number, partial(convert, expression=field.cached_col, connection=database))
        for number, field in enumerate(fields)
        for convert in [*database.ops.get_db_converters(field.cached_col), *field.get_db_converters(database)]
    ]


def insert(instances: Sequence[Model]) -> None:
    """Insert new rows of one model in batches and set each instance's primary key."""
    fields, into, marks = _insertion(type(instances[0]))
    for start in range(0, len(instances), BATCH):
        batch = instances[start : start + BATCH]
        values = [field.get_db_prep_save(getattr(one, field.attname), connection) for one in batch for field in fields]
        keys = fetch_rows(f"{into} VALUES {', '.join([marks] * len(batch))} RETURNING id", *values)
        for one, (key,) in zip(batch, keys, strict=True):
            one.pk, one._state.adding, one._state.db = key, False, DEFAULT_DB_ALIAS


@cache
def _insertion(model: type[Model]) -> tuple[list[Field], str, str]:
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    return fields, f"INSERT INTO {model._meta.db_table} ({columns})", f"({', '.join(['%s'] * len(fields))})"


def _adapt_datetime(value: datetime) -> Any:
    return connection.ops.adapt_datetimefield_value(value)


def _adapt_uuid(value: UUID) -> Any:
    return value if connection.features.has_native_uuid_field else value.hex


# Event head ----------------------------------------------------------------------------------------------------------

TAKE_SEQUENCES = """
UPDATE annotation_eventhead SET sequence = sequence + %s WHERE project_id = %s RETURNING sequence, hash
"""
SET_HEAD = "UPDATE annotation_eventhead SET hash = %s WHERE project_id = %s"


def take_sequences(project_id: int, count: int) -> tuple[int, str]:
    """Reserve `count` sequence numbers; return the last one and the hash of the event before them."""
    [(sequence, previous)] = fetch_rows(TAKE_SEQUENCES, count, project_id)
    return sequence, previous


def set_head(project_id: int, last_hash: str) -> None:
    execute(SET_HEAD, last_hash, project_id)


# Projects and workers ------------------------------------------------------------------------------------------------

PROJECT_BY_SLUG = "SELECT * FROM annotation_project WHERE slug = %s"
WORKER_BY_CODE = "SELECT * FROM annotation_worker WHERE project_id = %s AND code = %s"
STATES = """
SELECT w.state, p.state FROM annotation_worker w JOIN annotation_project p ON p.id = w.project_id WHERE w.id = %s
"""
COUNT_JUDGEMENTS = """
SELECT COUNT(*) FROM annotation_judgement j LEFT JOIN annotation_retraction r ON r.judgement_id = j.id
WHERE j.worker_id = %s AND r.id IS NULL
"""


def project_by_slug(slug: str) -> Project | None:
    return next((project for (project,) in fetch_instances((Project,), PROJECT_BY_SLUG, slug)), None)


def worker_by_code(project: Project, code: str | None) -> Worker | None:
    return next((worker for (worker,) in fetch_instances((Worker,), WORKER_BY_CODE, project.pk, code)), None)


def get_states(worker: Worker) -> tuple[str, str]:
    """The current states of the worker and of the project."""
    [(own, project)] = fetch_rows(STATES, worker.pk)
    return own, project


def count_judgements(worker: Worker) -> int:
    """Count the worker's judgements that were not retracted."""
    [(count,)] = fetch_rows(COUNT_JUDGEMENTS, worker.pk)
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
OPEN_LEASES_AND_JUDGEMENTS = "SELECT (" + COUNT_OPEN_LEASES + "), (" + COUNT_JUDGEMENTS + ")"
CLOSE_LEASE = "UPDATE annotation_assignment SET closed_at = %s WHERE id = %s"


def find_lease(worker: Worker, public_id: UUID) -> Assignment | None:
    """This worker's lease with this public id, with its items."""
    return next(iter(_leases(worker, LEASE_BY_ID, worker.pk, _adapt_uuid(public_id))), None)


def find_open_leases(worker: Worker) -> list[Assignment]:
    """The worker's open leases with their items, in order of issue."""
    return _leases(worker, OPEN_LEASES, worker.pk)


def _leases(worker: Worker, sql: str, *params: Any) -> list[Assignment]:
    leases = []
    for lease, lo, hi in fetch_instances((Assignment, Item, Item), sql, *params):
        lease.worker, lease.project, lease.item_lo, lease.item_hi = worker, worker.project, lo, hi
        leases.append(lease)
    return leases


def count_open_leases_and_judgements(worker: Worker) -> tuple[int, int]:
    """Both counts in one statement, so that an answer on another device is either an open lease or a judgement."""
    [(leases, judgements)] = fetch_rows(OPEN_LEASES_AND_JUDGEMENTS, worker.pk, worker.pk)
    return int(leases), int(judgements)


def close_lease(lease: Assignment, at: datetime) -> None:
    execute(CLOSE_LEASE, _adapt_datetime(at), lease.pk)


# Pair selection ------------------------------------------------------------------------------------------------------

ACTIVE_ITEMS = 'SELECT id, "group", load FROM annotation_item WHERE project_id = %s AND active'
LOADS_IN_SLOTS = """
SELECT item, COUNT(*) FROM (
    SELECT item_lo_id AS item FROM annotation_assignment WHERE project_id = %s AND slot BETWEEN %s AND %s
    UNION ALL SELECT item_hi_id FROM annotation_assignment WHERE project_id = %s AND slot BETWEEN %s AND %s
) AS issued GROUP BY item
"""
ANY_SUGGESTION = "SELECT 1 FROM annotation_suggestion WHERE project_id = %s LIMIT 1"
SUGGESTIONS = """
SELECT s.id, s.item_lo_id, s.item_hi_id FROM annotation_suggestion s
WHERE s.project_id = %s AND (s.worker_id IS NULL OR s.worker_id = %s) AND NOT EXISTS (
    SELECT 1 FROM annotation_assignment a
    WHERE a.worker_id = %s AND a.item_lo_id = s.item_lo_id AND a.item_hi_id = s.item_hi_id
)
ORDER BY s.worker_id IS NULL, s.issued, s.gain DESC, s.id LIMIT %s
"""
COUNT_SUGGESTION = "UPDATE annotation_suggestion SET issued = issued + 1 WHERE id = %s"
ISSUED = "SELECT item_lo_id, item_hi_id, slot, worker_id FROM annotation_assignment WHERE "
ISSUED_IN_PROJECT = ISSUED + "project_id = %s"
ISSUED_WITH_ITEM = ISSUED + "item_lo_id = %s UNION ALL " + ISSUED + "item_hi_id = %s"  # each half has an index
ISSUED_PAIR = ISSUED + "item_lo_id = %s AND item_hi_id = %s"
EXPIRED = """
SELECT id, item_lo_id, item_hi_id FROM annotation_assignment
WHERE project_id = %s AND closed_at IS NULL AND slot IS NOT NULL AND (expires_at < %s OR issued_at > %s) ORDER BY id
"""
LATEST_PAIRS = """
SELECT item_lo_id, item_hi_id FROM annotation_assignment
WHERE worker_id = %s AND purpose <> 'again' ORDER BY id DESC LIMIT %s
"""
IMPORTED_PAIRS = """
SELECT item_lo_id, item_hi_id FROM annotation_judgement WHERE worker_id = %s AND assignment_id IS NULL
"""
LOCK_PROJECT = "SELECT id FROM annotation_project WHERE id = %s"


def active_items(project: Project) -> list[tuple[int, str, int]]:
    """Primary key, group and load of every active item."""
    return fetch_rows(ACTIVE_ITEMS, project.pk)


def loads_in_slots(project: Project, slots: range) -> list[tuple[int, int]]:
    """Each item's primary key and how often it was issued or judged in these slots."""
    chosen = (project.pk, slots.start, slots.stop - 1)
    return fetch_rows(LOADS_IN_SLOTS, *chosen, *chosen)


def has_suggestions(project: Project) -> bool:
    return bool(fetch_rows(ANY_SUGGESTION, project.pk))


def suggested_pairs(worker: Worker, limit: int) -> list[tuple[int, int, int]]:
    """Primary key and items of the suggestions for this worker or for all, without the pairs that the worker has had.

    The worker's own come first, then those that were issued least often, the largest gain first.
    """
    return fetch_rows(SUGGESTIONS, worker.project_id, worker.pk, worker.pk, limit)


def count_suggestions(suggestions: list[int]) -> None:
    """Increment how often these suggestions were issued."""
    with connection.cursor() as cursor:
        cursor.executemany(COUNT_SUGGESTION, [(pk,) for pk in sorted(suggestions)])


def issued_pairs(project: Project) -> list[IssuedPair]:
    """Every pair that was issued in the project."""
    return fetch_rows(ISSUED_IN_PROJECT, project.pk)


def issued_pairs_with(item: int) -> list[IssuedPair]:
    """Every issued pair with this item."""
    return fetch_rows(ISSUED_WITH_ITEM, item, item)


def issued_pair(lo: int, hi: int) -> list[IssuedPair]:
    """Every time this pair was issued."""
    return fetch_rows(ISSUED_PAIR, lo, hi)


def latest_pairs(worker: Worker, count: int) -> list[tuple[int, int]]:
    """The pairs last leased to this worker, newest first; a pair reissued after an undo counts once."""
    return fetch_rows(LATEST_PAIRS, worker.pk, count)


def imported_pairs(worker: Worker) -> set[tuple[int, int]]:
    """The pairs that this worker judged without a lease: imported or simulated judgements."""
    return set(fetch_rows(IMPORTED_PAIRS, worker.pk))


def expired_leases(project: Project, now: datetime) -> list[tuple[int, int, int]]:
    """Primary key and items of each expired open lease that still has its slot.

    A lease issued in the future counts as expired: the clock was set back, and it would otherwise last too long.
    """
    return fetch_rows(EXPIRED, project.pk, _adapt_datetime(now), _adapt_datetime(now))


def lock_project(project: Project) -> None:
    """Lock the project row until the transaction ends. SQLite needs no lock: it has one writer at a time."""
    fetch_rows(LOCK_PROJECT + (" FOR NO KEY UPDATE" if connection.features.has_select_for_update else ""), project.pk)
