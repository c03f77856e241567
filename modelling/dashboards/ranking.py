"""The consensus ranking: what the crowd agrees on, how sure that is, and what divides people."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from django.core.paginator import Page, Paginator
from django.db.models import F, Max, Min, Q, QuerySet
from django.http import QueryDict
from django.utils.translation import gettext_lazy
from scipy.special import ndtr

from modelling.arrays import Damaged
from modelling.dashboards.pictures import Picture
from modelling.dashboards.ranking_pictures import MOST_DRAWN, pictures_of
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.ranking import Z_95
from modelling.snapshots import item_positions, load_fitted

PER_PAGE = 100
WIDTH = 200  # of the interval picture in the table, in its own units
ORDERS = {
    "rank": (gettext_lazy("best first"), ["rank"]),
    "divides": (gettext_lazy("divides people most"), ["-polarisation", "rank"]),
    "unsure": (gettext_lazy("least sure"), ["-sd", "rank"]),
    "judgements": (gettext_lazy("most judgements"), ["-judgements", "rank"]),
    "fewest": (gettext_lazy("fewest judgements"), ["judgements", "rank"]),
}


@dataclass(frozen=True)
class Asked:
    """What the address asks for. Anything unknown means what the plain page shows."""

    group: str = ""
    words: str = ""
    order: str = "rank"
    page: int = 1

    @classmethod
    def of(cls, query: QueryDict) -> "Asked":
        page, order = query.get("page", "1"), query.get("sort", "rank")
        number = int(page) if page.isdecimal() and len(page) < 6 else 1
        words = query.get("q", "").replace("\0", "").strip()[:200]
        group = query.get("group", "").replace("\0", "")
        return cls(group, words, order if order in ORDERS else "rank", number)


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval, as positions in a picture of the given width."""

    low: float
    mean: float
    high: float

    @property
    def length(self) -> float:
        return round(self.high - self.low, 2)


@dataclass(frozen=True)
class Row:
    """`tier` counts groups of items that their rank intervals tell apart; `above_next` is how sure the order is."""

    score: ConsensusScore
    interval: Interval
    tier: int
    above_next: float | None


@dataclass(frozen=True)
class RankingPage:
    asked: Asked
    rows: list[Row]
    page: Page
    groups: list[str]
    zero: float
    n_items: int
    n_tiers: int
    pictures: list[Picture]

    @property
    def orders(self) -> list[tuple[str, Any]]:
        return [(name, words) for name, (words, _columns) in ORDERS.items()]

    @property
    def drawn(self) -> int | None:
        """How many of the items, the best ones, the pictures show; None if that is all of them."""
        return MOST_DRAWN if self.page.paginator.count > MOST_DRAWN else None


def ranking_page(snapshot: ModelSnapshot, asked: Asked, *, linked: bool = True) -> RankingPage:
    """One page of the ranking, searched and sorted as asked; the pictures in all rows share one axis.

    Points of the pictures lead to their items, unless the reader may not go there: nor are keys told then, or searched.
    """
    everything = snapshot.scores.all()
    tiers = tiers_of(snapshot)
    chosen = _chosen(everything, asked, keys=linked).select_related("item")
    page = Paginator(chosen.order_by(*ORDERS[asked.order][1]), PER_PAGE).get_page(asked.page)
    groups = sorted(set(everything.values_list("item__group", flat=True)) - {""})
    place, scores = _axis(everything), list(page)
    for score in scores:
        score.item.project = snapshot.project  # spares every row a join
    sure = how_sure(snapshot, scores) if asked.order == "rank" else [None] * len(scores)
    rows = [
        Row(score, place.interval(score.mean, score.sd), tiers[score.item_id], above)
        for score, above in zip(scores, sure, strict=True)
    ]
    pictures = pictures_of(chosen, items_of=snapshot.project if linked else None)
    n_tiers = max(tiers.values(), default=0)
    return RankingPage(asked, rows, page, groups, place(0.0), len(tiers), n_tiers, pictures)


def _chosen(scores: "QuerySet[ConsensusScore]", asked: Asked, *, keys: bool) -> "QuerySet[ConsensusScore]":
    if asked.group:
        scores = scores.filter(item__group=asked.group)
    if asked.words:
        in_key = Q(item__key__icontains=asked.words) if keys else Q()
        scores = scores.filter(Q(item__text__icontains=asked.words) | in_key)
    return scores


def tiers_of(snapshot: ModelSnapshot) -> dict[int, int]:
    """The tier of each item. A new one begins where a rank interval lies wholly below that of the tier's first item."""
    tiers: dict[int, int] = {}
    tier, reach = 0, 0
    for item, low, high in snapshot.scores.order_by("rank").values_list("item_id", "rank_low", "rank_high"):
        if low > reach or not tiers:
            tier, reach = tier + 1, high
        tiers[item] = tier
    return tiers


def how_sure(snapshot: ModelSnapshot, scores: list[ConsensusScore]) -> list[float | None]:
    """The probability that each item is truly better than the next in this list; None where that cannot be said."""
    if len(scores) < 2:
        return [None] * len(scores)
    try:
        fitted = load_fitted(snapshot)
    except Damaged:
        return [None] * len(scores)
    positions = item_positions(fitted, [score.item for score in scores])
    mean, cov = fitted.model.predict_consensus(items=positions, return_cov=True)
    i, j = np.arange(len(scores) - 1), np.arange(1, len(scores))
    variance = cov[i, i] + cov[j, j] - 2.0 * cov[i, j]
    gap = mean[i] - mean[j]
    known = variance > 1e-12
    sure = np.where(known, ndtr(gap / np.sqrt(np.where(known, variance, 1.0))), 0.5)
    return [*(float(p) for p in sure), None]


class _Axis:
    """Turns scores into positions of a picture."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.span = low, max(high - low, 1e-9)

    def __call__(self, value: float) -> float:
        return round(WIDTH * (value - self.low) / self.span, 2)

    def interval(self, mean: float, sd: float) -> Interval:
        return Interval(self(mean - Z_95 * sd), self(mean), self(mean + Z_95 * sd))


def _axis(scores: "QuerySet[ConsensusScore]") -> _Axis:
    ends = scores.aggregate(low=Min(F("mean") - Z_95 * F("sd")), high=Max(F("mean") + Z_95 * F("sd")))
    return _Axis(ends["low"] or 0.0, ends["high"] or 0.0)
