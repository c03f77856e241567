"""What an open page fetches after a change: not sent again while it says the same, sent when anything on it differs."""

from collections.abc import Callable

import pytest
from django.test import Client

from annotation import services
from annotation.curation import switch_item
from annotation.models import Item, Project, User, Worker
from modelling.dashboards.freshness import heads
from modelling.models import ModelSnapshot
from modelling.numbering import name_component

pytestmark = pytest.mark.django_db

PAGES = ["activity", "components", "ranking", "workers", "pairs", "new-argument"]


def name_the_first(project: Project, owner: User, crowd: list[Worker]) -> None:
    name_component(project=project, user=owner, number=1, name="Fur")


def pause(project: Project, owner: User, crowd: list[Worker]) -> None:
    services.change_project(project=project, user=owner, changes={"state": Project.State.PAUSED})


def switch_one_off(project: Project, owner: User, crowd: list[Worker]) -> None:
    switch_item(item=Item.objects.filter(project=project)[0], user=owner, active=False)


def erase_one(project: Project, owner: User, crowd: list[Worker]) -> None:
    services.erase_worker(worker=crowd[0], user=owner, remove_judgements=True)


@pytest.mark.parametrize("end", PAGES)
def test_a_fragment_that_says_the_same_is_not_sent_again(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client], end: str
) -> None:
    client, address = log_in(owner), f"/projects/pets/{end}/?fragment=1"
    client.get(address)  # the first visit brings the cookie of the forms
    first = client.get(address)
    again = client.get(address, headers={"if-none-match": first["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    assert "Cookie" in again["Vary"]


@pytest.mark.parametrize(
    ("end", "change"),
    [("components", name_the_first), ("activity", pause), ("activity", switch_one_off), ("workers", erase_one)],
)
def test_whatever_somebody_changes_by_hand_is_sent_and_open_pages_hear_of_it(
    snapshot: ModelSnapshot,
    crowd: list[Worker],
    owner: User,
    log_in: Callable[[User], Client],
    end: str,
    change: Callable[[Project, User, list[Worker]], None],
) -> None:
    client, address = log_in(owner), f"/projects/pets/{end}/?fragment=1"
    client.get(address)
    before, told = client.get(address), heads([snapshot.project_id])
    change(snapshot.project, owner, crowd)
    after = client.get(address, headers={"if-none-match": before["ETag"]})
    assert after.status_code == 200
    assert [changed for _project, _labels, changed in heads([snapshot.project_id])] > [told[0][2]]


def test_how_many_are_at_work_is_sent_though_nobody_has_judged_or_changed_anything(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    client, address = log_in(owner), "/projects/pets/activity/?fragment=1"
    etag = client.get(address)["ETag"]
    Worker.objects.filter(project=snapshot.project).update(state=Worker.State.FINISHED)
    assert client.get(address, headers={"if-none-match": etag}).status_code == 200


def test_what_an_owner_has_seen_is_not_what_a_viewer_is_told_is_the_same(
    snapshot: ModelSnapshot, owner: User, viewer: User, log_in: Callable[[User], Client]
) -> None:
    address = "/projects/pets/ranking/?fragment=1"
    etag = log_in(owner).get(address)["ETag"]
    assert log_in(viewer).get(address, headers={"if-none-match": etag}).status_code == 200
