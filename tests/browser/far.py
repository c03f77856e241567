"""The server profile as a lab would run it, on this machine: PostgreSQL, Redis, uvicorn with TLS, all made here."""

import os
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.drills.install import ROOT, die_with_parent, free_port
from tests.drills.waiting import wait_until
from tests.postgres import find_bin, start

SECONDS = 60


def needed(found: object, what: str) -> None:
    """A program that this test starts is installed; without it the test is skipped, except in CI, where it fails."""
    if not found:
        message = f"{what} is not installed, so live pages were not tested on the server profile."
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(message)


class Redis:
    """A Redis that can be killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, cwd=self.folder, preexec_fn=die_with_parent, **quiet)
        wait_until(self.answers, SECONDS, "Redis did not start")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


class Far:
    """Concord on PostgreSQL and Redis, reached by https."""

    def __init__(self, folder: Path, database_url: str, redis: Redis) -> None:
        self.folder, self.redis, self.port = folder, redis, free_port()
        self.environment = {
            "PATH": os.environ["PATH"],
            "CONCORD_DATA": str(folder),
            "DATABASE_URL": database_url,
            "REDIS_URL": f"redis://127.0.0.1:{redis.port}/0",
            "ALLOWED_HOSTS": f"localhost,localhost:{self.port}",  # with its port for the list of trusted origins
            "OMP_NUM_THREADS": "1",
        }

    @property
    def address(self) -> str:
        return f"https://localhost:{self.port}"

    def manage(self, *words: str) -> str:
        """What a command of manage.py printed."""
        command = [sys.executable, "manage.py", *words]
        place = {"cwd": ROOT, "env": self.environment, "timeout": 300}
        done = subprocess.run(command, capture_output=True, text=True, **place)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, statement: str) -> str:
        return self.manage("shell", "--no-imports", "-c", statement)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """As docs/deployment.md says, with the TLS of the proxy in front."""
        key, certificate = self._certificate()
        options = ["--port", str(self.port), "--lifespan", "off", "--ws", "websockets-sansio", "--ws-max-size", "16384"]
        tls = ["--ssl-keyfile", str(key), "--ssl-certfile", str(certificate), "--log-level", "warning"]
        command = [sys.executable, "-m", "uvicorn", "config.asgi:application", *options, *tls, "--no-proxy-headers"]
        with (self.folder / "server.log").open("ab") as log:
            where = {"cwd": ROOT, "env": self.environment, "stdout": log, "stderr": log}
            process = subprocess.Popen(command, preexec_fn=die_with_parent, **where)
        try:
            wait_until(self.answers, SECONDS, "the server did not answer")
            yield
        finally:
            process.kill()
            process.wait()

    def answers(self) -> bool:
        trusting = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(f"{self.address}/healthz", timeout=5, context=trusting) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def _certificate(self) -> tuple[Path, Path]:
        key, certificate = self.folder / "key.pem", self.folder / "certificate.pem"
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
        subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
        return key, certificate


@contextmanager
def far_away(folder: Path) -> Iterator[Far]:
    """A running server profile with its tables, its static files and the study of `tests.browser.watched`."""
    binaries = find_bin()
    needed(binaries, "PostgreSQL")
    needed(shutil.which("redis-server"), "Redis")
    needed(shutil.which("openssl"), "openssl")
    assert binaries is not None
    redis = Redis(folder)
    with ExitStack() as stack:
        stack.callback(redis.kill)
        redis.start()
        far = Far(folder, start(binaries), redis)
        far.run("from tests.browser.watched import furnish; furnish()")
        stack.enter_context(far.serving())
        yield far
