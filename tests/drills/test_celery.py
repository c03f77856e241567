"""The updater on the server profile: PostgreSQL, a real Redis, a real Celery worker and its beat."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.load import database
from benchmarks.load.installation import ROOT, die_with_parent
from benchmarks.load.waiting import wait_until
from tests.browser.helpers.remote_server import RemoteServer, server_profile

SECONDS = 300
STUDY = "from tests.modelling.samples.histories import all_pairs, make_study; make_study('drill', all_pairs(12))"
# The same service as a POST, so that its hint can wake a worker.
ANSWER = """
from annotation.models import Project, Worker
from annotation.services import enrol, lease_pairs, record_judgement
from random import Random
worker = enrol(project=Project.objects.get(slug='drill'))
lease = lease_pairs(worker=worker, rng=Random(1))[0]
record_judgement(worker=worker, uuid=lease.public_id, assignment=lease.public_id, choice='left')
"""
VERSIONS = "SELECT COALESCE(MAX(last_sequence), 0), COUNT(*) FROM modelling_modelsnapshot"
LAST_EVENT = "SELECT sequence FROM annotation_eventhead"
WORKER = ("worker", "--concurrency", "1")
BEAT = ("beat",)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RemoteServer]:
    """A study of twelve workers and no version yet."""
    with server_profile(tmp_path) as server:
        server.run_python(STUDY)
        yield server


@contextmanager
def celery(server: RemoteServer, *arguments: str, faults: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Run a Celery process, and kill it and its children at the end of the block."""
    command = [sys.executable, "-m", "celery", "-A", "config.celery", *arguments, "--loglevel", "warning"]
    variables = server.environment() | ({"FAULTS": faults, "CONCORD_DRILL": "1"} if faults else {})
    with (server.folder / "celery.log").open("ab") as log:
        options = {"cwd": ROOT, "env": variables, "stdout": log, "stderr": log, "start_new_session": True}
        process = subprocess.Popen(command, preexec_fn=die_with_parent, **options)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for_version(server: RemoteServer) -> int:
    """Wait until the newest version includes every event, and return the number of versions."""
    ((last,),) = database.query(server.database_url, LAST_EVENT)
    wait_until(
        lambda: database.query(server.database_url, VERSIONS)[0][0] >= last, SECONDS, f"no version has event {last}"
    )
    return int(database.query(server.database_url, VERSIONS)[0][1])


@pytest.mark.slow
def test_updates_follow_hints_and_survive_lost_hints_and_killed_workers(server: RemoteServer) -> None:
    with celery(server, *WORKER):
        server.run_python(ANSWER)
        assert wait_for_version(server) == 1, "without a beat only the hint can have woken the worker"
    server.redis.kill()
    server.run_python(ANSWER)  # stored although Redis is down
    server.redis.start()  # empty: the hint is lost
    with celery(server, *BEAT), celery(server, *WORKER, faults="point=after_fit,action=exit9,nth=2"):
        assert wait_for_version(server) == 2, "the sweep finds the answer"
        server.run_python(ANSWER)
        assert wait_for_version(server) == 3, "the child was killed in its second update, and a new one took over"
        assert "signal 9 (SIGKILL)" in (server.folder / "celery.log").read_text()
    verified, output = server.verify()
    assert verified, output
