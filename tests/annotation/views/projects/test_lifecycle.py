"""Copying, archiving and restoring a project."""

from collections.abc import Callable

import pytest
from django.test import Client

from annotation import services
from annotation.exceptions import StudyNotOpen
from annotation.forms.projects import StateForm
from annotation.models import AuditEntry, Item, Project, User, Worker
from annotation.services import Receipt
from annotation.services.items import correct_item
from annotation.services.projects import NOT_COPIED, copied_settings

pytestmark = pytest.mark.django_db

LogIn = Callable[[User], Client]
Judge = Callable[..., Receipt]


# Copy


@pytest.mark.both_databases
def test_a_copy_has_the_settings_and_newest_texts_only(
    project: Project, owner: User, worker: Worker, judge: Judge, log_in: LogIn
) -> None:
    judge(worker)
    question = {"question": "Which is funnier?", "redundancy": 7, "model_settings": {"seed": 5}}
    services.change_project(project=project, user=owner, changes={**question, "questionnaire": [{"name": "age"}]})
    correct_item(item=Item.objects.get(key="cats-1"), user=owner, text="Cats purr and purr.", group="cats")
    Item.objects.filter(key="dogs-1").update(active=False)
    response = log_in(owner).post("/projects/pets/copy/", {"title": "Pets again", "slug": "", "with_items": "on"})
    assert response["Location"] == "/projects/pets-again/"
    copy = Project.objects.get(slug="pets-again")
    assert copied_settings(copy) == copied_settings(Project.objects.get(slug="pets"))
    assert (copy.state, copy.role_of(owner)) == ("draft", "owner")
    texts = dict(copy.items.values_list("key", "text"))
    assert texts["cats-1"] == "Cats purr and purr."
    assert len(texts) == 6
    assert set(copy.items.values_list("revision", "load")) == {(1, 0)}
    assert not copy.judgements.exists()
    assert not copy.workers.exists()
    assert copy.import_salt != project.import_salt
    assert AuditEntry.objects.first().details == {"slug": "pets", "items": 6}


def test_a_copy_without_items(project: Project, owner: User, log_in: LogIn) -> None:
    log_in(owner).post("/projects/pets/copy/", {"title": "Bare", "slug": "bare"})
    assert not Project.objects.get(slug="bare").items.exists()


def test_every_field_is_copied_or_explicitly_excluded() -> None:
    assert {field.attname for field in Project._meta.concrete_fields} == NOT_COPIED | set(copied_settings(Project()))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"title": "Pets", "slug": "pets"}, "already"),
        ({"title": ""}, "required"),
        ({"title": "New", "slug": "new"}, "is reserved"),
    ],
)
def test_an_invalid_name_is_rejected(
    fields: dict[str, str], message: str, project: Project, owner: User, log_in: LogIn
) -> None:
    response = log_in(owner).post("/projects/pets/copy/", fields)
    assert response.status_code == 422
    assert message in response.text
    assert Project.objects.count() == 1


# Archive


def test_an_archived_project_is_hidden_and_can_be_restored(
    project: Project, owner: User, viewer: User, log_in: LogIn
) -> None:
    client = log_in(owner)
    Project.objects.update(listed=True)
    assert "/s/pets/" in Client().get("/").text
    client.post("/projects/pets/archive/", {"archived": "on"})
    assert "/projects/pets/" not in client.get("/projects/").text
    assert "1 archived study" in client.get("/projects/").text
    assert "/projects/pets/" in client.get("/projects/?archived").text
    assert "/s/pets/" not in Client().get("/").text
    page = client.get("/projects/pets/").text
    assert "This study is archived" in page
    assert "Restore the study" in page
    assert "Reopen the study" not in page
    assert "Restore the study" not in log_in(viewer).get("/projects/pets/").text
    client.post("/projects/pets/archive/")
    assert "/projects/pets/" in client.get("/projects/").text
    project.refresh_from_db()
    assert (project.archived_at, project.state) == (None, "closed")
    assert list(AuditEntry.objects.values_list("action", flat=True)[:2]) == [
        "restored the project",
        "archived the project",
    ]


def test_an_archived_study_is_closed_for_workers(project: Project, worker: Worker, judge: Judge, rng) -> None:
    lease = services.lease_pairs(worker=worker, rng=rng)[0]
    services.archive_project(project=project, user=None, archived=True)
    assert "This study is closed." in Client().get("/s/pets/").text
    with pytest.raises(StudyNotOpen):
        services.record_judgement(worker=worker, uuid=lease.public_id, assignment=lease.public_id, choice="left")


def test_changing_an_archived_project_is_rejected_with_advice(project: Project, owner: User, log_in: LogIn) -> None:
    services.archive_project(project=project, user=owner, archived=True)
    response = log_in(owner).post("/projects/pets/settings/", {"title": "Other"})
    assert response.status_code == 409
    for text in ("cannot be changed", "Nothing was changed.", "An owner can restore it"):
        assert text in response.text
    assert not StateForm(Project.objects.get(), {"state": "open"}).is_valid()


def test_archiving_is_idempotent(project: Project) -> None:
    for _ in range(2):
        services.archive_project(project=project, user=None, archived=True)
    assert AuditEntry.objects.filter(action="archived the project").count() == 1
