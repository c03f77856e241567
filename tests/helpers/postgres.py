"""A temporary PostgreSQL server for tests, removed when this process ends."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg

from benchmarks.load.database import temporary_postgres_database
from benchmarks.load.installation import ROOT, Installation
from benchmarks.load.servers import start_postgres


@cache
def start(programs: Path) -> str:
    """Start a server, one for this process, and return its URL."""
    return start_postgres(programs).url


def migrated_template(server: str) -> str:
    """Return the name of a migrated database on this server, made once because migrating takes seconds."""
    name = f"concord_{migrations_hash()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(1)")  # released with the connection
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
            connection.execute(f"DROP DATABASE IF EXISTS {name}_draft")
            connection.execute(f"CREATE DATABASE {name}_draft")
            url = server.rsplit("/", 1)[0] + f"/{name}_draft"
            with tempfile.TemporaryDirectory() as folder:
                Installation(Path(folder), url).run_command("migrate", "--verbosity", "0")
            connection.execute(f"ALTER DATABASE {name}_draft RENAME TO {name}")
    return name


@cache
def migrations_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(ROOT.glob("*/migrations/*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@contextmanager
def migrated_database(server: str) -> Iterator[str]:
    """Yield the URL of a database with empty tables, dropped afterwards."""
    with temporary_postgres_database(server, migrated_template(server)) as url:
        yield url


@contextmanager
def installation_in(folder: Path) -> Iterator[Installation]:
    """Yield an empty installation on the database under test."""
    if server := os.environ.get("DATABASE_URL"):
        with migrated_database(server) as url:
            yield Installation(folder, url)
    else:
        yield Installation(folder)
