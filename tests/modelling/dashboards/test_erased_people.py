"""A person erased with their judgements disappears from all pages and files at once, before the next version."""

from collections.abc import Callable

import pytest
from django.test import Client

from annotation import services
from annotation.models import User, Worker
from modelling.dashboards import progress
from modelling.dashboards.common import judgements
from modelling.dashboards.common.judgements import worker_tally
from modelling.dashboards.progress import compute_agreement
from modelling.models import ModelSnapshot
from tests.modelling.exports.samples import export_bytes

pytestmark = pytest.mark.django_db


def erase(worker: Worker, *, with_judgements: bool = True) -> None:
    services.erase_worker(worker=worker, user=None, remove_judgements=with_judgements)


# Counts


def test_counts_are_computed_again_without_an_erased_worker(snapshot: ModelSnapshot, crowd: list[Worker]) -> None:
    worker_tally(snapshot), compute_agreement(snapshot)
    erase(crowd[0])
    tally, agreement = worker_tally(snapshot), compute_agreement(snapshot)
    assert tally.judgements.tolist() == [0, 6, 6, 6]
    judgements._tally.cache_clear()
    progress._agreement.cache_clear()
    assert worker_tally(snapshot).agreed.tolist() == tally.agreed.tolist()
    assert compute_agreement(snapshot) == agreement


def test_counts_of_a_version_are_cached(
    snapshot: ModelSnapshot, crowd: list[Worker], judge: Callable[..., object]
) -> None:
    before = worker_tally(snapshot), compute_agreement(snapshot)
    judge(crowd[1])
    assert worker_tally(snapshot) is before[0]
    assert compute_agreement(snapshot) is before[1]


# Pages and files


EXPORTS = ("judgements", "utilities", "workers")


def seen_by(client: Client, snapshot: ModelSnapshot) -> dict[str, str]:
    """Return the content of every page and file about individual workers."""
    item = snapshot.scores.get(rank=1).item_id
    ends = ["workers/", "workers.csv", "components/", "components.csv", "ranking/best/", "ranking/best/judgements.csv"]
    pages = {end: client.get(f"/projects/pets/{end.replace('best', str(item))}") for end in ends}
    assert {end: answer.status_code for end, answer in pages.items()} == dict.fromkeys(ends, 200)
    files = {what: export_bytes(snapshot.project, what).decode() for what in EXPORTS}
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


@pytest.mark.parametrize("end", ["", "?fragment=1", "?csv=contributions", "preferences.csv", "judgements.csv"])
def test_an_erased_workers_code_gives_the_same_404_as_an_unknown_one(
    snapshot: ModelSnapshot, crowd: list[Worker], owner: User, log_in: Callable[[User], Client], end: str
) -> None:
    erase(crowd[0])
    client = log_in(owner)
    answer = client.get(f"/projects/pets/workers/{crowd[0].code}/{end}")
    assert answer.status_code == 404
    assert "There is no page at this address." in answer.text
    pairs = client.get("/projects/pets/pairs/", {"items": "cats-1,cats-2", "worker": crowd[0].code})
    assert "There is no worker with this code in the study." in pairs.text


def test_a_person_erased_without_their_judgements_stays_under_their_code(
    snapshot: ModelSnapshot, crowd: list[Worker], owner: User, log_in: Callable[[User], Client]
) -> None:
    erase(crowd[0], with_judgements=False)
    client = log_in(owner)
    assert crowd[0].code in client.get("/projects/pets/workers/").text
    assert client.get(f"/projects/pets/workers/{crowd[0].code}/").status_code == 200
