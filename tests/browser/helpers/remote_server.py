"""The server profile on this machine: PostgreSQL, Redis and uvicorn with TLS, all started here."""

import os
import shutil
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from benchmarks.load.installation import ROOT, Installation, die_with_parent
from benchmarks.load.servers import RedisServer, find_postgres
from benchmarks.load.waiting import wait_until
from tests.helpers.postgres import migrated_database, start

SECONDS = 300


def require(found: object, what: str) -> None:
    """Skip the test if a program is not installed; in CI, fail it."""
    if not found:
        message = f"{what} is not installed, so live pages were not tested on the server profile."
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(message)


class RemoteServer(Installation):
    """Concord on PostgreSQL and Redis, served over https."""

    def __init__(self, folder: Path, database_url: str, redis: RedisServer) -> None:
        super().__init__(folder, database_url, redis_url=redis.url)
        self.redis = redis

    @property
    def address(self) -> str:
        return f"https://localhost:{self.port}"

    def environment(self) -> dict[str, str]:
        hosts = f"localhost,localhost:{self.port}"  # with its port for the list of trusted origins
        return super().environment() | {"ALLOWED_HOSTS": hosts}

    def publish(self, number: int) -> None:
        """Publish a version of the watched study, as an updater on another machine would."""
        self.run_python(f"from tests.browser.dashboards.live_page import publish; publish({number})")

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Run the web server as in docs/deployment.md, with TLS as the proxy in front provides it."""
        key, certificate = make_certificate(self.folder)
        options = ["--port", str(self.port), "--lifespan", "off", "--ws", "websockets-sansio", "--ws-max-size", "16384"]
        tls = ["--ssl-keyfile", str(key), "--ssl-certfile", str(certificate), "--log-level", "warning"]
        command = [sys.executable, "-m", "uvicorn", "config.asgi:application", *options, *tls, "--no-proxy-headers"]
        with (self.folder / "server.log").open("ab") as log:
            where = {"cwd": ROOT, "env": self.environment(), "stdout": log, "stderr": log}
            process = subprocess.Popen(command, preexec_fn=die_with_parent, **where)
        try:
            wait_until(self.is_ready, SECONDS, "the server did not respond")
            yield
        finally:
            process.kill()
            process.wait()

    def is_ready(self) -> bool:
        insecure = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(f"{self.address}/healthz", timeout=5, context=insecure) as response:
                return bool(response.status == 200)
        except (OSError, urllib.error.URLError):
            return False


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate for localhost; return the files of the key and of the certificate."""
    require(shutil.which("openssl"), "openssl")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return key, certificate


S = TypeVar("S", bound=RemoteServer)


@contextmanager
def server_profile(folder: Path, kind: type[S] = RemoteServer) -> Iterator[S]:  # type: ignore[assignment]
    """Yield an empty server profile with its tables, static files and Redis; neither web server nor updater runs."""
    binaries = find_postgres()
    require(binaries, "PostgreSQL")
    require(shutil.which("redis-server"), "Redis")
    assert binaries is not None
    redis = RedisServer(folder)
    with ExitStack() as stack:
        stack.callback(redis.kill)
        redis.start()
        url = stack.enter_context(migrated_database(os.environ.get("DATABASE_URL") or start(binaries)))
        server = kind(folder, url, redis)
        server.create_tables()
        yield server


@contextmanager
def run_remote_server(folder: Path) -> Iterator[RemoteServer]:
    """Yield a running server profile with the study of `tests.browser.dashboards.live_page`."""
    with server_profile(folder) as server:
        server.run_python("from tests.browser.dashboards.live_page import make_watched_study; make_watched_study()")
        with server.serving():
            yield server
