"""The scores a worker probably has in mind, how sure they are, and what makes them differ from the consensus."""

from dataclasses import dataclass

import numpy as np
from django.urls import reverse
from django.utils.translation import gettext as _

from annotation.models import Item, Project, Worker
from modelling.dashboards.answers import Ints, chances
from modelling.dashboards.axes import Axes, Axis, axes_of
from modelling.dashboards.pictures import Picture, Table, axis, numbers, plain
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.snapshots import item_positions

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
    """One item as this worker probably sees it and as the crowd does; `rest` is what no component in use explains."""

    score: ConsensusScore
    mean: float
    sd: float
    rank: int
    causes: list[Cause]
    rest: float

    @property
    def difference(self) -> float:
        return self.mean - self.score.mean

    @property
    def main_causes(self) -> list[Cause]:
        return sorted(self.causes, key=lambda cause: -abs(cause.value))[:CAUSES]


@dataclass(frozen=True)
class Pair:
    """The probability that the worker, and a typical one, prefers a to b."""

    a: Item
    b: Item
    own: float
    crowd: float


class Own:
    """The worker's predicted scores of the ranked items."""

    def __init__(self, axes: Axes, user: int, scores: list[ConsensusScore]) -> None:
        self.axes, self.user, self.scores = axes, user, scores
        self.items = item_positions(axes.fitted, [score.item for score in scores])
        self.mean = axes.fitted.model.predict_utilities(users=np.array([user]), items=self.items)[:, 0]
        self.consensus = np.array([score.mean for score in scores])

    @property
    def by_difference(self) -> Ints:
        return np.argsort(-np.abs(self.mean - self.consensus), kind="stable")

    def preferences(self, rows: Ints) -> list[Preference]:
        """These items with their uncertainty and what makes the difference."""
        if not len(rows):
            return []
        users, items = np.array([self.user]), self.items[rows]
        sd = self.axes.fitted.model.predict_utilities(users=users, items=items, return_std=True)[1][:, 0]
        rank = np.argsort(np.argsort(-self.mean, kind="stable")) + 1
        used = self.axes.used
        added = self.axes.contributions(items, self.user)[used].T
        rest = self.mean[rows] - self.consensus[rows] - added.sum(axis=1)
        return [
            Preference(
                score=self.scores[row],
                mean=float(self.mean[row]),
                sd=float(sd[place]),
                rank=int(rank[row]),
                causes=[Cause(self.axes.axes[c], float(v)) for c, v in zip(used, added[place], strict=True)],
                rest=float(rest[place]),
            )
            for place, row in enumerate(rows)
        ]

    def pair(self, a: str, b: str) -> Pair | None:
        """What is expected of a pair by its keys; nothing where one is unknown or both are one."""
        at = {score.item.key: place for place, score in enumerate(self.scores)}
        if a not in at or b not in at or a == b:
            return None
        first, second = self.items[[at[a]]], self.items[[at[b]]]
        expected = chances(self.axes.fitted, np.array([self.user]), first, second)
        return Pair(self.scores[at[a]].item, self.scores[at[b]].item, float(expected.own[0]), float(expected.crowd[0]))


def preference_table(snapshot: ModelSnapshot, worker: Worker) -> Table | None:
    """Every ranked item as this worker sees it, with what each component in use adds; None if they are unknown."""
    axes = axes_of(snapshot)
    user = axes.fitted.position_of_worker(worker.pk)
    if user is None:
        return None
    own = Own(axes, user, list(snapshot.scores.select_related("item").order_by("rank")))
    named = [f"component_{axes.axes[row].number}" for row in axes.used]
    rows = [
        [
            each.score.item.key, each.mean, each.sd, each.rank, each.score.mean, each.score.rank, each.difference,
            *(cause.value for cause in each.causes), each.rest, snapshot.number, snapshot.last_sequence,
        ]
        for each in own.preferences(own.by_difference)
    ]  # fmt: skip
    return Table([*COLUMNS, *named, "rest", "version", "as_of_seq"], rows)


def beside_picture(own: Own, project: Project) -> Picture:
    """Every item by the crowd's score and the worker's; on the line both agree."""
    shown = range(min(len(own.scores), MOST_DRAWN))
    low, high = (
        float(f([own.mean.min(), own.consensus.min(), own.mean.max(), own.consensus.max()])) for f in (min, max)
    )
    line = {
        "type": "scatter", "mode": "lines", "x": numbers([low, high]), "y": numbers([low, high]),
        "line": {"color": "--edge", "dash": "dash", "width": 1}, "hoverinfo": "skip", "showlegend": False,
    }  # fmt: skip
    items = [own.scores[place].item for place in shown]
    points = {
        "type": "scatter",
        "mode": "markers",
        "x": numbers(own.consensus[place] for place in shown),
        "y": numbers(own.mean[place] for place in shown),
        "text": [f"{plain(item.key)}: {plain(item.text)}" for item in items],
        "customdata": [reverse("modelling:item", args=[project.slug, item.pk]) for item in items],
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
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": plain(title),
            "y": keys,
            "x": numbers(values),
            "marker": {"color": f"--c{1 + place % 7}" if place < len(parts) - 1 else "--edge"},
            "hovertemplate": "%{y}: %{x:.2f}<extra></extra>",
        }
        for place, (title, values) in enumerate(parts)
    ]
    words = _("What makes the %(n)d largest differences; the table below says it in numbers.") % {"n": len(keys)}
    layout = {
        "barmode": "relative",
        "xaxis": axis(_("Difference from the crowd")),
        "yaxis": {"autorange": "reversed", "type": "category"},
    }
    rows = [
        [each.score.item.key, *(round(cause.value, 3) for cause in each.causes), round(each.rest, 3)]
        for each in preferences
    ]
    table = Table([_("Item"), *(title for title, _values in parts)], rows)
    return Picture("causes", _("What makes the difference"), words, traces, layout, table=table)
