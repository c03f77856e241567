"""A text that nobody has judged: what the model expects of it, who would like it, and what would settle it."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from django.utils.translation import gettext as _
from numpy.typing import NDArray
from scipy.special import ndtr

from annotation.models import Worker
from modelling.dashboards.neighbours import NEIGHBOURS, Neighbour, most_alike
from modelling.dashboards.pictures import Picture, Table, axis, numbers, ranks_axis
from modelling.information import expected_information
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.ranking import Z_95, rank_items, relative_sd
from modelling.snapshots import Fitted, load_fitted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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


class Rival(NamedTuple):
    """The place of an opponent among those the text is compared with."""

    at: int
    wins: float
    bits: float


@dataclass(frozen=True, eq=False)
class Ladder:
    """The items of a version or of one group of it, the best first, in columns: thousands of them are only counted."""

    item: list[int]
    key: list[str]
    mean: Floats

    @classmethod
    def of(cls, snapshot: ModelSnapshot, group: str) -> "Ladder":
        scores = snapshot.scores.filter(item__group=group) if group else snapshot.scores.all()
        rows = list(scores.order_by("rank").values_list("item_id", "item__key", "mean"))
        return cls([row[0] for row in rows], [row[1] for row in rows], np.array([row[2] for row in rows], dtype=float))

    def evenly(self, most: int) -> Ints:
        """As many places as allowed, from the best to the worst."""
        return np.linspace(0, len(self.item) - 1, min(len(self.item), most)).round().astype(np.int64)

    def scores(self, snapshot: ModelSnapshot, places: Iterable[int]) -> dict[int, ConsensusScore]:
        """Those at these places in full."""
        place_of = {self.item[place]: place for place in places}
        found = snapshot.scores.filter(item__in=place_of).select_related("item", "item__project")
        return {place_of[score.item_id]: score for score in found}


@dataclass(frozen=True)
class NewArgumentPage:
    expected: Expected
    neighbours: list[Neighbour]
    groups: list[WorkerGroup]
    opponents: list[Opponent]
    pictures: list[Picture]


def new_argument_page(snapshot: ModelSnapshot, text: str, group: str) -> NewArgumentPage | None:
    """What the shown version expects of a text, among all items or those of one group; None if it has none of them."""
    ladder = Ladder.of(snapshot, group)
    if not len(ladder.item):
        return None
    fitted = load_fitted(snapshot)
    at = np.array([fitted.item_at[pk] for pk in ladder.item], dtype=np.int64)
    X, joint = features_of(fitted, text), ladder.evenly(MOST_COMPARED)
    mean, cov = fitted.model.predict_consensus(
        items=np.append(at[joint], fitted.model.n_items_), X_items=X, return_cov=True
    )
    expected = expectation(ladder, mean, cov, snapshot.seed)
    near, rivals = nearest(fitted, X, ladder, at), rivals_of(mean, cov)
    scores = ladder.scores(snapshot, {*near, *(int(joint[rival.at]) for rival in rivals)})
    return NewArgumentPage(
        expected,
        most_alike([scores[place] for place in near], near.values()),
        worker_groups(fitted, X, snapshot),
        [Opponent(scores[int(joint[rival.at])], rival.wins, rival.bits) for rival in rivals],
        [among_the_others(ladder, joint, expected)],
    )


def features_of(fitted: Fitted, text: str) -> Floats:
    """One row, as the model reads texts; the researcher's own columns, which a new text has not, in the middle."""
    typical = np.median(fitted.features.ranks["numeric"].knots, axis=0)[None, :] if fitted.features.n_numeric else None
    return fitted.features.transform([text], numeric=typical)


def expectation(ladder: Ladder, mean: Floats, cov: Floats, seed: int) -> Expected:
    """The score and its place. `mean` and `cov` are of some of the items and, last, of the text."""
    drawn = rank_items(mean, cov, np.random.default_rng(seed))
    stretch = len(ladder.item) / (len(mean) - 1)
    rank = 1 + int((ladder.mean > mean[-1]).sum())
    low, high = (1 + round((int(place[-1]) - 1) * stretch) for place in (drawn.rank_low, drawn.rank_high))
    sd = float(relative_sd(cov, among=np.arange(len(mean) - 1))[-1])
    return Expected(float(mean[-1]), sd, rank, min(low, rank), max(high, rank), len(ladder.item))


def nearest(fitted: Fitted, X: Floats, ladder: Ladder, at: Ints) -> dict[int, float]:
    """The places of the items that read most like the text, each with how much."""
    alike = fitted.model.similarity(np.array([fitted.model.n_items_]), X_items=X)[0][at]
    return {int(place): float(alike[place]) for place in np.argsort(-alike, kind="stable")[:NEIGHBOURS]}


def worker_groups(fitted: Fitted, X: Floats, snapshot: ModelSnapshot) -> list[WorkerGroup]:
    """How workers with each answer to a question would score the text, the largest differences first."""
    if not fitted.model.n_components_:
        return []
    answering = _answering(fitted, snapshot)
    if not answering:
        return []
    liking = fitted.model.predict_utilities(items=np.array([fitted.model.n_items_]), X_items=X)[0]
    usual = float(liking.mean())
    groups = [
        WorkerGroup(question, answer, len(at), float(liking[at].mean()), float(liking[at].mean()) - usual)
        for (question, answer), at in answering.items()
    ]
    return sorted(groups, key=lambda group: (-abs(group.difference), group.question, group.answer))


def _answering(fitted: Fitted, snapshot: ModelSnapshot) -> dict[tuple[str, str], list[int]]:
    """By question and answer, where the workers who gave it stand in the arrays: only what makes groups."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    told = Worker.objects.filter(project=snapshot.project).exclude(traits={})
    for pk, traits in told.order_by().values_list("pk", "traits"):
        for question, answer in traits.items() if pk in fitted.worker_at else ():
            found[question, str(answer)].append(fitted.worker_at[pk])
    answers = Counter(question for question, _answer in found)
    return {
        (question, answer): at
        for (question, answer), at in found.items()
        if len(at) >= FEWEST_ANSWERING and answers[question] <= MOST_ANSWERS
    }


def rivals_of(mean: Floats, cov: Floats) -> list[Rival]:
    """The items whose comparison with the text, the last of `mean` and `cov`, would tell most about its place."""
    gap = mean[-1] - mean[:-1]
    variance = np.maximum(cov[-1, -1] + cov.diagonal()[:-1] - 2.0 * cov[-1, :-1], 0.0)
    bits, wins = expected_information(gap, variance), ndtr(gap / np.sqrt(1.0 + variance))
    best = np.argsort(-bits, kind="stable")[:OPPONENTS]
    return [Rival(int(at), float(wins[at]), float(bits[at])) for at in best]


def among_the_others(ladder: Ladder, places: Ints, expected: Expected) -> Picture:
    """Where the text would stand: the scores of these items in order, and its own with the interval.

    Ranks are among the items asked for, as in the words above the picture.
    """
    ranks, means = [int(place) + 1 for place in places], numbers(ladder.mean[places])
    others = {
        "type": "scatter",
        "mode": "lines",
        "line": {"color": "--edge"},
        "x": ranks,
        "y": means,
        "name": _("items"),
        "hoverinfo": "skip",
    }
    own = {
        "type": "scatter",
        "mode": "markers",
        "marker": {"color": "--c1", "size": 12},
        "x": [expected.rank],
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
    layout = {"xaxis": ranks_axis([*ranks, max(expected.rank, ranks[-1])]), "yaxis": axis(_("Score"))}
    title = _("Where the text would stand, with 95 % interval")
    rows = [[ladder.key[place], rank, mean] for place, rank, mean in zip(places, ranks, means, strict=True)]
    text = [_("this text"), expected.rank, *numbers([expected.mean])]
    table = Table([_("Item"), _("Rank"), _("Score")], [text, *rows])
    return Picture("new-argument", title, words, [others, own], layout, 320, table)
