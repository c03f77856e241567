"""Who wins against whom: the probability that one item is preferred to another, with the answers given so far."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from django.utils.translation import gettext as _
from numpy.typing import NDArray

from annotation.models import Item, Judgement, Worker
from modelling.dashboards.answers import learned_from
from modelling.dashboards.pictures import Picture, numbers, plain
from modelling.inputs import PREFERENCE
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.snapshots import Fitted, item_positions, load_fitted

USUAL = 10
MOST = 25
Choice = Judgement.Choice
Counts = Counter[tuple[int, int]]


@dataclass(frozen=True)
class Cell:
    """Row against column: the probability that the row wins, and how often it won, tied and lost."""

    probability: float | None
    won: int = 0
    tied: int = 0
    lost: int = 0

    @property
    def answers(self) -> int:
        return self.won + self.tied + self.lost


@dataclass(frozen=True)
class Row:
    item: Item
    cells: list[Cell]


@dataclass(frozen=True)
class PairsPage:
    worker: Worker | None
    unknown_worker: bool
    missing: list[str]
    rows: list[Row]
    picture: Picture | None


def pairs_page(snapshot: ModelSnapshot, keys: list[str], group: str, worker: Worker | None) -> PairsPage:
    """The chosen items, or the best ones, against each other, as a typical worker or this one sees it."""
    items = _chosen(snapshot, keys, group)
    missing = sorted(set(keys) - {item.key for item in items})
    fitted = load_fitted(snapshot)
    user = fitted.position_of_worker(worker.pk) if worker else None
    if worker is not None and user is None:
        return PairsPage(worker, True, missing, [], None)
    p, counts = probabilities(fitted, items, user), answers(snapshot, items, worker)
    rows = [Row(a, [_cell(p, counts, items, i, j) for j in range(len(items))]) for i, a in enumerate(items)]
    return PairsPage(worker, False, missing, rows, matrix_picture(items, p) if len(items) > 1 else None)


def _chosen(snapshot: ModelSnapshot, keys: list[str], group: str) -> list[Item]:
    """In order of rank, never more than fit on a page."""
    scores = ConsensusScore.objects.filter(snapshot=snapshot).select_related("item", "item__project").order_by("rank")
    if keys:
        scores = scores.filter(item__key__in=keys[:MOST])
    elif group:
        scores = scores.filter(item__group=group)
    return [score.item for score in scores[: MOST if keys else USUAL]]


def probabilities(fitted: Fitted, items: list[Item], user: int | None) -> NDArray[np.float64]:
    """(n, n): the probability that the row is preferred to the column."""
    at, n = item_positions(fitted, items), len(items)
    a, b = np.repeat(at, n), np.tile(at, n)
    if user is None:
        return fitted.model.predict_consensus_proba(a, b).reshape(n, n)
    return fitted.model.predict_proba(np.full(n * n, user), a, b).reshape(n, n)


def answers(snapshot: ModelSnapshot, items: list[Item], worker: Worker | None) -> dict[str, Counts]:
    """The judgements between these items that this version has learned from, by outcome and (lo, hi)."""
    among = [item.pk for item in items]
    seen = learned_from(snapshot).filter(item_lo__in=among, item_hi__in=among)
    if worker is not None:
        seen = seen.filter(worker=worker)
    counts: dict[str, Counts] = {outcome: Counter() for outcome in PREFERENCE}
    for lo, hi, outcome in seen.values_list("item_lo", "item_hi", "choice"):
        counts[outcome][lo, hi] += 1
    return counts


def _cell(p: NDArray[np.float64], counts: dict[str, Counts], items: list[Item], i: int, j: int) -> Cell:
    if i == j:
        return Cell(None)
    a, b = items[i].pk, items[j].pk
    pair = (min(a, b), max(a, b))
    first, second = (Choice.LO, Choice.HI) if a < b else (Choice.HI, Choice.LO)
    return Cell(float(p[i, j]), counts[first][pair], counts[Choice.TIE][pair], counts[second][pair])


def matrix_picture(items: list[Item], p: NDArray[np.float64]) -> Picture:
    """The table as colours: blue where the row wins, red where it loses."""
    keys = [plain(item.key) for item in items]
    shown = [numbers(row) for row in p]
    for place, row in enumerate(shown):
        row[place] = None  # type: ignore[call-overload]
    trace = {
        "type": "heatmap",
        "x": keys,
        "y": keys,
        "z": shown,
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, "--c2"], [0.5, "--surface"], [1, "--c1"]],
        "hovertemplate": "%{y} / %{x}: %{z:.0%}<extra></extra>",
        "colorbar": {"tickformat": ".0%", "thickness": 12, "outlinewidth": 0},
    }
    words = _("How probably each of %(n)d items wins against each other; the table below says it in numbers.") % {
        "n": len(items)
    }
    by_key = {"type": "category", "showgrid": False}
    layout = {"yaxis": {**by_key, "autorange": "reversed"}, "xaxis": {**by_key, "side": "top"}}
    return Picture("pairs", _("Probability that the row wins against the column"), words, [trace], layout, 480)
