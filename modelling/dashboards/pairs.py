"""The pairs page: the probability that each item is preferred to each other, and the judgements so far."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from django.utils.translation import gettext as _
from numpy.typing import NDArray

from annotation.http.arm_filter import EVERY_ARM, ArmFilter
from annotation.models import Item, Judgement, Worker
from modelling.dashboards.common.figures import Figure, escape_label, rounded
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.training.inputs import PREFERENCE
from modelling.training.snapshots import FittedModel, item_positions, load_fitted_model
from modelling.training.votes import training_judgements

DEFAULT_ITEMS = 10
MAX_ITEMS = 25
Choice = Judgement.Choice
PairCounts = Counter[tuple[int, int]]


@dataclass(frozen=True)
class PairCell:
    """Row against column: the probability that the row wins, and how often it won, tied and lost."""

    probability: float | None
    won: int = 0
    tied: int = 0
    lost: int = 0

    @property
    def judgements(self) -> int:
        return self.won + self.tied + self.lost


@dataclass(frozen=True)
class PairRow:
    item: Item
    cells: list[PairCell]


@dataclass(frozen=True)
class PairsPage:
    worker: Worker | None
    unknown_worker: bool
    missing: list[str]
    rows: list[PairRow]
    figure: Figure | None
    arms: ArmFilter


def pairs_page(
    snapshot: ModelSnapshot, keys: list[str], group: str, worker: Worker | None, arms: ArmFilter = EVERY_ARM
) -> PairsPage:
    """Compare the chosen items, or the best ones, pairwise, for a random member of the crowd or for one worker.

    With an arm, the judgements are those of its workers; the probabilities do not depend on it.
    """
    items = _select_items(snapshot, keys, group)
    missing = sorted(set(keys) - {item.key for item in items})
    fitted = load_fitted_model(snapshot)
    user = fitted.worker_index.get(worker.pk) if worker else None
    if worker is not None and user is None:
        return PairsPage(worker, True, missing, [], None, arms)
    p, counts = probabilities(fitted, items, user), count_outcomes(snapshot, items, worker, arms)
    rows = [PairRow(a, [_cell(p, counts, items, i, j) for j in range(len(items))]) for i, a in enumerate(items)]
    return PairsPage(worker, False, missing, rows, matrix_figure(items, p) if len(items) > 1 else None, arms)


def _select_items(snapshot: ModelSnapshot, keys: list[str], group: str) -> list[Item]:
    """The items to show in order of rank, at most MAX_ITEMS."""
    scores = ConsensusScore.objects.filter(snapshot=snapshot).select_related("item", "item__project").order_by("rank")
    if keys:
        scores = scores.filter(item__key__in=keys[:MAX_ITEMS])
    elif group:
        scores = scores.filter(item__group=group)
    return [score.item for score in scores[: MAX_ITEMS if keys else DEFAULT_ITEMS]]


def probabilities(fitted: FittedModel, items: list[Item], user: int | None) -> NDArray[np.float64]:
    """Probability that the row is preferred to the column, shape (n, n)."""
    at, n = item_positions(fitted, items), len(items)
    a, b = np.repeat(at, n), np.tile(at, n)
    if user is None:
        return fitted.model.predict_consensus_proba(a, b).reshape(n, n)
    return fitted.model.predict_proba(np.full(n * n, user), a, b).reshape(n, n)


def count_outcomes(
    snapshot: ModelSnapshot, items: list[Item], worker: Worker | None, arms: ArmFilter = EVERY_ARM
) -> dict[str, PairCounts]:
    """The version's judgements between these items, counted by outcome and (lo, hi)."""
    ids = [item.pk for item in items]
    judgements = training_judgements(snapshot).filter(item_lo__in=ids, item_hi__in=ids, **arms.of_judgements)
    if worker is not None:
        judgements = judgements.filter(worker=worker)
    counts: dict[str, PairCounts] = {outcome: Counter() for outcome in PREFERENCE}
    for lo, hi, outcome in judgements.values_list("item_lo", "item_hi", "choice"):
        counts[outcome][lo, hi] += 1
    return counts


def _cell(p: NDArray[np.float64], counts: dict[str, PairCounts], items: list[Item], i: int, j: int) -> PairCell:
    if i == j:
        return PairCell(None)
    a, b = items[i].pk, items[j].pk
    pair = (min(a, b), max(a, b))
    first, second = (Choice.LO, Choice.HI) if a < b else (Choice.HI, Choice.LO)
    return PairCell(float(p[i, j]), counts[first][pair], counts[Choice.TIE][pair], counts[second][pair])


def matrix_figure(items: list[Item], p: NDArray[np.float64]) -> Figure:
    """Heat map of the table: blue where the row wins, red where it loses."""
    keys = [escape_label(item.key) for item in items]
    cells = [rounded(row) for row in p]
    for diagonal, row in enumerate(cells):
        row[diagonal] = None  # type: ignore[call-overload]
    trace = {
        "type": "heatmap",
        "x": keys,
        "y": keys,
        "z": cells,
        "zmin": 0,
        "zmax": 1,
        # Without gaps, and for a colour bar, plotly sets inline styles that the content security policy blocks.
        "xgap": 1,
        "ygap": 1,
        "showscale": False,
        "text": [["" if cell is None else f"{100 * cell:.0f}" for cell in row] for row in cells],  # %
        "texttemplate": "%{text}",
        "colorscale": [[0, "--c2"], [0.5, "--surface"], [1, "--c1"]],
        "hovertemplate": "%{y} / %{x}: %{z:.0%}<extra></extra>",
    }
    description = _("Probability that each of %(n)d items is preferred to each other; the table below has the numbers.")
    by_key = {"type": "category", "showgrid": False}
    layout = {"yaxis": {**by_key, "autorange": "reversed"}, "xaxis": {**by_key, "side": "top"}}
    title = _("Probability that the row is preferred to the column")
    return Figure("pairs", title, description % {"n": len(items)}, [trace], layout, 480)
