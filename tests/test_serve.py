"""`manage.py serve` as a person runs it: it becomes ready, restarts its updater, and leaves no process behind."""

import os
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.load.installation import Installation, descendants, is_alive
from benchmarks.load.waiting import wait_until
from modelling.management.commands.serve import listen

PATIENCE = 120  # seconds

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads the Linux process table"),
]


def status_of(url: str) -> int:
    """The HTTP status of a GET request, or 0 if nothing is listening."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Installation]:
    with Installation(tmp_path) as server:
        server.create_tables()
        server.start()
        wait_until(lambda: status_of(f"{server.url}/readyz") == 200, PATIENCE, "the server did not become ready")
        yield server


def updater_of(pid: int) -> int:
    """The only child process of `serve`, which may start it after its first response."""
    wait_until(lambda: len(descendants(pid)) == 1, PATIENCE, "serve has not exactly one child process")
    (updater,) = descendants(pid)
    return updater


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_server_leaves_no_process_behind(server: Installation, how: signal.Signals) -> None:
    process = server.process
    assert process is not None
    assert status_of(f"{server.url}/") == 200
    updater = updater_of(process.pid)
    process.send_signal(how)
    wait_until(lambda: process.poll() is not None, PATIENCE, "serve did not end")
    wait_until(lambda: not is_alive(updater), PATIENCE, "the updater did not end")


def test_a_killed_updater_is_restarted(server: Installation) -> None:
    assert server.process is not None
    pid = server.process.pid
    first = updater_of(pid)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: any(map(is_alive, descendants(pid) - {first})), PATIENCE, "no new updater was started")
    assert status_of(f"{server.url}/healthz") == 200, "pages were served all the time"


def test_responses_do_not_wait_for_acknowledgements() -> None:
    """Nagle's algorithm would delay every response on a kept connection by 40 ms."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_in_use_is_reported_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = Installation(tmp_path).manage("serve", "--port", str(taken.getsockname()[1]))
    assert ran.returncode == 1
    assert "choose another --port" in ran.stderr
    assert "Concord is at" not in ran.stdout
