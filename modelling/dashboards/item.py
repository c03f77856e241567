"""The item page: its score in each version, the workers who rate it above or below the crowd, its judgements."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.core.paginator import Page, Paginator
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from annotation.http.arm_filter import EVERY_ARM, ArmFilter
from annotation.models import Item, Judgement, Project, Worker
from modelling.dashboards.common.figures import Figure, FigureTable, axis, error_bars, escape_label, rounded
from modelling.dashboards.common.judgements import Ints, predict_pairs
from modelling.dashboards.common.query import worker_urls
from modelling.dashboards.common.ranked_entries import RankedEntry, has_old_rank_intervals, ranked_entries
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.training.components.axes import ComponentAxes, ComponentAxis, load_component_axes
from modelling.training.ranking import Z_95
from modelling.training.snapshots import FittedModel
from modelling.training.votes import ItemVotes, get_votes, training_judgements

MAX_VERSIONS = 200  # in the history, the newest ones
MAX_NEIGHBOURS = 5
WORKERS_PER_SIDE = 5
JUDGEMENTS_PER_PAGE = 25
JUDGEMENT_COLUMNS = [
    "worker", "against", "answer", "probability_own", "probability_crowd", "sequence", "version", "as_of_seq",
    "probability_random_worker", "note", "arm",
]  # fmt: skip


@dataclass(frozen=True)
class WorkerScore:
    """A worker's predicted score of the item, and its difference from the consensus, with standard deviations."""

    worker: Worker
    mean: float
    sd: float
    difference: float
    difference_sd: float


@dataclass(frozen=True)
class ComponentValue:
    axis: ComponentAxis
    value: float


@dataclass(frozen=True)
class Neighbour:
    """A ranked item with a similar text."""

    score: ConsensusScore
    similarity: float


@dataclass(frozen=True)
class ItemJudgement:
    """One judgement of the item; `own` and `crowd` are probabilities of preferring it to the other item."""

    worker: Worker
    against: Item
    outcome: str
    own: float
    crowd: float
    typical: float
    sequence: int
    note: str = ""  # the reason that the worker wrote

    @property
    def outcome_label(self) -> str:
        labels = {"this": _("preferred this item"), "other": _("preferred the other"), "tie": _("equally good")}
        return labels[self.outcome]


@dataclass(frozen=True)
class ItemPage:
    score: RankedEntry | None
    old_rank_intervals: bool
    votes: ItemVotes
    history: list[ConsensusScore]
    component_values: list[ComponentValue]
    above: list[WorkerScore]
    below: list[WorkerScore]
    neighbours: list[Neighbour]
    judgements: list[ItemJudgement]
    page: Page
    figures: list[Figure]
    arms: ArmFilter

    @property
    def has_notes(self) -> bool:
        return any(judgement.note for judgement in self.judgements)

    @property
    def worker_scores(self) -> list[tuple[str, list[WorkerScore]]]:
        return [(_("Rate it higher than the crowd"), self.above), (_("Rate it lower than the crowd"), self.below)]


def item_page(
    snapshot: ModelSnapshot, item: Item, arms: ArmFilter = EVERY_ARM, page_number: str = ""
) -> ItemPage | None:
    """Facts about an item in a version; None if the version lacks it. With an arm, only its judgements are listed."""
    axes = load_component_axes(snapshot)
    position = axes.fitted.item_index.get(item.pk)
    if position is None:
        return None
    history = score_history(snapshot, item)
    above, below = extreme_workers(axes, position)
    score = ranked_entries(snapshot).get(item.pk)
    judgements = item_judgements(snapshot, item).filter(**arms.of_judgements)
    page = Paginator(judgements, JUDGEMENTS_PER_PAGE).get_page(page_number)
    votes = get_votes(snapshot)
    figures = [history_figure(history, several_parts=votes.n_parts > 1)] if history else []
    figures += [workers_figure(above, below, item.project)] if above or below else []
    return ItemPage(
        score=score,
        old_rank_intervals=has_old_rank_intervals(snapshot, [score] if score else []),
        votes=(get_votes(snapshot, arms.chosen) if arms.chosen else votes).of(item.pk),
        history=history[::-1],
        component_values=[ComponentValue(axes.axes[row], float(axes.items[row, position])) for row in axes.strongest],
        above=above,
        below=below,
        neighbours=find_neighbours(snapshot, axes.fitted, position),
        judgements=with_predictions(axes.fitted, item, list(page)),
        page=page,
        figures=figures,
        arms=arms,
    )


def score_history(snapshot: ModelSnapshot, item: Item) -> list[ConsensusScore]:
    """The item's scores up to the shown version, oldest first."""
    scores = ConsensusScore.objects.filter(
        item=item, snapshot__project=snapshot.project_id, snapshot__number__lte=snapshot.number
    )
    newest = scores.select_related("snapshot").defer("snapshot__diagnostics").order_by("-snapshot__number")
    return list(newest[:MAX_VERSIONS])[::-1]


def extreme_workers(axes: ComponentAxes, position: int) -> tuple[list[WorkerScore], list[WorkerScore]]:
    """The workers whose predicted scores are furthest above, and furthest below, the consensus.

    Only those whose 95 % interval of the difference excludes 0.
    """
    model, ids = axes.fitted.model, axes.fitted.worker_ids
    if not model.n_components or not len(ids):
        return [], []
    items = np.array([position])
    consensus = float(axes.fitted.consensus[position])
    mean = model.predict_utilities(items=items, among=axes.fitted.centre)[0]
    order = np.argsort(consensus - mean, kind="stable")
    candidates = 2 * WORKERS_PER_SIDE  # some may have been erased
    sides = order[mean[order] > consensus][:candidates], order[mean[order] < consensus][::-1][:candidates]
    workers = Worker.objects.visible().in_bulk(ids[np.concatenate(sides)].tolist())
    chosen = [[u for u in side.tolist() if int(ids[u]) in workers][:WORKERS_PER_SIDE] for side in sides]
    sd = _standard_deviations(axes.fitted, np.array([*chosen[0], *chosen[1]], dtype=np.int64), items)
    above, below = (
        [
            WorkerScore(workers[int(ids[u])], float(mean[u]), sd[u][0], float(mean[u]) - consensus, sd[u][1])
            for u in side
            if abs(float(mean[u]) - consensus) > Z_95 * sd[u][1]
        ]
        for side in chosen
    )
    return above, below


def _standard_deviations(fitted: FittedModel, users: Ints, item: Ints) -> dict[int, tuple[float, float]]:
    """The standard deviations of each worker's score and of its difference from the consensus, by worker."""
    among = fitted.centre
    own = fitted.model.predict_utilities(users=users, items=item, return_std=True, among=among)[1][0]
    difference = fitted.model.predict_tastes(users=users, items=item, among=among)[1][0]
    return dict(zip(users.tolist(), zip(own.tolist(), difference.tolist(), strict=True), strict=True))


def find_neighbours(snapshot: ModelSnapshot, fitted: FittedModel, position: int) -> list[Neighbour]:
    """The ranked items whose texts are most similar to this one."""
    similarity = fitted.model.similarity(np.array([position]))[0]
    order = [int(at) for at in np.argsort(-similarity, kind="stable") if at != position and similarity[at] > 0]
    nearest = order[: 2 * MAX_NEIGHBOURS]  # some may be inactive
    ids = {int(fitted.item_ids[at]): float(similarity[at]) for at in nearest}
    scores = snapshot.scores.filter(item__in=ids).select_related("item", "item__project")
    return most_similar(scores, [ids[score.item_id] for score in scores])


def most_similar(scores: Iterable[ConsensusScore], similarity: Iterable[float]) -> list[Neighbour]:
    """The items with a positive similarity, most similar first."""
    pairs = zip(scores, similarity, strict=True)
    found = [Neighbour(score, float(value)) for score, value in pairs if value > 0]
    return sorted(found, key=lambda each: (-each.similarity, each.score.rank))[:MAX_NEIGHBOURS]


def item_judgements(snapshot: ModelSnapshot, item: Item) -> "QuerySet[Judgement]":
    """The item's judgements in this version, newest first."""
    judgements = training_judgements(snapshot).filter(Q(item_lo=item) | Q(item_hi=item))
    return judgements.select_related("worker__arm", "item_lo", "item_hi", "note").order_by("-sequence")


def with_predictions(fitted: FittedModel, item: Item, judgements: list[Judgement]) -> list[ItemJudgement]:
    """Add the predicted probabilities to the item's judgements."""
    worker_at, item_at = fitted.worker_index, fitted.item_index
    others = [each.item_hi if each.item_lo_id == item.pk else each.item_lo for each in judgements]
    pairs = [
        (each, other)
        for each, other in zip(judgements, others, strict=True)
        if each.worker_id in worker_at and other.pk in item_at
    ]
    u = np.array([worker_at[each.worker_id] for each, _other in pairs], dtype=np.int64)
    b = np.array([item_at[other.pk] for _each, other in pairs], dtype=np.int64)
    predicted = predict_pairs(fitted, u, np.full(len(pairs), item_at[item.pk]), b)
    probabilities = np.column_stack((predicted.own, predicted.crowd, predicted.typical)).tolist()
    return [
        ItemJudgement(each.worker, other, _outcome(each, item), own, crowd, typical, each.sequence, _note(each))
        for (each, other), (own, crowd, typical) in zip(pairs, probabilities, strict=True)
    ]


def _note(judgement: Judgement) -> str:
    return judgement.note.text if hasattr(judgement, "note") else ""


def _outcome(judgement: Judgement, item: Item) -> str:
    if judgement.choice == Judgement.Choice.TIE:
        return "tie"
    is_lo = judgement.item_lo_id == item.pk
    return "this" if (judgement.choice == Judgement.Choice.LO) == is_lo else "other"


def judgement_rows(snapshot: ModelSnapshot, item: Item) -> Iterator[list[Any]]:
    """All judgements of the item with their predictions, for a file with JUDGEMENT_COLUMNS."""
    fitted = load_component_axes(snapshot).fitted
    if item.pk not in fitted.item_index:
        return
    for each in with_predictions(fitted, item, list(item_judgements(snapshot, item))):
        facts = [each.worker.code, each.against.key, each.outcome, each.own, each.typical, each.sequence]
        arm = each.worker.arm.name if each.worker.arm else ""
        yield [*facts, snapshot.number, snapshot.last_sequence, each.crowd, each.note, arm]


def history_figure(history: list[ConsensusScore], *, several_parts: bool = False) -> Figure:
    """The score with its 95 % interval in each version."""
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [score.snapshot.number for score in history],
        "y": rounded(score.mean for score in history),
        "error_y": error_bars(Z_95 * score.sd for score in history),
        "line": {"color": "--accent", "width": 1.5},
        "marker": {"color": "--accent", "size": 6},
        "text": [str(score.snapshot.included) for score in history],
        "hovertemplate": "%{x} (%{text})<br>%{y:.2f} ± %{error_y.array:.2f}<extra></extra>",
    }
    first, last = history[0], history[-1]
    description = _("Score from %(first).2f in version %(a)d to %(last).2f in version %(b)d.") % {
        "first": first.mean, "a": first.snapshot.number, "last": last.mean, "b": last.snapshot.number,
    }  # fmt: skip
    layout = {
        "xaxis": axis(_("Version"), type="category", showgrid=False), "yaxis": axis(_("Score")), "showlegend": False,
    }  # fmt: skip
    rank = _("Rank (all items)") if several_parts else _("Rank")
    columns = [_("Version"), _("Judgements in total"), _("Score"), _("SD"), rank, _("Judgements of this item")]
    rows = [
        [each.snapshot.number, each.snapshot.included, *rounded((each.mean, each.sd)), each.rank, each.judgements]
        for each in history[::-1]
    ]
    title = _("Score by version, 95 % interval")
    return Figure("history", title, description, [trace], layout, height=340, table=FigureTable(columns, rows))


def workers_figure(above: list[WorkerScore], below: list[WorkerScore], project: Project) -> Figure:
    """The workers furthest from the consensus with 95 % intervals; 0 is the consensus."""
    workers = above + below[::-1]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "y": [escape_label(each.worker.code) for each in workers],
        "x": rounded(each.difference for each in workers),
        "error_x": error_bars(Z_95 * each.difference_sd for each in workers),
        "marker": {"color": ["--c1" if each.difference > 0 else "--c2" for each in workers], "size": 9},
        "customdata": worker_urls(project, [each.worker.code for each in workers]),
        "hovertemplate": "%{y}<br>%{x:.2f} ± %{error_x.array:.2f}<extra></extra>",
    }
    description = _("Predicted difference from the consensus of %(n)d workers, with 95 %% intervals.") % {
        "n": len(workers)
    }
    layout = {
        "xaxis": axis(_("Difference from the consensus"), zeroline=True),
        "yaxis": {"autorange": "reversed", "type": "category"},
        "showlegend": False,
    }
    return Figure("people", _("Workers who rate it differently"), description, [trace], layout, height=340)
