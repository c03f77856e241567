"""Databases that disappear under the running server: nothing is acknowledged that is not stored."""

import http.client
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.load.client import LoadClient
from benchmarks.load.database import query
from benchmarks.load.installation import Installation
from benchmarks.load.servers import find_postgres, start_postgres
from benchmarks.load.waiting import wait_until
from tests.browser.helpers.remote_server import require
from tests.helpers.postgres import migrated_database

pytestmark = pytest.mark.slow

SLUG = "drill"
CLIENT_SECONDS = 60  # the machine may be busy; a request that waits for the database would wait for ever
JUDGEMENTS = "SELECT COUNT(*) FROM annotation_judgement"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Installation]:
    with Installation(tmp_path) as server:
        server.prepare(SLUG, items=20)
        server.start("--no-updater")
        yield server


def status_of(server: Installation, path: str) -> int:
    """The status of a GET request that has to be answered before the client gives up, whatever the database does."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=CLIENT_SECONDS)
    try:
        connection.request("GET", path, headers=server.headers)
        response = connection.getresponse()
        assert response.status != 503 or path == "/readyz" or response.headers["Retry-After"]
        return response.status
    finally:
        connection.close()


def send_one(worker: LoadClient, number: int) -> int:
    """Send one answer once; return the status."""
    pair = worker.next_pair()
    assert pair is not None
    answer = {"uuid": f"00000000-0000-4000-8000-{number:012}", "assignment": pair["assignment"], "choice": "left"}
    response = worker.send(answer)
    assert response is not None
    if response.status == 201:
        worker.pairs = response.json()["next"]["pairs"]
    return response.status


def test_an_answer_is_refused_while_the_sqlite_file_is_gone_and_stored_when_it_is_back(server: Installation) -> None:
    file = Path(server.database)
    hidden = file.with_name("hidden")
    worker = LoadClient(server.port, SLUG, server.headers, seed=1)
    worker.join()
    assert send_one(worker, 1) == 201
    file.rename(hidden)
    assert [send_one(worker, 2) for _ in range(3)] == [503] * 3
    assert status_of(server, f"/s/{SLUG}/") == 503
    assert status_of(server, "/readyz") == 503
    assert status_of(server, "/healthz") == 200
    assert not file.exists(), "no empty database was created in its place"
    hidden.rename(file)
    assert send_one(worker, 2) == 201
    assert query(file, JUDGEMENTS) == [(2,)]


def test_a_restored_sqlite_file_is_used_at_once(server: Installation, tmp_path: Path) -> None:
    """Answers go to the file that is at the path now, not to the one that was opened first."""
    file = Path(server.database)
    worker = LoadClient(server.port, SLUG, server.headers, seed=1)
    worker.join()
    assert send_one(worker, 1) == 201
    backup = tmp_path / "backup.sqlite3"
    with sqlite3.connect(file) as source, sqlite3.connect(backup) as target:
        source.backup(target)
    assert send_one(worker, 2) == 201
    for leftover in (file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")):
        leftover.unlink()
    backup.replace(file)
    assert send_one(worker, 3) == 201
    assert query(file, JUDGEMENTS) == [(2,)]


# PostgreSQL


def test_requests_are_refused_while_postgresql_is_frozen_and_stored_afterwards(tmp_path: Path) -> None:
    programs = find_postgres()
    require(programs, "PostgreSQL")
    postgres = start_postgres(programs)  # type: ignore[arg-type]
    with migrated_database(postgres.url) as database, Installation(tmp_path, database) as server:
        server.prepare(SLUG, items=20)
        server.start("--no-updater")
        worker = LoadClient(server.port, SLUG, server.headers, seed=1)
        worker.join()
        assert send_one(worker, 1) == 201
        with postgres.frozen():
            assert [send_one(worker, 2) for _ in range(3)] == [503] * 3
            pages = [f"/s/{SLUG}/", "/accounts/login/", "/api/v1/projects", "/readyz", "/healthz"]
            assert [status_of(server, page) for page in pages] == [503, 200, 401, 503, 200]
        wait_until(lambda: send_one(worker, 2) == 201, 120, "the server did not recover")
        assert query(database, JUDGEMENTS) == [(2,)]


def test_a_server_that_accepts_connections_and_never_answers_does_not_hold_requests(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgres://concord@127.0.0.1:{silent.getsockname()[1]}/concord"
        with Installation(tmp_path, url) as server:
            server.start("--no-updater")
            assert [status_of(server, f"/s/{SLUG}/") for _ in range(6)] == [503] * 6
            assert [status_of(server, path) for path in ("/readyz", "/healthz")] == [503, 200]
