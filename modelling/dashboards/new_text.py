"""The “Test a text” page: the predicted score of a text without judgements, and its most informative pairs."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from django.utils.translation import gettext as _
from numpy.typing import NDArray

from annotation.models import Worker
from modelling.dashboards.common.figures import Figure, FigureTable, axis, rank_axis, rounded
from modelling.dashboards.common.traits import MIN_WORKERS, MIN_Z, Positions
from modelling.dashboards.item import MAX_NEIGHBOURS, Neighbour, most_similar
from modelling.features.traits import list_choices
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.planning.information import expected_information
from modelling.training.ranking import Z_95, rank_items, relative_sd
from modelling.training.snapshots import FittedModel, load_fitted_model

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_TEXT_LENGTH = 5000
MAX_COMPARED = 400  # items in the joint distribution; more would change a rank interval by less than 1/400 of its range
MAX_OPPONENTS = 5
MAX_ANSWERS = 8  # distinct answers to a question; with more, they do not form groups


@dataclass(frozen=True)
class ExpectedScore:
    """The predicted consensus score of the text and its rank among the items."""

    mean: float
    sd: float
    rank: int
    rank_low: int
    rank_high: int
    n_items: int

    @property
    def low(self) -> float:
        return self.mean - Z_95 * self.sd

    @property
    def high(self) -> float:
        return self.mean + Z_95 * self.sd


@dataclass(frozen=True)
class WorkerGroup:
    """Workers with the same answer to one question; `difference` is from the mean of all workers."""

    question: str
    answer: str
    workers: int
    mean: float
    difference: float
    difference_sd: float


@dataclass(frozen=True)
class Opponent:
    """An item to compare the text with, and the expected information of that judgement in bits."""

    score: ConsensusScore
    wins: float
    bits: float


class InformativePair(NamedTuple):
    """The text against one of the compared items, by index."""

    item: int
    wins: float
    bits: float


@dataclass(frozen=True, eq=False)
class RankedItems:
    """Items of a version, or of one group in it, best first; columns only, since there can be thousands."""

    ids: list[int]
    keys: list[str]
    mean: Floats

    @classmethod
    def load(cls, snapshot: ModelSnapshot, group: str) -> "RankedItems":
        scores = snapshot.scores.filter(item__group=group) if group else snapshot.scores.all()
        rows = list(scores.order_by("rank").values_list("item_id", "item__key", "mean"))
        return cls([row[0] for row in rows], [row[1] for row in rows], np.array([row[2] for row in rows], dtype=float))

    def evenly_spaced(self, most: int) -> Ints:
        """At most this many indices from the best to the worst."""
        return np.linspace(0, len(self.ids) - 1, min(len(self.ids), most)).round().astype(np.int64)

    def scores(self, snapshot: ModelSnapshot, indices: Iterable[int]) -> dict[int, ConsensusScore]:
        """The score rows at these indices."""
        index_of = {self.ids[index]: index for index in indices}
        found = snapshot.scores.filter(item__in=index_of).select_related("item", "item__project")
        return {index_of[score.item_id]: score for score in found}


@dataclass(frozen=True)
class NewTextPage:
    expected: ExpectedScore
    neighbours: list[Neighbour]
    groups: list[WorkerGroup]
    opponents: list[Opponent]
    figures: list[Figure]


def new_text_page(snapshot: ModelSnapshot, text: str, group: str) -> NewTextPage | None:
    """Predictions for a text among all items or those of one group; None if the version has no such items."""
    ranked = RankedItems.load(snapshot, group)
    if not len(ranked.ids):
        return None
    fitted = load_fitted_model(snapshot)
    at = np.array([fitted.item_index[pk] for pk in ranked.ids], dtype=np.int64)
    X, compared = text_features(fitted, text), ranked.evenly_spaced(MAX_COMPARED)
    mean, cov = fitted.model.predict_consensus(
        items=np.append(at[compared], fitted.model.n_items_), X_items=X, return_cov=True
    )
    mean = mean - fitted.offset
    expected = expected_score(ranked, mean, cov, snapshot.seed)
    nearest, pairs = nearest_items(fitted, X, at), informative_pairs(fitted, X, at[compared], mean, cov)
    scores = ranked.scores(snapshot, {*nearest, *(int(compared[pair.item]) for pair in pairs)})
    return NewTextPage(
        expected,
        most_similar([scores[index] for index in nearest], nearest.values()),
        worker_groups(fitted, X, snapshot, expected.mean),
        [Opponent(scores[int(compared[pair.item])], pair.wins, pair.bits) for pair in pairs],
        [position_figure(ranked, compared, expected)],
    )


def text_features(fitted: FittedModel, text: str) -> Floats:
    """One row of features; numeric columns, which a new text lacks, are set to their medians."""
    typical = np.median(fitted.features.ranks["numeric"].knots, axis=0)[None, :] if fitted.features.n_numeric else None
    return fitted.features.transform([text], numeric=typical)


def expected_score(ranked: RankedItems, mean: Floats, cov: Floats, seed: int) -> ExpectedScore:
    """The score and rank of the text, which is the last entry of `mean` and `cov`, after the compared items."""
    sampled = rank_items(mean, cov, np.random.default_rng(seed))
    stretch = len(ranked.ids) / (len(mean) - 1)
    rank = 1 + int((ranked.mean > mean[-1]).sum())
    low, high = (1 + round((int(bound[-1]) - 1) * stretch) for bound in (sampled.rank_low, sampled.rank_high))
    sd = float(relative_sd(cov, among=np.arange(len(mean) - 1))[-1])
    return ExpectedScore(float(mean[-1]), sd, rank, min(low, rank), max(high, rank), len(ranked.ids))


def nearest_items(fitted: FittedModel, X: Floats, at: Ints) -> dict[int, float]:
    """Similarity of the most similar items, by their index in the ranking."""
    similarity = fitted.model.similarity(np.array([fitted.model.n_items_]), X_items=X)[0][at]
    nearest = np.argsort(-similarity, kind="stable")[:MAX_NEIGHBOURS]
    return {int(index): float(similarity[index]) for index in nearest}


def worker_groups(fitted: FittedModel, X: Floats, snapshot: ModelSnapshot, consensus: float) -> list[WorkerGroup]:
    """Predicted scores of the text by questionnaire answer where they clearly differ, largest differences first."""
    if not fitted.model.n_components:
        return []
    members = _workers_by_answer(fitted, snapshot)
    if not members:
        return []
    text = np.array([fitted.model.n_items_])
    (tastes,), (sds,) = fitted.model.predict_tastes(items=text, X_items=X, among=fitted.centre)
    positions, groups = Positions(tastes, np.square(sds)), []
    for (question, answer), at in members.items():
        chosen = np.isin(np.arange(len(tastes)), at)
        gap, error = positions.compare(chosen)
        if abs(gap) >= MIN_Z * error:
            others, mean = float((~chosen).mean()), consensus + float(tastes[chosen].mean())
            groups.append(WorkerGroup(question, answer, len(at), mean, others * gap, others * error))
    return sorted(groups, key=lambda group: (-abs(group.difference), group.question, group.answer))


def _workers_by_answer(fitted: FittedModel, snapshot: ModelSnapshot) -> dict[tuple[str, str], list[int]]:
    """Positions of the workers who gave each answer, for questions and answers that form groups."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    workers = Worker.objects.filter(project=snapshot.project).exclude(traits={})
    for pk, traits in workers.order_by().values_list("pk", "traits"):
        for question, answer in traits.items() if pk in fitted.worker_index else ():
            for choice in list_choices(answer):
                found[question, choice].append(fitted.worker_index[pk])
    answers = Counter(question for question, _answer in found)
    return {
        (question, answer): at
        for (question, answer), at in found.items()
        if MIN_WORKERS <= len(at) <= fitted.model.n_users_ - MIN_WORKERS and answers[question] <= MAX_ANSWERS
    }


def informative_pairs(fitted: FittedModel, X: Floats, at: Ints, mean: Floats, cov: Floats) -> list[InformativePair]:
    """The items whose comparison with the text, the last of `mean` and `cov`, gains most information."""
    text = np.full(len(at), fitted.model.n_items_)
    wins = fitted.model.predict_consensus_proba(text, at, X_items=X)
    gap = mean[-1] - mean[:-1]
    variance = np.maximum(cov[-1, -1] + cov.diagonal()[:-1] - 2.0 * cov[-1, :-1], 0.0)
    bits = expected_information(gap, variance, fitted.lapse)
    best = np.argsort(-bits, kind="stable")[:MAX_OPPONENTS]
    return [InformativePair(int(index), float(wins[index]), float(bits[index])) for index in best]


def position_figure(ranked: RankedItems, indices: Ints, expected: ExpectedScore) -> Figure:
    """The text with its interval among the scores of these items; ranks are within the chosen group."""
    ranks, means = [int(index) + 1 for index in indices], rounded(ranked.mean[indices])
    items = {
        "type": "scatter",
        "mode": "lines",
        "line": {"color": "--edge"},
        "x": ranks,
        "y": means,
        "name": _("items"),
        "hoverinfo": "skip",
    }
    text = {
        "type": "scatter",
        "mode": "markers",
        "marker": {"color": "--c1", "size": 12},
        "x": [expected.rank],
        "y": rounded([expected.mean]),
        "error_y": {"type": "data", "array": rounded([Z_95 * expected.sd]), "color": "--c1"},
        "name": _("this text"),
        "hovertemplate": "%{y:.2f} ± %{error_y.array:.2f}<extra></extra>",
    }
    description = _("The expected score of the text is %(mean).2f, between %(low).2f and %(high).2f.") % {
        "mean": expected.mean,
        "low": expected.low,
        "high": expected.high,
    }
    layout = {"xaxis": rank_axis([*ranks, max(expected.rank, ranks[-1])]), "yaxis": axis(_("Score"))}
    title = _("Expected score among the items, 95 % interval")
    rows = [[ranked.keys[index], rank, mean] for index, rank, mean in zip(indices, ranks, means, strict=True)]
    text_row = [_("this text"), expected.rank, *rounded([expected.mean])]
    table = FigureTable([_("Item"), _("Rank"), _("Score")], [text_row, *rows])
    return Figure("new-argument", title, description, [items, text], layout, 320, table)
