"""The search for model settings: one candidate at a time, resumable, applied only by an owner."""

import os
import subprocess
from collections.abc import Callable
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.models import AuditEntry, Item, Project, User, Worker
from annotation.services import Receipt
from benchmarks.load.waiting import wait_until
from modelling.models import SettingsSearch, UpdateState
from modelling.training.evaluation.scoreboard import LabelMetrics
from modelling.updater import jobs, leases, settings_search
from modelling.updater.settings_search import SearchData, SettingsCandidate
from tests.modelling.samples.histories import make_crowd

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

PAGE = "/projects/pets/model/settings/"


@pytest.fixture
def crowd(project: Project, judge: Callable[..., Receipt]) -> list[Worker]:
    """Eight workers with five answers each, about cats and about dogs."""
    return make_crowd(project, judge, workers=8)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only two candidates."""
    monkeypatch.setattr(settings_search, "COMPONENTS", {0: "one ranking for everyone"})
    monkeypatch.setattr(settings_search, "KERNEL_NAMES", {})


def search_all() -> int:
    return sum(1 for _ in iter(lambda: settings_search.search_one("one"), False))


def test_a_second_search_is_not_queued(project: Project, owner: User, log_in: Callable[[User], Client]) -> None:
    client = log_in(owner)
    for _ in range(2):
        client.post("/projects/pets/model/search/")
    assert SettingsSearch.objects.get().state == "waiting"
    assert AuditEntry.objects.filter(action="asked for a search for settings").count() == 1
    assert "waiting for the updater" in client.get(PAGE).text.lower()


def test_without_a_search_nothing_is_done(project: Project) -> None:
    assert settings_search.search_one("one") is False


def test_each_call_evaluates_one_candidate_and_releases_the_lease(
    project: Project, owner: User, crowd: list[Worker], quick: None, log_in: Callable[[User], Client]
) -> None:
    settings_search.request_search(project=project, user=owner)
    assert settings_search.search_one("one") is True
    search = SettingsSearch.objects.get()
    assert (search.state, search.owner, search.lease_until) == ("running", "", None)
    assert (search.progress["done"], search.progress["of"], len(search.table)) == (1, 2, 1)
    assert "1 of 2 settings evaluated" in log_in(owner).get(PAGE).text
    assert settings_search.search_one("two") is True
    search.refresh_from_db()
    assert (search.state, len(search.table), search.ended_at is not None) == ("done", 2, True)
    assert [row["loss"] for row in search.table] == sorted(row["loss"] for row in search.table)
    assert search.winner == search.table[0]["settings"]
    assert settings_search.search_one("one") is False


def test_no_settings_are_applied_until_an_owner_chooses_them(
    project: Project, owner: User, crowd: list[Worker], quick: None, log_in: Callable[[User], Client]
) -> None:
    settings_search.request_search(project=project, user=owner)
    search_all()
    project.refresh_from_db()
    assert project.model_settings == {}
    client = log_in(owner)
    assert "Use these settings" in client.get(PAGE).text
    client.post("/projects/pets/model/search/use/", {"candidate": "one ranking for everyone"})
    project.refresh_from_db()
    assert project.model_settings == {"n_components": 0}
    assert AuditEntry.objects.filter(action="changed settings", user=owner).exists()
    assert client.post("/projects/pets/model/search/use/", {"candidate": "another"}).status_code == 404


def test_all_candidates_are_evaluated_and_beat_chance(project: Project, owner: User, crowd: list[Worker]) -> None:
    """Independent items predict nothing about a held-out group: a loss of 0.69 and an accuracy of one half."""
    for number, item in enumerate(Item.objects.filter(project=project)):
        Item.objects.filter(pk=item.pk).update(features={"year": number})
    settings_search.request_search(project=project, user=owner)
    assert search_all() == 8
    search = SettingsSearch.objects.get()
    names = {row["name"] for row in search.table}
    assert {
        "current settings",
        "no similarity between items",
        "similarity by imported features only",
        "at most 3 components",
    } <= names
    alone = next(row for row in search.table if row["name"] == "no similarity between items")
    assert alone["loss"] == pytest.approx(0.6931, abs=1e-3)
    assert search.message == settings_search.BY_GROUP


def test_a_killed_search_is_continued(project: Project, owner: User, crowd: list[Worker], quick: None) -> None:
    settings_search.request_search(project=project, user=owner)
    settings_search.search_one("one")
    SettingsSearch.objects.update(owner="killed", lease_until=timezone.now() + timedelta(minutes=5))
    assert settings_search.search_one("two") is False, "the lease still runs"
    SettingsSearch.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert settings_search.search_one("two") is True
    assert len(SettingsSearch.objects.get(state="done").table) == 2


def test_an_updater_that_lost_the_lease_stores_no_result(
    project: Project, owner: User, crowd: list[Worker], quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_search.request_search(project=project, user=owner)
    original = settings_search.evaluate_candidate

    def lose_lease(*args: Any) -> Any:
        SettingsSearch.objects.update(owner="two")
        return original(*args)

    monkeypatch.setattr(settings_search, "evaluate_candidate", lose_lease)
    settings_search.search_one("one")
    assert SettingsSearch.objects.get().table == []


def test_new_judgements_after_a_restart_start_the_search_again(
    project: Project, owner: User, crowd: list[Worker], quick: None, judge: Callable[..., Receipt]
) -> None:
    settings_search.request_search(project=project, user=owner)
    settings_search.search_one("one")
    judge(crowd[0])
    settings_search.load_search_data.cache_clear()
    settings_search.search_one("two")
    search = SettingsSearch.objects.get()
    assert (search.state, len(search.table)) == ("running", 1)


def test_an_erasure_starts_the_search_again(project: Project, owner: User, crowd: list[Worker], quick: None) -> None:
    settings_search.request_search(project=project, user=owner)
    settings_search.search_one("one")
    services.erase_worker(worker=crowd[0], user=owner, remove_judgements=True)
    settings_search.search_one("one")
    search = SettingsSearch.objects.get()
    assert (search.state, len(search.table)) == ("running", 1)


def test_changed_settings_start_the_search_again(
    project: Project, owner: User, crowd: list[Worker], quick: None
) -> None:
    """Losses can be compared only between variations of the same settings."""
    settings_search.request_search(project=project, user=owner)
    settings_search.search_one("one")
    changed = {"n_components": 2, "seed": 20}
    services.change_project(project=project, user=owner, changes={"model_settings": changed})
    assert search_all() == 2
    table = {row["name"]: row["settings"] for row in SettingsSearch.objects.get(state="done").table}
    assert table["current settings"] == {**table["one ranking for everyone"], "n_components": 2}
    assert table["current settings"]["seed"] == 20


def test_invalid_settings_end_a_search_with_a_message(
    project: Project, owner: User, crowd: list[Worker], log_in: Callable[[User], Client]
) -> None:
    Project.objects.update(model_settings={"n_components": 3.5})
    settings_search.request_search(project=project, user=owner)
    assert settings_search.search_one("one") is True
    assert SettingsSearch.objects.get().state == "failed"
    assert "“n_components” must be a whole number from 0 to 50" in log_in(owner).get(PAGE).text


def test_the_search_of_a_dead_process_is_released_and_that_of_a_live_one_is_not(
    project: Project, owner: User, crowd: list[Worker], quick: None
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    host = leases.process_owner().rsplit("-", 2)[0]
    settings_search.request_search(project=project, user=owner)
    for pid, free in ((os.getppid(), False), (dead.pid, True)):
        held = {"owner": f"{host}-{pid}", "lease_until": timezone.now() + timedelta(minutes=10)}
        SettingsSearch.objects.update(state="running", **held)
        leases.release_dead_leases()
        assert settings_search.search_one("next") == free


def test_items_without_groups_are_split_at_random(
    project: Project, owner: User, quick: None, log_in: Callable[[User], Client], judge: Callable[..., Receipt]
) -> None:
    Item.objects.filter(project=project).update(group="")
    Project.objects.update(redundancy=100, judgements_per_worker=21)
    project.refresh_from_db()
    for _ in range(2):
        worker = services.enrol(project=project)
        for _pair in combinations(range(7), 2):
            judge(worker)
    settings_search.request_search(project=project, user=owner)
    search_all()
    assert SettingsSearch.objects.get().state == "done"
    assert "split into four parts at random" in log_in(owner).get(PAGE).text


def test_too_few_judgements_give_a_message(
    project: Project, owner: User, log_in: Callable[[User], Client], worker: Worker, judge: Callable[..., Receipt]
) -> None:
    for answers in range(2):
        settings_search.request_search(project=project, user=owner)
        assert settings_search.search_one("one") is True
        search = SettingsSearch.objects.first()
        assert (search.state, search.message) == ("failed", settings_search.NOT_ENOUGH), answers
        judge(worker)
    assert "There are too few judgements" in log_in(owner).get(PAGE).text


def test_an_unexpected_failure_ends_the_search_with_a_message(
    project: Project,
    owner: User,
    crowd: list[Worker],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(settings_search, "evaluate_candidate", lambda *args: 1 / 0)
    settings_search.request_search(project=project, user=owner)
    assert settings_search.search_one("one") is True
    search = SettingsSearch.objects.get()
    assert (search.state, search.message) == ("failed", jobs.UNEXPECTED)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]
    assert settings_search.request_search(project=project, user=owner), "a new search can be requested"


def test_a_search_changes_the_revision_of_open_pages(project: Project, owner: User) -> None:
    from modelling.dashboards.common.freshness import get_freshness

    UpdateState.objects.create(project=project)
    before = get_freshness(project).status_hash
    settings_search.request_search(project=project, user=owner)
    waiting = get_freshness(project).status_hash
    SettingsSearch.objects.update(progress={"done": 1, "of": 8})
    assert len({before, waiting, get_freshness(project).status_hash}) == 3


def test_the_updater_searches_when_no_project_needs_an_update(
    project: Project, owner: User, crowd: list[Worker], quick: None
) -> None:
    settings_search.request_search(project=project, user=owner)
    call_command("update_models", "--once")
    assert SettingsSearch.objects.get().state == "done"
    assert UpdateState.objects.get().current.number == 1


@pytest.mark.django_db(transaction=True)
def test_a_search_keeps_its_lease_while_it_evaluates(
    project: Project, owner: User, crowd: list[Worker], quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = settings_search.evaluate_candidate

    def slow(candidate: SettingsCandidate, data: SearchData) -> list[LabelMetrics]:
        SettingsSearch.objects.update(lease_until=timezone.now() - timedelta(minutes=1))
        wait_until(lambda: leases.is_leased(SettingsSearch.objects.get()), 120, "the lease was not extended")
        return evaluate(candidate, data)

    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(settings_search, "evaluate_candidate", slow)
    settings_search.request_search(project=project, user=owner)
    assert settings_search.search_one("one") is True
