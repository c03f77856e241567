"""A deleted project: closed to everybody at once, its rows removed in small steps, one line left; others untouched."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.apps import apps
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, transaction
from django.test import Client

from annotation import services, verification
from annotation.models import AuditEntry, EventHead, Judgement, Project, Retraction, Tombstone, User, Worker
from annotation.services import Receipt
from annotation.services.deletion import NotArchivedYet
from modelling import claiming, removal, updating, webhooks
from modelling.models import ExportJob, ModelSnapshot, SnapshotArrays, UpdateState, WebhookHost
from tests.annotation.test_erasure import CANARY, everything_in_the_database
from tests.modelling.studies import make_version

pytestmark = pytest.mark.django_db

LogIn = Callable[[User], Client]
Judge = Callable[..., Receipt]


@pytest.fixture
def study(project: Project, owner: User, analyst: User, judge: Judge) -> Project:
    """An archived study with everything in it: people, notes, an undo, versions with arrays, a pin, a webhook."""
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
    webhooks.add_webhook(project=project, user=owner, url="https://hooks.example.org/")
    services.invite(project=project, user=owner, role="viewer")
    services.archive_project(project=project, user=owner, archived=True)
    return project


@pytest.fixture
def neighbour(owner: User) -> Project:
    """Another study on the same server, with one judgement."""
    other = services.create_project(owner=owner, slug="plants", title="Plants", state="open")
    for key in ("a", "b"):
        other.items.create(key=key, text=key)
    return other


def remove_all() -> int:
    steps = 0
    while removal.remove_one():
        steps += 1
    return steps


def rows_of(project_pk: int) -> dict[str, int]:
    """How many rows of each kind still point to the project."""
    counts = {}
    for app in ("annotation", "modelling"):
        for model in apps.get_app_config(app).get_models():
            if any(field.name == "project" for field in model._meta.fields):
                counts[model.__name__] = model._default_manager.filter(project=project_pk).count()
    return {name: count for name, count in counts.items() if count}


def test_the_owner_types_its_name_and_everything_goes_but_one_line(
    study: Project, neighbour: Project, owner: User, judge: Judge, log_in: LogIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "BATCH", 2)
    judge(services.enrol(project=neighbour))
    before, head = rows_of(neighbour.pk), EventHead.objects.get(project=study)
    answer = log_in(owner).post("/projects/pets/delete/", {"typed": "pets"}, follow=True)
    assert "The project is deleted." in answer.text
    assert log_in(owner).get("/projects/pets/").status_code == 404
    assert Client().get("/s/pets/").status_code == 404
    assert remove_all() > 10
    assert rows_of(study.pk) == {}
    assert not Project.objects.filter(pk=study.pk).exists()
    assert not (Path(django_settings.DATA_DIR) / "snapshots" / str(study.pk)).exists()
    assert list((Path(django_settings.DATA_DIR) / "exports").iterdir()) == []
    assert CANARY not in everything_in_the_database()
    tombstone = Tombstone.objects.get()
    assert (tombstone.slug, tombstone.user) == ("pets", owner)
    assert (tombstone.events, tombstone.last_hash) == (head.sequence, head.hash)
    assert tombstone.removed_at is not None
    entry = AuditEntry.objects.get(action="deleted a project")
    assert entry.details == {"slug": "pets", "events": head.sequence, "last_hash": head.hash}
    assert rows_of(neighbour.pk) == before
    assert list(verification.problems_of(neighbour)) == []
    assert list(verification.missing_guards()) == []
    call_command("verify")


def test_what_was_typed_must_be_the_name(study: Project, owner: User, log_in: LogIn) -> None:
    client = log_in(owner)
    page = client.get("/projects/pets/delete/").text
    assert "This cannot be undone." in page
    for typed in ("", "Pets", "pets2"):
        answer = client.post("/projects/pets/delete/", {"typed": typed})
        assert answer.status_code == 422
        assert "Nothing was deleted." in answer.text
    assert not Tombstone.objects.exists()


def test_a_study_with_judgements_is_archived_first(
    project: Project, owner: User, worker: Worker, judge: Judge, log_in: LogIn
) -> None:
    judge(worker)
    assert "typed" not in log_in(owner).get("/projects/pets/delete/").text
    answer = log_in(owner).post("/projects/pets/delete/", {"typed": "pets"})
    assert answer.status_code == 422
    assert "Archive it first" in answer.text
    with pytest.raises(NotArchivedYet):
        services.delete_project(project=project, user=owner)
    assert Judgement.objects.count() == 1


def test_a_project_that_nobody_has_judged_goes_at_once(project: Project, owner: User) -> None:
    services.delete_project(project=project, user=owner)
    remove_all()
    assert rows_of(project.pk) == {}


def test_its_name_is_free_again(study: Project, owner: User) -> None:
    services.delete_project(project=study, user=owner)
    assert services.create_project(owner=owner, slug="pets", title="Pets").pk != study.pk


@pytest.mark.parametrize("kind", [Judgement, Retraction])
def test_events_of_other_projects_stay_guarded(
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


def test_a_killed_removal_is_gone_on_with(study: Project, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "BATCH", 2)
    services.delete_project(project=study, user=owner)
    for _ in range(7):
        assert removal.remove_one()
    left = sum(rows_of(study.pk).values())
    remove_all()
    assert left > 0
    assert rows_of(study.pk) == {}


def test_an_updater_at_work_on_it_loses_its_claim_and_others_do_not_take_it(
    study: Project, owner: User, neighbour: Project
) -> None:
    claiming.claim_one("one", study)
    services.delete_project(project=study, user=owner)
    assert updating.run_one("two", study) is None
    remove_all()
    claiming.back_off(study, "one", RuntimeError("the project went away"))
    assert updating.run_one("two") is None


def test_verify_finds_a_tombstone_of_a_project_that_lives(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    Tombstone.objects.create(project_number=project.pk, slug="pets", events=0)
    assert ["pets has a tombstone" in words for words in verification.open_graves()] == [True]


def test_administrators_do_not_see_what_is_being_removed(study: Project, owner: User, admin_user: User) -> None:
    services.delete_project(project=study, user=owner)
    assert not Project.objects.seen_by(admin_user).exists()


def test_the_command_removes_at_once(study: Project) -> None:
    with pytest.raises(CommandError, match="say --yes pets"):
        call_command("delete_project", "pets")
    call_command("delete_project", "pets", "--yes", "pets")
    assert rows_of(study.pk) == {}
