"""The stage: one database without its guard only while it is emptied, and a small cast with reasons to exist."""

import asyncio
import shutil
import uuid
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.test import Client, TransactionTestCase

from annotation import append_only, services
from annotation.models import Item, Membership, Project, User, Worker

T = TypeVar("T")
PASSWORD = "correct horse battery staple"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test that touches rows can be chosen by `-m database`, to run it on the other database too."""
    for item in items:
        if {"db", "transactional_db"} & set(getattr(item, "fixturenames", ())) or item.get_closest_marker("django_db"):
            item.add_marker("database")


def pytest_sessionfinish() -> None:
    shutil.rmtree(settings.DATA_DIR, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def events_may_be_emptied_between_tests() -> Iterator[None]:
    """A test with real commits is cleaned up by deleting every row; only for that moment is the guard released."""
    tear_down = TransactionTestCase._fixture_teardown

    def released(self: TransactionTestCase) -> None:
        append_only.release(connection)
        tear_down(self)
        append_only.guard(connection)

    TransactionTestCase._fixture_teardown = released
    yield
    TransactionTestCase._fixture_teardown = tear_down


@pytest.fixture(autouse=True)
def nobody_has_sent_anything_yet() -> None:
    cache.clear()


@pytest.fixture
def no_minute_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For whoever counts requests: a test that sends many must not happen to send some of them in the next minute."""
    monkeypatch.setattr("annotation.throttling.time", SimpleNamespace(time=lambda: 1_000_000.5))


@pytest.fixture(autouse=True)
def a_data_folder_of_its_own(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path


@pytest.fixture
def rng() -> Random:
    return Random(1)


def run_apart(story: Coroutine[Any, Any, T]) -> T:
    """The result of this coroutine, run in a thread of its own: a browser test may have left a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, story).result(timeout=60)


def make_user(name: str, **fields: object) -> User:
    return User.objects.create_user(name, password=PASSWORD, **fields)


def make_items(project: Project, texts: list[str], group: str = "cats") -> list[Item]:
    return [
        Item.objects.create(project=project, key=f"{group}-{number}", text=text, group=group)
        for number, text in enumerate(texts, start=1)
    ]


@pytest.fixture
def owner(db: None) -> User:
    return make_user("olga")


@pytest.fixture
def analyst(project: Project) -> User:
    user = make_user("anna")
    Membership.objects.create(project=project, user=user, role="analyst")
    return user


@pytest.fixture
def viewer(project: Project) -> User:
    user = make_user("victor")
    Membership.objects.create(project=project, user=user, role="viewer")
    return user


@pytest.fixture
def stranger(db: None) -> User:
    """A researcher who belongs to another project."""
    user = make_user("stranger")
    services.create_project(owner=user, slug="elsewhere", title="Elsewhere")
    return user


@pytest.fixture
def project(owner: User) -> Project:
    """An open study of four cats and three dogs."""
    project = services.create_project(owner=owner, slug="pets", title="Pets", state="open", update_batch=1)
    make_items(project, ["Cats purr.", "Cats sleep all day.", "Cats keep mice away.", "Cats are clean."], "cats")
    make_items(project, ["Dogs are loyal.", "Dogs guard the house.", "Dogs need walks."], "dogs")
    return project


@pytest.fixture
def worker(project: Project) -> Worker:
    return services.enrol(project=project)


@pytest.fixture
def judge(rng: Random) -> Callable[..., services.Receipt]:
    """judge(worker, "left"): the worker's next pair answered, through the same services as the browser's."""

    def answer(worker: Worker, choice: str = "left", **more: object) -> services.Receipt:
        pairs = services.lease_pairs(worker=worker, rng=rng)
        assert pairs, "no pair is left for this worker"
        return services.record_judgement(
            worker=worker, uuid=uuid.uuid4(), assignment=pairs[0].public_id, choice=choice, **more
        )

    return answer


@pytest.fixture
def log_in() -> Callable[[User], Client]:
    def client_of(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return client_of


@pytest.fixture
def worker_client(project: Project) -> Client:
    """A browser that has joined the study."""
    client = Client()
    client.post(f"/s/{project.slug}/join/", {"consent": "on"})
    return client
