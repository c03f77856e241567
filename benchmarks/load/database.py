"""Read rows with plain SQL from SQLite and PostgreSQL, outside the server."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

from benchmarks.load.send_log import StoredJudgement, payload_hash

JUDGEMENTS = """
SELECT j.uuid, a.public_id, j.choice, j.skip_reason, j.lo_was_left
FROM annotation_judgement j JOIN annotation_assignment a ON a.id = j.assignment_id
JOIN annotation_project p ON p.id = j.project_id WHERE p.slug = '{slug}' ORDER BY j.sequence
"""
WORKERS_PER_PAIR = """
SELECT COALESCE(MAX(workers), 0) FROM (
  SELECT COUNT(*) AS workers FROM annotation_assignment a JOIN annotation_project p ON p.id = a.project_id
  WHERE p.slug = '{slug}' AND a.purpose = 'normal' GROUP BY a.item_lo_id, a.item_hi_id
) AS pairs
"""


def query(database: Path | str, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of one SELECT; `database` is an SQLite file or a postgres:// URL."""
    connect: Any = psycopg.connect if isinstance(database, str) else sqlite3.connect
    with closing(connect(database)) as connection:
        return list(connection.execute(statement).fetchall())


def judgements(database: Path | str, slug: str) -> Iterator[StoredJudgement]:
    """Yield the study's judgements, with choices as the clients sent them."""
    for uuid, assignment, choice, skip_reason, lo_was_left in query(database, JUDGEMENTS.format(slug=slug)):
        pair = str(UUID(str(assignment)))
        shown = as_shown(choice, lo_was_left=bool(lo_was_left))
        yield StoredJudgement(str(UUID(str(uuid))), pair, payload_hash(pair, shown, skip_reason))


def as_shown(choice: str, *, lo_was_left: bool) -> str:
    """Convert lo and hi to left and right; tie and skip are unchanged."""
    if choice not in ("lo", "hi"):
        return choice
    return "left" if (choice == "lo") == lo_was_left else "right"


def most_workers_per_pair(database: Path | str, slug: str) -> int:
    """Return the largest number of workers that any pair was assigned to."""
    return int(query(database, WORKERS_PER_PAIR.format(slug=slug))[0][0])


def has_tables(url: str) -> bool:
    """Return whether a PostgreSQL database has been migrated."""
    return query(url, "SELECT to_regclass('django_migrations')")[0][0] is not None


@contextmanager
def temporary_postgres_database(server: str, template: str = "template1") -> Iterator[str]:
    """Create a database from a template on this PostgreSQL server, yield its URL, and drop it afterwards."""
    name = f"drill_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield server.rsplit("/", 1)[0] + f"/{name}"
    finally:
        with psycopg.connect(server, autocommit=True) as connection:  # the server may have been restarted
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
