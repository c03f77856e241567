"""Rows by plain SQL, on SQLite and PostgreSQL, from outside the server."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

from tests.drills.ledger import Row, payload_hash

JUDGEMENTS = """
SELECT j.uuid, a.public_id, j.choice, j.skip_reason, j.lo_was_left
FROM annotation_judgement j JOIN annotation_assignment a ON a.id = j.assignment_id
JOIN annotation_project p ON p.id = j.project_id WHERE p.slug = '{slug}' ORDER BY j.sequence
"""
WORKERS_PER_PAIR = """
SELECT COALESCE(MAX(given), 0) FROM (
  SELECT COUNT(*) AS given FROM annotation_assignment a JOIN annotation_project p ON p.id = a.project_id
  WHERE p.slug = '{slug}' AND a.purpose = 'normal' GROUP BY a.item_lo_id, a.item_hi_id
) AS pairs
"""


def query(database: Path | str, statement: str) -> list[tuple[Any, ...]]:
    """The rows of one SELECT; `database` is an SQLite file or a postgres:// address."""
    connect: Any = psycopg.connect if isinstance(database, str) else sqlite3.connect
    with closing(connect(database)) as connection:
        return list(connection.execute(statement).fetchall())


def judgements(database: Path | str, slug: str) -> Iterator[Row]:
    """The study's judgements, turned back into what their senders said."""
    for uuid, assignment, choice, skip_reason, lo_was_left in query(database, JUDGEMENTS.format(slug=slug)):
        pair = str(UUID(str(assignment)))
        said = as_shown(choice, lo_was_left=bool(lo_was_left))
        yield Row(str(UUID(str(uuid))), pair, payload_hash(pair, said, skip_reason))


def as_shown(choice: str, *, lo_was_left: bool) -> str:
    """lo and hi as the side they stood on; tie and skip stay what they are."""
    if choice not in ("lo", "hi"):
        return choice
    return "left" if (choice == "lo") == lo_was_left else "right"


def most_workers_of_a_pair(database: Path | str, slug: str) -> int:
    """To how many workers the pair that was given out most was given."""
    return int(query(database, WORKERS_PER_PAIR.format(slug=slug))[0][0])


@contextmanager
def fresh_postgres(server: str) -> Iterator[str]:
    """The address of an empty database on this PostgreSQL server, dropped afterwards."""
    name = f"drill_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield server.rsplit("/", 1)[0] + f"/{name}"
        finally:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
