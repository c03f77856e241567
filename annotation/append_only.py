"""Triggers by which the database itself refuses to change or delete an event.

They are set after every `migrate`, not in one migration: SQLite drops the triggers of a table it rebuilds.
"""

from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

TABLES = ("annotation_judgement", "annotation_retraction")

SQLITE = """
CREATE TRIGGER IF NOT EXISTS {table}_no_{name} BEFORE {verb} ON {table}
BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END
"""
POSTGRES_FUNCTION = """
CREATE OR REPLACE FUNCTION concord_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '%% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation'; END $$
"""
POSTGRES = """
CREATE OR REPLACE TRIGGER {table}_no_{name} BEFORE {verb} ON {table}
FOR EACH {each} EXECUTE FUNCTION concord_append_only()
"""


def guard_after_migrate(sender: object, using: str, **kwargs: Any) -> None:
    connection = connections[using]
    if set(TABLES) <= set(connection.introspection.table_names()):
        guard(connection)


def guard(connection: BaseDatabaseWrapper) -> None:
    """From now on events can only be added."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(POSTGRES_FUNCTION, ())
        for table in TABLES:
            for statement in _statements(connection.vendor):
                cursor.execute(statement.replace("{table}", table))


def release(connection: BaseDatabaseWrapper) -> None:
    """Takes the guard away, for tests that empty the database."""
    with connection.cursor() as cursor:
        for table in TABLES:
            for name in ("update", "delete", "truncate"):
                on = f" ON {table}" if connection.vendor == "postgresql" else ""
                cursor.execute(f"DROP TRIGGER IF EXISTS {table}_no_{name}{on}")


def _statements(vendor: str) -> list[str]:
    if vendor == "postgresql":
        rows = [POSTGRES.format(table="{table}", name=v.lower(), verb=v, each="ROW") for v in ("UPDATE", "DELETE")]
        return [*rows, POSTGRES.format(table="{table}", name="truncate", verb="TRUNCATE", each="STATEMENT")]
    return [SQLITE.format(table="{table}", name=verb.lower(), verb=verb) for verb in ("UPDATE", "DELETE")]
