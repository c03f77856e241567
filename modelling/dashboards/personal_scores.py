"""The scores a worker probably has in mind, how sure they are, and what makes them differ from the consensus."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from django.utils.translation import gettext as _

from annotation.models import Project, Worker
from modelling.dashboards.addresses import items_at
from modelling.dashboards.answers import Ints, chances
from modelling.dashboards.axes import Axes, Axis, Floats, axes_of
from modelling.dashboards.pictures import Picture, Table, axis, numbers, plain
from modelling.models import ConsensusScore, ModelSnapshot

CAUSES = 2  # of one difference, by name
MOST_DRAWN = 1000
COLUMNS = ["key", "mean", "sd", "rank", "consensus_mean", "consensus_rank", "difference"]


@dataclass(frozen=True)
class Cause:
    """What one component adds to a difference."""

    axis: Axis
    value: float


@dataclass(frozen=True)
class Preference:
    """One item as this worker probably sees it and as the crowd does.

    The difference is the sum of what the components in use add, the `rest` that none of them explains and, in a refined
    version, what `refining` changed: the components are those of the fit before it.
    """

    score: ConsensusScore
    mean: float
    sd: float
    rank: int
    causes: list[Cause]
    rest: float
    refining: float | None

    @property
    def difference(self) -> float:
        return self.mean - self.score.mean

    @property
    def main_causes(self) -> list[Cause]:
        return sorted(self.causes, key=lambda cause: -abs(cause.value))[:CAUSES]


@dataclass(frozen=True)
class Pair:
    """The probability that the worker, and a typical one, prefers the item of key a to that of key b."""

    a: str
    b: str
    own: float
    crowd: float


class Ranked(NamedTuple):
    """A ranked item: its id, key and consensus score."""

    item: int
    key: str
    mean: float


class Own:
    """The worker's predicted scores of the ranked items."""

    def __init__(self, snapshot: ModelSnapshot, axes: Axes, user: int) -> None:
        self.snapshot, self.axes, self.user = snapshot, axes, user
        rows = snapshot.scores.order_by("rank").values_list("item_id", "item__key", "mean")
        self.ranked = [Ranked(*row) for row in rows]
        at = axes.fitted.item_at
        self.items = np.array([at[each.item] for each in self.ranked], dtype=np.int64)
        self.mean = axes.fitted.model.predict_utilities(users=np.array([user]), items=self.items)[:, 0]
        self.consensus = np.array([each.mean for each in self.ranked])

    @property
    def by_difference(self) -> Ints:
        return np.argsort(-np.abs(self.mean - self.consensus), kind="stable")

    def preferences(self, rows: Ints) -> list[Preference]:
        """These items with their uncertainty and what makes the difference."""
        if not len(rows):
            return []
        users, items = np.array([self.user]), self.items[rows]
        model = self.axes.fitted.model
        sd = model.predict_utilities(users=users, items=items, return_std=True, among=self.items)[1][:, 0]
        rank = np.argsort(np.argsort(-self.mean, kind="stable")) + 1
        used, scores = self.axes.used, self._scores(rows)
        added = self.axes.contributions(items, self.user)[used].T
        refining = self._refining(rows)
        rest = self.mean[rows] - self.consensus[rows] - added.sum(axis=1) - (0.0 if refining is None else refining)
        return [
            Preference(
                score=scores[self.ranked[row].item],
                mean=float(self.mean[row]),
                sd=float(sd[place]),
                rank=int(rank[row]),
                causes=[Cause(self.axes.axes[c], float(v)) for c, v in zip(used, added[place], strict=True)],
                rest=float(rest[place]),
                refining=None if refining is None else float(refining[place]),
            )
            for place, row in enumerate(rows)
        ]

    def _refining(self, rows: Ints) -> Floats | None:
        """By how much the differences are others than those of the fit; None in a version that is not refined."""
        model, items = self.axes.fitted.model, self.items[rows]
        if model.refined_ is None:
            return None
        plain = model.unrefined()
        fit = plain.predict_utilities(users=np.array([self.user]), items=items)[:, 0] - plain.predict_consensus(items)
        return np.asarray(self.mean[rows] - self.consensus[rows] - fit)

    def _scores(self, rows: Ints) -> dict[int, ConsensusScore]:
        wanted = {self.ranked[row].item for row in rows}
        found = self.snapshot.scores.filter(item__in=wanted).select_related("item", "item__project")
        return {score.item_id: score for score in found}

    def pair(self, a: str, b: str) -> Pair | None:
        """What is expected of a pair by its keys; nothing where one is unknown or both are one."""
        at = {each.key: place for place, each in enumerate(self.ranked)}
        if a not in at or b not in at or a == b:
            return None
        first, second = self.items[[at[a]]], self.items[[at[b]]]
        expected = chances(self.axes.fitted, np.array([self.user]), first, second)
        return Pair(a, b, float(expected.own[0]), float(expected.crowd[0]))


def preference_table(snapshot: ModelSnapshot, worker: Worker) -> Table | None:
    """Every ranked item as this worker sees it, with what each component in use adds; None if they are unknown."""
    axes = axes_of(snapshot)
    user = axes.fitted.position_of_worker(worker.pk)
    if user is None:
        return None
    own = Own(snapshot, axes, user)
    named = [f"component_{axes.axes[row].number}" for row in axes.used]
    rows = [
        [
            each.score.item.key, each.mean, each.sd, each.rank, each.score.mean, each.score.rank, each.difference,
            *(cause.value for cause in each.causes), each.rest, *([each.refining] if snapshot.refined else []),
            snapshot.number, snapshot.last_sequence,
        ]
        for each in own.preferences(own.by_difference)
    ]  # fmt: skip
    refining = ["refining"] if snapshot.refined else []
    return Table([*COLUMNS, *named, "rest", *refining, "version", "as_of_seq"], rows)


def beside_picture(own: Own, project: Project) -> Picture:
    """Every item by the crowd's score and the worker's; on the line both agree."""
    shown = range(min(len(own.ranked), MOST_DRAWN))
    low, high = (
        float(f([own.mean.min(), own.consensus.min(), own.mean.max(), own.consensus.max()])) for f in (min, max)
    )
    line = {
        "type": "scatter", "mode": "lines", "x": numbers([low, high]), "y": numbers([low, high]),
        "line": {"color": "--edge", "dash": "dash", "width": 1}, "hoverinfo": "skip", "showlegend": False,
    }  # fmt: skip
    items = [own.ranked[place] for place in shown]
    texts = dict(own.snapshot.scores.order_by("rank").values_list("item_id", "item__text")[: len(items)])
    points = {
        "type": "scatter",
        "mode": "markers",
        "x": numbers(own.consensus[place] for place in shown),
        "y": numbers(own.mean[place] for place in shown),
        "text": [f"{plain(item.key)}: {plain(texts[item.item])}" for item in items],
        "customdata": items_at(project, [item.item for item in items]),
        "marker": {"color": "--c1", "size": 7 if len(items) <= 200 else 4, "opacity": 0.75},
        "hovertemplate": "<b>%{text}</b><br>%{x:.2f} → %{y:.2f}<extra></extra>",
    }
    words = _("The worker's score of %(n)d items against the crowd's.") % {"n": len(items)}
    layout = {"xaxis": axis(_("The crowd's score")), "yaxis": axis(_("This worker's score")), "showlegend": False}
    return Picture("beside", _("This worker beside the crowd"), words, [line, points], layout)


def causes_picture(preferences: list[Preference]) -> Picture:
    """The largest differences, cut into what each component in use adds and the rest."""
    keys = [plain(each.score.item.key) for each in preferences]
    parts = [
        (each.axis.title, [p.causes[place].value for p in preferences])
        for place, each in enumerate(preferences[0].causes)
    ]
    parts.append((_("the rest"), [each.rest for each in preferences]))
    if preferences[0].refining is not None:
        parts.append((_("refining"), [each.refining or 0.0 for each in preferences]))
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": plain(title),
            "y": keys,
            "x": numbers(values),
            "marker": {"color": _colour(place, len(preferences[0].causes))},
            "hovertemplate": "%{y}: %{x:.2f}<extra></extra>",
        }
        for place, (title, values) in enumerate(parts)
    ]
    words = _("What makes the %(n)d largest differences; the table below says it in numbers.") % {"n": len(keys)}
    layout = {
        "barmode": "relative",
        "xaxis": axis(_("Difference")),
        "yaxis": {"autorange": "reversed", "type": "category"},
    }
    columns = [[round(value, 3) for value in values] for _title, values in parts]
    rows = [[each.score.item.key, *row] for each, row in zip(preferences, zip(*columns, strict=True), strict=True)]
    table = Table([_("Item"), *(title for title, _values in parts)], rows)
    return Picture("causes", _("What makes the difference"), words, traces, layout, table=table)


def _colour(place: int, causes: int) -> str:
    """Of a bar's part: each component has its own, what follows them is grey or black."""
    if place < causes:
        return f"--c{1 + place % 7}"
    return "--edge" if place == causes else "--ink"
