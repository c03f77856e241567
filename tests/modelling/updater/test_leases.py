"""Leases on projects: one updater at a time, heartbeats, takeover after a crash, pauses after failures."""

import os
import socket
import subprocess
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from annotation import services
from annotation.models import Project, User, Worker
from annotation.services import Receipt
from benchmarks.load.waiting import wait_until
from modelling.models import ModelSnapshot, UpdaterBeat, UpdateState
from modelling.training import training_state
from modelling.training.inputs import get_read_point
from modelling.updater import failure_messages, leases, update, update_state

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_a_project_is_leased_to_one_updater(project: Project, crowd: list[Worker]) -> None:
    assert update_state.claim_project("one").project == project
    assert update_state.claim_project("two") is None


def test_an_expired_lease_is_taken_over_and_the_first_updater_cannot_publish(
    project: Project, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = update_state.claim_project("one")
    UpdateState.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert update.update_one("two").number == 1
    with pytest.raises(leases.LeaseLost):
        update.update_project(first)
    assert ModelSnapshot.objects.count() == 1


def test_an_update_never_moves_the_position_in_the_log_backwards(project: Project, crowd: list[Worker]) -> None:
    state = update_state.claim_project("one")
    read = get_read_point(project)
    UpdateState.objects.update(done_sequence=read.sequence + 1)
    with pytest.raises(leases.LeaseLost):
        update_state.finish_update(state, read, None)
    kept = UpdateState.objects.get()
    assert (kept.done_sequence, kept.owner) == (read.sequence + 1, "one")


def test_a_progress_report_is_stored_and_notices_the_loss_of_the_lease(project: Project, crowd: list[Worker]) -> None:
    now = [0.0]
    state = update_state.claim_project("one")
    report = update_state.ProgressReporter(state, clock=lambda: now[0])
    now[0] = 10.0
    report("fit", 5, 25, 0.51234)
    assert UpdateState.objects.get().progress == {"what": "fitting", "iteration": 5, "share": 0.2, "change": 0.512}
    UpdateState.objects.update(owner="two")
    now[0] = 20.0
    with pytest.raises(leases.LeaseLost):
        report("fit", 6, 25, float("nan"))


def test_progress_is_written_at_most_once_a_second(
    project: Project, crowd: list[Worker], django_assert_num_queries
) -> None:
    now = [0.0]
    state = update_state.claim_project("one")
    report = update_state.ProgressReporter(state, clock=lambda: now[0])
    with django_assert_num_queries(2):
        for _ in range(210):
            now[0] += 0.01
            report("fit", 1, 25, 0.5)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("stage", ["fit", "consensus_scores"])
def test_a_step_of_an_update_that_reports_nothing_keeps_its_lease(
    project: Project, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """The lease has expired when the step begins, and the step goes on until it is valid again."""
    where = training_state if stage == "fit" else update
    work = getattr(where, stage)

    def slow(*args: object, **kwargs: object) -> object:
        expired = timezone.now() - timedelta(minutes=1)
        UpdateState.objects.update(lease_until=expired)
        UpdaterBeat.objects.update(seen_at=expired)
        wait_until(lambda: leases.is_leased(UpdateState.objects.get()), 120, "the lease was not extended")
        wait_until(leases.updater_is_alive, 120, "no heartbeat was recorded")
        assert update_state.claim_project("two") is None
        return work(*args, **kwargs)

    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(where, stage, slow)
    assert update.update_one("one").number == 1


@pytest.mark.django_db(transaction=True)
def test_a_released_lease_is_not_extended(project: Project, crowd: list[Worker], monkeypatch) -> None:
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.01)
    threads = threading.active_count()
    state = update_state.claim_project("one")
    with leases.extending(state):
        leases.release(state)
        wait_until(lambda: threading.active_count() == threads, 120, "the thread goes on")
    assert UpdateState.objects.get().lease_until is None


@pytest.mark.django_db(transaction=True)
def test_the_thread_that_extends_a_lease_has_ended_when_the_work_has(
    project: Project, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[object] = []
    monkeypatch.setattr(leases, "_extend_until", lambda stop, row: stop.wait(60) and ended.append(row))
    state = update_state.claim_project("one")
    with leases.extending(state):
        assert ended == []
    assert ended == [state]


@pytest.mark.slow
def test_an_hour_of_failures_is_ten_attempts_and_one_log_record(
    project: Project, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Runs with a fake clock."""
    attempts, now = [], [timezone.now()]

    def fail(*args: object, **kwargs: object) -> None:
        attempts.append(now[0])
        raise MemoryError

    monkeypatch.setattr(training_state, "fit", fail)
    monkeypatch.setattr(timezone, "now", lambda: now[0])
    for _ in range(360):
        update.update_one("one")
        now[0] += timedelta(seconds=10)
    assert 3 <= len(attempts) <= 10
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    state = UpdateState.objects.get()
    assert (state.condition, state.message) == ("degraded", failure_messages.failure_message(MemoryError()))


def test_a_project_whose_updates_are_killed_repeatedly_is_paused(
    project: Project, crowd: list[Worker], caplog: pytest.LogCaptureFixture
) -> None:
    """After three kills it is paused for ten minutes with a message."""
    for number in range(3):
        assert update_state.claim_project(f"killed-{number}").project == project
        UpdateState.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    for _ in range(10):
        assert update_state.claim_project("next") is None
    state = UpdateState.objects.get()
    assert (state.condition, state.message) == ("degraded", failure_messages.KILLED)
    assert state.not_before > timezone.now() + timedelta(minutes=9)
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    UpdateState.objects.update(not_before=timezone.now())
    assert update.update_one("next").number == 1
    assert UpdateState.objects.get().condition == "ok"


def test_the_lease_of_a_dead_process_is_released_and_that_of_a_live_one_is_not(
    project: Project, crowd: list[Worker]
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    host = leases.process_owner().rsplit("-", 2)[0]
    for pid, free in ((dead.pid, True), (os.getppid(), False)):
        assert update_state.claim_project(f"{host}-{pid}").project == project
        leases.release_dead_leases()
        assert (update_state.claim_project("next") is not None) == free
        UpdateState.objects.update(owner="", lease_until=None)


def test_processes_with_the_same_host_name_and_pid_have_different_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in two containers with the same host name, whose first process has pid 1 in both."""
    monkeypatch.setattr(socket, "gethostname", lambda: "concord")
    monkeypatch.setattr(os, "getpid", lambda: 1)
    names = set()
    for _container in range(2):
        leases._owner_of.cache_clear()
        names.add(leases.process_owner())
    leases._owner_of.cache_clear()
    assert len(names) == 2


def test_a_lease_of_another_container_is_not_released(
    project: Project, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pid means nothing here, although both containers may have the same host name."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    update_state.claim_project(f"{socket.gethostname()[:25]}-{dead.pid}")
    leases.release_dead_leases()
    assert update_state.claim_project("next") is None
    host = leases.process_owner().rsplit("-", 2)[0]
    UpdateState.objects.update(owner=f"{host}-{dead.pid}-1")
    monkeypatch.setattr(os, "readlink", lambda path: "pid:[another container]")
    leases._pid_namespace.cache_clear()
    leases.release_dead_leases()
    leases._pid_namespace.cache_clear()
    assert update_state.claim_project("next") is None


def test_a_failed_fit_is_retried_later_and_the_last_good_version_stays(
    project: Project, crowd: list[Worker], judge: Callable[..., Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = update.update_one("one")
    for _ in range(3):  # so many that the next update is a refit
        judge(crowd[0])
    monkeypatch.setattr(training_state, "fit", lambda *args, **kwargs: 1 / 0)
    assert update.update_one("one") is None
    state = UpdateState.objects.get()
    assert (state.condition, state.message) == ("degraded", failure_messages.NOT_FINITE)
    assert state.not_before > timezone.now()
    assert state.current == good
    assert update.update_one("one") is None, "it must not try again at once"


def test_changed_inputs_are_tried_without_waiting_after_a_failure(
    project: Project, owner: User, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(training_state, "fit", lambda *args, **kwargs: 1 / 0)
        assert update.update_one("one") is None
    assert update_state.claim_project("next") is None
    services.change_project(project=project, user=owner, changes={"model_settings": {"n_components": 3}})
    assert update.update_one("next").number == 1
    assert UpdateState.objects.get().condition == "ok"


def test_a_named_project_is_tried_without_waiting_after_a_failure(
    project: Project, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(training_state, "fit", lambda *args, **kwargs: 1 / 0)
        assert update.update_one("one") is None
    assert update.update_one("next", project).number == 1
