"""The ranking page: every number is the estimator's, whatever is searched, sorted or asked."""

from collections.abc import Callable

import numpy as np
import pytest
from django.http import QueryDict
from django.test import Client
from scipy.special import ndtr

from annotation.models import Item, User
from modelling.dashboards import ranking, ranking_pictures
from modelling.dashboards.ranking import Asked, ranking_page, tiers_of
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.snapshots import Fitted

pytestmark = pytest.mark.django_db


def test_how_sure_an_order_is_comes_from_the_joint_posterior(snapshot: ModelSnapshot, fitted: Fitted) -> None:
    page = ranking_page(snapshot, Asked())
    at = [int(np.flatnonzero(fitted.item_ids == row.score.item_id)[0]) for row in page.rows]
    mean, cov = fitted.model.predict_consensus(items=np.array(at), return_cov=True)
    for i, row in enumerate(page.rows[:-1]):
        spread = np.sqrt(cov[i, i] + cov[i + 1, i + 1] - 2 * cov[i, i + 1])
        assert row.above_next == pytest.approx(ndtr((mean[i] - mean[i + 1]) / spread))
        assert row.above_next >= 0.5
        assert row.score.mean == mean[i]
    assert page.rows[-1].above_next is None


def test_pictures_draw_what_the_table_says(snapshot: ModelSnapshot) -> None:
    page = ranking_page(snapshot, Asked())
    intervals, divides = (picture.figure["data"][0] for picture in page.pictures)
    np.testing.assert_allclose(intervals["y"], [row.score.mean for row in page.rows], atol=1e-4)
    np.testing.assert_allclose(intervals["error_y"]["array"], [1.96 * row.score.sd for row in page.rows], atol=1e-4)
    np.testing.assert_allclose(divides["y"], [row.score.polarisation for row in page.rows], atol=1e-4)


def test_pictures_of_some_say_so(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = log_in(owner)
    assert "The pictures show" not in client.get("/projects/pets/ranking/").text
    for module in (ranking, ranking_pictures):
        monkeypatch.setattr(module, "MOST_DRAWN", 3)
    assert "The pictures show the 3 best of 7 items" in client.get("/projects/pets/ranking/").text
    assert len(ranking_page(snapshot, Asked()).pictures[0].figure["data"][0]["x"]) == 3


def test_the_plotly_library_knows_every_word_of_the_figures(snapshot: ModelSnapshot) -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects")
    for picture in ranking_page(snapshot, Asked()).pictures:
        for trace in picture.figure["data"]:
            kind = {"scatter": graph_objects.Scatter}[trace["type"]]
            assert kind({**trace, "marker": {}, "error_y": {}}).x is not None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", Asked()),
        ("group=cats&q=purr&sort=divides&page=2", Asked("cats", "purr", "divides", 2)),
        ("sort=password&page=-1", Asked()),
        ("page=99999999999999999999&q=%00x", Asked(words="x")),
    ],
)
def test_an_address_asks_only_for_what_there_is(query: str, expected: Asked) -> None:
    assert Asked.of(QueryDict(query)) == expected


def test_a_search_finds_keys_and_texts_and_a_group_its_items(snapshot: ModelSnapshot) -> None:
    assert [row.score.item.key for row in ranking_page(snapshot, Asked(words="PURR")).rows] == ["cats-1"]
    found = ranking_page(snapshot, Asked(group="dogs"))
    assert {row.score.item.group for row in found.rows} == {"dogs"}
    assert ranking_page(snapshot, Asked(words="no such words")).rows == []


def test_sorting_by_what_divides_people_keeps_the_ranks(snapshot: ModelSnapshot) -> None:
    rows = ranking_page(snapshot, Asked(order="divides")).rows
    spread = [row.score.polarisation for row in rows]
    assert spread == sorted(spread, reverse=True)
    assert {row.score.rank for row in rows} == set(range(1, 8))


def test_a_new_tier_begins_where_intervals_no_longer_overlap(snapshot: ModelSnapshot) -> None:
    intervals = [(1, 2), (1, 3), (3, 4), (3, 4), (5, 7), (4, 7), (6, 7)]
    for score, (low, high) in zip(snapshot.scores.order_by("rank"), intervals, strict=True):
        ConsensusScore.objects.filter(pk=score.pk).update(rank_low=low, rank_high=high)
    in_order = snapshot.scores.order_by("rank").values_list("item_id", flat=True)
    tiers = tiers_of(snapshot)
    assert [tiers[item] for item in in_order] == [1, 1, 2, 2, 3, 3, 3]


def test_a_text_cannot_bring_tags_into_a_picture(snapshot: ModelSnapshot) -> None:
    Item.objects.filter(key="cats-1").update(text='<a href="javascript:alert(1)">x</a> & more')
    drawn = ranking_page(snapshot, Asked(words="cats-1")).pictures[0].figure["data"][0]["text"][0]
    assert "<" not in drawn
    assert "&lt;a href" in drawn
