"""The ranking page: consensus scores with intervals, tiers, polarisation, and the two figures above the table."""

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
from django.core.paginator import Page, Paginator
from django.db.models import Q
from django.db.models.functions import Left
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from scipy.special import ndtr

from annotation.http.arm_filter import EVERY_ARM, ArmFilter
from annotation.models import Item, Project
from modelling.dashboards.common.figures import (
    DIGITS,
    MAX_HOVER_LENGTH,
    Figure,
    Trace,
    axis,
    error_bars,
    escape_label,
    rank_axis,
    rounded,
    truncate,
)
from modelling.dashboards.common.query import item_urls, search_term
from modelling.dashboards.common.ranked_entries import RankedEntry, has_old_rank_intervals, ranked_entries
from modelling.dashboards.model.against_votes import Disagreement, find_disagreements
from modelling.models import ModelSnapshot
from modelling.training.ranking import Z_95
from modelling.training.snapshots import load_fitted_model
from modelling.training.storage.array_store import DamagedArrays
from modelling.training.votes import ItemVotes, Votes, get_votes

PER_PAGE = 25
MAX_POINTS = 1000  # in a figure
MAX_LABELLED = 40  # items of a figure that names each of them
MAX_LABEL = 36  # characters
LABELLED_ENDS = 3  # items named at each end of a larger figure
INTERVAL_WIDTH = 200  # of the interval drawing in each table row, in SVG units
MAX_PARTS = 50  # to choose from
MERGED = "merged"
VOTES = "votes"  # the order by votes, which depends on the arm


def _position(entry: RankedEntry) -> tuple[float, float]:
    """Sort key: part, then rank; items without a rank come last. A merged list counts as one part."""
    return (inf, 0.0) if entry.rank is None else (float(entry.list_number), float(entry.rank))


ORDERS: dict[str, tuple[Any, Callable[[RankedEntry], Any]]] = {
    "rank": (gettext_lazy("best first"), _position),
    "divides": (gettext_lazy("most divisive first"), lambda each: (-each.polarisation, _position(each))),
    "unsure": (gettext_lazy("least certain first"), lambda each: (-each.sd, _position(each))),
    "judgements": (gettext_lazy("most judgements"), lambda each: (-each.judgements, _position(each))),
    "fewest": (gettext_lazy("fewest judgements"), lambda each: (each.judgements, _position(each))),
    VOTES: (gettext_lazy("best first by votes (Bradley-Terry)"), _position),
}


@dataclass(frozen=True)
class RankingQuery:
    """Query parameters of the page; unknown values give the defaults.

    `part` is the number of a part of the comparison graph, or MERGED for one list of all parts.
    """

    group: str = ""
    search: str = ""
    order: str = "rank"
    page: str = ""
    part: str = ""

    @classmethod
    def parse(cls, query: QueryDict) -> "RankingQuery":
        order, group = query.get("sort", "rank"), query.get("group", "").replace("\0", "")
        part = query.get("part", "")
        known = part if part == MERGED or re.fullmatch("[1-9][0-9]{0,8}", part) else ""
        order = order if order in ORDERS else "rank"
        return cls(group, search_term(query, "q"), order, query.get("page", ""), known)

    @property
    def merged(self) -> bool:
        return self.part == MERGED


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval, in SVG units."""

    low: float
    mean: float
    high: float

    @property
    def length(self) -> float:
        return round(self.high - self.low, 2)


@dataclass(frozen=True)
class RankingRow:
    """One item; `above_next` is the probability that it is better than the next one in the table."""

    score: RankedEntry
    item: Item
    interval: Interval
    above_next: float | None
    votes: ItemVotes


@dataclass(frozen=True)
class RankingPage:
    """One page of the ranking. `n_parts` counts the parts of the comparison graph in the whole version.

    `n_unjudged` counts the listed items that were never judged, whose rank comes from their text alone.
    """

    query: RankingQuery
    rows: list[RankingRow]
    page: Page
    groups: list[str]
    parts: list[tuple[str, str]]
    n_parts: int
    zero: float
    n_items: int
    n_tiers: int
    n_unjudged: int
    figures: list[Figure]
    disagreements: list[Disagreement]
    old_rank_intervals: bool
    arms: ArmFilter

    @property
    def orders(self) -> list[tuple[str, Any]]:
        return [(name, label) for name, (label, _key) in ORDERS.items()]

    @property
    def several_parts(self) -> bool:
        return self.n_parts > 1

    @property
    def drawn(self) -> int | None:
        """How many of the best items the figures show; None if all of them."""
        return MAX_POINTS if self.page.paginator.count > MAX_POINTS else None


def ranking_page(
    snapshot: ModelSnapshot, query: RankingQuery, arms: ArmFilter = EVERY_ARM, *, linked: bool = True
) -> RankingPage:
    """One page of the ranking, searched and sorted by the query. With an arm, the votes are those of its workers.

    With `linked`, points of the figures link to their items. The public ranking has no such links, and neither shows
    nor searches the researcher's keys.
    """
    votes, project = get_votes(snapshot), snapshot.project
    entries = list(ranked_entries(snapshot, group=query.group, merged=query.merged).values())
    if query.part and not query.merged and int(query.part) in votes.part_sizes:
        entries = [each for each in entries if each.part == int(query.part)]
    arm_votes = get_votes(snapshot, arms.chosen)
    order = _by_votes(arm_votes) if query.order == VOTES else ORDERS[query.order][1]
    listed = sorted(_search(snapshot, entries, query.search, keys=linked), key=order)
    page = Paginator(listed, PER_PAGE).get_page(query.page)
    items = Item.objects.in_bulk([each.item_id for each in page])
    for item in items.values():
        item.project = project  # avoids a query per row
    scale, shown = _interval_scale(entries), list(page)
    following = listed[page.end_index() : page.end_index() + 1]  # the first item of the next page
    above = order_probabilities(snapshot, [*shown, *following]) if query.order == "rank" else [None] * len(shown)
    rows = [
        RankingRow(
            each, items[each.item_id], scale.interval(each.mean, each.sd), probability, arm_votes.of(each.item_id)
        )
        for each, probability in zip(shown, above[: len(shown)], strict=True)
    ]
    return RankingPage(
        query=query,
        rows=rows,
        page=page,
        groups=sorted(set(snapshot.scores.order_by().values_list("item__group", flat=True).distinct()) - {""}),
        parts=part_options(votes),
        n_parts=votes.n_parts,
        zero=scale(0.0),
        n_items=max((each.size for each in entries), default=0),
        n_tiers=max((each.tier or 0 for each in entries), default=0),
        n_unjudged=sum(each.by_text_alone for each in entries),
        figures=ranking_figures(listed, project, linked=linked),
        disagreements=find_disagreements(snapshot, votes, query.group) if linked else [],
        old_rank_intervals=has_old_rank_intervals(snapshot, entries),
        arms=arms,
    )


def _by_votes(votes: Votes) -> Callable[[RankedEntry], Any]:
    """Sort key: part, then Bradley-Terry rank; items without votes come last."""

    def position(entry: RankedEntry) -> tuple[float, float, tuple[float, float]]:
        own = votes.of(entry.item_id)
        return own.part or inf, own.bradley_terry_rank or inf, _position(entry)

    return position


def part_options(votes: Votes) -> list[tuple[str, str]]:
    """Options of the part filter: the largest parts, each labelled with its group if it has only one."""
    if votes.n_parts <= 1:
        return []
    groups: dict[int, set[str]] = defaultdict(set)
    for each in votes.items.values():
        if each.part is not None:
            groups[each.part].add(each.group)
    options = [("", _("each part separately"))]
    for part, size in list(votes.part_sizes.items())[:MAX_PARTS]:
        name = next(iter(groups[part])) if len(groups[part]) == 1 else ""
        label = ngettext("Part %(part)d: %(n)d item", "Part %(part)d: %(n)d items", size) % {"part": part, "n": size}
        options.append((str(part), f"{label} ({truncate(name)})" if name else label))
    return [*options, (MERGED, _("all items, extrapolated from the texts"))]


def _search(snapshot: ModelSnapshot, entries: list[RankedEntry], search: str, *, keys: bool) -> list[RankedEntry]:
    if not search:
        return entries
    in_key = Q(item__key__icontains=search) if keys else Q()
    found = set(snapshot.scores.filter(Q(item__text__icontains=search) | in_key).values_list("item_id", flat=True))
    return [each for each in entries if each.item_id in found]


def order_probabilities(snapshot: ModelSnapshot, entries: list[RankedEntry]) -> list[float | None]:
    """Probability that each item is better than the next in this list.

    None for the last item, before an item of another part, and without model data.
    """
    if len(entries) < 2:
        return [None] * len(entries)
    try:
        fitted = load_fitted_model(snapshot)
    except DamagedArrays:
        return [None] * len(entries)
    positions = np.array([fitted.item_index[each.item_id] for each in entries], dtype=np.int64)
    mean, cov = fitted.model.predict_consensus(items=positions, return_cov=True)
    i, j = np.arange(len(entries) - 1), np.arange(1, len(entries))
    variance = cov[i, i] + cov[j, j] - 2.0 * cov[i, j]
    gap = mean[i] - mean[j]
    known = variance > 1e-12
    probability = np.where(known, ndtr(gap / np.sqrt(np.where(known, variance, 1.0))), 0.5).tolist()
    same = [one.rank is not None and one.list_number == other.list_number for one, other in pairwise(entries)]
    return [*(p if linked else None for p, linked in zip(probability, same, strict=True)), None]


class _IntervalScale:
    """Maps scores to SVG units."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.span = low, max(high - low, 1e-9)

    def __call__(self, value: float) -> float:
        return round(INTERVAL_WIDTH * (value - self.low) / self.span, 2)

    def interval(self, mean: float, sd: float) -> Interval:
        return Interval(self(mean - Z_95 * sd), self(mean), self(mean + Z_95 * sd))


def _interval_scale(entries: list[RankedEntry]) -> _IntervalScale:
    low = min((each.mean - Z_95 * each.sd for each in entries), default=0.0)
    return _IntervalScale(low, max((each.mean + Z_95 * each.sd for each in entries), default=0.0))


@dataclass(frozen=True)
class RankingPoint:
    """One item of the figures."""

    item: int
    key: str
    text: str
    rank: int
    mean: float
    sd: float
    polarisation: float


def ranking_figures(entries: list[RankedEntry], project: Project, *, linked: bool) -> list[Figure]:
    """Both figures for the best of these items, with links and keys if linked."""
    best = sorted((each for each in entries if each.rank is not None), key=lambda each: each.rank or 0)[:MAX_POINTS]
    best.sort(key=_position)
    texts = Item.objects.filter(pk__in=[each.item_id for each in best])
    named = {pk: (key, text) for pk, key, text in texts.values_list("pk", "key", Left("text", MAX_HOVER_LENGTH + 1))}
    points = [
        RankingPoint(each.item_id, *named[each.item_id], each.rank or 0, each.mean, each.sd, each.polarisation)
        for each in best
    ]
    to = project if linked else None
    return [intervals_figure(points, to), polarisation_figure(points, to)] if points else []


def intervals_figure(points: list[RankingPoint], project: Project | None) -> Figure:
    """Scores with their 95% intervals by rank: a labelled row per item if there are few, else all along the x axis."""
    description = _("Score and 95 %% interval of %(n)d items by rank, from %(high).2f to %(low).2f.") % {
        "n": len(points),
        "high": max(point.mean for point in points),
        "low": min(point.mean for point in points),
    }
    title, few = _("Score by rank, 95 % interval"), len(points) <= MAX_LABELLED
    trace, layout = _named_intervals(points, project) if few else _many_intervals(points, project)
    height = max(260, 100 + 18 * len(points)) if few else 420
    return Figure("intervals", title, description, [trace], {**layout, "showlegend": False}, height)


def _named_intervals(points: list[RankingPoint], project: Project | None) -> tuple[Trace, dict[str, Any]]:
    """One row per item, labelled with its rank and name, best at the top."""
    places = list(range(1, len(points) + 1))
    trace = {
        **_markers(points, [point.mean for point in points], places, project),
        "error_x": error_bars(Z_95 * point.sd for point in points),
        "marker": {"color": "--accent", "size": 7},
        "hovertemplate": "%{text}<br>%{x:.2f} ± %{error_x.array:.2f}<extra></extra>",
    }
    names = _names(points, project)
    labels = [f"{names[point.item]}  {point.rank}" for point in points]
    yaxis = axis(_("Rank"), tickvals=places, ticktext=labels, range=[len(points) + 0.5, 0.5], zeroline=False)
    return trace, {"xaxis": axis(_("Score")), "yaxis": yaxis}


def _many_intervals(points: list[RankingPoint], project: Project | None) -> tuple[Trace, dict[str, Any]]:
    """Items by rank; only the best and the worst are named."""
    trace = {
        **_markers(points, [point.rank for point in points], [point.mean for point in points], project),
        "error_y": error_bars(Z_95 * point.sd for point in points),
        "marker": {"color": "--accent", "size": 6 if len(points) <= 200 else 3},
        "hovertemplate": "%{text}<br>%{y:.2f} ± %{error_y.array:.2f}<extra></extra>",
    }
    by_score = sorted(points, key=lambda point: -point.mean)
    best, worst = by_score[:LABELLED_ENDS], by_score[-LABELLED_ENDS:]
    names = _names(points, project)
    labels = [_arrow(point, names[point.item], 46, -18 * (2 - n)) for n, point in enumerate(best)]
    labels += [_arrow(point, names[point.item], -46, 18 * n) for n, point in enumerate(worst)]
    xaxis = rank_axis(sorted(point.rank for point in points))
    return trace, {"xaxis": xaxis, "yaxis": axis(_("Score")), "annotations": labels}


def _names(points: list[RankingPoint], project: Project | None) -> dict[int, str]:
    """Figure labels by item: texts if all are short and distinct, else keys; always texts on the public ranking."""
    texts = {point.text for point in points}
    use_text = project is None or (len(texts) == len(points) and all(len(text) <= MAX_LABEL for text in texts))
    names = {point.item: point.text if use_text else point.key for point in points}
    return {
        item: escape_label(name if len(name) <= MAX_LABEL else f"{name[:MAX_LABEL]}…") for item, name in names.items()
    }


def _arrow(point: RankingPoint, text: str, dx: int, dy: int) -> dict[str, Any]:
    place = {"x": point.rank, "y": round(point.mean, DIGITS), "ax": dx, "ay": dy}
    anchor = {"xanchor": "left" if dx > 0 else "right", "font": {"size": 11, "color": "--ink"}}
    return {**place, **anchor, "text": text, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": "--edge"}


def polarisation_figure(points: list[RankingPoint], project: Project | None) -> Figure:
    """Consensus score against polarisation."""
    trace = {
        **_markers(points, [point.mean for point in points], [point.polarisation for point in points], project),
        "marker": {"color": "--c1", "size": 8 if len(points) <= 200 else 4, "opacity": 0.7},
        "hovertemplate": "%{text}<br>%{x:.2f} / %{y:.2f}<extra></extra>",
    }
    most = max(points, key=lambda point: point.polarisation)
    description = _("Score against polarisation. The most divisive item is %(key)s.") % {
        "key": most.key if project else truncate(most.text)
    }
    corners = [
        (0.0, 0.0, "left", "bottom", _("low, agreed")),
        (1.0, 0.0, "right", "bottom", _("high, agreed")),
        (0.5, 1.0, "center", "top", _("divisive")),
    ]
    layout = {
        "xaxis": axis(_("Consensus score")),
        "yaxis": axis(_("Polarisation"), rangemode="tozero"),
        "showlegend": False,
        "annotations": [_annotation(*corner) for corner in corners],
    }
    return Figure("divides", _("Consensus and polarisation"), description, [trace], layout)


def _markers(points: list[RankingPoint], x: list[Any], y: list[Any], project: Project | None) -> dict[str, Any]:
    labels = [escape_label(point.text) for point in points]
    if project:
        labels = [f"{escape_label(point.key)}: {label}" for point, label in zip(points, labels, strict=True)]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": rounded(x),
        "y": rounded(y),
        "text": labels,
        "customdata": item_urls(project, [point.item for point in points]) if project else [],
    }


def _annotation(x: float, y: float, xanchor: str, yanchor: str, text: str) -> dict[str, Any]:
    place = {"x": x, "y": y, "xref": "paper", "yref": "paper", "xanchor": xanchor, "yanchor": yanchor}
    return {**place, "text": text, "showarrow": False, "font": {"color": "--soft"}}
