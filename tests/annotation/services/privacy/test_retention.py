"""Retention: personal data and log-in records are erased after their period; the study's results stay."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta

import pytest
from axes.models import AccessLog
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.models import AuditEntry, EventHead, Judgement, JudgementNote, PlatformIdentity, Project, User, Worker
from annotation.services import Receipt
from annotation.services.privacy import retention
from annotation.services.verification import find_problems
from modelling.models import ModelSnapshot
from modelling.training import versions
from modelling.updater import loop
from tests.annotation.services.privacy.test_erasure import CANARY, dump_database, read_database_files
from tests.helpers.commands import CommandLine
from tests.modelling.samples.studies import make_version

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

MONTH = timedelta(days=30)
ERASED = {"notes": 2, "details": 0, "identities": 2, "traits": 2, "answers": 0}


@pytest.fixture
def people(project: Project, judge: Callable[..., Receipt]) -> list[Worker]:
    """Two workers with platform IDs, traits and notes, in a study with a retention period of 30 days."""
    Project.objects.filter(pk=project.pk).update(retention_days=30)
    workers = [
        services.enrol(project=project, platform="prolific", external_id=f"{CANARY}{n}", traits={"town": CANARY})
        for n in range(2)
    ]
    for worker in workers:
        judge(worker, note=f"I am {CANARY}")
    return workers


def test_after_the_retention_period_personal_data_is_erased_and_judgements_stay(
    project: Project, people: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 1)
    before = EventHead.objects.get().inputs_revision
    [due] = retention.idle_projects(timezone.now() + MONTH + timedelta(hours=1))
    erased = retention.erase_worker_data(due)
    assert asdict(erased) == ERASED
    assert CANARY not in dump_database()
    assert Judgement.objects.not_retracted().count() == 2
    assert set(Worker.objects.values_list("state", "outcome")) == {("active", "")}
    assert EventHead.objects.get().inputs_revision == before + 1
    assert AuditEntry.objects.first().details == ERASED
    assert list(find_problems(project)) == []


@pytest.mark.django_db(transaction=True)
def test_data_erased_after_the_retention_period_leaves_the_database_files(
    project: Project, people: list[Worker]
) -> None:
    assert CANARY in dump_database() + read_database_files()
    retention.erase_worker_data(project)
    assert CANARY not in dump_database() + read_database_files()


def test_nothing_is_erased_earlier_or_without_a_retention_period(project: Project, people: list[Worker]) -> None:
    assert list(retention.idle_projects(timezone.now() + MONTH - timedelta(hours=1))) == []
    Project.objects.update(retention_days=0)
    assert list(retention.idle_projects(timezone.now() + 100 * MONTH)) == []


def test_a_new_worker_restarts_the_retention_period(project: Project, people: list[Worker]) -> None:
    later = timezone.now() + MONTH + timedelta(hours=1)
    newcomer = services.enrol(project=project)
    Worker.objects.filter(pk=newcomer.pk).update(joined_at=later)
    assert list(retention.idle_projects(later + timedelta(days=29))) == []


def test_erasing_again_changes_nothing(project: Project, people: list[Worker]) -> None:
    retention.erase_worker_data(project)
    entries = AuditEntry.objects.count()
    assert not retention.erase_worker_data(project)
    assert AuditEntry.objects.count() == entries


def test_versions_with_erased_traits_lose_their_arrays_and_keep_their_scores_and_pin(
    project: Project, people: list[Worker]
) -> None:
    before = [make_version(project, number) for number in (1, 2)]
    versions.pin(project=project, user=None, number=1)
    retention.erase_worker_data(project)
    versions.clean_up_versions(project)
    assert [ModelSnapshot.objects.get(pk=each.pk).pruned_at is None for each in before] == [False, True]
    after = make_version(project, 3)
    versions.clean_up_versions(project)
    whole = ModelSnapshot.objects.filter(project=project, pruned_at=None)
    assert list(whole) == [after]
    assert before[0].scores.exists()
    assert versions.shown_snapshot(project) == before[0]


def test_the_updater_applies_retention_once_an_hour(project: Project, people: list[Worker], monkeypatch) -> None:
    looked = []
    monkeypatch.setattr(loop, "_last_maintenance", 0.0)
    monkeypatch.setattr(loop, "idle_projects", lambda now: looked.append(now) or [project])
    for _ in range(3):
        loop.run_maintenance()
    assert len(looked) == 1
    assert not PlatformIdentity.objects.exists()
    assert not JudgementNote.objects.exists()


def test_login_records_are_deleted_after_a_month(owner: User, client: Client) -> None:
    client.force_login(owner)
    AccessLog.objects.create(username="olga", ip_address="192.0.2.7", user_agent="a browser")
    now = timezone.now()
    assert retention.delete_old_logins(now) == 0
    assert retention.delete_old_logins(now + MONTH + timedelta(days=1)) >= 2
    assert not AccessLog.objects.exists()
    assert not Session.objects.exists()


def test_the_command_checks_or_erases(
    project: Project, people: list[Worker], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, then = CommandLine(capsys), timezone.now() + 2 * MONTH
    monkeypatch.setattr(timezone, "now", lambda: then)
    assert run("apply_retention", "--check", "--json").facts == {"erased": False, "projects": ["pets"]}
    assert PlatformIdentity.objects.exists()
    assert run("apply_retention", "--json").facts["projects"]["pets"] == ERASED
    assert not PlatformIdentity.objects.exists()
