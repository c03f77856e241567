"""How well each method foretells judgements that it has not learned from. Arrays in, figures out: no row is written.

Two ways to hold judgements back. *Leave-group-out*: whole groups of items, so that a method must judge texts that
nobody has judged; where there are no groups, judgements at random. *Predict, then learn*: the judgements in the order
in which they were given, each stretch foretold from everything before it. Every method is fitted from scratch each
time, to the same judgements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from modelling.baselines import BradleyTerry, GPPLPerUser, LinearPreference
from modelling.crowdgppl import PairwiseLabels
from modelling.crowdgppl.selection import answer_losses, deal_groups
from modelling.fitting import Reading, estimator, read_texts
from modelling.inputs import Inputs
from modelling.model_settings import ModelSettings
from modelling.scoreboard import Figures, figures, score

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Tell = Callable[[str, float, str], None]  # what is done, which share of everything is, a detail

METHODS = {
    "personal": "crowdGPPL, personal",
    "consensus": "crowdGPPL, consensus",
    "gppl": "GPPL",
    "gppl_per_user": "GPPL per worker",
    "bradley_terry": "Bradley-Terry",
    "linear": "linear",
}
REFERENCE = "personal"  # the others are compared with it
MOST = {"accuracy": 1.0, "log_loss": float("inf"), "brier": 1.0}
METRICS = tuple(MOST)
CONFIDENCE = 0.95
FEWEST_CLUSTERS = 4  # behind a verdict: of two or three, some agree by chance
RIDGES = (1.0, 10.0, 100.0)  # of the linear method; one is chosen on a fifth of what it learns from
INNER_PARTS = 5

BY_GROUP = "Whole groups of items are held back, a part at a time, and the judgements about them foretold."
BY_JUDGEMENT = (
    "The items have no groups that could be held back, so judgements are, a part at a time, at random; "
    "a worker's answers to one pair stay together."
)
BY_TIME = "The judgements in the order in which they were given: each stretch is foretold from all before it."


class TooLittle(Exception):
    """The judgements do not suffice to hold some back."""


@dataclass(frozen=True, eq=False)
class Split:
    """Which labels are learned from and which are then foretold, by their numbers."""

    learned: Ids
    foretold: Ids


@dataclass(frozen=True, eq=False)
class Scheme:
    """A way to hold judgements back. Answers of one cluster may go wrong together; clusters are independent."""

    name: str
    words: str
    splits: list[Split]
    clusters: Ids  # (P,)
    clustered_by: str
    groups: Ids | None = None  # (N,) of the items, where whole groups are held back


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval; without one where there are fewer than two clusters."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Standing:
    """One method's figures under one scheme, and how much the reference is better or worse."""

    labels: int
    decided: int
    metrics: dict[str, Estimate | None]
    calibration_error: float
    calibration: tuple[tuple[int, float, float], ...]
    reference_minus_this: dict[str, Estimate | None]
    verdict: str  # of the reference against this: better, worse or not decided, by log loss


@dataclass(frozen=True)
class Outcome:
    """What a scheme showed."""

    scheme: str
    words: str
    splits: int
    foretold: int
    clusters: int
    clustered_by: str
    methods: dict[str, Standing]


# How judgements are held back ----------------------------------------------------------------------------------------


def leave_out(inputs: Inputs, n_parts: int, seed: int) -> Scheme:
    """Parts of whole groups where there are any; else parts of judgements."""
    labels = inputs.labels
    groups = np.unique([item.group for item in inputs.items], return_inverse=True)[1]
    splits = _group_splits(labels, deal_groups(groups, labels, n_parts)) if groups.max() else []
    if len(splits) >= 2:
        return Scheme("leave-group-out", BY_GROUP, splits, groups[labels.a], "groups of items", groups)
    return Scheme("leave-judgements-out", BY_JUDGEMENT, _random_splits(labels, n_parts, seed), labels.u, "workers")


def _group_splits(labels: PairwiseLabels, part: Ids) -> list[Split]:
    """Labels across two parts are neither learned from nor foretold."""
    a, b = part[labels.a], part[labels.b]
    both = [(np.flatnonzero((a != k) & (b != k)), np.flatnonzero((a == k) & (b == k))) for k in range(part.max() + 1)]
    return [Split(learned, foretold) for learned, foretold in both if len(learned) and len(foretold)]


def _random_splits(labels: PairwiseLabels, n_parts: int, seed: int) -> list[Split]:
    """A worker's repeated answers to a pair stay in one part: one would give the other away."""
    triples = np.stack([labels.u, np.minimum(labels.a, labels.b), np.maximum(labels.a, labels.b)])
    asked = np.unique(triples, axis=1, return_inverse=True)[1].ravel()
    n_asked = int(asked.max()) + 1 if len(asked) else 0
    if n_asked < 2:
        raise TooLittle
    part = (np.random.default_rng(seed).permutation(n_asked) % min(n_parts, n_asked))[asked]
    return [Split(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(part.max() + 1)]


def predict_then_learn(inputs: Inputs, n_stretches: int) -> Scheme:
    """The labels in n_stretches + 1 stretches by time; all but the first are foretold."""
    if inputs.came is None or len(inputs.labels) < 2:
        raise TooLittle
    stretches = np.array_split(np.argsort(inputs.came), min(n_stretches + 1, len(inputs.labels)))
    splits = [Split(np.concatenate(stretches[:k]), stretches[k]) for k in range(1, len(stretches))]
    return Scheme("predict-then-learn", BY_TIME, splits, inputs.labels.u, "workers")


# What each method foretells ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """Everything the methods have in common: the items as they see them, and the project's settings."""

    reading: Reading
    settings: ModelSettings
    n_items: int
    n_users: int
    groups: Ids | None = None  # of the items, where whole groups are held back

    def fitted(self, model: Any, learned: PairwiseLabels, X_items: Floats | None) -> Any:
        return model.fit(learned, X_items=X_items, n_items=self.n_items, n_users=self.n_users)


def crowdgppl(field: Field, learned: PairwiseLabels, held: PairwiseLabels) -> dict[str, Floats]:
    model = field.fitted(estimator(field.settings, field.reading.kernel, field.n_users), learned, field.reading.seen)
    return {
        "personal": model.predict_proba(held.u, held.a, held.b),
        "consensus": model.predict_consensus_proba(held.a, held.b),
    }


def gppl(field: Field, learned: PairwiseLabels, held: PairwiseLabels) -> dict[str, Floats]:
    alike = estimator(replace(field.settings, n_components=0), field.reading.kernel, field.n_users)
    model = field.fitted(alike, learned, field.reading.seen)
    return {"gppl": model.predict_consensus_proba(held.a, held.b)}


def gppl_per_user(field: Field, learned: PairwiseLabels, held: PairwiseLabels) -> dict[str, Floats]:
    settings = field.settings
    alone = GPPLPerUser(
        field.reading.kernel, settings.n_inducing_items, settings.consensus_prior, random_state=settings.seed
    )
    return {"gppl_per_user": field.fitted(alone, learned, field.reading.seen).predict_proba(held.u, held.a, held.b)}


def bradley_terry(field: Field, learned: PairwiseLabels, held: PairwiseLabels) -> dict[str, Floats]:
    """Items without a judgement take their score from those with similar texts, where the project's kernel sees any."""
    model = field.fitted(BradleyTerry(item_kernel=field.reading.kernel), learned, field.reading.seen)
    return {"bradley_terry": model.predict_consensus_proba(held.a, held.b)}


def linear(field: Field, learned: PairwiseLabels, held: PairwiseLabels) -> dict[str, Floats]:
    model = field.fitted(LinearPreference(_ridge(field, learned)), learned, field.reading.X)
    return {"linear": model.predict_consensus_proba(held.a, held.b)}


def _ridge(field: Field, learned: PairwiseLabels) -> float:
    """The one that loses least on about a fifth of the labels, having learned from the others."""
    inner = inner_split(learned, field.groups, field.settings.seed)
    if not (len(inner.learned) and len(inner.foretold)):
        return RIDGES[-1]
    train, test = learned.take(inner.learned), learned.take(inner.foretold)

    def loss(ridge: float) -> float:
        model = field.fitted(LinearPreference(ridge), train, field.reading.X)
        return float(answer_losses(model.predict_consensus_proba(test.a, test.b), test).mean())

    return min(RIDGES, key=loss)


def inner_split(labels: PairwiseLabels, groups: Ids | None, seed: int) -> Split:
    """One of five parts is held back in the same way as outside: whole groups, where those are, else judgements."""
    rng = np.random.default_rng(seed)
    if groups is not None:
        present = rng.permutation(np.unique(groups[labels.a]))
        a, b = (np.isin(groups[items], present[::INNER_PARTS]) for items in (labels.a, labels.b))
        if (a & b).any() and (~a & ~b).any():
            return Split(np.flatnonzero(~a & ~b), np.flatnonzero(a & b))
    part = rng.permutation(len(labels)) % INNER_PARTS
    return Split(np.flatnonzero(part > 0), np.flatnonzero(part == 0))


FITS = (crowdgppl, gppl, gppl_per_user, bradley_terry, linear)


# Figures with intervals ----------------------------------------------------------------------------------------------


def estimate(values: Floats, clusters: Ids) -> Estimate | None:
    """The mean of these values and its interval, allowing for values of one cluster to go together.

    The sandwich variance of a mean over clusters, with Student's t on one less than their number.
    """
    if not len(values):
        return None
    mean = float(values.mean())
    sums = np.bincount(np.unique(clusters, return_inverse=True)[1], values - mean)
    if len(sums) < 2:
        return Estimate(mean, None, None)
    error = np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()) / len(values)
    half = float(stats.t.ppf((1.0 + CONFIDENCE) / 2.0, len(sums) - 1) * error)
    return Estimate(mean, mean - half, mean + half)


def _values(each: Figures, metric: str) -> tuple[Floats, NDArray[np.bool_]]:
    """The figures of all labels, and which of them say something."""
    if metric == "accuracy":
        return each.correct.astype(np.float64), each.decided
    return getattr(each, metric), np.ones(len(each.decided), dtype=bool)


def _means(each: Figures, clusters: Ids, minus: Figures | None = None) -> dict[str, Estimate | None]:
    """Of every metric its mean, no interval beyond what it can be; or the mean of the paired differences."""
    found = {}
    for metric in METRICS:
        values, usable = _values(each, metric)
        if minus:
            found[metric] = estimate((values - _values(minus, metric)[0])[usable], clusters[usable])
        else:
            found[metric] = _possible(estimate(values[usable], clusters[usable]), MOST[metric])
    return found


def _possible(one: Estimate | None, most: float) -> Estimate | None:
    """The part of an interval that lies between 0 and the most that the metric can be."""
    if one is None or one.low is None or one.high is None:
        return one
    return Estimate(one.mean, max(one.low, 0.0), min(one.high, most))


def verdict(log_loss: Estimate | None, n_clusters: int) -> str:
    """Whether the reference loses less, where the interval of the difference says so and enough stands behind it."""
    if log_loss is None or log_loss.low is None or log_loss.high is None or n_clusters < FEWEST_CLUSTERS:
        return "not decided"
    if log_loss.low <= 0 <= log_loss.high:
        return "not decided"
    return "better" if log_loss.mean < 0 else "worse"


def compare(p: dict[str, Floats], y: Floats, clusters: Ids) -> dict[str, Standing]:
    """Every method against the same answers, and the reference against each."""
    each = {method: figures(p[method], y) for method in METHODS}
    standings = {}
    for method, its in each.items():
        sums, gap = score(p[method], y), _means(each[REFERENCE], clusters, minus=its)
        standings[method] = Standing(
            labels=sums.labels,
            decided=sums.decided,
            metrics=_means(its, clusters),
            calibration_error=sums.calibration_error or 0.0,
            calibration=sums.calibration,
            reference_minus_this=gap,
            verdict=verdict(gap["log_loss"], len(np.unique(clusters))),
        )
    return standings


def evaluate(
    inputs: Inputs, settings: ModelSettings, schemes: list[Scheme], tell: Tell = lambda what, share, more: None
) -> Iterator[Outcome]:
    """What each scheme shows, one after the other."""
    field = Field(read_texts(inputs, settings), settings, len(inputs.items), len(inputs.workers))
    total, done = sum(len(scheme.splits) for scheme in schemes) * len(FITS), 0
    for scheme in schemes:
        field = replace(field, groups=scheme.groups)
        p = {method: np.empty(len(inputs.labels)) for method in METHODS}
        for number, split in enumerate(scheme.splits, start=1):
            learned, held = inputs.labels.take(split.learned), inputs.labels.take(split.foretold)
            for fit in FITS:
                tell(scheme.name, done / total, f", part {number} of {len(scheme.splits)}, {fit.__name__}")
                for method, foretold in fit(field, learned, held).items():
                    p[method][split.foretold] = foretold
                done += 1
        held_back = np.concatenate([split.foretold for split in scheme.splits])
        clusters = scheme.clusters[held_back]
        yield Outcome(
            scheme=scheme.name,
            words=scheme.words,
            splits=len(scheme.splits),
            foretold=len(held_back),
            clusters=len(np.unique(clusters)),
            clustered_by=scheme.clustered_by,
            methods=compare({m: p[m][held_back] for m in METHODS}, inputs.labels.y[held_back], clusters),
        )
