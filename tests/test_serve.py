"""`manage.py serve` as a person runs it: ready by itself, gone without a trace, however it ends."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings

PATIENCE = 90  # seconds; a machine that does other things besides

pytestmark = pytest.mark.slow


def wait_until(fact: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < deadline, f"{what} did not happen within {PATIENCE} s"
        threading.Event().wait(0.1)


def status_of(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def children_of(pid: int) -> list[int]:
    """The processes started by this one, as the kernel knows them."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if f"PPid:\t{pid}\n" in status.read_text():
                found.append(int(status.parent.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    variables = {"PATH": os.environ["PATH"], "CONCORD_DATA": str(tmp_path), "OMP_NUM_THREADS": "1"}
    place = {"cwd": settings.BASE_DIR, "env": variables, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], check=True, **place)
    process = subprocess.Popen([sys.executable, "manage.py", "serve", "--port", str(port)], **place)
    yield process, f"http://127.0.0.1:{port}"
    for pid in [*children_of(process.pid), process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks the Linux kernel about processes")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_becomes_ready_and_leaves_no_process_behind(
    server: tuple[subprocess.Popen[bytes], str], how: signal.Signals
) -> None:
    process, address = server
    wait_until(lambda: status_of(f"{address}/readyz") == 200, "ready")
    assert status_of(f"{address}/healthz") == 200
    assert status_of(f"{address}/") == 200
    updaters = children_of(process.pid)
    assert len(updaters) == 1
    process.send_signal(how)
    wait_until(lambda: process.poll() is not None, "the end of serve")
    wait_until(lambda: not any(map(is_alive, updaters)), "the end of the updater")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks the Linux kernel about processes")
def test_an_updater_that_dies_is_started_again(server: tuple[subprocess.Popen[bytes], str]) -> None:
    process, address = server
    wait_until(lambda: status_of(f"{address}/readyz") == 200, "ready")
    (first,) = children_of(process.pid)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: any(pid != first and is_alive(pid) for pid in children_of(process.pid)), "a new updater")
    assert status_of(f"{address}/healthz") == 200, "the pages were served all the while"


def test_a_port_that_is_taken_is_said_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [sys.executable, "manage.py", "serve", "--port", str(taken.getsockname()[1])]
        variables = {"PATH": os.environ["PATH"], "CONCORD_DATA": str(tmp_path)}
        ran = subprocess.run(
            command, cwd=settings.BASE_DIR, env=variables, capture_output=True, text=True, timeout=PATIENCE
        )
    assert ran.returncode == 1
    assert "choose another --port" in ran.stderr
    assert "Concord is at" not in ran.stdout
