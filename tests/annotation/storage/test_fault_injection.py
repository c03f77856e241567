"""Fault injection: disabled in normal use, deterministic in tests."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from annotation.storage import fault_injection

pytestmark = pytest.mark.both_databases

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def reset_plan(settings):
    """Remove the plan after each test."""
    settings.FAULTS_ALLOWED = True
    yield
    settings.FAULTS = ""
    fault_injection.configure()


def set_plan(settings, plan: str) -> None:
    settings.FAULTS = plan
    fault_injection.configure()


def test_nothing_happens_without_a_plan(settings) -> None:
    fault_injection.maybe_fail("rename")
    set_plan(settings, "point=rename,action=raise")
    with pytest.raises(fault_injection.InjectedFault):
        fault_injection.maybe_fail("rename")
    set_plan(settings, "")
    fault_injection.maybe_fail("rename")


def test_a_point_fails_the_nth_time_and_only_then(settings) -> None:
    set_plan(settings, "point=rename,action=raise,nth=3")
    for _ in range(2):
        fault_injection.maybe_fail("rename")
    fault_injection.maybe_fail("fsync")
    with pytest.raises(fault_injection.InjectedFault, match="rename"):
        fault_injection.maybe_fail("rename")
    fault_injection.maybe_fail("rename")


def test_a_full_disk_can_be_simulated(settings) -> None:
    set_plan(settings, "point=write_tmp,action=enospc")
    with pytest.raises(OSError) as error:
        fault_injection.maybe_fail("write_tmp")
    assert error.value.errno == errno.ENOSPC


def test_the_seed_determines_the_faults(settings) -> None:
    def run() -> list[int]:
        set_plan(settings, "seed=17,p=0.05,action=raise")
        failed = []
        for number in range(200):
            try:
                fault_injection.maybe_fail("anywhere")
            except fault_injection.InjectedFault:
                failed.append(number)
        return failed

    assert run() == run()
    assert 0 < len(run()) < 30


@pytest.mark.parametrize("plan", ["point=x,action=explode", "action=raise", "point=x,when=now", "seed=1"])
def test_an_invalid_plan_is_refused(settings, plan: str) -> None:
    with pytest.raises(ImproperlyConfigured):
        set_plan(settings, plan)


@pytest.mark.slow
def test_a_server_outside_a_drill_does_not_start_with_a_plan(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "CONCORD_DATA": str(tmp_path), "FAULTS": "point=rename"}
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "outside a drill" in done.stderr
