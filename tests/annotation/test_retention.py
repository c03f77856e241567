"""What is kept no longer than it must be: people go, the study stays; log-ins are forgotten."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from axes.models import AccessLog
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from annotation import services
from annotation.models import AuditEntry, EventHead, Judgement, JudgementNote, PlatformIdentity, Project, User, Worker
from annotation.services import Receipt, retention
from annotation.verification import problems_of
from modelling import turns, versions
from modelling.models import ModelSnapshot
from tests.annotation.test_erasure import CANARY, everything_in_the_database
from tests.commands import CommandLine
from tests.modelling.studies import make_version

pytestmark = pytest.mark.django_db

MONTH = timedelta(days=30)


@pytest.fixture
def people(project: Project, judge: Callable[..., Receipt]) -> list[Worker]:
    """Two workers of a platform who have told something about themselves, in a study that keeps it for 30 days."""
    Project.objects.filter(pk=project.pk).update(retention_days=30)
    workers = [
        services.enrol(project=project, platform="prolific", external_id=f"{CANARY}{n}", traits={"town": CANARY})
        for n in range(2)
    ]
    for worker in workers:
        judge(worker, note=f"I am {CANARY}")
    return workers


def test_after_a_time_without_answers_people_are_erased_and_judgements_stay(
    project: Project, people: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 1)
    before = EventHead.objects.get().inputs_revision
    [due] = retention.idle_projects(timezone.now() + MONTH + timedelta(hours=1))
    erased = retention.erase_people(due)
    assert (erased.notes, erased.identities, erased.traits) == (2, 2, 2)
    assert CANARY not in everything_in_the_database()
    assert Judgement.objects.standing().count() == 2
    assert set(Worker.objects.values_list("state", "outcome")) == {("active", "")}
    assert EventHead.objects.get().inputs_revision == before + 1
    assert AuditEntry.objects.first().details == {"notes": 2, "identities": 2, "traits": 2}
    assert list(problems_of(project)) == []


def test_nothing_is_erased_before_its_time_or_where_nobody_asked(project: Project, people: list[Worker]) -> None:
    assert list(retention.idle_projects(timezone.now() + MONTH - timedelta(hours=1))) == []
    Project.objects.update(retention_days=0)
    assert list(retention.idle_projects(timezone.now() + 100 * MONTH)) == []


def test_a_new_worker_or_answer_begins_the_time_anew(project: Project, people: list[Worker]) -> None:
    later = timezone.now() + MONTH + timedelta(hours=1)
    newcomer = services.enrol(project=project)
    Worker.objects.filter(pk=newcomer.pk).update(joined_at=later)
    assert list(retention.idle_projects(later + timedelta(days=29))) == []


def test_erasing_what_is_erased_changes_nothing(project: Project, people: list[Worker]) -> None:
    retention.erase_people(project)
    entries = AuditEntry.objects.count()
    assert not retention.erase_people(project)
    assert AuditEntry.objects.count() == entries


def test_versions_that_know_the_traits_lose_their_arrays_and_keep_their_scores_and_pin(
    project: Project, people: list[Worker]
) -> None:
    before = [make_version(project, number) for number in (1, 2)]
    versions.pin(project=project, user=None, number=1)
    retention.erase_people(project)
    versions.tidy(project)
    assert [ModelSnapshot.objects.get(pk=each.pk).pruned_at is None for each in before] == [False, True]
    after = make_version(project, 3)
    versions.tidy(project)
    whole = ModelSnapshot.objects.filter(project=project, pruned_at=None)
    assert list(whole) == [after]
    assert before[0].scores.exists()
    assert versions.shown_snapshot(project) == before[0]


def test_the_updater_looks_once_an_hour(project: Project, people: list[Worker], monkeypatch) -> None:
    looked = []
    monkeypatch.setattr(turns, "_kept", 0.0)
    monkeypatch.setattr(turns, "idle_projects", lambda now: looked.append(now) or [project])
    for _ in range(3):
        turns.keep_house()
    assert len(looked) == 1
    assert not PlatformIdentity.objects.exists()
    assert not JudgementNote.objects.exists()


def test_log_ins_are_forgotten_after_a_month(owner: User, client: Client) -> None:
    """S35."""
    client.force_login(owner)
    AccessLog.objects.create(username="olga", ip_address="192.0.2.7", user_agent="a browser")
    now = timezone.now()
    assert retention.forget_log_ins(now) == 0
    assert retention.forget_log_ins(now + MONTH + timedelta(days=1)) >= 2
    assert not AccessLog.objects.exists()
    assert not Session.objects.exists()


def test_the_command_names_first_and_erases_then(
    project: Project, people: list[Worker], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, then = CommandLine(capsys), timezone.now() + 2 * MONTH
    monkeypatch.setattr(timezone, "now", lambda: then)
    assert run("apply_retention", "--check", "--json").facts == {"erased": False, "projects": ["pets"]}
    assert PlatformIdentity.objects.exists()
    assert run("apply_retention", "--json").facts["projects"]["pets"] == {"notes": 2, "identities": 2, "traits": 2}
    assert not PlatformIdentity.objects.exists()
