"""The page of one item: score history, workers who rate it differently, similar items, judgements."""

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
from modelling.updater.update import update_one
from tests.modelling.samples.two_camps import load_estimator
from tests.modelling.samples.two_camps import snapshot as snapshot

pytestmark = pytest.mark.django_db

RTOL = 1e-9  # the same sums in another order


@pytest.fixture
def item(snapshot: ModelSnapshot) -> Item:
    return Item.objects.get(key="text-003")


@pytest.fixture
def page(snapshot: ModelSnapshot, item: Item) -> ItemPage:
    found = item_page(snapshot, item)
    assert found is not None
    return found


def test_every_number_is_the_estimators(snapshot: ModelSnapshot, item: Item, page: ItemPage) -> None:
    model, stored = load_estimator(snapshot)
    i = int(np.flatnonzero(stored["item_ids"] == item.pk)[0])
    worker_at = {int(pk): place for place, pk in enumerate(stored["worker_ids"])}
    item_at = {int(pk): place for place, pk in enumerate(stored["item_ids"])}
    ranked = stored["ranked"]
    mean, sd = (each[0] for each in model.predict_utilities(items=[i], return_std=True, among=ranked))
    _, difference_sd = model.predict_tastes(items=[i], among=ranked)
    t = model.predict_consensus()
    consensus = t[i] - t[ranked].mean()
    for each in page.above + page.below:
        u = worker_at[each.worker.pk]
        shown = [each.mean, each.sd, each.difference, each.difference_sd]
        expected = [mean[u], sd[u], mean[u] - consensus, difference_sd[0, u]]
        np.testing.assert_allclose(shown, expected, rtol=RTOL, atol=1e-12)
    assert [each.difference for each in page.above] == pytest.approx(sorted(mean - consensus)[::-1][:5])
    assert [each.difference for each in page.below] == pytest.approx(sorted(mean - consensus)[:5])
    alike = model.similarity([i])[0]
    assert [each.similarity for each in page.neighbours] == [
        alike[item_at[each.score.item_id]] for each in page.neighbours
    ]
    for judgement in page.judgements:
        u, b = worker_at[judgement.worker.pk], item_at[judgement.against.pk]
        assert judgement.own == pytest.approx(model.predict_proba([u], [i], [b])[0], rel=RTOL)
        assert judgement.crowd == pytest.approx(model.predict_consensus_proba([i], [b])[0], rel=RTOL)


def test_workers_of_the_items_camp_rate_it_higher(page: ItemPage) -> None:
    """text-003 is about evidence and numbers."""
    assert {each.worker.traits["camp"] for each in page.above} == {"facts"}
    assert {each.worker.traits["camp"] for each in page.below} == {"stories"}


def test_similar_items_are_of_its_kind_and_exclude_the_item_itself(item: Item, page: ItemPage) -> None:
    keys = [each.score.item.key for each in page.neighbours]
    assert item.key not in keys
    assert all(int(key[-3:]) % 3 == 0 for key in keys[:3])


def test_outcomes_are_relative_to_the_item(item: Item, page: ItemPage) -> None:
    for judgement in page.judgements:
        row = Judgement.objects.get(sequence=judgement.sequence)
        won = {"lo": row.item_lo_id, "hi": row.item_hi_id}.get(row.choice)
        assert judgement.outcome == ("tie" if won is None else "this" if won == item.pk else "other")
    sequences = [judgement.sequence for judgement in page.judgements]
    assert sequences == sorted(sequences, reverse=True)


def test_the_history_has_every_version_up_to_the_shown_one(
    snapshot: ModelSnapshot, project: Project, item: Item, judge: Callable[..., object]
) -> None:
    judge(services.enrol(project=project), "left")
    second = update_one("test")
    assert [score.snapshot.number for score in item_page(second, item).history] == [2, 1]
    page = item_page(snapshot, item)
    assert [score.snapshot.number for score in page.history] == [1]
    stored = ConsensusScore.objects.get(snapshot=snapshot, item=item)
    assert (page.score.mean, page.score.rank, page.score.size) == (stored.mean, stored.rank, 18)
    figure = item_page(second, item).figures[0]
    assert figure.traces[0]["x"] == [1, 2]
    assert [row[0] for row in figure.table.rows] == [2, 1]


def test_the_ranking_links_to_the_page_and_the_page_to_the_editor(
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


def test_revisions_link_to_each_other(
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


def test_unknown_and_unranked_items_have_a_notice(
    snapshot: ModelSnapshot, project: Project, item: Item, owner: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    new = Item.objects.create(project=project, key="new", text="New.")
    assert "does not include this item yet" in client.get(f"/projects/pets/ranking/{new.pk}/").text
    ConsensusScore.objects.filter(item=item).delete()
    assert "not ranked in this version" in client.get(f"/projects/pets/ranking/{item.pk}/").text
