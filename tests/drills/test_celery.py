"""The updater on the server profile: a real Redis, a real Celery worker and its beat, killed and found again."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.browser.far import Far, Redis, needed
from tests.drills import database
from tests.drills.install import ROOT, die_with_parent
from tests.drills.waiting import wait_until
from tests.postgres import find_bin, start

SECONDS = 120
STUDY = "from tests.modelling.histories import everybody, make_study; make_study('drill', everybody(12))"
ANSWER = """
from annotation.models import Project, Worker
from annotation.services import enrol, lease_pairs, record_judgement
from random import Random
worker = enrol(project=Project.objects.get(slug='drill'))
lease = lease_pairs(worker=worker, rng=Random(1))[0]
record_judgement(worker=worker, uuid=lease.public_id, assignment=lease.public_id, choice='left')
"""
LEARNED = "SELECT COALESCE(MAX(last_sequence), 0), COUNT(*) FROM modelling_modelsnapshot"
GIVEN = "SELECT sequence FROM annotation_eventhead"


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Far]:
    """PostgreSQL and Redis with a study of twelve workers; nobody learns yet."""
    binaries = find_bin()
    needed(binaries, "PostgreSQL")
    needed(shutil.which("redis-server"), "Redis")
    assert binaries is not None
    redis = Redis(tmp_path)
    with ExitStack() as stack:
        stack.callback(redis.kill)
        redis.start()
        server = os.environ.get("DATABASE_URL") or start(binaries)
        far = Far(tmp_path, stack.enter_context(database.fresh_postgres(server)), redis)
        far.manage("migrate", "--verbosity", "0")
        far.run(STUDY)
        yield far


@contextmanager
def celery(far: Far, *words: str, faults: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A Celery process and its children, killed at the end of the block at the latest."""
    command = [sys.executable, "-m", "celery", "-A", "config.celery", *words, "--loglevel", "warning"]
    given = far.environment | ({"FAULTS": faults, "CONCORD_DRILL": "1"} if faults else {})
    with (far.folder / "celery.log").open("ab") as log:
        where = {"cwd": ROOT, "env": given, "stdout": log, "stderr": log, "start_new_session": True}
        process = subprocess.Popen(command, preexec_fn=die_with_parent, **where)
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """kill -9 of a worker and all its children."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until_learned(far: Far) -> int:
    """Returns how many versions there are once the newest knows every event."""
    address = str(far.environment["DATABASE_URL"])
    ((given,),) = database.query(address, GIVEN)
    wait_until(lambda: database.query(address, LEARNED)[0][0] >= given, SECONDS, f"event {given} was not learned")
    return int(database.query(address, LEARNED)[0][1])


WORKER = ("worker", "--concurrency", "1")
BEAT = ("beat",)


@pytest.mark.slow
def test_a_judgement_wakes_a_worker_and_the_sweep_finds_what_no_hint_spoke_of(far: Far) -> None:
    with celery(far, *WORKER) as worker:
        far.run(ANSWER)  # through the same service as a POST: nothing but its hint can wake the worker
        assert wait_until_learned(far) == 1
        end(worker)
    far.redis.kill()
    far.run(ANSWER)  # P35: without Redis the answer is stored all the same
    far.redis.start()  # D5: and whatever Redis knew is gone
    with celery(far, *WORKER), celery(far, *BEAT):
        assert wait_until_learned(far) == 2


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_an_update_is_made_up_for(far: Far) -> None:
    """Once its child at work is killed, once the whole worker."""
    with celery(far, *BEAT):
        with celery(far, *WORKER, faults="point=after_fit,action=exit9,nth=2") as worker:
            wait_until_learned(far)
            far.run(ANSWER)
            wait_until_learned(far)  # its child died in this update; the next one took over
            end(worker)
        far.run(ANSWER)
        with celery(far, *WORKER):
            assert wait_until_learned(far) == 3
    assert "All is well" in far.manage("verify")
