"""Fixtures of all tests: a clean database, and the people and the study that most tests use."""

import asyncio
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar

import hypothesis
import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.test import Client, TransactionTestCase

from annotation import services
from annotation.http import throttling
from annotation.models import Item, Membership, Project, User, Worker
from annotation.storage import event_log
from benchmarks.load.installation import TEMPLATE_VARIABLE
from tests.helpers import migrated_database, postgres

T = TypeVar("T")
# Random examples only in drills; otherwise every run tests the same examples, however slow the machine.
hypothesis.settings.register_profile(
    "tests", deadline=None, derandomize=os.environ.get("DRILLS") != "long", database=None
)
hypothesis.settings.load_profile("tests")
PASSWORD = "correct horse battery staple"
TEMPLATE = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Create one template data folder for all processes of this run."""
    if TEMPLATE_VARIABLE not in os.environ:
        os.environ[TEMPLATE_VARIABLE] = config.stash[TEMPLATE] = tempfile.mkdtemp(prefix="concord-template-")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let every process start with its share of the slow tests: the short ones fill the gaps at the end.

    pytest-xdist gives each process one part of the list, and a process without work takes the end of another's.
    """
    n_processes = getattr(config, "workerinput", {}).get("workercount", 1)
    if n_processes == 1:
        return
    slow = [item for item in items if item.get_closest_marker("slow") or item.get_closest_marker("browser")]
    dealt = set(slow)
    short, start = [item for item in items if item not in dealt], 0
    items.clear()
    for number in range(n_processes):
        share = slow[number::n_processes]
        size = (len(slow) + len(short) - len(items)) // (n_processes - number)
        end = start + max(size - len(share), 0)
        items += share + short[start:end]
        start = end


def pytest_sessionfinish(session: pytest.Session) -> None:
    shutil.rmtree(settings.DATA_DIR, ignore_errors=True)
    if folder := session.config.stash.get(TEMPLATE, ""):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def django_db_keepdb(request: pytest.FixtureRequest, django_db_modify_db_settings: None) -> bool:
    """Start from the kept database, if it fits the present migrations."""
    is_reused: bool = request.config.getvalue("reuse_db")
    return is_reused or (connection.vendor == "sqlite" and migrated_database.restore())


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """On PostgreSQL, copy a migrated database, which all processes share."""
    if connection.vendor == "postgresql" and (server := os.environ.get("DATABASE_URL")):
        connection.settings_dict["TEST"]["TEMPLATE"] = postgres.migrated_template(server)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_keepdb: bool) -> None:
    if connection.vendor == "sqlite" and not django_db_keepdb:
        migrated_database.keep()


@pytest.fixture(scope="session", autouse=True)
def keep_priority() -> Iterator[None]:
    """Do not let `update_models` lower the priority of the tests that follow it in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "nice", lambda _: 0)
        yield


@pytest.fixture(scope="session", autouse=True)
def allow_flushing_events() -> Iterator[None]:
    """Remove the append-only triggers only while a test's committed rows are deleted."""
    tear_down = TransactionTestCase._fixture_teardown

    def without_triggers(self: TransactionTestCase) -> None:
        event_log.drop_triggers(connection)
        tear_down(self)
        event_log.create_triggers(connection)

    TransactionTestCase._fixture_teardown = without_triggers
    yield
    TransactionTestCase._fixture_teardown = tear_down


@pytest.fixture(autouse=True)
def reset_throttles() -> None:
    cache.clear()
    throttling.memory.clear()


@pytest.fixture
def frozen_throttle_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock of the rate limits, so that no test runs into the next window."""
    monkeypatch.setattr("annotation.http.throttling.time", SimpleNamespace(time=lambda: 1_000_000.5))


@pytest.fixture(autouse=True)
def temporary_data_folder(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path


@pytest.fixture
def rng() -> Random:
    return Random(1)


def run_in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new thread: a browser test may have left an event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result(timeout=300)


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
    """An open study with four items about cats and three about dogs."""
    project = services.create_project(owner=owner, slug="pets", title="Pets", state="open", update_batch=1)
    make_items(project, ["Cats purr.", "Cats sleep all day.", "Cats keep mice away.", "Cats are clean."], "cats")
    make_items(project, ["Dogs are loyal.", "Dogs guard the house.", "Dogs need walks."], "dogs")
    return project


@pytest.fixture
def worker(project: Project) -> Worker:
    return services.enrol(project=project)


@pytest.fixture
def judge(rng: Random) -> Callable[..., services.Receipt]:
    """Return a function that answers a worker's next pair through the services that the views call."""

    def answer(worker: Worker, choice: str = "left", **more: object) -> services.Receipt:
        pairs = services.lease_pairs(worker=worker, rng=rng)
        assert pairs, "no pair is left for this worker"
        return services.record_judgement(
            worker=worker, uuid=uuid.uuid4(), assignment=pairs[0].public_id, choice=choice, **more
        )

    return answer


@pytest.fixture
def log_in() -> Callable[[User], Client]:
    def logged_in_client(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return logged_in_client


@pytest.fixture
def olga(owner: User, log_in: Callable[[User], Client]) -> Client:
    """The client of the owner, who is logged in."""
    return log_in(owner)


@pytest.fixture
def worker_client(project: Project) -> Client:
    """The client of a worker who has joined the study."""
    client = Client()
    client.post(f"/s/{project.slug}/join/", {"consent": "on"})
    return client
