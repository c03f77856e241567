"""Deleting a project: hidden at once, its rows removed in batches, other projects unaffected."""

import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from django.apps import apps
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, transaction
from django.test import Client

from annotation import services
from annotation.models import (
    Assignment,
    AuditEntry,
    EventHead,
    Item,
    Judgement,
    JudgementNote,
    Project,
    Retraction,
    Tombstone,
    User,
    Worker,
)  # fmt: skip
from annotation.services import Receipt, verification
from annotation.services.deletion import NotArchived
from annotation.storage import event_log
from benchmarks.load.waiting import wait_until
from modelling.models import ConsensusScore, ExportJob, ModelSnapshot, SnapshotArrays, UpdateState, WebhookHost
from modelling.updater import project_removal, update, update_state
from modelling.updater.webhooks import delivery
from tests.annotation.services.privacy.test_erasure import CANARY, dump_database, read_database_files
from tests.helpers.concurrency import is_waiting, run_concurrently
from tests.modelling.samples.studies import make_version

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

LogIn = Callable[[User], Client]
Judge = Callable[..., Receipt]


@pytest.fixture
def study(project: Project, owner: User, analyst: User, judge: Judge) -> Project:
    """An archived study with workers, notes, an undo, versions with arrays, a pin and a webhook."""
    worker = services.enrol(project=project, platform="prolific", external_id=CANARY, traits={"town": CANARY})
    receipts = [judge(worker, note=f"I am {CANARY}") for _ in range(5)]
    services.retract(worker=worker, judgement=receipts[0].judgement.uuid, uuid=receipts[0].judgement.uuid)
    first, second = (make_version(project, number) for number in (1, 2))
    ModelSnapshot.objects.filter(pk=second.pk).update(parent=first)
    UpdateState.objects.update(pinned=first)
    SnapshotArrays.objects.create(project=project, checksum="0" * 64, content=b"arrays")
    (Path(django_settings.DATA_DIR) / "snapshots" / str(project.pk)).mkdir(parents=True)
    job = ExportJob.objects.create(project=project, what="judgements", sequence=1)
    (Path(django_settings.DATA_DIR) / "exports").mkdir()
    (Path(django_settings.DATA_DIR) / "exports" / str(job.pk)).write_text(CANARY)
    WebhookHost.objects.create(host="hooks.example.org")
    delivery.add_webhook(project=project, user=owner, url="https://hooks.example.org/")
    services.invite(project=project, user=owner, role="viewer")
    services.archive_project(project=project, user=owner, archived=True)
    return project


@pytest.mark.django_db(transaction=True)
def test_a_deletion_waits_for_an_answer_that_is_being_stored(project: Project, worker: Worker, rng: Random) -> None:
    lease, locked = services.lease_pairs(worker=worker, rng=rng)[0], threading.Event()

    def answer() -> None:
        with transaction.atomic():
            event_log.lock(project.pk)
            locked.set()
            wait_until(is_waiting, 60, "the deletion does not wait")
            services.record_judgement(worker=worker, uuid=lease.public_id, assignment=lease.public_id, choice="left")

    def delete() -> None:
        locked.wait(60)
        with pytest.raises(NotArchived):
            services.delete_project(project=project, user=None)

    run_concurrently([answer, delete])
    assert Judgement.objects.get().sequence == EventHead.objects.get(project=project).sequence == 1


@pytest.fixture
def neighbour(owner: User) -> Project:
    """Another study on the same server, with one judgement."""
    other = services.create_project(owner=owner, slug="plants", title="Plants", state="open")
    for key in ("a", "b"):
        other.items.create(key=key, text=key)
    return other


def remove_all() -> int:
    steps = 0
    while project_removal.remove_one():
        steps += 1
    return steps


def count_rows(project_pk: int) -> dict[str, int]:
    """The number of rows of each kind that refer to the project."""
    counts = {}
    for app in ("annotation", "modelling"):
        for model in apps.get_app_config(app).get_models():
            if any(field.name == "project" for field in model._meta.fields):
                counts[model.__name__] = model._default_manager.filter(project=project_pk).count()
    return {name: count for name, count in counts.items() if count}


def test_deleting_a_project_leaves_only_a_tombstone(
    study: Project, neighbour: Project, owner: User, judge: Judge, log_in: LogIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_removal, "BATCH", 2)
    judge(services.enrol(project=neighbour))
    before, head = count_rows(neighbour.pk), EventHead.objects.get(project=study)
    answer = log_in(owner).post("/projects/pets/delete/", {"typed": "pets"}, follow=True)
    assert "The study was deleted." in answer.text
    assert log_in(owner).get("/projects/pets/").status_code == 404
    assert Client().get("/s/pets/").status_code == 404
    assert remove_all() > 10
    assert count_rows(study.pk) == {}
    assert not Project.objects.filter(pk=study.pk).exists()
    assert not (Path(django_settings.DATA_DIR) / "snapshots" / str(study.pk)).exists()
    assert list((Path(django_settings.DATA_DIR) / "exports").iterdir()) == []
    assert CANARY not in dump_database()
    tombstone = Tombstone.objects.get()
    assert (tombstone.slug, tombstone.user) == ("pets", owner)
    assert (tombstone.events, tombstone.last_hash) == (head.sequence, head.hash)
    assert tombstone.removed_at is not None
    entry = AuditEntry.objects.get(action="deleted a project")
    assert entry.details == {"slug": "pets", "events": head.sequence, "last_hash": head.hash}
    assert count_rows(neighbour.pk) == before
    assert list(verification.find_problems(neighbour)) == []
    assert list(verification.find_trigger_problems()) == []
    call_command("verify")


@pytest.mark.django_db(transaction=True)
def test_a_removed_project_leaves_the_database_files(study: Project, owner: User) -> None:
    assert CANARY in dump_database() + read_database_files()
    services.delete_project(project=study, user=owner)
    remove_all()
    assert CANARY not in dump_database() + read_database_files()


def test_the_typed_name_must_match(study: Project, owner: User, log_in: LogIn) -> None:
    client = log_in(owner)
    page = client.get("/projects/pets/delete/").text
    assert "This cannot be undone." in page
    for typed in ("", "Pets", "pets2"):
        answer = client.post("/projects/pets/delete/", {"typed": typed})
        assert answer.status_code == 422
        assert "Nothing was deleted." in answer.text
    assert not Tombstone.objects.exists()


def test_a_study_with_judgements_must_be_archived_first(
    project: Project, owner: User, worker: Worker, judge: Judge, log_in: LogIn
) -> None:
    judge(worker)
    assert "typed" not in log_in(owner).get("/projects/pets/delete/").text
    answer = log_in(owner).post("/projects/pets/delete/", {"typed": "pets"})
    assert answer.status_code == 422
    assert "Archive it first" in answer.text
    with pytest.raises(NotArchived):
        services.delete_project(project=project, user=owner)
    assert Judgement.objects.count() == 1


def test_a_project_without_judgements_is_deleted_at_once(project: Project, owner: User) -> None:
    services.delete_project(project=project, user=owner)
    remove_all()
    assert count_rows(project.pk) == {}


def test_the_name_of_a_deleted_project_can_be_used_again(study: Project, owner: User) -> None:
    services.delete_project(project=study, user=owner)
    assert services.create_project(owner=owner, slug="pets", title="Pets").pk != study.pk


@pytest.mark.parametrize("kind", [Judgement, Retraction])
def test_events_of_other_projects_stay_append_only(
    kind: type, study: Project, neighbour: Project, owner: User, judge: Judge
) -> None:
    worker = services.enrol(project=neighbour)
    judgement = judge(worker).judgement
    services.retract(worker=worker, judgement=judgement.uuid, uuid=judgement.uuid)
    services.delete_project(project=study, user=owner)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        kind._default_manager.filter(project=neighbour)._raw_delete("default")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        kind._default_manager.filter(project=study).update(hash="x")


def test_a_killed_removal_is_continued(study: Project, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_removal, "BATCH", 2)
    services.delete_project(project=study, user=owner)
    for _ in range(7):
        assert project_removal.remove_one()
    left = sum(count_rows(study.pk).values())
    remove_all()
    assert left > 0
    assert count_rows(study.pk) == {}


def test_large_tables_are_removed_in_batches(study: Project, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """No step deletes more rows than a batch, so that no transaction is long."""
    monkeypatch.setattr(project_removal, "BATCH", 1)
    services.delete_project(project=study, user=owner)
    tables = (Item, Worker, Assignment, Judgement, JudgementNote, ModelSnapshot, ConsensusScore)

    def rows() -> int:
        return sum(table._default_manager.count() for table in tables)

    sizes = [rows()]
    while project_removal.remove_one():
        sizes.append(rows())
    assert sizes[0] > 30
    assert sizes[-1] == 0
    assert max(before - after for before, after in pairwise(sizes)) == 1


def test_a_running_update_of_a_deleted_project_loses_its_lease(study: Project, owner: User, neighbour: Project) -> None:
    state = update_state.claim_project("one", study)
    services.delete_project(project=study, user=owner)
    assert update.update_one("two", study) is None
    remove_all()
    update_state.record_failure(state, RuntimeError("the project went away"))
    assert update.update_one("two") is None


def test_verify_finds_a_tombstone_of_an_existing_project(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    Tombstone.objects.create(project_number=project.pk, slug="pets", events=0)
    assert ["pets has a tombstone" in words for words in verification.find_unprotected_projects()] == [True]


def test_administrators_do_not_see_projects_being_removed(study: Project, owner: User, admin_user: User) -> None:
    services.delete_project(project=study, user=owner)
    assert not Project.objects.visible_to(admin_user).exists()


def test_the_command_removes_at_once(study: Project) -> None:
    with pytest.raises(CommandError, match="--yes pets"):
        call_command("delete_project", "pets")
    call_command("delete_project", "pets", "--yes", "pets")
    assert count_rows(study.pk) == {}
