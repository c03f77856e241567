"""The server profile with everything it needs: PostgreSQL, Redis, web processes, Celery workers and beat."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.load.database import temporary_postgres_database
from benchmarks.load.installation import ROOT, Installation, descendants, die_with_parent, process_cpu_seconds
from benchmarks.load.servers import PostgresServer, RedisServer, find_postgres

WORKER = ("worker", "--concurrency", "1")
BEAT = ("beat",)


class MissingProgram(Exception):
    """PostgreSQL or Redis is not installed."""


class ServerStack(Installation):
    """An installation of the server profile; its background processes are started and killed by name."""

    def __init__(self, folder: Path, database_url: str, postgres: PostgresServer, redis: RedisServer) -> None:
        super().__init__(folder, database_url, redis.url)
        self.postgres, self.redis = postgres, redis
        self.background: dict[str, subprocess.Popen[bytes]] = {}
        self.commands: dict[str, tuple[str, ...]] = {}

    def start_background(self, name: str, *celery: str, faults: str = "") -> None:
        """Start a Celery worker (`*WORKER`) or beat (`*BEAT`) as the unit files do."""
        self.commands[name] = celery
        command = ["nice", sys.executable, "-m", "celery", "-A", "config.celery", *celery, "--loglevel", "warning"]
        variables = self.environment() | ({"FAULTS": faults, "CONCORD_DRILL": "1"} if faults else {})
        with (self.folder / "celery.log").open("ab") as log:
            options = {"cwd": ROOT, "env": variables, "stdout": log, "stderr": log, "start_new_session": True}
            self.background[name] = subprocess.Popen(command, preexec_fn=die_with_parent, **options)

    def restart_ended(self) -> list[str]:
        """Restart the background processes that have ended, as systemd does; return their names."""
        ended = [name for name, process in self.background.items() if process.poll() is not None]
        for name in ended:
            self.start_background(name, *self.commands[name])
        return ended

    def kill_background(self, name: str) -> None:
        """Kill a Celery process and its children with SIGKILL."""
        process = self.background.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def kill_all(self) -> None:
        for name in list(self.background):
            self.kill_background(name)
        self.kill()

    def cpu_seconds_by_part(self) -> dict[str, float]:
        """CPU seconds so far of each part of the server."""
        roots = {name: [process.pid] for name, process in self.background.items()}
        roots |= {"web": [self.process.pid] if self.process else [], "postgres": [self.postgres.pid]}
        roots["redis"] = [self.redis.process.pid] if self.redis.process else []
        return {
            name: sum(process_cpu_seconds(child) for pid in pids for child in {pid, *descendants(pid)})
            for name, pids in roots.items()
        }


@contextmanager
def server_stack(*, durable: bool = True) -> Iterator[ServerStack]:
    """Yield an empty server profile; PostgreSQL and Redis are running, web and background processes are not."""
    require_programs()
    postgres = PostgresServer(find_postgres(), durable=durable)  # type: ignore[arg-type]
    try:
        postgres.start()
        with stack_on(postgres) as stack:
            yield stack
    finally:
        postgres.remove()


@contextmanager
def stack_on(postgres: PostgresServer, template: str = "template1") -> Iterator[ServerStack]:
    """Yield an empty server profile with a database of its own, copied from a template, on a running PostgreSQL."""
    with tempfile.TemporaryDirectory(prefix="concord-stack-") as folder:
        redis = RedisServer(Path(folder))
        try:
            redis.start()
            with temporary_postgres_database(postgres.url, template) as url:
                stack = ServerStack(Path(folder), url, postgres, redis)
                try:
                    yield stack
                finally:
                    stack.kill_all()
        finally:
            redis.kill()


def require_programs() -> None:
    if find_postgres() is None or shutil.which("redis-server") is None:
        raise MissingProgram("PostgreSQL and Redis are needed: apt-get install postgresql redis-server")
