"""The ranking page: every number is the estimator's, however it is searched and sorted."""

from collections.abc import Callable

import numpy as np
import pytest
from django.http import QueryDict
from django.test import Client
from scipy.special import ndtr

from annotation.models import Item, Project, User
from modelling.dashboards import ranking
from modelling.dashboards.common.ranked_entries import ranked_entries
from modelling.dashboards.ranking import MERGED, RankingQuery, ranking_page
from modelling.findings.versions import get_findings
from modelling.models import ModelSnapshot
from modelling.training.snapshots import FittedModel
from modelling.updater.update import update_one
from tests.modelling.samples.two_camps import make_fitted_study, make_study

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_the_probability_of_an_order_uses_the_joint_posterior(snapshot: ModelSnapshot, fitted: FittedModel) -> None:
    page = ranking_page(snapshot, RankingQuery(part=MERGED))
    at = [int(np.flatnonzero(fitted.item_ids == row.score.item_id)[0]) for row in page.rows]
    mean, cov = fitted.model.predict_consensus(items=np.array(at), return_cov=True)
    for i, row in enumerate(page.rows[:-1]):
        spread = np.sqrt(cov[i, i] + cov[i + 1, i + 1] - 2 * cov[i, i + 1])
        assert row.above_next == pytest.approx(ndtr((mean[i] - mean[i + 1]) / spread))
        assert row.above_next >= 0.5
        assert row.score.mean == pytest.approx(mean[i] - mean.mean())
    assert page.rows[-1].above_next is None


def test_the_last_row_of_a_page_is_compared_with_the_first_of_the_next(
    snapshot: ModelSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [row.above_next for row in ranking_page(snapshot, RankingQuery(part=MERGED)).rows]
    monkeypatch.setattr(ranking, "PER_PAGE", 3)
    pages = [ranking_page(snapshot, RankingQuery(part=MERGED, page=str(n))).rows for n in (1, 2, 3)]
    assert [row.above_next for rows in pages for row in rows][:-1] == pytest.approx(whole[:-1])


@pytest.mark.parametrize(("labelled", "scores", "ranks"), [(40, "x", "y"), (0, "y", "x")])
def test_figures_have_the_numbers_of_the_table(
    snapshot: ModelSnapshot, labelled: int, scores: str, ranks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few items are listed below each other by name, many beside each other."""
    monkeypatch.setattr(ranking, "MAX_LABELLED", labelled)
    page = ranking_page(snapshot, RankingQuery(part=MERGED))
    intervals, divides = (figure.plotly["data"][0] for figure in page.figures)
    half_widths = intervals[f"error_{scores}"]["array"]
    np.testing.assert_allclose(intervals[scores], [row.score.mean for row in page.rows], atol=1e-4)
    np.testing.assert_allclose(half_widths, [1.96 * row.score.sd for row in page.rows], atol=1e-4)
    assert intervals[ranks] == [row.score.rank for row in page.rows]
    np.testing.assert_allclose(divides["y"], [row.score.polarisation for row in page.rows], atol=1e-4)


def test_figures_of_some_items_have_a_notice(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = log_in(owner)
    assert "The figures show" not in client.get("/projects/pets/ranking/").text
    monkeypatch.setattr(ranking, "MAX_POINTS", 3)
    assert "The figures show the best 3 of 7 items" in client.get("/projects/pets/ranking/").text
    assert len(ranking_page(snapshot, RankingQuery()).figures[0].plotly["data"][0]["x"]) == 3


def test_plotly_accepts_the_traces(snapshot: ModelSnapshot) -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects")
    for figure in ranking_page(snapshot, RankingQuery()).figures:
        for trace in figure.plotly["data"]:
            kind = {"scatter": graph_objects.Scatter}[trace["type"]]
            assert kind({**trace, "marker": {}, "error_x": {}, "error_y": {}}).x is not None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", RankingQuery()),
        ("group=cats&q=purr&sort=divides&page=2", RankingQuery("cats", "purr", "divides", "2")),
        ("part=2", RankingQuery(part="2")),
        ("part=merged", RankingQuery(part=MERGED)),
        ("part=all", RankingQuery()),
        ("sort=password", RankingQuery()),
        ("q=%00x", RankingQuery(search="x")),
    ],
)
def test_unknown_query_parameters_give_the_defaults(query: str, expected: RankingQuery) -> None:
    assert RankingQuery.parse(QueryDict(query)) == expected


def test_a_search_finds_keys_and_texts_and_a_group_its_items(snapshot: ModelSnapshot) -> None:
    assert [row.item.key for row in ranking_page(snapshot, RankingQuery(search="PURR")).rows] == ["cats-1"]
    found = ranking_page(snapshot, RankingQuery(group="dogs"))
    assert {row.item.group for row in found.rows} == {"dogs"}
    assert ranking_page(snapshot, RankingQuery(search="no such words")).rows == []


def test_sorting_by_polarisation_keeps_the_ranks(snapshot: ModelSnapshot) -> None:
    rows = ranking_page(snapshot, RankingQuery(order="divides", part=MERGED)).rows
    spread = [row.score.polarisation for row in rows]
    assert spread == sorted(spread, reverse=True)
    assert {row.score.rank for row in rows} == set(range(1, 8))


def test_tiers_are_those_of_the_claims(project: Project) -> None:
    camps = make_fitted_study(project)
    claimed = {
        item.pk: tier
        for group in get_findings(camps).groups
        for item, tier in zip(group.items, group.claims.tier.tolist(), strict=True)
    }
    assert {each.item_id: each.tier for each in ranked_entries(camps).values()} == claimed
    assert len(set(claimed.values())) > 1


def test_item_texts_are_escaped_in_figures(snapshot: ModelSnapshot) -> None:
    Item.objects.filter(key="cats-1").update(text='<a href="javascript:alert(1)">x</a> & more')
    drawn = ranking_page(snapshot, RankingQuery(search="cats-1")).figures[0].plotly["data"][0]["text"][0]
    assert "<" not in drawn
    assert "&lt;a href" in drawn


def test_pages_state_the_size_of_intervals_once(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    client, item = log_in(owner), snapshot.scores.earliest("pk").item_id
    for page in ("ranking/", f"ranking/{item}/", "new-argument/?text=Cats"):
        text = client.get(f"/projects/pets/{page}").text
        assert text.count("Intervals, error bars and ± show 95 % intervals.") == 1, page
        assert "90 % intervals" not in text


def test_items_that_were_never_judged_are_counted_and_marked(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    make_study(project)
    for n in (1, 2):
        Item.objects.create(project=project, key=f"new-{n}", text=f"Plain words, reason {n + 20}.", group="texts")
    made = update_one("test")
    assert made is not None
    page = ranking_page(made, RankingQuery())
    assert {row.item.key for row in page.rows if row.score.by_text_alone} == {"new-1", "new-2"}
    assert (page.n_parts, page.n_unjudged) == (1, 2)
    text = log_in(owner).get("/projects/pets/ranking/").text
    assert "2 items were never judged. Their ranks come from their texts alone" in text
    assert text.count('<small class="muted">text only</small>') == 2


def test_a_ranking_of_judged_items_mentions_no_others(
    project: Project, owner: User, log_in: Callable[[User], Client]
) -> None:
    make_fitted_study(project)
    text = log_in(owner).get("/projects/pets/ranking/").text
    assert "never judged" not in text
    assert "text only" not in text


def test_a_version_of_an_earlier_release_says_that_its_rank_intervals_are_90_percent(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    ModelSnapshot.objects.filter(pk=snapshot.pk).update(code_version="0.6.0")
    client = log_in(owner)
    assert "90 % intervals" in client.get(f"/projects/pets/ranking/?part={MERGED}").text
    assert "90 % intervals" not in client.get("/projects/pets/ranking/").text
