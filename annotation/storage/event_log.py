"""The append-only event log of a project: judgements and retractions in one sequence and one hash chain.

Call `append` inside a transaction: it locks the project's EventHead row until commit, so sequence order is commit
order and no reader can skip an uncommitted event. Database triggers refuse to change or delete an event, except with
its whole project once a Tombstone records who deleted it. The triggers are created after every `migrate` rather than
in one migration, because SQLite drops the triggers of a table that it rebuilds.
"""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F
from django.utils.module_loading import import_string

from annotation.models import EventHead, Judgement, Retraction
from annotation.storage import queries

Event = Judgement | Retraction


def append(events: Sequence[Event]) -> None:
    """Append events of one project in this order: assign sequence numbers, extend the hash chain, insert the rows."""
    if not events:
        return
    project_id = events[0].project_id
    last, previous = queries.take_sequences(project_id, len(events))
    for sequence, event in enumerate(events, start=last - len(events) + 1):
        event.sequence, event.previous_hash = sequence, previous
        previous = event.hash = event_hash(event)
    queries.insert(events)
    queries.set_head(project_id, previous)


def lock(project_id: int) -> None:
    """Lock the log until the transaction ends, for a write that must not run concurrently with an event."""
    EventHead.objects.select_for_update().get(project_id=project_id)


def notify(project_id: int) -> None:
    """Call the listeners in AFTER_JUDGEMENT. Only a hint: a listener that misses it finds the events by sequence."""
    for name in settings.AFTER_JUDGEMENT:
        import_string(name)(project_id)


def raise_inputs_revision(project_id: int) -> int:
    """Record that the model's inputs changed other than by an event, so that the updater runs. Return the revision."""
    EventHead.objects.filter(project_id=project_id).update(inputs_revision=F("inputs_revision") + 1)
    return EventHead.objects.values_list("inputs_revision", flat=True).get(project_id=project_id)


def event_hash(event: Event) -> str:
    """SHA-256 of the previous event's hash and of every field of this event."""
    content = json.dumps([event.previous_hash, *_hashed_fields(event)], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def format_event_time(event: Event) -> str:
    """Format the time at which the event was stored, as used in its hash."""
    return event.created_at.astimezone(UTC).isoformat(timespec="microseconds")


def _hashed_fields(event: Event) -> list[object]:
    at = format_event_time(event)
    if isinstance(event, Retraction):
        return ["retraction", event.sequence, str(event.uuid), str(event.judgement.uuid), at]
    pair = [[item.key, item.revision] for item in (event.item_lo, event.item_hi)]
    answer = [event.round, event.choice, event.skip_reason, event.lo_was_left]
    circumstances = [event.source, event.response_ms, event.clock_doubtful, event.late]
    return ["judgement", event.sequence, str(event.uuid), event.worker.code, pair, answer, circumstances, at]


# Triggers ------------------------------------------------------------------------------------------------------------

EVENT_TABLES = ("annotation_judgement", "annotation_retraction")
PROJECT_DELETED = "EXISTS (SELECT 1 FROM annotation_tombstone WHERE project_number = OLD.project_id)"

SQLITE_TRIGGER = """
CREATE TRIGGER IF NOT EXISTS {{table}}_no_{name} BEFORE {verb} ON {{table}} {condition}
BEGIN SELECT RAISE(ABORT, '{{table}} is append-only'); END
"""
RAISE = "RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';"
POSTGRES_FUNCTIONS = {
    "concord_append_only": f" BEGIN {RAISE} END ",
    "concord_goes_with_project": f" BEGIN IF {PROJECT_DELETED} THEN RETURN OLD; END IF; {RAISE} END ",
}
POSTGRES_TRIGGER = """
CREATE OR REPLACE TRIGGER {{table}}_no_{name} BEFORE {verb} ON {{table}} FOR EACH {each} EXECUTE FUNCTION {function}()
"""
READ_SQLITE_TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN (%s, %s)"
# Triggers that are disabled or fire only on replicas do not protect anything.
READ_POSTGRES_TRIGGERS = """
SELECT tgname, pg_get_triggerdef(pg_trigger.oid, true) || ' ' || prosrc
FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
WHERE NOT tgisinternal AND tgenabled IN ('O', 'A') AND tgrelid IN (%s::regclass, %s::regclass)
"""


def create_triggers_after_migrate(sender: object, using: str, **kwargs: Any) -> None:
    connection = connections[using]
    if set(EVENT_TABLES) <= set(connection.introspection.table_names()):
        drop_triggers(connection)  # an older release may have created different ones
        create_triggers(connection)


def create_triggers(connection: BaseDatabaseWrapper) -> None:
    """Make the event tables append-only."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            for name, body in POSTGRES_FUNCTIONS.items():
                cursor.execute(f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
        for table in EVENT_TABLES:
            for statement in _trigger_statements(connection.vendor):
                cursor.execute(statement.replace("{table}", table))


def drop_triggers(connection: BaseDatabaseWrapper) -> None:
    """Remove the triggers, before they are replaced and for tests that empty the database."""
    with connection.cursor() as cursor:
        for table in EVENT_TABLES:
            for name in ("update", "delete", "truncate"):
                on = f" ON {table}" if connection.vendor == "postgresql" else ""
                cursor.execute(f"DROP TRIGGER IF EXISTS {table}_no_{name}{on}")


def _trigger_statements(vendor: str) -> list[str]:
    """SQL for triggers that refuse UPDATE and (on PostgreSQL) TRUNCATE, and DELETE unless the project was deleted."""
    if vendor != "postgresql":
        return [
            SQLITE_TRIGGER.format(name="update", verb="UPDATE", condition=""),
            SQLITE_TRIGGER.format(name="delete", verb="DELETE", condition=f"WHEN NOT {PROJECT_DELETED}"),
        ]
    always, unless_deleted = "concord_append_only", "concord_goes_with_project"
    return [
        POSTGRES_TRIGGER.format(name="update", verb="UPDATE", each="ROW", function=always),
        POSTGRES_TRIGGER.format(name="delete", verb="DELETE", each="ROW", function=unless_deleted),
        POSTGRES_TRIGGER.format(name="truncate", verb="TRUNCATE", each="STATEMENT", function=always),
    ]


def expected_triggers(vendor: str) -> dict[str, str]:
    """The text of each trigger by name; on PostgreSQL followed by the body of its function."""
    texts = {}
    for table in EVENT_TABLES:
        for statement in _trigger_statements(vendor):
            text = _normalise(statement.replace("{table}", table))
            if vendor == "postgresql":
                text = _normalise(f"{text} {POSTGRES_FUNCTIONS[text.split()[-1].removesuffix('()')]}")
            texts[text.split()[2]] = text
    return texts


def read_triggers(connection: BaseDatabaseWrapper) -> dict[str, str]:
    """The text of each active trigger of the event tables, in the form of `expected_triggers`."""
    with connection.cursor() as cursor:
        query = READ_POSTGRES_TRIGGERS if connection.vendor == "postgresql" else READ_SQLITE_TRIGGERS
        cursor.execute(query, EVENT_TABLES)
        return {name: _normalise(text) for name, text in cursor.fetchall()}


def _normalise(text: str) -> str:
    """Remove what the databases do not store: line breaks, OR REPLACE and IF NOT EXISTS."""
    words = " ".join(text.split())
    return words.replace("CREATE OR REPLACE TRIGGER", "CREATE TRIGGER").replace("TRIGGER IF NOT EXISTS", "TRIGGER")
