"""Fragments fetched by open pages: 304 while unchanged, sent again when anything on them differs."""

from collections.abc import Callable

import pytest
from django.test import Client

from annotation import services
from annotation.models import Item, Project, User, Worker
from annotation.services.items import set_item_active
from modelling.dashboards.common.freshness import latest_changes
from modelling.models import ModelSnapshot
from modelling.training.components.numbering import name_component
from tests.modelling.samples.two_camps import make_fitted_study

pytestmark = pytest.mark.django_db

PAGES = ["activity", "components", "ranking", "workers", "reliability", "pairs", "new-argument"]


def pause(project: Project, owner: User, crowd: list[Worker]) -> None:
    services.change_project(project=project, user=owner, changes={"state": Project.State.PAUSED})


def deactivate_an_item(project: Project, owner: User, crowd: list[Worker]) -> None:
    set_item_active(item=Item.objects.filter(project=project)[0], user=owner, active=False)


def erase_a_worker(project: Project, owner: User, crowd: list[Worker]) -> None:
    services.erase_worker(worker=crowd[0], user=owner, remove_judgements=True)


@pytest.mark.parametrize("end", PAGES)
def test_an_unchanged_fragment_is_not_sent_again(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client], end: str
) -> None:
    client, address = log_in(owner), f"/projects/pets/{end}/?fragment=1"
    client.get(address)  # the first response sets the CSRF cookie
    first = client.get(address)
    again = client.get(address, headers={"if-none-match": first["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    assert "Cookie" in again["Vary"]


@pytest.mark.parametrize(
    ("end", "change"),
    [
        ("activity", pause),
        ("activity", deactivate_an_item),
        ("workers", erase_a_worker),
    ],
)
def test_a_change_by_a_user_is_sent_and_announced_to_open_pages(
    snapshot: ModelSnapshot,
    crowd: list[Worker],
    owner: User,
    log_in: Callable[[User], Client],
    end: str,
    change: Callable[[Project, User, list[Worker]], None],
) -> None:
    client, address = log_in(owner), f"/projects/pets/{end}/?fragment=1"
    client.get(address)
    before, known = client.get(address), latest_changes([snapshot.project_id])
    change(snapshot.project, owner, crowd)
    after = client.get(address, headers={"if-none-match": before["ETag"]})
    assert after.status_code == 200
    assert [changed for _project, _event, changed in latest_changes([snapshot.project_id])] > [known[0][2]]


def test_a_new_name_of_a_component_is_sent_and_announced_to_open_pages(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    make_fitted_study(project)
    client, address = log_in(owner), "/projects/pets/components/?fragment=1"
    client.get(address)
    before, known = client.get(address), latest_changes([project.pk])
    name_component(project=project, user=owner, number=1, name="Fur")
    assert "Fur" in client.get(address, headers={"if-none-match": before["ETag"]}).text
    assert [changed for _project, _event, changed in latest_changes([project.pk])] > [known[0][2]]


def test_the_number_of_active_workers_is_sent_even_without_new_events(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    client, address = log_in(owner), "/projects/pets/activity/?fragment=1"
    etag = client.get(address)["ETag"]
    Worker.objects.filter(project=snapshot.project).update(state=Worker.State.FINISHED)
    assert client.get(address, headers={"if-none-match": etag}).status_code == 200


def test_the_etag_depends_on_the_role(
    snapshot: ModelSnapshot, owner: User, viewer: User, log_in: Callable[[User], Client]
) -> None:
    address = "/projects/pets/ranking/?fragment=1"
    etag = log_in(owner).get(address)["ETag"]
    assert log_in(viewer).get(address, headers={"if-none-match": etag}).status_code == 200
