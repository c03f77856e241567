"""Triggers by which the database itself refuses to change or delete an event.

An event goes only with its whole project, and only when a tombstone says who deleted that project and where its log
ended. They are set after every `migrate`, not in one migration: SQLite drops the triggers of a table it rebuilds.
"""

from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

TABLES = ("annotation_judgement", "annotation_retraction")
BURIED = "EXISTS (SELECT 1 FROM annotation_tombstone WHERE project_number = OLD.project_id)"

SQLITE = """
CREATE TRIGGER IF NOT EXISTS {{table}}_no_{name} BEFORE {verb} ON {{table}} {condition}
BEGIN SELECT RAISE(ABORT, '{{table}} is append-only'); END
"""
POSTGRES_FUNCTIONS = f"""
CREATE OR REPLACE FUNCTION concord_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '%% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation'; END $$;
CREATE OR REPLACE FUNCTION concord_goes_with_project() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
  IF {BURIED} THEN RETURN OLD; END IF;
  RAISE EXCEPTION '%% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$
"""
POSTGRES = """
CREATE OR REPLACE TRIGGER {{table}}_no_{name} BEFORE {verb} ON {{table}} FOR EACH {each} EXECUTE FUNCTION {function}()
"""


def guard_after_migrate(sender: object, using: str, **kwargs: Any) -> None:
    connection = connections[using]
    if set(TABLES) <= set(connection.introspection.table_names()):
        release(connection)  # a guard of an older release is replaced
        guard(connection)


def guard(connection: BaseDatabaseWrapper) -> None:
    """From now on events can only be added."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(POSTGRES_FUNCTIONS, ())
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
    """UPDATE and TRUNCATE are never allowed; DELETE only with the project."""
    if vendor != "postgresql":
        return [
            SQLITE.format(name="update", verb="UPDATE", condition=""),
            SQLITE.format(name="delete", verb="DELETE", condition=f"WHEN NOT {BURIED}"),
        ]
    refuse, ask = "concord_append_only", "concord_goes_with_project"
    return [
        POSTGRES.format(name="update", verb="UPDATE", each="ROW", function=refuse),
        POSTGRES.format(name="delete", verb="DELETE", each="ROW", function=ask),
        POSTGRES.format(name="truncate", verb="TRUNCATE", each="STATEMENT", function=refuse),
    ]
