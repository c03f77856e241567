"""A temporary PostgreSQL server for tests, removed when this process ends."""

import atexit
import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg

from benchmarks.load.database import temporary_postgres_database
from benchmarks.load.installation import ROOT, Installation, free_port

NEEDED_BYTES = 2 * 2**30  # the whole suite leaves well below one gigabyte
# What a test commits need not survive a crash of the machine.
OPTIONS = "-c listen_addresses=127.0.0.1 -c max_connections=200 -c fsync=off -c full_page_writes=off"


def find_bin() -> Path | None:
    """Return the folder of the newest PostgreSQL server programs on this machine."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]), reverse=True)
    on_path = shutil.which("initdb")
    return versions[0].parent if versions else Path(on_path).parent if on_path else None


def as_server_user(*command: object) -> list[str]:
    """Prefix a command so that root runs it as user postgres: PostgreSQL refuses to run as root."""
    arguments = [str(argument) for argument in command]
    return ["runuser", "-u", "postgres", "--", *arguments] if os.geteuid() == 0 else arguments


def memory_folder() -> Path | None:
    """Return a folder in memory if there is enough space."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > NEEDED_BYTES else None


@cache
def start(bin_dir: Path) -> str:
    """Start a server, one for this process, and return its URL."""
    return start_server(bin_dir)[0]


def start_server(bin_dir: Path) -> tuple[str, int]:
    """Start a server of its own; return its URL and the pid of its first process."""
    folder = Path(tempfile.mkdtemp(prefix="concord-postgres-", dir=memory_folder()))
    if os.geteuid() == 0:
        os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
    port = free_port()
    data = folder / "data"
    run(bin_dir / "initdb", "-D", data, "-U", "concord", "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync")
    options = f"-p {port} -k {folder} {OPTIONS}"
    run(bin_dir / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
    atexit.register(stop, bin_dir, folder)
    pid = int((data / "postmaster.pid").read_text().split()[0])
    return f"postgres://concord@127.0.0.1:{port}/postgres", pid


def stop(bin_dir: Path, folder: Path) -> None:
    run(bin_dir / "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop")
    shutil.rmtree(folder, ignore_errors=True)


def run(*command: object) -> None:
    subprocess.run(as_server_user(*command), check=True, stdout=subprocess.DEVNULL, cwd="/")


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
