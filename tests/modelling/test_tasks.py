"""The updater as a task: the same work, told by hints that may fail without anybody noticing."""

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from celery.exceptions import CeleryError

from annotation.models import Project, Worker
from annotation.services import Receipt
from modelling import tasks
from modelling.models import ModelSnapshot, UpdaterBeat
from tests.drills.waiting import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, settings) -> list[str]:
    """What reached the queue."""
    names: list[str] = []
    queue = SimpleNamespace(send_task=lambda name, **options: names.append(name))
    monkeypatch.setattr(tasks, "import_string", lambda name: queue)
    settings.AFTER_JUDGEMENT = ["modelling.tasks.wake"]
    return names


def test_the_task_does_what_the_command_does(project: Project, worker: Worker, judge: Callable[..., Receipt]) -> None:
    judge(worker)
    assert tasks.bring_up_to_date() == 1
    assert tasks.bring_up_to_date() == 0
    assert ModelSnapshot.objects.get().included == 1
    assert UpdaterBeat.objects.exists()


def test_a_judgement_sends_a_hint(project: Project, worker: Worker, judge, sent: list[str]) -> None:
    judge(worker)
    wait_until(lambda: sent, 10, "no hint was sent")
    assert sent == ["modelling.tasks.bring_up_to_date"]


def test_a_burst_is_few_hints(project: Project, sent: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_waiting", set())
    redis_takes_its_time = threading.Event()
    tasks._sender.submit(redis_takes_its_time.wait, 30)
    for _ in range(1000):
        tasks.wake(project.pk)
    redis_takes_its_time.set()
    tasks._sender.submit(int).result()
    assert len(sent) == 1


def test_without_redis_an_answer_is_stored_at_once(
    project: Project, worker: Worker, judge, monkeypatch: pytest.MonkeyPatch, settings
) -> None:
    """P35: the queue hangs and then fails; whoever answers notices neither."""
    answered, tried = threading.Event(), threading.Event()

    def fail(name: str, **options: object) -> None:
        assert answered.wait(30), "the answer waited for Redis"
        tried.set()
        raise CeleryError("nobody there")

    monkeypatch.setattr(tasks, "import_string", lambda name: SimpleNamespace(send_task=fail))
    settings.AFTER_JUDGEMENT = ["modelling.tasks.wake"]
    assert judge(worker).created
    answered.set()
    assert tried.wait(30)
    tasks._sender.submit(int).result()
