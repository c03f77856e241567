"""Scores and ranks of items among those they can be compared with: their part of the comparison graph, or a group.

Items in different parts have no common scale in the votes. A merged list of all parts exists too, but it is
extrapolated from the texts, and pages say so.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

import numpy as np

from modelling.findings.versions import get_tiers
from modelling.models import ModelSnapshot
from modelling.training.inputs import get_read_point
from modelling.training.ranking import TOP
from modelling.training.snapshots import load_fitted_model, ranked_scores
from modelling.training.storage.array_store import DamagedArrays
from modelling.training.votes import get_votes

MAX_SAMPLED = 3000  # items in a list; longer lists show ranks without intervals
STORED = (
    "item_id", "item__group", "mean", "sd", "rank", "rank_low", "rank_high", "top_probability", "polarisation",
    "judgements",
)  # fmt: skip


@dataclass(frozen=True)
class RankedEntry:
    """An item's score and rank among the `size` items of its list.

    Scores are relative to the mean of the list. The rank is None for an item without judgements in a study with several
    parts: only its text places it. Rank interval and probability of the top 10 are None where they are not known.
    """

    item_id: int
    group: str
    mean: float
    sd: float
    rank: int | None
    rank_low: int | None
    rank_high: int | None
    top_probability: float | None
    polarisation: float
    judgements: int
    part: int | None = None
    tier: int | None = None
    size: int = 0
    list_number: int = 1  # the part, or 1 if all items are in one list
    stored: bool = False  # whether the rank interval is the version's own, not computed for this list

    @property
    def by_text_alone(self) -> bool:
        """Whether the item has a rank but no judgements."""
        return self.rank is not None and self.part is None


Entries = dict[int, RankedEntry]


def ranked_entries(snapshot: ModelSnapshot, *, group: str = "", merged: bool = False) -> Entries:
    """The items of a version, or of one group in it, ranked within their parts; if merged, all in one list."""
    revision = get_read_point(snapshot.project).inputs_revision
    return _cached_entries(snapshot, snapshot.created_at, revision, group, merged)


@lru_cache(maxsize=16)
def _cached_entries(
    snapshot: ModelSnapshot, created_at: datetime, inputs_revision: int, group: str, merged: bool
) -> Entries:
    votes = get_votes(snapshot)
    stored = [RankedEntry(*row) for row in snapshot.scores.order_by("rank").values_list(*STORED)]
    stored = [replace(each, part=votes.of(each.item_id).part) for each in stored]
    chosen, tiers = [each for each in stored if group in ("", each.group)], _find_tiers(snapshot)
    if merged or votes.n_parts <= 1:
        whole = [replace(each, stored=True) for each in stored]
        return _with_sizes(whole if len(chosen) == len(stored) else _rank_among(snapshot, chosen), tiers)
    parts: dict[int | None, list[RankedEntry]] = defaultdict(list)
    for each in chosen:
        parts[each.part].append(each)
    unplaced = [
        replace(each, list_number=0, rank=None, rank_low=None, rank_high=None, top_probability=None)
        for each in parts.pop(None, [])
    ]
    entries: Entries = {}
    for part in sorted(part for part in parts if part is not None):
        members = [replace(each, list_number=part) for each in _rank_among(snapshot, parts[part])]
        entries |= _with_sizes(members, tiers)
    return entries | {each.item_id: each for each in unplaced}


def has_old_rank_intervals(snapshot: ModelSnapshot, entries: Iterable[RankedEntry]) -> bool:
    """Whether these entries have the 90% rank intervals that an earlier release stored."""
    return snapshot.has_old_rank_intervals and any(each.stored and each.rank_low is not None for each in entries)


def _rank_among(snapshot: ModelSnapshot, members: list[RankedEntry]) -> list[RankedEntry]:
    """Rank these items, which are sorted best first, relative to each other only."""
    try:
        if len(members) > MAX_SAMPLED:
            return _without_intervals(members)
        fitted = load_fitted_model(snapshot)
    except DamagedArrays:
        return _without_intervals(members)
    positions = np.array([fitted.item_index[each.item_id] for each in members], dtype=np.int64)
    mean, sd, ranking = ranked_scores(fitted.model, positions, np.random.default_rng(snapshot.seed))
    columns = (mean, sd, ranking.rank, ranking.rank_low, ranking.rank_high, ranking.top_probability)
    rows = zip(members, *(column.tolist() for column in columns), strict=True)
    ranked = [
        replace(each, mean=mean, sd=sd, rank=rank, rank_low=low, rank_high=high, top_probability=top)
        for each, mean, sd, rank, low, high, top in rows
    ]
    return sorted(ranked, key=lambda each: each.rank or 0)


def _without_intervals(members: list[RankedEntry]) -> list[RankedEntry]:
    """Rank by the stored scores, without rank intervals, which need the model's covariance."""
    centre = float(np.mean([each.mean for each in members])) if members else 0.0
    return [
        replace(each, mean=each.mean - centre, rank=rank, rank_low=None, rank_high=None, top_probability=None)
        for rank, each in enumerate(members, start=1)
    ]


def _with_sizes(members: list[RankedEntry], tiers: dict[int, int]) -> Entries:
    """Entries by item with tier and list size; lists of ten items or fewer have no probability of the top 10."""
    size = len(members)
    return {
        each.item_id: replace(
            each, tier=tiers.get(each.item_id), size=size, top_probability=each.top_probability if size > TOP else None
        )
        for each in members
    }


def _find_tiers(snapshot: ModelSnapshot) -> dict[int, int]:
    """The tiers of the claims page; empty if they would take too long to compute or the model data is missing."""
    try:
        return get_tiers(snapshot)
    except DamagedArrays:
        return {}
