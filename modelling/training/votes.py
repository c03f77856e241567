"""A version's judgements without the model: counts, Bradley-Terry ranks, parts of the comparison graph.

Two items are comparable if a chain of judgements links them. Items that no chain links belong to different parts of the
graph; only the model's prior, which uses the texts, relates their scores.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import numpy as np
from django.db.models import Count, Q, QuerySet
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from annotation.models import Arm, Judgement, Worker
from modelling.baselines import BradleyTerry
from modelling.crowdgppl import PairwiseLabels
from modelling.models import ModelSnapshot
from modelling.training.inputs import PREFERENCE, excluded_workers, get_read_point

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EQUAL_SCORES = 6  # decimal places; Bradley-Terry scores that agree to these share a rank


def training_judgements(snapshot: ModelSnapshot) -> "QuerySet[Judgement]":
    """The judgements that counted when the version was made, which every page about it counts and lists.

    Judgements of workers whom the version excludes are left out. Judgements of an erased person disappear at once.
    Only erasure changes this set, and it raises the project's inputs_revision, so caches of derived results use that
    number as a key.
    """
    retracted_later = Q(retraction__sequence__gt=snapshot.last_sequence) & ~Q(worker__outcome=Worker.ERASED)
    events = Judgement.objects.filter(project=snapshot.project_id, sequence__lte=snapshot.last_sequence)
    counted = events.filter(Q(retraction=None) | retracted_later, choice__in=list(PREFERENCE))
    excluded = excluded_workers(snapshot.project_id, snapshot.inputs_revision)
    return counted.exclude(worker__in=excluded) if excluded else counted


@dataclass(frozen=True)
class ItemVotes:
    """Counts of one ranked item, and its ranks within its part of the comparison graph.

    `part` and all ranks are None for an item without judgements. `part_rank` and `group_rank` are by the model's score,
    the latter among the items of the same part and group. `best_vote_rank` and `worst_vote_rank` are by win rate; they
    differ if several items have the same one.
    """

    wins: int = 0
    losses: int = 0
    ties: int = 0
    part: int | None = None
    part_rank: int | None = None
    group_rank: int | None = None
    bradley_terry_rank: int | None = None
    best_vote_rank: int | None = None
    worst_vote_rank: int | None = None
    group: str = ""

    @property
    def judgements(self) -> int:
        return self.wins + self.losses + self.ties

    @property
    def win_rate(self) -> float | None:
        """Share of wins, a tie counting as half a win; None without judgements."""
        return (self.wins + self.ties / 2) / self.judgements if self.judgements else None


@dataclass(frozen=True)
class Votes:
    """A version's votes. Parts are numbered from 1, starting with the one that has the most ranked items."""

    items: dict[int, ItemVotes]
    part_sizes: dict[int, int]

    def of(self, item_id: int) -> ItemVotes:
        return self.items.get(item_id, ItemVotes())

    @property
    def n_parts(self) -> int:
        return len(self.part_sizes)

    def count_parts(self, item_ids: Iterable[int]) -> int:
        """The number of parts to which these items belong."""
        return len({self.of(item_id).part for item_id in item_ids} - {None})

    def spans_parts(self, *, within_groups: bool) -> bool:
        """Whether the items that are ranked together, all of them or those of a group, belong to several parts."""
        pairs = {(votes.group if within_groups else "", votes.part) for votes in self.items.values() if votes.part}
        return len(pairs) > len({group for group, _part in pairs})

    def is_comparable(self, item_id: int) -> bool:
        """Whether judgements link the item with all other judged items, so that its rank follows from them."""
        return self.n_parts == 1 and self.of(item_id).part is not None


def get_votes(snapshot: ModelSnapshot, arm: Arm | None = None) -> Votes:
    """The votes of a version or one of its arms, cached; they are counted again after a person is erased."""
    return _cached_votes(snapshot, snapshot.created_at, get_read_point(snapshot.project).inputs_revision, arm)


@lru_cache(maxsize=8)
def _cached_votes(snapshot: ModelSnapshot, created_at: datetime, inputs_revision: int, arm: Arm | None) -> Votes:
    judgements = training_judgements(snapshot).filter(**({"worker__arm": arm} if arm else {}))
    counts = judgements.order_by().values_list("item_lo", "item_hi", "choice").annotate(Count("pk"))
    ranked = list(snapshot.scores.order_by("rank").values_list("item_id", "item__group"))
    return count_votes(list(counts), ranked)


def count_votes(counts: list[tuple[int, int, str, int]], ranked: list[tuple[int, str]]) -> Votes:
    """Compute votes from the judgement counts of each pair and choice; `ranked` holds items and groups, best first."""
    if not counts:
        return Votes({}, {})
    pairs = np.array([(lo, hi) for lo, hi, _choice, _n in counts], dtype=np.int64)
    weights = np.array([n for *_pair, n in counts], dtype=np.float64)
    ids, positions = np.unique(pairs, return_inverse=True)
    a, b = positions.reshape(pairs.shape).T
    y = np.array([PREFERENCE[Judgement.Choice(choice)] for _lo, _hi, choice, _n in counts])
    labels = PairwiseLabels(np.zeros(len(y), dtype=np.int64), a, b, y, weights)
    scores = BradleyTerry().fit(labels, n_items=len(ids)).scores.round(EQUAL_SCORES)
    linked = connected_components(coo_matrix((weights, (a, b)), shape=(len(ids),) * 2), directed=False)[1]
    wins, losses, ties = _tallies(labels, len(ids))

    at = {pk: position for position, pk in enumerate(ids.tolist())}
    judged = [(pk, group) for pk, group in ranked if pk in at]
    numbers = _number_parts([int(linked[at[pk]]) for pk, _group in judged])
    members: dict[int, list[int]] = defaultdict(list)
    in_group: Counter[tuple[int, str]] = Counter()
    group_ranks: dict[int, tuple[int, str]] = {}
    for pk, group in judged:
        part = numbers[int(linked[at[pk]])]
        members[part].append(pk)
        in_group[part, group] += 1
        group_ranks[pk] = in_group[part, group], group
    items = {}
    for part, member_ids in members.items():
        rows = np.array([at[pk] for pk in member_ids])
        by_score, _worst = competition_ranks(scores[rows])
        rate = (wins[rows] + ties[rows] / 2) / (wins[rows] + losses[rows] + ties[rows])
        best, worst = competition_ranks(rate)
        for index, (pk, row) in enumerate(zip(member_ids, rows.tolist(), strict=True)):
            group_rank, group = group_ranks[pk]
            items[pk] = ItemVotes(
                int(wins[row]), int(losses[row]), int(ties[row]), part, index + 1, group_rank,
                int(by_score[index]), int(best[index]), int(worst[index]), group,
            )  # fmt: skip
    return Votes(items, {part: len(members[part]) for part in sorted(members)})


def _tallies(labels: PairwiseLabels, n_items: int) -> tuple[Floats, Floats, Floats]:
    """Wins, losses and ties of each item."""
    won_a, won_b, tied = labels.y == 1.0, labels.y == 0.0, labels.y == 0.5

    def count(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> Floats:
        sides = ((labels.a, first), (labels.b, second))
        return np.sum([np.bincount(x[rows], labels.weights[rows], n_items) for x, rows in sides], axis=0)

    return count(won_a, won_b), count(won_b, won_a), count(tied, tied)


def _number_parts(components: Iterable[int]) -> dict[int, int]:
    """Number the parts from 1, largest first; parts of equal size keep the order in which they appear."""
    return {component: number for number, (component, _n) in enumerate(Counter(components).most_common(), start=1)}


def competition_ranks(values: Floats) -> tuple[Ints, Ints]:
    """The best and the worst rank of each value; rank 1 is the highest, and equal values share their ranks."""
    ordered = np.sort(values)
    best = 1 + len(values) - np.searchsorted(ordered, values, side="right")
    worst = len(values) - np.searchsorted(ordered, values, side="left")
    return best, worst
