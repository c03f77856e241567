"""What the votes say without the model: counts, win rates, Bradley-Terry ranks and parts of the comparison graph."""

import pytest

from annotation.models import Item, Project
from modelling.training.votes import ItemVotes, Votes, count_votes, get_votes
from tests.modelling.exports.samples import fit, retract
from tests.modelling.samples.histories import answer, make_study

CIRCLE = [(1, 2, "lo", 3), (1, 2, "tie", 1), (2, 3, "lo", 2), (1, 3, "hi", 1)]


def ranked(n: int, group: str = "") -> list[tuple[int, str]]:
    return [(pk, group) for pk in range(1, n + 1)]


def test_wins_losses_and_ties_are_counted_for_both_items() -> None:
    votes = count_votes(CIRCLE, ranked(3))
    counted = {pk: (each.wins, each.losses, each.ties) for pk, each in votes.items.items()}
    assert counted == {1: (3, 1, 1), 2: (2, 3, 1), 3: (1, 2, 0)}
    assert votes.of(1).win_rate == pytest.approx(3.5 / 5)
    assert [votes.of(pk).bradley_terry_rank for pk in (1, 2, 3)] == [1, 2, 3]


def test_an_item_without_judgements_has_no_win_rate_and_no_part() -> None:
    votes = count_votes(CIRCLE, ranked(4))
    assert votes.of(4) == ItemVotes()
    assert votes.of(4).win_rate is None
    assert not votes.is_comparable(4)
    assert votes.is_comparable(1)


def test_items_with_the_same_win_rate_share_their_ranks() -> None:
    votes = count_votes([(1, 2, "tie", 1), (2, 3, "tie", 1), (3, 4, "lo", 2)], ranked(4))
    assert [(votes.of(pk).best_vote_rank, votes.of(pk).worst_vote_rank) for pk in (1, 2, 3, 4)] == [
        (2, 3), (2, 3), (1, 1), (4, 4),
    ]  # fmt: skip


def test_parts_are_found_from_the_judgements_and_ranked_separately() -> None:
    votes = count_votes([(1, 2, "lo", 1), (3, 4, "hi", 1), (4, 5, "lo", 1)], ranked(5))
    assert votes.part_sizes == {1: 3, 2: 2}
    assert [votes.of(pk).part for pk in (1, 2, 3, 4, 5)] == [2, 2, 1, 1, 1]
    assert [votes.of(pk).part_rank for pk in (1, 2, 3, 4, 5)] == [1, 2, 1, 2, 3]
    assert [votes.of(pk).bradley_terry_rank for pk in (1, 2, 3, 4, 5)] == [1, 2, 2, 1, 2]
    assert not any(votes.is_comparable(pk) for pk in (1, 2, 3, 4, 5))


def test_an_inactive_item_still_links_the_items_it_was_compared_with() -> None:
    votes = count_votes([(1, 2, "lo", 1), (2, 3, "lo", 1)], [(1, ""), (3, "")])
    assert votes.part_sizes == {1: 2}
    assert votes.is_comparable(3)


def test_group_ranks_count_within_part_and_group() -> None:
    votes = count_votes(CIRCLE, [(1, "cats"), (2, "dogs"), (3, "cats")])
    assert [votes.of(pk).group_rank for pk in (1, 2, 3)] == [1, 1, 2]


def test_a_version_without_judgements_has_no_votes() -> None:
    assert count_votes([], ranked(2)) == Votes({}, {})


@pytest.mark.django_db
@pytest.mark.both_databases
def test_retracted_and_skipped_judgements_are_not_counted() -> None:
    project = make_study("votes", [(0, 0, 1, "first"), (0, 1, 2, "first"), (1, 0, 1, "second"), (1, 1, 2, "skip")])
    retract(project, sequence=3)
    snapshot = fit(project)
    items = list(Item.objects.filter(project=project).order_by("pk"))
    assert [get_votes(snapshot).of(item.pk).judgements for item in items[:4]] == [1, 2, 1, 0]


@pytest.mark.django_db
@pytest.mark.both_databases
def test_a_version_keeps_its_votes_when_judgements_follow(project: Project) -> None:
    study = make_study("votes", [(0, 0, 1, "first"), (0, 1, 2, "first")])
    first = fit(study)
    before = get_votes(first)
    answer(study, [(1, 3, 4, "first")])
    assert get_votes(first) == before
    assert get_votes(fit(study)).n_parts == 2
