"""A study in several parts that were never compared: ranks within the parts, and a merged list only with its label."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from django.test import Client

from annotation.models import Item, Project, User
from modelling.dashboards.common import ranked_entries as module
from modelling.dashboards.common.freshness import get_freshness
from modelling.dashboards.common.ranked_entries import RankedEntry, ranked_entries
from modelling.dashboards.ranking import MERGED, RankingQuery, ranking_page
from modelling.dashboards.workers.personal_scores import PersonalScore
from modelling.exports.catalogue import TABLES
from modelling.models import ModelSnapshot
from modelling.training.snapshots import load_fitted_model
from modelling.training.storage.array_store import DamagedArrays
from modelling.training.votes import get_votes
from modelling.web.api.tokens import create_token
from tests.modelling.exports.samples import csv_rows, export_bytes, export_table, fit
from tests.modelling.samples.histories import make_study

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

SEPARATE = "parts, and no item was compared with one from another part"


@pytest.fixture
def study(owner: User) -> Project:
    """Three parts by judgements, though all items are in one group: 0 > 1 > 2, 3 > 4, and 5 without judgements."""
    pairs = [(0, 1), (1, 2), (0, 2), (3, 4)]
    return make_study("parts", [(who, a, b, "first") for who in range(3) for a, b in pairs], owner=owner)


@pytest.fixture
def version(study: Project) -> ModelSnapshot:
    return fit(study)


def ranks(entries: dict[int, RankedEntry], study: Project) -> list[int | None]:
    return [entries[item.pk].rank for item in Item.objects.filter(project=study).order_by("pk")]


def test_items_are_ranked_within_their_part(study: Project, version: ModelSnapshot) -> None:
    entries = ranked_entries(version)
    assert ranks(entries, study) == [1, 2, 3, 1, 2, None]
    assert [each.size for each in entries.values()] == [3, 3, 3, 2, 2, 0]
    assert all(1 <= each.rank_low <= each.rank <= each.rank_high <= each.size for each in entries.values() if each.rank)


def test_scores_of_a_part_are_relative_to_its_mean(study: Project, version: ModelSnapshot) -> None:
    entries = [each for each in ranked_entries(version).values() if each.part == 1]
    fitted = load_fitted_model(version)
    at = np.array([fitted.item_index[each.item_id] for each in entries])
    mean, cov = fitted.model.predict_consensus(items=at, return_cov=True)
    np.testing.assert_allclose([each.mean for each in entries], mean - mean.mean(), atol=1e-9)
    centring = np.eye(3) - 1 / 3
    np.testing.assert_allclose([each.sd for each in entries], np.sqrt(np.diag(centring @ cov @ centring)), atol=1e-6)


def test_a_merged_list_has_the_stored_ranks(study: Project, version: ModelSnapshot) -> None:
    stored = dict(version.scores.values_list("item_id", "rank"))
    assert {pk: each.rank for pk, each in ranked_entries(version, merged=True).items()} == stored


def test_a_group_is_ranked_by_itself(project: Project, snapshot: ModelSnapshot) -> None:
    for group, size in (("cats", 4), ("dogs", 3)):
        rows = ranking_page(snapshot, RankingQuery(group=group)).rows
        assert [row.score.rank for row in rows] == list(range(1, size + 1))
        assert sum(row.score.mean for row in rows) == pytest.approx(0)


def test_no_order_is_claimed_across_parts(study: Project, version: ModelSnapshot) -> None:
    rows = ranking_page(version, RankingQuery()).rows
    assert [row.score.part for row in rows] == [1, 1, 1, 2, 2, None]
    assert [row.above_next is None for row in rows] == [False, False, True, False, True, True]


def test_the_ranking_page_says_that_ranks_are_within_parts(
    study: Project, version: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    text = client.get("/projects/parts/ranking/").text
    assert f"2 {SEPARATE}. Ranks, tiers, top 10 and intervals are within each part." in text
    assert "Part 1: 3 items" in text
    one = client.get("/projects/parts/ranking/?part=2").text
    assert "item-3" in one
    assert "item-0" not in one


def test_a_merged_list_is_labelled_as_extrapolated(
    study: Project, version: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    text = log_in(owner).get(f"/projects/parts/ranking/?part={MERGED}").text
    assert "Extrapolated from the texts." in text
    assert "Rank, extrapolated" in text


def test_every_page_with_ranks_of_all_items_says_what_is_extrapolated(
    study: Project, version: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    client, item, worker = log_in(owner), study.items.earliest("pk"), study.workers.earliest("pk")
    for page in (f"ranking/{item.pk}/", f"workers/{worker.code}/", "pairs/", "new-argument/?text=Cats"):
        assert SEPARATE in client.get(f"/projects/parts/{page}").text, page


@pytest.mark.parametrize("page", ["claims", "stopping"])
def test_pages_about_all_items_say_that_parts_were_never_compared(
    study: Project, version: ModelSnapshot, owner: User, log_in: Callable[[User], Client], page: str
) -> None:
    assert SEPARATE in log_in(owner).get(f"/projects/parts/{page}/").text


def test_the_report_says_that_the_top_items_are_from_several_parts(study: Project, version: ModelSnapshot) -> None:
    report = export_bytes(study, "report", "html").decode()
    assert SEPARATE in report.partition("Certainty of the top items")[2].partition("<h2>")[0]


def test_a_study_in_groups_of_one_part_each_needs_no_notice(
    project: Project, snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    client = log_in(owner)
    assert SEPARATE not in client.get("/projects/pets/claims/?group=cats").text
    assert get_votes(snapshot).spans_parts(within_groups=True) is False
    assert get_votes(snapshot).spans_parts(within_groups=False) is True


def test_the_public_ranking_is_within_parts(study: Project, version: ModelSnapshot, client: Client) -> None:
    Project.objects.filter(pk=study.pk).update(ranking_public=True)
    assert SEPARATE in client.get("/r/parts/").text


def test_files_mark_ranks_that_are_not_comparable(
    study: Project, version: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    rows = csv_rows(log_in(owner).get("/projects/parts/ranking.csv").getvalue())
    assert {row["comparable"] for row in rows} == {"false"}
    by_key = {row["key"]: (row["part"], row["group_rank"]) for row in rows}
    assert by_key == {
        "item-0": ("1", "1"), "item-1": ("1", "2"), "item-2": ("1", "3"), "item-3": ("2", "1"), "item-4": ("2", "2"),
        "item-5": ("", ""),
    }  # fmt: skip


def test_every_exported_table_with_ranks_scores_or_predictions_says_which_items_are_linked(
    study: Project, version: ModelSnapshot
) -> None:
    across_items = {"rank", "group_rank", "mean", "probability_a"}
    for name in TABLES:
        columns = {column.name for column in export_table(study, name).columns}
        assert columns.isdisjoint(across_items) or columns & {"comparable", "part"}, name
    pairs = csv_rows(export_bytes(study, "pairs", "csv"))
    linked = {(row["a"], row["b"]) for row in pairs if row["comparable"] == "true"}
    assert linked == {("item-0", "item-1"), ("item-0", "item-2"), ("item-1", "item-2"), ("item-3", "item-4")}
    claims = csv_rows(export_bytes(study, "claims", "csv"))
    by_key = {row["key"]: (row["comparable"], row["part"], row["group_rank"]) for row in claims}
    assert by_key["item-3"] == ("false", "2", "1")
    assert by_key["item-5"] == ("false", "", "")
    scores = csv_rows(export_bytes(study, "utilities", "csv"))
    assert {(row["key"], row["part"]) for row in scores} >= {("item-0", "1"), ("item-3", "2"), ("item-5", "")}


def test_predictions_of_the_api_say_which_items_are_linked(study: Project, version: ModelSnapshot, owner: User) -> None:
    secret = create_token(user=owner, name="script", scope="read", days=1)[1]
    keys = ("item-1", "item-3", "item-5")
    wanted = {
        "pairs": [{"a": "item-0", "b": key} for key in keys],
        "utilities": [{"worker": study.workers.earliest("pk").code, "item": key} for key in keys],
        "texts": [{"text": "Cats."}],
    }
    predicted = (
        Client(headers={"authorization": f"Bearer {secret}"})
        .post("/api/v1/projects/parts/predict", wanted, content_type="application/json")
        .json()
    )
    assert [each["comparable"] for each in predicted["pairs"]] == [True, False, False]
    assert [each["part"] for each in predicted["utilities"]] == [1, 2, None]
    assert [each["comparable"] for each in predicted["texts"]] == [False]


def test_the_scores_of_a_worker_are_ranked_within_parts_too(
    study: Project, version: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    code = study.workers.earliest("pk").code
    rows = csv_rows(log_in(owner).get(f"/projects/parts/workers/{code}/preferences.csv").content)
    assert {row["comparable"] for row in rows} == {"false"}
    by_part = {part: sorted(row["part_rank"] for row in rows if row["part"] == part) for part in ("1", "2", "")}
    assert by_part == {"1": ["1", "2", "3"], "2": ["1", "2"], "": [""]}
    assert {row["key"]: row["consensus_part_rank"] for row in rows}["item-3"] == "1"


def test_the_pages_of_a_worker_and_an_item_say_which_ranks_are_within_parts(
    study: Project, version: ModelSnapshot, owner: User, log_in: Callable[[User], Client], monkeypatch: Any
) -> None:
    monkeypatch.setattr(PersonalScore, "is_clear", True)
    client, item = log_in(owner), Item.objects.get(project=study, key="item-3")
    answer = client.get(f"/projects/parts/workers/{study.workers.earliest('pk').code}/")
    assert "Consensus rank in its part" in answer.text
    assert "Consensus rank<" not in answer.text
    ranks = {each.consensus.item.key: each.in_part.consensus for each in answer.context["page"].scores}
    assert ranks == {"item-0": 1, "item-1": 2, "item-2": 3, "item-3": 1, "item-4": 2, "item-5": None}
    history = client.get(f"/projects/parts/ranking/{item.pk}/").context["page"].figures[0]
    assert "Rank (all items)" in history.table.columns


def test_a_connected_study_has_no_parts_to_choose(owner: User, log_in: Callable[[User], Client]) -> None:
    study = make_study("whole", [(0, a, a + 1, "first") for a in range(5)], owner=owner)
    version = fit(study)
    page = ranking_page(version, RankingQuery())
    assert (page.n_parts, page.parts) == (1, [])
    assert get_freshness(study).n_parts == 1
    assert SEPARATE not in log_in(owner).get("/projects/whole/ranking/").text


def test_without_model_data_parts_are_ranked_without_intervals(
    study: Project, version: ModelSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(_snapshot: ModelSnapshot) -> None:
        raise DamagedArrays("gone")

    monkeypatch.setattr(module, "load_fitted_model", damaged)
    entries = ranked_entries(version)
    assert ranks(entries, study) == [1, 2, 3, 1, 2, None]
    assert {each.rank_low for each in entries.values()} == {None}
