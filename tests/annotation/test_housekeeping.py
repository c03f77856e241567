"""A whole project: copied, archived and brought back."""

from collections.abc import Callable

import pytest
from django.test import Client

from annotation import services
from annotation.curation import correct_item
from annotation.forms.projects import StateForm
from annotation.models import AuditEntry, Item, Project, User, Worker
from annotation.refusals import NotOpen
from annotation.services import Receipt
from annotation.services.copying import ITS_OWN, template_of

pytestmark = pytest.mark.django_db

LogIn = Callable[[User], Client]
Judge = Callable[..., Receipt]


# Copy


def test_a_copy_has_the_settings_and_the_newest_texts_and_nothing_else(
    project: Project, owner: User, worker: Worker, judge: Judge, log_in: LogIn
) -> None:
    judge(worker)
    question = {"question": "Which is funnier?", "redundancy": 7, "model_settings": {"seed": 5}}
    services.change_project(project=project, user=owner, changes={**question, "questionnaire": [{"name": "age"}]})
    correct_item(item=Item.objects.get(key="cats-1"), user=owner, text="Cats purr and purr.", group="cats")
    Item.objects.filter(key="dogs-1").update(active=False)
    answer = log_in(owner).post("/projects/pets/copy/", {"title": "Pets again", "slug": "", "with_items": "on"})
    assert answer["Location"] == "/projects/pets-again/"
    copy = Project.objects.get(slug="pets-again")
    assert template_of(copy) == template_of(Project.objects.get(slug="pets"))
    assert (copy.state, copy.role_of(owner)) == ("draft", "owner")
    texts = dict(copy.items.values_list("key", "text"))
    assert texts["cats-1"] == "Cats purr and purr."
    assert len(texts) == 6
    assert set(copy.items.values_list("revision", "load")) == {(1, 0)}
    assert not copy.judgements.exists()
    assert not copy.workers.exists()
    assert copy.import_salt != project.import_salt
    assert AuditEntry.objects.first().details == {"slug": "pets", "items": 6}


def test_a_copy_without_items_has_none(project: Project, owner: User, log_in: LogIn) -> None:
    log_in(owner).post("/projects/pets/copy/", {"title": "Bare", "slug": "bare"})
    assert not Project.objects.get(slug="bare").items.exists()


def test_every_setting_is_copied_or_named_as_the_study_s_own() -> None:
    assert {field.attname for field in Project._meta.concrete_fields} == ITS_OWN | set(template_of(Project()))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"title": "Pets", "slug": "pets"}, "already"),
        ({"title": ""}, "required"),
        ({"title": "New", "slug": "new"}, "address of Concord itself"),
    ],
)
def test_a_name_that_cannot_be_is_refused(
    fields: dict[str, str], words: str, project: Project, owner: User, log_in: LogIn
) -> None:
    answer = log_in(owner).post("/projects/pets/copy/", fields)
    assert answer.status_code == 422
    assert words in answer.text
    assert Project.objects.count() == 1


# Archive


def test_an_archived_project_leaves_the_lists_and_comes_back(
    project: Project, owner: User, viewer: User, log_in: LogIn
) -> None:
    client = log_in(owner)
    Project.objects.update(listed=True)
    assert "/s/pets/" in Client().get("/").text
    client.post("/projects/pets/archive/", {"archived": "on"})
    assert "/projects/pets/" not in client.get("/projects/").text
    assert "1 archived project" in client.get("/projects/").text
    assert "/projects/pets/" in client.get("/projects/?archived").text
    assert "/s/pets/" not in Client().get("/").text
    page = client.get("/projects/pets/").text
    assert "This project is archived" in page
    assert "Bring it back" in page
    assert "Open again" not in page
    assert "Bring it back" not in log_in(viewer).get("/projects/pets/").text
    client.post("/projects/pets/archive/")
    assert "/projects/pets/" in client.get("/projects/").text
    project.refresh_from_db()
    assert (project.archived_at, project.state) == (None, "closed")
    assert list(AuditEntry.objects.values_list("action", flat=True)[:2]) == [
        "brought the project back",
        "archived the project",
    ]


def test_workers_of_an_archived_study_find_it_closed(project: Project, worker: Worker, judge: Judge, rng) -> None:
    lease = services.lease_pairs(worker=worker, rng=rng)[0]
    services.archive_project(project=project, user=None, archived=True)
    assert "This study has closed." in Client().get("/s/pets/").text
    with pytest.raises(NotOpen):
        services.record_judgement(worker=worker, uuid=lease.public_id, assignment=lease.public_id, choice="left")


def test_a_refusal_says_what_is_kept_and_what_to_do(project: Project, owner: User, log_in: LogIn) -> None:
    services.archive_project(project=project, user=owner, archived=True)
    answer = log_in(owner).post("/projects/pets/settings/", {"title": "Other"})
    assert answer.status_code == 409
    for words in ("nothing in it can be changed", "Nothing was changed.", "An owner can bring it back"):
        assert words in answer.text
    assert not StateForm(Project.objects.get(), {"state": "open"}).is_valid()


def test_archiving_twice_is_archiving_once(project: Project) -> None:
    for _ in range(2):
        services.archive_project(project=project, user=None, archived=True)
    assert AuditEntry.objects.filter(action="archived the project").count() == 1
