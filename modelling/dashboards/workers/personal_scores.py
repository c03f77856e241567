"""A worker's predicted scores compared with the consensus, and what each component contributes to the difference."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from django.utils.translation import gettext as _

from annotation.models import Project, Worker
from modelling.dashboards.common.figures import Figure, FigureTable, axis, escape_label, rounded, shorten_key
from modelling.dashboards.common.judgements import Ints, predict_pairs
from modelling.dashboards.common.query import item_urls
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.training.components.axes import ComponentAxes, ComponentAxis, load_component_axes
from modelling.training.ranking import Z_95
from modelling.training.votes import get_votes

SHOWN_CONTRIBUTIONS = 2
MAX_POINTS = 1000
COLUMNS = ["key", "mean", "sd", "rank", "consensus_mean", "consensus_rank", "difference"]
PART_COLUMNS = ["comparable", "part", "part_rank", "consensus_part_rank"]  # `rank` is extrapolated if not comparable


@dataclass(frozen=True)
class Contribution:
    """What one component adds to a difference."""

    axis: ComponentAxis
    value: float


class PartRanks(NamedTuple):
    """An item's part of the comparison graph, and its ranks there; None without judgements."""

    part: int | None
    own: int | None
    consensus: int | None


@dataclass(frozen=True)
class PersonalScore:
    """A worker's predicted score of one item, with its consensus score.

    The difference is the sum of the contributions of the components and the `residual` that none of them explains.
    """

    consensus: ConsensusScore
    mean: float
    sd: float
    rank: int
    among: "PersonalScores"
    contributions: list[Contribution]
    residual: float
    difference_sd: float

    @property
    def difference(self) -> float:
        return self.mean - self.consensus.mean

    @property
    def in_part(self) -> PartRanks:
        return self.among.part_ranks[self.consensus.item_id]

    @property
    def is_clear(self) -> bool:
        """Whether the 95 % interval of the difference excludes 0."""
        return abs(self.difference) > Z_95 * self.difference_sd

    @property
    def main_contributions(self) -> list[Contribution]:
        return sorted(self.contributions, key=lambda each: -abs(each.value))[:SHOWN_CONTRIBUTIONS]


@dataclass(frozen=True)
class PairPrediction:
    """Probability that the worker, and a random member of the crowd, prefers the item with key a to that with key b."""

    a: str
    b: str
    own: float
    crowd: float


class RankedItem(NamedTuple):
    id: int
    key: str
    mean: float


class PersonalScores:
    """A worker's predicted scores of all ranked items."""

    def __init__(self, snapshot: ModelSnapshot, axes: ComponentAxes, user: int) -> None:
        self.snapshot, self.axes, self.user = snapshot, axes, user
        rows = snapshot.scores.order_by("rank").values_list("item_id", "item__key", "mean")
        self.ranked = [RankedItem(*row) for row in rows]
        at = axes.fitted.item_index
        self.items = np.array([at[each.id] for each in self.ranked], dtype=np.int64)
        model, users = axes.fitted.model, np.array([user])
        self.mean = model.predict_utilities(users=users, items=self.items, among=self.items)[:, 0]
        self.consensus = np.array([each.mean for each in self.ranked])

    @property
    def by_difference(self) -> Ints:
        """Indices of the ranked items, largest absolute difference first."""
        return np.argsort(-np.abs(self.mean - self.consensus), kind="stable")

    @cached_property
    def part_ranks(self) -> dict[int, PartRanks]:
        """The ranks of every item within its part: ranks across parts follow from the texts alone."""
        votes, seen, ranks = get_votes(self.snapshot), Counter[int | None](), {}
        for index in np.argsort(-self.mean, kind="stable").tolist():
            pk = self.ranked[index].id
            item = votes.of(pk)
            seen[item.part] += 1
            ranks[pk] = PartRanks(item.part, None if item.part is None else seen[item.part], item.part_rank)
        return ranks

    def details(self, rows: Ints) -> list[PersonalScore]:
        """These items with standard deviations and contributions."""
        if not len(rows):
            return []
        users, items = np.array([self.user]), self.items[rows]
        model = self.axes.fitted.model
        sd = model.predict_utilities(users=users, items=items, return_std=True, among=self.items)[1][:, 0]
        difference_sd = model.predict_tastes(users=users, items=items, among=self.items)[1][:, 0]
        rank = np.argsort(np.argsort(-self.mean, kind="stable")) + 1
        strongest, scores = self.axes.strongest, self._consensus_scores(rows)
        added = self.axes.contributions(items, self.user)[strongest].T
        residual = self.mean[rows] - self.consensus[rows] - added.sum(axis=1)
        return [
            PersonalScore(
                consensus=scores[self.ranked[row].id],
                mean=float(self.mean[row]),
                sd=float(sd[place]),
                rank=int(rank[row]),
                among=self,
                contributions=[
                    Contribution(self.axes.axes[c], float(value))
                    for c, value in zip(strongest, added[place], strict=True)
                ],
                residual=float(residual[place]),
                difference_sd=float(difference_sd[place]),
            )
            for place, row in enumerate(rows)
        ]

    def _consensus_scores(self, rows: Ints) -> dict[int, ConsensusScore]:
        wanted = {self.ranked[row].id for row in rows}
        found = self.snapshot.scores.filter(item__in=wanted).select_related("item", "item__project")
        return {score.item_id: score for score in found}

    def predict_pair(self, a: str, b: str) -> PairPrediction | None:
        """The prediction for two keys; None if one is unknown or they are the same."""
        at = {each.key: index for index, each in enumerate(self.ranked)}
        if a not in at or b not in at or a == b:
            return None
        first, second = self.items[[at[a]]], self.items[[at[b]]]
        predicted = predict_pairs(self.axes.fitted, np.array([self.user]), first, second)
        return PairPrediction(a, b, float(predicted.own[0]), float(predicted.crowd[0]))


def preference_table(snapshot: ModelSnapshot, worker: Worker) -> FigureTable | None:
    """Every ranked item with the worker's score and each component's contribution; None for an unknown worker."""
    axes = load_component_axes(snapshot)
    user = axes.fitted.worker_index.get(worker.pk)
    if user is None:
        return None
    scores, votes = PersonalScores(snapshot, axes, user), get_votes(snapshot)
    component_columns = [f"component_{axes.axes[row].number}" for row in axes.strongest]
    rows = [
        [
            each.consensus.item.key, each.mean, each.sd, each.rank, each.consensus.mean, each.consensus.rank,
            each.difference, *(contribution.value for contribution in each.contributions), each.residual,
            each.residual, snapshot.number, snapshot.last_sequence,
            "true" if votes.is_comparable(each.consensus.item_id) else "false", *each.in_part, each.difference_sd,
        ]
        for each in scores.details(scores.by_difference)
    ]  # fmt: skip
    # rest is the old name of residual
    columns = [*COLUMNS, *component_columns, "rest", "residual", "version", "as_of_seq", *PART_COLUMNS, "difference_sd"]
    return FigureTable(columns, rows)


def scores_figure(scores: PersonalScores, project: Project) -> Figure:
    """Every item by its consensus score and the worker's score; the diagonal is agreement."""
    items = scores.ranked[:MAX_POINTS]
    both = np.concatenate((scores.mean, scores.consensus))
    ends = rounded([both.min(), both.max()])
    diagonal = {
        "type": "scatter", "mode": "lines", "x": ends, "y": ends,
        "line": {"color": "--edge", "dash": "dash", "width": 1}, "hoverinfo": "skip", "showlegend": False,
    }  # fmt: skip
    texts = dict(scores.snapshot.scores.order_by("rank").values_list("item_id", "item__text")[: len(items)])
    points = {
        "type": "scatter",
        "mode": "markers",
        "x": rounded(scores.consensus[: len(items)]),
        "y": rounded(scores.mean[: len(items)]),
        "text": [f"{escape_label(item.key)}: {escape_label(texts[item.id])}" for item in items],
        "customdata": item_urls(project, [item.id for item in items]),
        "marker": {"color": "--c1", "size": 7 if len(items) <= 200 else 4, "opacity": 0.75},
        "hovertemplate": "%{text}<br>%{x:.2f} → %{y:.2f}<extra></extra>",
    }
    description = _("The worker's score of %(n)d items against the consensus score.") % {"n": len(items)}
    layout = {"xaxis": axis(_("Consensus score")), "yaxis": axis(_("This worker's score")), "showlegend": False}
    return Figure("worker-scores", _("This worker and the consensus"), description, [diagonal, points], layout)


def contributions_figure(scores: list[PersonalScore]) -> Figure:
    """The largest differences as stacked bars: the components and the residual."""
    keys = [escape_label(shorten_key(each.consensus.item.key)) for each in scores]
    parts = [
        (first.axis.title, [each.contributions[index].value for each in scores])
        for index, first in enumerate(scores[0].contributions)
    ]
    parts.append((_("residual"), [each.residual for each in scores]))
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": escape_label(title),
            "y": keys,
            "x": rounded(values),
            "marker": {"color": _colour(index, len(scores[0].contributions))},
            "hovertemplate": "%{y}: %{x:.2f}<extra></extra>",
        }
        for index, (title, values) in enumerate(parts)
    ]
    description = _("Contributions to the %(n)d largest differences; the table below has the numbers.") % {
        "n": len(keys)
    }
    layout = {
        "barmode": "relative",
        "xaxis": axis(_("Difference from the consensus")),
        "yaxis": {"autorange": "reversed", "type": "category"},
    }
    columns = [[round(value, 3) for value in values] for _title, values in parts]
    rows = [[each.consensus.item.key, *row] for each, row in zip(scores, zip(*columns, strict=True), strict=True)]
    table = FigureTable([_("Item"), *(title for title, _values in parts)], rows)
    title = _("Contributions by component")
    return Figure("contributions", title, description, traces, layout, table=table)


def _colour(index: int, n_components: int) -> str:
    """A colour per component, and grey for the residual."""
    return f"--c{1 + index % 7}" if index < n_components else "--edge"
