"""The updater as a Celery task, and the hints that wake it."""

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from celery.exceptions import CeleryError

from annotation.models import Project, Worker
from annotation.services import Receipt
from benchmarks.load.waiting import wait_until
from modelling.models import ModelSnapshot, UpdaterBeat
from modelling.updater import tasks

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, settings) -> list[str]:
    """The names of the tasks that were sent."""
    monkeypatch.setattr(tasks, "HINT_SECONDS", 0.0)
    names: list[str] = []
    queue = SimpleNamespace(send_task=lambda name, **options: names.append(name))
    monkeypatch.setattr(tasks, "import_string", lambda name: queue)
    settings.AFTER_JUDGEMENT = ["modelling.updater.tasks.wake_updater"]
    return names


def test_the_task_publishes_versions_like_the_command(
    project: Project, worker: Worker, judge: Callable[..., Receipt]
) -> None:
    judge(worker)
    assert tasks.bring_up_to_date() == 1
    assert tasks.bring_up_to_date() == 0
    assert ModelSnapshot.objects.get().included == 1
    assert UpdaterBeat.objects.exists()


def test_a_task_without_work_records_a_heartbeat(project: Project) -> None:
    assert tasks.bring_up_to_date() == 0
    assert UpdaterBeat.objects.exists()


def test_a_judgement_sends_a_hint(project: Project, worker: Worker, judge, sent: list[str]) -> None:
    judge(worker)
    wait_until(lambda: sent, 120, "no hint was sent")
    assert sent == ["modelling.updater.tasks.bring_up_to_date"]


def test_a_burst_of_judgements_sends_few_hints(
    project: Project, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_pending", threading.Event())
    redis_is_slow = threading.Event()
    tasks._sender.submit(redis_is_slow.wait, 120)
    for _ in range(1000):
        tasks.wake_updater(project.pk)
    redis_is_slow.set()
    tasks._sender.submit(int).result()
    assert len(sent) == 1


def test_without_redis_an_answer_is_stored_at_once(
    project: Project, worker: Worker, judge, monkeypatch: pytest.MonkeyPatch, settings, caplog
) -> None:
    """A hanging or failing queue does not delay the worker."""
    answered, tried = threading.Event(), threading.Event()

    def fail(name: str, **options: object) -> None:
        assert answered.wait(120), "the answer waited for Redis"
        tried.set()
        raise CeleryError("no connection")

    monkeypatch.setattr(tasks, "import_string", lambda name: SimpleNamespace(send_task=fail))
    settings.AFTER_JUDGEMENT = ["modelling.updater.tasks.wake_updater"]
    assert judge(worker).created
    answered.set()
    assert tried.wait(120)
    tasks._sender.submit(int).result()
    assert "could not notify the task queue: CeleryError" in caplog.text
