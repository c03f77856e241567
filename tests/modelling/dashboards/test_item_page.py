"""One item: its scores over the versions, who likes it, what is like it, and who judged it how."""

import csv
import io
from collections.abc import Callable

import numpy as np
import pytest
from django.test import Client

from annotation import services
from annotation.models import Item, Judgement, Project, User
from modelling.dashboards.item import ItemPage, item_page
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.updating import run_one
from tests.modelling.two_camps import estimator_of, fitted_study, grown_twin, statements

pytestmark = pytest.mark.django_db

RTOL = 1e-9  # the same sums in another order


@pytest.fixture
def snapshot(project: Project) -> ModelSnapshot:
    return fitted_study(project)


@pytest.fixture
def item(snapshot: ModelSnapshot) -> Item:
    return Item.objects.get(key="text-003")


@pytest.fixture
def page(snapshot: ModelSnapshot, item: Item) -> ItemPage:
    found = item_page(snapshot, item, 1)
    assert found is not None
    return found


def test_every_number_is_what_the_estimator_says(snapshot: ModelSnapshot, item: Item, page: ItemPage) -> None:
    model, stored = estimator_of(snapshot)
    i = int(np.flatnonzero(stored["item_ids"] == item.pk)[0])
    worker_at = {int(pk): place for place, pk in enumerate(stored["worker_ids"])}
    item_at = {int(pk): place for place, pk in enumerate(stored["item_ids"])}
    ranked = stored["ranked"]
    mean, sd = (each[0] for each in model.predict_utilities(items=[i], return_std=True, among=ranked))
    _, difference_sd = model.predict_differences(items=[i], among=ranked)
    consensus = model.predict_consensus(items=[i])[0]
    for each in page.more + page.less:
        u = worker_at[each.worker.pk]
        shown = [each.mean, each.sd, each.difference, each.difference_sd]
        expected = [mean[u], sd[u], mean[u] - consensus, difference_sd[0, u]]
        np.testing.assert_allclose(shown, expected, rtol=RTOL, atol=1e-12)
    assert [each.difference for each in page.more] == pytest.approx(sorted(mean - consensus)[::-1][:5])
    assert [each.difference for each in page.less] == pytest.approx(sorted(mean - consensus)[:5])
    alike = model.similarity([i])[0]
    assert [each.similarity for each in page.neighbours] == [
        alike[item_at[each.score.item_id]] for each in page.neighbours
    ]
    for answer in page.answers:
        u, b = worker_at[answer.worker.pk], item_at[answer.against.pk]
        assert answer.own == pytest.approx(model.predict_proba([u], [i], [b])[0], rel=RTOL)
        assert answer.crowd == pytest.approx(model.predict_consensus_proba([i], [b])[0], rel=RTOL)


def test_the_camp_of_an_item_likes_it_more(page: ItemPage) -> None:
    """text-003 is evidence and numbers."""
    assert {each.worker.traits["camp"] for each in page.more} == {"facts"}
    assert {each.worker.traits["camp"] for each in page.less} == {"stories"}


def test_its_neighbours_are_of_its_kind_and_it_is_not_among_them(item: Item, page: ItemPage) -> None:
    keys = [each.score.item.key for each in page.neighbours]
    assert item.key not in keys
    assert all(int(key[-3:]) % 3 == 0 for key in keys[:3])


def test_answers_are_told_from_the_side_of_the_item(item: Item, page: ItemPage) -> None:
    for answer in page.answers:
        judgement = Judgement.objects.get(sequence=answer.sequence)
        won = {"lo": judgement.item_lo_id, "hi": judgement.item_hi_id}.get(judgement.choice)
        assert answer.said == ("tie" if won is None else "this" if won == item.pk else "other")
    sequences = [answer.sequence for answer in page.answers]
    assert sequences == sorted(sequences, reverse=True)


def test_the_history_has_every_version_up_to_the_shown_one(
    snapshot: ModelSnapshot, project: Project, item: Item, judge: Callable[..., object]
) -> None:
    judge(services.enrol(project=project), "left")
    second = run_one("test")
    assert [score.snapshot.number for score in item_page(second, item, 1).history] == [2, 1]
    page = item_page(snapshot, item, 1)
    assert [score.snapshot.number for score in page.history] == [1]
    assert page.score == ConsensusScore.objects.get(snapshot=snapshot, item=item)
    picture = item_page(second, item, 1).pictures[0]
    assert picture.traces[0]["x"] == [1, 2]
    assert [row[0] for row in picture.table.rows] == [2, 1]


def test_the_page_is_reached_from_the_ranking_and_leads_to_the_editor(
    snapshot: ModelSnapshot, item: Item, analyst: User, log_in: Callable[[User], Client]
) -> None:
    client, where = log_in(analyst), f"/projects/pets/ranking/{item.pk}/"
    assert f'href="{where}"' in client.get("/projects/pets/ranking/").text
    answer = client.get(where)
    assert f'href="/projects/pets/items/{item.pk}/"' in answer.text
    assert item.text in answer.text
    rows = list(csv.DictReader(io.StringIO(client.get(f"{where}judgements.csv").text)))
    assert len(rows) == answer.context["page"].page.paginator.count
    assert {row["answer"] for row in rows} <= {"this", "other", "tie"}
    history = list(csv.reader(io.StringIO(client.get(f"{where}?csv=history").text)))
    assert [row[0] for row in history[1:]] == ["1"]


def test_an_older_revision_leads_to_the_newest_and_back(
    snapshot: ModelSnapshot, project: Project, item: Item, viewer: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(viewer)
    assert "corrected" not in client.get(f"/projects/pets/ranking/{item.pk}/").text
    second, third = (
        Item.objects.create(project=project, key=item.key, revision=number, text=f"Better {number}.", active=False)
        for number in (2, 3)
    )
    for older in (item, second):
        page = client.get(f"/projects/pets/ranking/{older.pk}/").text
        assert f"This is revision {older.revision}." in page
        assert f'href="/projects/pets/ranking/{third.pk}/"' in page
    newest = client.get(f"/projects/pets/ranking/{third.pk}/").text
    assert all(f'href="/projects/pets/ranking/{older.pk}/"' in newest for older in (item, second))
    assert "corrected since" not in newest


def test_items_unknown_and_unranked_say_so(
    snapshot: ModelSnapshot, project: Project, item: Item, owner: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    new = Item.objects.create(project=project, key="new", text="New.")
    assert "does not know this item yet" in client.get(f"/projects/pets/ranking/{new.pk}/").text
    ConsensusScore.objects.filter(item=item).delete()
    assert "not ranked in this version" in client.get(f"/projects/pets/ranking/{item.pk}/").text


def test_as_many_statements_for_three_times_the_study(
    snapshot: ModelSnapshot, project: Project, item: Item, owner: User, log_in: Callable[[User], Client]
) -> None:
    grown_twin(project, owner)
    client, other = log_in(owner), Item.objects.get(project__slug="twin", key="text-003")
    one = statements(client, f"/projects/pets/ranking/{item.pk}/")
    assert one == statements(client, f"/projects/twin/ranking/{other.pk}/") < 20
