"""One item: its score over the versions, who likes it more or less than the crowd, and who judged it how."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.core.paginator import Page, Paginator
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from annotation.models import Item, Judgement, Project, Worker
from modelling.dashboards.addresses import workers_at
from modelling.dashboards.answers import Ints, chances, learned_from
from modelling.dashboards.axes import Axes, Axis, axes_of
from modelling.dashboards.neighbours import NEIGHBOURS, Neighbour, most_alike
from modelling.dashboards.pictures import Picture, Table, axis, error_bars, numbers, plain
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.ranking import Z_95
from modelling.snapshots import Fitted

MOST_VERSIONS = 200  # in the history, the newest ones
PEOPLE = 5  # on either side
ANSWERS_PER_PAGE = 50
ANSWER_COLUMNS = [
    "worker", "against", "answer", "probability_own", "probability_crowd", "sequence", "version", "as_of_seq",
]  # fmt: skip


@dataclass(frozen=True)
class Liking:
    """How a worker probably scores the item; `difference` is from the consensus. Each with its uncertainty."""

    worker: Worker
    mean: float
    sd: float
    difference: float
    difference_sd: float


@dataclass(frozen=True)
class Standing:
    """Where the item lies on one component in use."""

    axis: Axis
    value: float


@dataclass(frozen=True)
class Answer:
    """One judgement of the item. Probabilities are of preferring it to the other one."""

    worker: Worker
    against: Item
    said: str
    own: float
    crowd: float
    sequence: int

    @property
    def words(self) -> str:
        return {"this": _("preferred this"), "other": _("preferred the other"), "tie": _("equally good")}[self.said]


@dataclass(frozen=True)
class ItemPage:
    score: ConsensusScore | None
    n_items: int
    history: list[ConsensusScore]
    standings: list[Standing]
    more: list[Liking]
    less: list[Liking]
    neighbours: list[Neighbour]
    answers: list[Answer]
    page: Page
    pictures: list[Picture]

    @property
    def likings(self) -> list[tuple[str, list[Liking]]]:
        return [(_("More than the crowd"), self.more), (_("Less than the crowd"), self.less)]


def item_page(snapshot: ModelSnapshot, item: Item, number: int) -> ItemPage | None:
    """What a version knows of an item; None where it has never met it."""
    axes = axes_of(snapshot)
    place = axes.fitted.item_at.get(item.pk)
    if place is None:
        return None
    history = score_history(snapshot, item)
    score = history[-1] if history and history[-1].snapshot_id == snapshot.pk else None
    more, less = likings(axes, place)
    page = Paginator(judgements_of(snapshot, item), ANSWERS_PER_PAGE).get_page(number)
    pictures = [history_picture(history)] if history else []
    pictures += [people_picture(more, less, item.project)] if more or less else []
    return ItemPage(
        score=score,
        n_items=snapshot.scores.count(),
        history=history[::-1],
        standings=[Standing(axes.axes[row], float(axes.items[row, place])) for row in axes.used],
        more=more,
        less=less,
        neighbours=neighbours(snapshot, axes.fitted, place),
        answers=answers(axes.fitted, item, list(page)),
        page=page,
        pictures=pictures,
    )


def score_history(snapshot: ModelSnapshot, item: Item) -> list[ConsensusScore]:
    """The item's scores up to the shown version, oldest first."""
    scores = ConsensusScore.objects.filter(
        item=item, snapshot__project=snapshot.project_id, snapshot__number__lte=snapshot.number
    )
    newest = scores.select_related("snapshot").defer("snapshot__diagnostics").order_by("-snapshot__number")
    return list(newest[:MOST_VERSIONS])[::-1]


def likings(axes: Axes, place: int) -> tuple[list[Liking], list[Liking]]:
    """The workers who probably like the item most above, and most below, what the consensus says."""
    model, ids = axes.fitted.model, axes.fitted.worker_ids
    if not axes.axes or not len(ids):
        return [], []
    items = np.array([place])
    consensus = float(model.predict_consensus(items=items)[0])
    mean = model.predict_utilities(items=items)[0]
    order = np.argsort(consensus - mean, kind="stable")
    sides = order[mean[order] > consensus][: 2 * PEOPLE], order[mean[order] < consensus][::-1][: 2 * PEOPLE]
    workers = Worker.objects.that_may_be_told().in_bulk(ids[np.concatenate(sides)].tolist())  # some may be gone
    chosen = [[u for u in side.tolist() if int(ids[u]) in workers][:PEOPLE] for side in sides]
    sd = _uncertainty(axes.fitted, np.array([*chosen[0], *chosen[1]], dtype=np.int64), items)
    found = [
        [Liking(workers[int(ids[u])], float(mean[u]), sd[u][0], float(mean[u]) - consensus, sd[u][1]) for u in side]
        for side in chosen
    ]
    return found[0], found[1]


def _uncertainty(fitted: Fitted, users: Ints, item: Ints) -> dict[int, tuple[float, float]]:
    """By worker, how unsure their score of the item is, and how unsure its difference from the consensus."""
    among = fitted.ranked if len(fitted.ranked) else None
    own = fitted.model.predict_utilities(users=users, items=item, return_std=True, among=among)[1][0]
    difference = fitted.model.predict_differences(users=users, items=item, among=among)[1][0]
    return dict(zip(users.tolist(), zip(own.tolist(), difference.tolist(), strict=True), strict=True))


def neighbours(snapshot: ModelSnapshot, fitted: Fitted, place: int) -> list[Neighbour]:
    """The ranked items that read most like this one."""
    alike = fitted.model.similarity(np.array([place]))[0]
    order = [int(at) for at in np.argsort(-alike, kind="stable") if at != place and alike[at] > 0]
    ids = {int(fitted.item_ids[at]): float(alike[at]) for at in order[: 2 * NEIGHBOURS]}  # some may be switched off
    scores = snapshot.scores.filter(item__in=ids).select_related("item", "item__project")
    return most_alike(scores, [ids[score.item_id] for score in scores])


def judgements_of(snapshot: ModelSnapshot, item: Item) -> "QuerySet[Judgement]":
    """Of the item, the newest first."""
    given = learned_from(snapshot).filter(Q(item_lo=item) | Q(item_hi=item))
    return given.select_related("worker", "item_lo", "item_hi").order_by("-sequence")


def answers(fitted: Fitted, item: Item, given: list[Judgement]) -> list[Answer]:
    """These judgements with what was to be expected of them."""
    worker_at, item_at = fitted.worker_at, fitted.item_at
    others = [each.item_hi if each.item_lo_id == item.pk else each.item_lo for each in given]
    pairs = [
        (each, other)
        for each, other in zip(given, others, strict=True)
        if each.worker_id in worker_at and other.pk in item_at
    ]
    u = np.array([worker_at[each.worker_id] for each, _other in pairs], dtype=np.int64)
    b = np.array([item_at[other.pk] for _each, other in pairs], dtype=np.int64)
    expected = chances(fitted, u, np.full(len(pairs), item_at[item.pk]), b)
    rows = zip(pairs, expected.own, expected.crowd, strict=True)
    return [
        Answer(each.worker, other, _said(each, item), float(own), float(crowd), each.sequence)
        for (each, other), own, crowd in rows
    ]


def _said(judgement: Judgement, item: Item) -> str:
    if judgement.choice == Judgement.Choice.TIE:
        return "tie"
    is_lo = judgement.item_lo_id == item.pk
    return "this" if (judgement.choice == Judgement.Choice.LO) == is_lo else "other"


def answer_rows(snapshot: ModelSnapshot, item: Item) -> Iterator[list[Any]]:
    """All judgements of the item with what was to be expected, for a file."""
    fitted = axes_of(snapshot).fitted
    if item.pk not in fitted.item_at:
        return
    for each in answers(fitted, item, list(judgements_of(snapshot, item))):
        facts = [each.worker.code, each.against.key, each.said, each.own, each.crowd, each.sequence]
        yield [*facts, snapshot.number, snapshot.last_sequence]


def history_picture(history: list[ConsensusScore]) -> Picture:
    """The score with its 95 % interval, version by version."""
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [score.snapshot.number for score in history],
        "y": numbers(score.mean for score in history),
        "error_y": error_bars(Z_95 * score.sd for score in history),
        "line": {"color": "--accent", "width": 1.5},
        "marker": {"color": "--accent", "size": 6},
        "text": [str(score.snapshot.included) for score in history],
        "hovertemplate": "<b>%{x}</b> (%{text})<br>%{y:.2f} ± %{error_y.array:.2f}<extra></extra>",
    }
    first, last = history[0], history[-1]
    words = _("Score from %(first).2f in version %(a)d to %(last).2f in version %(b)d.") % {
        "first": first.mean, "a": first.snapshot.number, "last": last.mean, "b": last.snapshot.number,
    }  # fmt: skip
    layout = {
        "xaxis": axis(_("Version"), type="category", showgrid=False), "yaxis": axis(_("Score")), "showlegend": False,
    }  # fmt: skip
    columns = [_("Version"), _("Judgements in all"), _("Score"), "sd", _("Rank"), _("Judgements of it")]
    rows = [
        [
            each.snapshot.number,
            each.snapshot.included,
            round(each.mean, 4),
            round(each.sd, 4),
            each.rank,
            each.judgements,
        ]
        for each in history[::-1]
    ]
    title = _("Score over versions, 95 % interval")
    return Picture("history", title, words, [trace], layout, height=340, table=Table(columns, rows))


def people_picture(more: list[Liking], less: list[Liking], project: Project) -> Picture:
    """The workers at both ends with their 95 % intervals; 0 is the crowd."""
    people = more + less[::-1]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "y": [plain(each.worker.code) for each in people],
        "x": numbers(each.difference for each in people),
        "error_x": error_bars(Z_95 * each.difference_sd for each in people),
        "marker": {"color": ["--c1" if each.difference > 0 else "--c2" for each in people], "size": 9},
        "customdata": workers_at(project, [each.worker.code for each in people]),
        "hovertemplate": "<b>%{y}</b><br>%{x:.2f} ± %{error_x.array:.2f}<extra></extra>",
    }
    words = _("Predicted difference from the crowd of %(n)d workers, with 95 %% intervals.") % {"n": len(people)}
    layout = {
        "xaxis": axis(_("Difference"), zeroline=True),
        "yaxis": {"autorange": "reversed", "type": "category"},
        "showlegend": False,
    }
    return Picture("people", _("Who likes it more, who less"), words, [trace], layout, height=340)
