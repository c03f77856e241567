"""A text that nobody has judged: what the model expects of it, who would like it, and what would settle it."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from django.utils.translation import gettext as _
from numpy.typing import NDArray
from scipy.special import ndtr

from annotation.models import Worker
from modelling.dashboards.neighbours import Neighbour, most_alike
from modelling.dashboards.pictures import Picture, axis, numbers
from modelling.information import expected_information
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.ranking import Z_95, rank_items, relative_sd
from modelling.snapshots import Fitted, item_positions, load_fitted

Floats = NDArray[np.float64]

LONGEST_TEXT = 5000
MOST_COMPARED = 400  # items behind a rank interval; more of them would sharpen it by less than a place in 400
OPPONENTS = 5
FEWEST_ANSWERING = 3  # workers, before a group of them is spoken of
MOST_ANSWERS = 8  # to one question; beyond, the answers are no groups


@dataclass(frozen=True)
class Expected:
    """The consensus score of the text and its place among the items."""

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


@dataclass(frozen=True)
class Opponent:
    """An item to compare the text with, and how many bits the answer is expected to tell."""

    score: ConsensusScore
    wins: float
    bits: float


@dataclass(frozen=True)
class NewArgumentPage:
    expected: Expected
    neighbours: list[Neighbour]
    groups: list[WorkerGroup]
    opponents: list[Opponent]
    picture: Picture


def new_argument_page(snapshot: ModelSnapshot, text: str, group: str) -> NewArgumentPage | None:
    """What the shown version expects of a text, among all items or those of one group; None if it has none of them."""
    scores = list(snapshot.scores.select_related("item", "item__project").order_by("rank"))
    scores = [score for score in scores if not group or score.item.group == group]
    if not scores:
        return None
    fitted = load_fitted(snapshot)
    X, joint = features_of(fitted, text), _evenly(scores, MOST_COMPARED)
    items = np.append(item_positions(fitted, [score.item for score in joint]), fitted.model.n_items_)
    mean, cov = fitted.model.predict_consensus(items=items, X_items=X, return_cov=True)
    expected = expectation(scores, mean, cov, snapshot.seed)
    return NewArgumentPage(
        expected,
        nearest(fitted, X, scores),
        worker_groups(fitted, X, snapshot),
        opponents(joint, mean, cov),
        among_the_others(scores, expected),
    )


def _evenly(scores: list[ConsensusScore], most: int) -> list[ConsensusScore]:
    """As many as allowed, from the best to the worst."""
    places = np.linspace(0, len(scores) - 1, min(len(scores), most)).round().astype(int)
    return [scores[place] for place in places]


def features_of(fitted: Fitted, text: str) -> Floats:
    """One row, as the model reads texts; the researcher's own columns, which a new text has not, in the middle."""
    typical = np.median(fitted.features.ranks["numeric"].knots, axis=0)[None, :] if fitted.features.n_numeric else None
    return fitted.features.transform([text], numeric=typical)


def expectation(scores: list[ConsensusScore], mean: Floats, cov: Floats, seed: int) -> Expected:
    """The score and its place. `mean` and `cov` are of some of the items and, last, of the text."""
    drawn = rank_items(mean, cov, np.random.default_rng(seed))
    stretch = len(scores) / (len(mean) - 1)
    rank = 1 + sum(score.mean > mean[-1] for score in scores)
    low, high = (1 + round((int(place[-1]) - 1) * stretch) for place in (drawn.rank_low, drawn.rank_high))
    sd = float(relative_sd(cov, among=np.arange(len(mean) - 1))[-1])
    return Expected(float(mean[-1]), sd, rank, min(low, rank), max(high, rank), len(scores))


def nearest(fitted: Fitted, X: Floats, scores: list[ConsensusScore]) -> list[Neighbour]:
    """The items that read most like the text."""
    items = item_positions(fitted, [score.item for score in scores])
    alike = fitted.model.similarity(np.array([fitted.model.n_items_]), X_items=X)[0][items]
    return most_alike(scores, alike)


def worker_groups(fitted: Fitted, X: Floats, snapshot: ModelSnapshot) -> list[WorkerGroup]:
    """How workers with each answer to a question would score the text, the largest differences first."""
    if not fitted.model.n_components_:
        return []
    liking = fitted.model.predict_utilities(items=np.array([fitted.model.n_items_]), X_items=X)[0]
    place = {int(pk): at for at, pk in enumerate(fitted.worker_ids)}
    answering: dict[tuple[str, str], list[int]] = defaultdict(list)
    for pk, traits in Worker.objects.filter(project=snapshot.project).values_list("pk", "traits"):
        for question, answer in traits.items() if pk in place else ():
            answering[question, str(answer)].append(place[pk])
    usual = float(liking.mean())
    groups = [
        WorkerGroup(question, answer, len(at), float(liking[at].mean()), float(liking[at].mean()) - usual)
        for (question, answer), at in answering.items()
        if len(at) >= FEWEST_ANSWERING and _few_answers(answering, question)
    ]
    return sorted(groups, key=lambda group: (-abs(group.difference), group.question, group.answer))


def _few_answers(answering: dict[tuple[str, str], list[int]], question: str) -> bool:
    return sum(asked == question for asked, _answer in answering) <= MOST_ANSWERS


def opponents(scores: list[ConsensusScore], mean: Floats, cov: Floats) -> list[Opponent]:
    """The items whose comparison with the text, the last of `mean` and `cov`, would tell most about its place."""
    gap = mean[-1] - mean[:-1]
    variance = np.maximum(cov[-1, -1] + cov.diagonal()[:-1] - 2.0 * cov[-1, :-1], 0.0)
    bits, wins = expected_information(gap, variance), ndtr(gap / np.sqrt(1.0 + variance))
    best = np.argsort(-bits, kind="stable")[:OPPONENTS]
    return [Opponent(scores[at], float(wins[at]), float(bits[at])) for at in best]


def among_the_others(scores: list[ConsensusScore], expected: Expected) -> Picture:
    """Where the text would stand: the scores of all items in order, and its own with the interval."""
    others = {
        "type": "scatter",
        "mode": "lines",
        "line": {"color": "--edge"},
        "x": [score.rank for score in scores],
        "y": numbers(score.mean for score in scores),
        "name": _("items"),
        "hoverinfo": "skip",
    }
    own = {
        "type": "scatter",
        "mode": "markers",
        "marker": {"color": "--c1", "size": 12},
        "x": [scores[min(expected.rank, len(scores)) - 1].rank],
        "y": numbers([expected.mean]),
        "error_y": {"type": "data", "array": numbers([Z_95 * expected.sd]), "color": "--c1"},
        "name": _("this text"),
        "hovertemplate": "%{y:.2f} ± %{error_y.array:.2f}<extra></extra>",
    }
    words = _("The text is expected at %(mean).2f, between %(low).2f and %(high).2f.") % {
        "mean": expected.mean,
        "low": expected.low,
        "high": expected.high,
    }
    layout = {"xaxis": axis(_("Rank")), "yaxis": axis(_("Score"))}
    return Picture(
        "new-argument", _("Where the text would stand, with 95 % interval"), words, [others, own], layout, 320
    )
