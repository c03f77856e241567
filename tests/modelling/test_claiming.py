"""Who works on a project: one updater at a time, for as long as it lives, and not again and again in vain."""

import os
import subprocess
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from annotation import services
from annotation.models import Project, User, Worker
from annotation.services import Receipt
from modelling import claiming, learners, troubles, updating
from modelling.models import ModelSnapshot, UpdateState

pytestmark = pytest.mark.django_db


def test_one_project_is_claimed_by_one_updater(project: Project, crowd: list[Worker]) -> None:
    assert claiming.claim_one("one") == project
    assert claiming.claim_one("two") is None


def test_a_claim_that_ran_out_is_taken_over_and_the_first_cannot_publish(
    project: Project, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    claiming.claim_one("one")
    UpdateState.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert updating.run_one("two").number == 1
    with pytest.raises(claiming.LostClaim):
        updating.update(project, "one")
    assert ModelSnapshot.objects.count() == 1


def test_a_heartbeat_extends_the_claim_says_how_far_it_is_and_notices_its_loss(
    project: Project, crowd: list[Worker]
) -> None:
    now = [0.0]
    claiming.claim_one("one")
    UpdateState.objects.update(lease_until=timezone.now())
    heartbeat = claiming.Heartbeat(project, "one", clock=lambda: now[0])
    now[0] = 10.0
    heartbeat("fit", 5, 25, 0.51234)
    state = UpdateState.objects.get()
    assert state.lease_until > timezone.now() + timedelta(seconds=20)
    assert state.progress == {"what": "fitting", "iteration": 5, "share": 0.2, "change": 0.512}
    UpdateState.objects.update(owner="two")
    now[0] = 20.0
    with pytest.raises(claiming.LostClaim):
        heartbeat("fit", 6, 25, float("nan"))


def test_a_heartbeat_speaks_at_most_once_a_second(
    project: Project, crowd: list[Worker], django_assert_num_queries
) -> None:
    now = [0.0]
    claiming.claim_one("one")
    claiming.beat()
    heartbeat = claiming.Heartbeat(project, "one", clock=lambda: now[0])
    with django_assert_num_queries(4):  # twice: this updater lives; this claim is held and has come so far
        for _ in range(210):
            now[0] += 0.01
            heartbeat("fit", 1, 25, 0.5)


def test_an_hour_of_failures_is_ten_attempts_and_one_notice(
    project: Project, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P28, with a clock that is turned by hand."""
    attempts, now = [], [timezone.now()]

    def fail(*args: object, **kwargs: object) -> None:
        attempts.append(now[0])
        raise MemoryError

    monkeypatch.setattr(learners, "fit", fail)
    monkeypatch.setattr(claiming, "timezone", SimpleNamespace(now=lambda: now[0]))
    for _ in range(360):
        updating.run_one("one")
        now[0] += timedelta(seconds=10)
    assert 3 <= len(attempts) <= 10
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    state = UpdateState.objects.get()
    assert (state.condition, state.words) == ("degraded", troubles.words_for(MemoryError()))


def test_a_project_whose_updaters_are_killed_again_and_again_is_left_alone(
    project: Project, crowd: list[Worker], caplog: pytest.LogCaptureFixture
) -> None:
    """D11: killed three times in the middle, it rests for ten minutes, and the page says why."""
    for number in range(3):
        assert claiming.claim_one(f"killed-{number}") == project
        UpdateState.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    for _ in range(10):
        assert claiming.claim_one("next") is None
    state = UpdateState.objects.get()
    assert (state.condition, state.words) == ("degraded", troubles.KILLED)
    assert state.not_before > timezone.now() + timedelta(minutes=9)
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    UpdateState.objects.update(not_before=timezone.now())
    assert updating.run_one("next").number == 1
    assert UpdateState.objects.get().condition == "ok"


def test_a_claim_of_a_dead_process_here_is_free_at_once_and_that_of_a_living_one_is_not(
    project: Project, crowd: list[Worker]
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    host = claiming.owner_here().rsplit("-", 1)[0]
    for pid, free in ((dead.pid, True), (os.getppid(), False)):
        assert claiming.claim_one(f"{host}-{pid}") == project
        claiming.release_claims_of_the_dead()
        assert (claiming.claim_one("next") == project) == free
        UpdateState.objects.update(owner="", lease_until=None)


def test_a_failing_fit_backs_off_and_the_last_good_version_stays(
    project: Project, crowd: list[Worker], judge: Callable[..., Receipt], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = updating.run_one("one")
    judge(crowd[0])
    monkeypatch.setattr(learners, "fit", lambda *args, **kwargs: 1 / 0)
    assert updating.run_one("one") is None
    state = UpdateState.objects.get()
    assert (state.condition, state.words) == ("degraded", troubles.NO_SENSE)
    assert state.not_before > timezone.now()
    assert state.current == good
    assert updating.run_one("one") is None, "it must not try again at once"


def test_whoever_mends_the_cause_of_a_failure_need_not_wait(
    project: Project, owner: User, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(learners, "fit", lambda *args, **kwargs: 1 / 0)
        assert updating.run_one("one") is None
    assert claiming.claim_one("next") is None
    services.change_project(project=project, user=owner, changes={"model_settings": {"n_components": 3}})
    assert updating.run_one("next").number == 1
    assert UpdateState.objects.get().condition == "ok"


def test_whoever_names_a_project_need_not_wait_until_a_failure_is_forgotten(
    project: Project, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(learners, "fit", lambda *args, **kwargs: 1 / 0)
        assert updating.run_one("one") is None
    assert updating.run_one("next", project).number == 1
