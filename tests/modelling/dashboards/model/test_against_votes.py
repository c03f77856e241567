"""Votes beside the model: the same counts on pages, in files and in the API, and where both disagree."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.test import Client

from annotation.models import Item, User
from modelling.dashboards.model.against_votes import describe_reason, find_disagreements, rank_difference
from modelling.models import ModelSnapshot
from modelling.training.votes import ItemVotes, Votes, get_votes
from modelling.web.api.tokens import create_token
from tests.modelling.exports.samples import csv_rows
from tests.modelling.samples.studies import make_version

LOW_IN_VOTES = ItemVotes(
    wins=2, losses=8, part=1, part_rank=2, bradley_terry_rank=8, best_vote_rank=7, worst_vote_rank=9
)


@pytest.mark.parametrize(
    ("votes", "reason"),
    [
        (replace(LOW_IN_VOTES, losses=1), "Few judgements: the model relies on similar texts."),
        (replace(LOW_IN_VOTES, bradley_terry_rank=3), "It met strong opponents."),
        (replace(LOW_IN_VOTES, bradley_terry_rank=8), "Similar texts are preferred more often."),
        (replace(LOW_IN_VOTES, part_rank=12, bradley_terry_rank=12), "It met weak opponents."),
        (replace(LOW_IN_VOTES, part_rank=12), "Similar texts are preferred less often."),
    ],
)
def test_the_reason_follows_from_votes_and_bradley_terry(votes: ItemVotes, reason: str) -> None:
    assert describe_reason(votes) == reason


@pytest.mark.parametrize(("rank", "difference"), [(2, 5), (7, 0), (9, 0), (12, 3)])
def test_a_rank_among_those_of_equal_win_rates_is_no_difference(rank: int, difference: int) -> None:
    assert rank_difference(replace(LOW_IN_VOTES, part_rank=rank)) == difference


@pytest.mark.django_db
def test_the_largest_differences_come_first(project: object, snapshot: ModelSnapshot) -> None:
    first, second, third = Item.objects.filter(project=snapshot.project).order_by("pk")[:3]
    votes = Votes(
        {
            first.pk: replace(LOW_IN_VOTES, part_rank=4, group="cats"),
            second.pk: replace(LOW_IN_VOTES, group="dogs"),
            third.pk: replace(LOW_IN_VOTES, part_rank=7),
        },
        {1: 12},
    )
    assert [each.item for each in find_disagreements(snapshot, votes)] == [second, first]
    assert [each.item for each in find_disagreements(snapshot, votes, "cats")] == [first]


@pytest.mark.django_db
def test_pages_files_and_the_api_show_the_same_votes(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    client, votes = log_in(owner), get_votes(snapshot)
    rows = csv_rows(client.get("/projects/pets/ranking.csv").getvalue())
    _token, secret = create_token(user=owner, name="test", scope="read", days=7, project=None)
    script = Client(headers={"authorization": f"Bearer {secret}"})
    listed = script.get("/api/v1/projects/pets/ranking").json()["rows"]
    page = client.get("/projects/pets/ranking/").text
    for row, listed_row in zip(rows, listed, strict=True):
        item = Item.objects.get(project=snapshot.project, key=row["key"])
        own = votes.of(item.pk)
        assert own.judgements == int(row["judgements"])
        assert [int(row[name]) for name in ("wins", "losses", "ties")] == [own.wins, own.losses, own.ties]
        assert [listed_row[name] for name in ("wins", "losses", "ties")] == [own.wins, own.losses, own.ties]
        assert float(row["win_rate"]) == pytest.approx(listed_row["win_rate"]) == pytest.approx(own.win_rate)
        assert int(row["bradley_terry_rank"]) == listed_row["bradley_terry_rank"] == own.bradley_terry_rank
        assert int(row["part"]) == listed_row["part"] == own.part
        assert int(row["group_rank"]) == listed_row["group_rank"] == own.group_rank
        assert f">{own.wins}, {own.losses}, {own.ties}</td>" in page
        assert f"{own.wins}, {own.losses}, {own.ties}" in client.get(f"/projects/pets/ranking/{item.pk}/").text


@pytest.mark.django_db
def test_the_ranking_page_lists_items_where_model_and_votes_disagree(
    snapshot: ModelSnapshot, owner: User, log_in: Callable[[User], Client]
) -> None:
    turned_round = [score.item.key for score in snapshot.scores.select_related("item").order_by("-rank")]
    made = make_version(snapshot.project, snapshot.number + 1, order=turned_round)
    ModelSnapshot.objects.filter(pk=made.pk).update(last_sequence=snapshot.last_sequence)
    text = log_in(owner).get("/projects/pets/ranking/").text
    assert "Model against votes" in text
    assert "Likely reason" in text
