"""SIGTERM: the server finishes the answer it is storing, closes WebSockets and ends, whatever its clients do."""

import http.client
import json
import signal
import socket
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from benchmarks.load.client import LoadClient
from benchmarks.load.database import query
from benchmarks.load.installation import Installation, descendants, is_alive
from benchmarks.load.waiting import wait_until
from modelling.management.commands.serve import web_config
from modelling.simulation.http_client import cookie_header
from tests.helpers.postgres import installation_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads the Linux process table"),
]

SLUG, PATIENCE = "drill", 120
HANDSHAKE = (
    "GET /ws/projects/{slug}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: {origin}\r\nCookie: {cookie}\r\n"
    "X-Forwarded-Proto: https\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
LOG_IN = """
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from annotation.models import User
user = User.objects.create_superuser("olga")
session = import_module(settings.SESSION_ENGINE).SessionStore()
session[SESSION_KEY], session[HASH_SESSION_KEY] = user.pk, user.get_session_auth_hash()
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session.save()
print(f"{settings.SESSION_COOKIE_NAME}={session.session_key}")
"""
CLOSE_1012 = b"\x88\x02\x03\xf4"  # a close frame with the code for a restart


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Installation]:
    """One web process, or two on the server profile."""
    with installation_in(tmp_path) as server, server:
        server.prepare(SLUG, items=20)
        server.start("--no-updater", *(("--workers", "2") if server.database_url else ()))
        yield server


def end(server: Installation) -> None:
    """Send SIGTERM and wait until the server and its web processes have ended."""
    process = server.process
    children = descendants(process.pid)
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: process.poll() is not None, PATIENCE, "the server did not end")
    wait_until(lambda: not any(map(is_alive, children)), PATIENCE, "a web process did not end")


@contextmanager
def writes_blocked(server: Installation) -> Iterator[None]:
    """Hold the lock that an answer needs."""
    if server.database_url:
        with psycopg.connect(server.database_url) as connection:
            connection.execute("LOCK TABLE annotation_eventhead")
            yield
    else:
        connection = sqlite3.connect(server.database, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.close()


@pytest.mark.both_databases
def test_an_answer_that_is_being_stored_is_acknowledged(server: Installation) -> None:
    worker = LoadClient(server.port, SLUG, server.headers, seed=1)
    worker.join()
    worker.close()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    with writes_blocked(server):
        send_answer(connection, worker)
        wait_until(lambda: is_storing(server), PATIENCE, "the answer was not being stored")
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not accepts_connections(server), PATIENCE, "the server still accepts connections")
    assert connection.getresponse().status == 201
    connection.close()
    end(server)
    assert len(query(server.database, "SELECT 1 FROM annotation_judgement")) == 1


def send_answer(connection: http.client.HTTPConnection, worker: LoadClient) -> None:
    pair = worker.next_pair()
    answer = {"uuid": str(uuid.uuid4()), "assignment": pair["assignment"], "choice": "left"}
    headers = {"Content-Type": "application/json", "X-CSRFToken": worker.token, **worker.headers}
    headers |= {"Cookie": cookie_header(worker.cookies), "Referer": f"{worker.headers['Origin']}/"}
    connection.request("POST", f"/s/{SLUG}/judgements/", json.dumps(answer), headers)


def is_storing(server: Installation) -> bool:
    """Whether the server has begun to store an answer that was sent before."""
    if server.database_url:
        return bool(query(server.database, "SELECT 1 FROM pg_locks WHERE NOT granted"))
    return server.is_ready()  # its one process reads requests in the order in which they were sent


def accepts_connections(server: Installation) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
    except OSError:
        return False
    return True


def test_the_supervisor_waits_for_processes_on_a_busy_machine() -> None:
    """With uvicorn's default of five seconds a slow start ended a reload, and slow processes were killed."""
    assert web_config(workers=2).timeout_worker_healthcheck >= 60


def test_a_websocket_is_closed_although_its_client_does_not_respond(server: Installation) -> None:
    cookie = server.run_python(LOG_IN).strip()
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as client:
        fields = {"slug": SLUG, "port": server.port, "origin": server.headers["Origin"], "cookie": cookie}
        client.sendall(HANDSHAKE.format(**fields).encode())
        received = client.recv(65536)
        assert received.startswith(b"HTTP/1.1 101")
        end(server)
        while chunk := client.recv(65536):
            received += chunk
    assert received.endswith(CLOSE_1012)
