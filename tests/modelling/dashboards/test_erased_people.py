"""Somebody was erased with all they had said, and no version has been learned since: nobody is shown them any more."""

from collections.abc import Callable

import pytest
from django.test import Client

from annotation import services
from annotation.models import User, Worker
from modelling.dashboards import activity, answers
from modelling.dashboards.activity import agreement_of
from modelling.dashboards.answers import tally_of
from modelling.models import ModelSnapshot
from tests.modelling.exported import bytes_of

pytestmark = pytest.mark.django_db


def erase(worker: Worker, *, with_judgements: bool = True) -> None:
    services.erase_worker(worker=worker, user=None, remove_judgements=with_judgements)


# What is counted


def test_what_was_counted_before_is_counted_again_without_them(snapshot: ModelSnapshot, crowd: list[Worker]) -> None:
    tally_of(snapshot), agreement_of(snapshot)
    erase(crowd[0])
    tally, agreement = tally_of(snapshot), agreement_of(snapshot)
    assert tally.answers.tolist() == [0, 6, 6, 6]
    answers._tally.cache_clear()
    activity._agreement.cache_clear()
    assert tally_of(snapshot).agreed.tolist() == tally.agreed.tolist()
    assert agreement_of(snapshot) == agreement


def test_while_nobody_is_erased_a_version_is_counted_once(
    snapshot: ModelSnapshot, crowd: list[Worker], judge: Callable[..., object]
) -> None:
    before = tally_of(snapshot), agreement_of(snapshot)
    judge(crowd[1])
    assert tally_of(snapshot) is before[0]
    assert agreement_of(snapshot) is before[1]


# Who is shown


EXPORTS = ("judgements", "utilities", "workers")


def seen_by(client: Client, snapshot: ModelSnapshot) -> dict[str, str]:
    """Every page and file of the shown version that tells of single workers."""
    item = snapshot.scores.get(rank=1).item_id
    ends = ["workers/", "workers.csv", "components/", "components.csv", "ranking/best/", "ranking/best/judgements.csv"]
    pages = {end: client.get(f"/projects/pets/{end.replace('best', str(item))}") for end in ends}
    assert {end: answer.status_code for end, answer in pages.items()} == dict.fromkeys(ends, 200)
    files = {what: bytes_of(snapshot.project, what).decode() for what in EXPORTS}
    return {**{end: answer.getvalue().decode() for end, answer in pages.items()}, **files}


def test_a_person_erased_with_their_judgements_is_on_no_page_and_in_no_file(
    snapshot: ModelSnapshot, crowd: list[Worker], owner: User, log_in: Callable[[User], Client]
) -> None:
    client, leaver = log_in(owner), crowd[0]
    before = {end for end, text in seen_by(client, snapshot).items() if leaver.code in text}
    assert {"workers/", "workers.csv", "ranking/best/", *EXPORTS} <= before
    erase(leaver)
    after = seen_by(client, snapshot)
    assert [end for end, text in after.items() if leaver.code in text] == []
    assert all(crowd[1].code in after[end] for end in ("workers/", "workers.csv", *EXPORTS))


@pytest.mark.parametrize("end", ["", "?fragment=1", "?csv=beside", "preferences.csv", "judgements.csv"])
def test_their_code_is_unknown_at_once_as_that_of_a_stranger(
    snapshot: ModelSnapshot, crowd: list[Worker], owner: User, log_in: Callable[[User], Client], end: str
) -> None:
    erase(crowd[0])
    client = log_in(owner)
    answer = client.get(f"/projects/pets/workers/{crowd[0].code}/{end}")
    assert answer.status_code == 404
    assert "There is nothing at this address." in answer.text
    pairs = client.get("/projects/pets/pairs/", {"items": "cats-1,cats-2", "worker": crowd[0].code})
    assert "There is no worker with this code in the project." in pairs.text


def test_whoever_is_erased_but_leaves_their_judgements_stays_under_their_code(
    snapshot: ModelSnapshot, crowd: list[Worker], owner: User, log_in: Callable[[User], Client]
) -> None:
    erase(crowd[0], with_judgements=False)
    client = log_in(owner)
    assert crowd[0].code in client.get("/projects/pets/workers/").text
    assert client.get(f"/projects/pets/workers/{crowd[0].code}/").status_code == 200
