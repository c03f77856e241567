"""Faults on purpose: off and unloadable in normal use, exact in tests."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from annotation import faults

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def disarmed(settings):
    """Whatever a test arms is gone afterwards."""
    settings.FAULTS_ALLOWED = True
    yield
    settings.FAULTS = ""
    faults.arm()


def arm(settings, words: str) -> None:
    settings.FAULTS = words
    faults.arm()


def test_nothing_happens_unless_a_plan_was_armed(settings) -> None:
    faults.hit("rename")
    arm(settings, "point=rename,action=raise")
    with pytest.raises(faults.InjectedFault):
        faults.hit("rename")
    arm(settings, "")
    faults.hit("rename")


def test_a_point_fails_the_nth_time_and_only_then(settings) -> None:
    arm(settings, "point=rename,action=raise,nth=3")
    for _ in range(2):
        faults.hit("rename")
    faults.hit("fsync")
    with pytest.raises(faults.InjectedFault, match="rename"):
        faults.hit("rename")
    faults.hit("rename")


def test_a_full_disk_can_be_played(settings) -> None:
    arm(settings, "point=write_tmp,action=enospc")
    with pytest.raises(OSError) as error:
        faults.hit("write_tmp")
    assert error.value.errno == errno.ENOSPC


def test_one_seed_is_one_run(settings) -> None:
    def run() -> list[int]:
        arm(settings, "seed=17,p=0.05,action=raise")
        failed = []
        for number in range(200):
            try:
                faults.hit("anywhere")
            except faults.InjectedFault:
                failed.append(number)
        return failed

    assert run() == run()
    assert 0 < len(run()) < 30


@pytest.mark.parametrize("words", ["point=x,action=explode", "action=raise", "point=x,when=now", "seed=1"])
def test_a_plan_that_makes_no_sense_is_refused(settings, words: str) -> None:
    with pytest.raises(ImproperlyConfigured):
        arm(settings, words)


def test_a_server_that_is_no_test_does_not_start_with_a_plan(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "CONCORD_DATA": str(tmp_path), "FAULTS": "point=rename"}
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "this is not a test" in done.stderr


def test_passing_a_point_costs_nothing_to_speak_of() -> None:
    began = time.perf_counter()
    for _ in range(100_000):
        faults.hit("rename")
    assert time.perf_counter() - began < 0.5  # a POST passes two points; five microseconds each would be too many
