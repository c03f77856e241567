"""“Choose for me”: asked for once, tried one by one, taken up again, applied only when an owner says so."""

import os
import subprocess
from collections.abc import Callable
from datetime import timedelta
from itertools import combinations
from threading import Event
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.models import AuditEntry, Item, Project, User, Worker
from annotation.services import Receipt
from modelling import claiming, jobs, searching
from modelling.models import SettingsSearch, UpdateState

pytestmark = pytest.mark.django_db

PAGE = "/projects/pets/model/settings/"


@pytest.fixture
def crowd(project: Project, judge: Callable[..., Receipt]) -> list[Worker]:
    """Eight workers with five answers each, about cats and about dogs."""
    Project.objects.update(redundancy=100)
    project.refresh_from_db()
    workers = [services.enrol(project=project) for _ in range(8)]
    for number, worker in enumerate(workers):
        for turn in range(5):
            judge(worker, ("left", "right", "tie")[(number + turn) % 3])
    return workers


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two candidates are enough to see the order of things."""
    monkeypatch.setattr(searching, "COMPONENTS", {0: "one ranking for all"})
    monkeypatch.setattr(searching, "KERNEL_NAMES", {})
    monkeypatch.setattr(searching, "PRIORS", {})


def work_off() -> int:
    return sum(1 for _ in iter(lambda: searching.search_one("one"), False))


def test_a_search_is_asked_for_once(project: Project, owner: User, log_in: Callable[[User], Client]) -> None:
    client = log_in(owner)
    for _ in range(2):
        client.post("/projects/pets/model/search/")
    assert SettingsSearch.objects.get().state == "waiting"
    assert AuditEntry.objects.filter(action="asked for a search for settings").count() == 1
    assert "waiting for the updater" in client.get(PAGE).text.lower()


def test_nobody_asked_nothing_done(project: Project) -> None:
    assert searching.search_one("one") is False


def test_each_call_tries_one_candidate_and_lets_go(
    project: Project, owner: User, crowd: list[Worker], quick: None, log_in: Callable[[User], Client]
) -> None:
    searching.ask(project=project, user=owner)
    assert searching.search_one("one") is True
    search = SettingsSearch.objects.get()
    assert (search.state, search.owner, search.lease_until) == ("running", "", None)
    assert (search.progress["done"], search.progress["of"], len(search.table)) == (1, 2, 1)
    assert "1 of 2 settings tried" in log_in(owner).get(PAGE).text
    assert searching.search_one("two") is True
    search.refresh_from_db()
    assert (search.state, len(search.table), search.ended_at is not None) == ("done", 2, True)
    assert [row["loss"] for row in search.table] == sorted(row["loss"] for row in search.table)
    assert search.winner == search.table[0]["settings"]
    assert searching.search_one("one") is False


def test_nothing_is_applied_until_an_owner_says_so(
    project: Project, owner: User, crowd: list[Worker], quick: None, log_in: Callable[[User], Client]
) -> None:
    searching.ask(project=project, user=owner)
    work_off()
    project.refresh_from_db()
    assert project.model_settings == {}
    client = log_in(owner)
    assert "Use these settings" in client.get(PAGE).text
    client.post("/projects/pets/model/search/use/", {"candidate": "one ranking for all"})
    project.refresh_from_db()
    assert project.model_settings == {"n_components": 0}
    assert AuditEntry.objects.filter(action="changed settings", user=owner).exists()
    assert client.post("/projects/pets/model/search/use/", {"candidate": "another"}).status_code == 404


def test_the_whole_list_is_tried_and_a_coin_is_the_measure(project: Project, owner: User, crowd: list[Worker]) -> None:
    """Items that stand alone say nothing about a group that was held back: 0.69 a judgement, right half the time."""
    for number, item in enumerate(Item.objects.filter(project=project)):
        Item.objects.filter(pk=item.pk).update(features={"year": number})
    searching.ask(project=project, user=owner)
    assert work_off() == 13
    search = SettingsSearch.objects.get()
    names = {row["name"] for row in search.table}
    assert {
        "as it is now",
        "every item alone",
        "alike by their own numbers only",
        "20 components",
        "tastes that differ more",
    } <= names
    alone = next(row for row in search.table if row["name"] == "every item alone")
    assert alone["loss"] == pytest.approx(0.6931, abs=1e-3)
    assert search.words == searching.BY_GROUP


def test_a_killed_search_is_taken_up_where_it_was(
    project: Project, owner: User, crowd: list[Worker], quick: None
) -> None:
    searching.ask(project=project, user=owner)
    searching.search_one("one")
    SettingsSearch.objects.update(owner="killed", lease_until=timezone.now() + timedelta(minutes=5))
    assert searching.search_one("two") is False, "the lease still runs"
    SettingsSearch.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert searching.search_one("two") is True
    assert len(SettingsSearch.objects.get(state="done").table) == 2


def test_one_who_lost_the_search_writes_nothing(
    project: Project, owner: User, crowd: list[Worker], quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    searching.ask(project=project, user=owner)
    true_score = searching.score

    def stolen(*args: Any) -> Any:
        SettingsSearch.objects.update(owner="two")
        return true_score(*args)

    monkeypatch.setattr(searching, "score", stolen)
    searching.search_one("one")
    assert SettingsSearch.objects.get().table == []


def test_new_judgements_after_a_restart_begin_the_table_anew(
    project: Project, owner: User, crowd: list[Worker], quick: None, judge: Callable[..., Receipt]
) -> None:
    searching.ask(project=project, user=owner)
    searching.search_one("one")
    judge(crowd[0])
    searching.bench_of.cache_clear()
    searching.search_one("two")
    search = SettingsSearch.objects.get()
    assert (search.state, len(search.table)) == ("running", 1)


def test_an_erasure_in_between_begins_the_table_anew_without_them(
    project: Project, owner: User, crowd: list[Worker], quick: None
) -> None:
    searching.ask(project=project, user=owner)
    searching.search_one("one")
    services.erase_worker(worker=crowd[0], user=owner, remove_judgements=True)
    searching.search_one("one")
    search = SettingsSearch.objects.get()
    assert (search.state, len(search.table)) == ("running", 1)


def test_settings_changed_during_a_search_begin_the_table_anew(
    project: Project, owner: User, crowd: list[Worker], quick: None
) -> None:
    """Every row of a table differs from the same settings; otherwise their losses could not be compared."""
    searching.ask(project=project, user=owner)
    searching.search_one("one")
    changed = {"n_components": 2, "n_inducing_items": 20}
    services.change_project(project=project, user=owner, changes={"model_settings": changed})
    assert work_off() == 2
    table = {row["name"]: row["settings"] for row in SettingsSearch.objects.get(state="done").table}
    assert table["as it is now"] == {**table["one ranking for all"], "n_components": 2}
    assert table["as it is now"]["n_inducing_items"] == 20


def test_settings_that_cannot_be_used_end_a_search_with_the_reason(
    project: Project, owner: User, crowd: list[Worker], log_in: Callable[[User], Client]
) -> None:
    Project.objects.update(model_settings={"n_components": 3.5})
    searching.ask(project=project, user=owner)
    assert searching.search_one("one") is True
    assert SettingsSearch.objects.get().state == "failed"
    assert "“n_components” must be a whole number from 0 to 50" in log_in(owner).get(PAGE).text


def test_a_search_of_a_dead_process_here_is_free_at_once_and_that_of_a_living_one_is_not(
    project: Project, owner: User, crowd: list[Worker], quick: None
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    host = claiming.owner_here().rsplit("-", 1)[0]
    searching.ask(project=project, user=owner)
    for pid, free in ((os.getppid(), False), (dead.pid, True)):
        held = {"owner": f"{host}-{pid}", "lease_until": timezone.now() + timedelta(minutes=10)}
        SettingsSearch.objects.update(state="running", **held)
        claiming.release_claims_of_the_dead()
        assert searching.search_one("next") == free


def test_items_without_groups_are_dealt_at_random_and_the_page_says_so(
    project: Project, owner: User, quick: None, log_in: Callable[[User], Client], judge: Callable[..., Receipt]
) -> None:
    Item.objects.filter(project=project).update(group="")
    Project.objects.update(redundancy=100, judgements_per_worker=21)
    project.refresh_from_db()
    for _ in range(2):
        worker = services.enrol(project=project)
        for _pair in combinations(range(7), 2):
            judge(worker)
    searching.ask(project=project, user=owner)
    work_off()
    assert SettingsSearch.objects.get().state == "done"
    assert "dealt into four at random" in log_in(owner).get(PAGE).text


def test_too_few_judgements_are_said_in_words(
    project: Project, owner: User, log_in: Callable[[User], Client], worker: Worker, judge: Callable[..., Receipt]
) -> None:
    for answers in range(2):
        searching.ask(project=project, user=owner)
        assert searching.search_one("one") is True
        search = SettingsSearch.objects.first()
        assert (search.state, search.words) == ("failed", searching.TOO_LITTLE), answers
        judge(worker)
    assert "There are too few judgements" in log_in(owner).get(PAGE).text


def test_an_unexpected_failure_is_said_and_others_go_on(
    project: Project, owner: User, crowd: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "score", lambda *args: 1 / 0)
    searching.ask(project=project, user=owner)
    assert searching.search_one("one") is True
    assert SettingsSearch.objects.get().state == "failed"
    assert searching.ask(project=project, user=owner), "and one can ask again"


def test_a_search_changes_what_open_pages_are_told(project: Project, owner: User) -> None:
    from modelling.dashboards.freshness import freshness_of

    UpdateState.objects.create(project=project)
    before = freshness_of(project).mark
    searching.ask(project=project, user=owner)
    asked = freshness_of(project).mark
    SettingsSearch.objects.update(progress={"done": 1, "of": 8})
    assert len({before, asked, freshness_of(project).mark}) == 3


def test_the_updater_searches_when_no_project_is_behind(
    project: Project, owner: User, crowd: list[Worker], quick: None
) -> None:
    searching.ask(project=project, user=owner)
    call_command("update_models", "--once")
    assert SettingsSearch.objects.get().state == "done"
    assert UpdateState.objects.get().current.number == 1


@pytest.mark.django_db(transaction=True)
def test_an_updater_that_searches_says_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    beaten = Event()
    monkeypatch.setattr(jobs, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(jobs, "beat", beaten.set)
    with jobs.alive():
        assert beaten.wait(10)
