"""Evaluation of all methods on held-out judgements of a project. Arrays in, metrics out; no rows are written.

Two schemes hold judgements out. *Leave-group-out*: whole groups of items, so that a method must predict texts without
any judgement; without groups, random judgements. *Predict-then-learn*: judgements in the order of the log, each stretch
predicted from everything before it. Each method is fitted from scratch for each split, to the same judgements.
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
from modelling.training.evaluation.scoreboard import LabelMetrics, label_metrics, sum_metrics
from modelling.training.fit import ItemFeatures, build_estimator, build_item_features
from modelling.training.inputs import Inputs
from modelling.training.settings import ModelSettings

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
ReportProgress = Callable[[str, float, str], None]  # scheme, share done, detail

METHODS = {
    "personal": "crowdGPPL, personal",
    "consensus": "crowdGPPL, consensus",
    "gppl": "GPPL",
    "gppl_per_user": "GPPL per worker",
    "bradley_terry": "Bradley-Terry",
    "linear": "linear",
}
REFERENCE = "personal"  # the other methods are compared with this one
UPPER_LIMITS = {"accuracy": 1.0, "log_loss": float("inf"), "brier": 1.0}
METRICS = tuple(UPPER_LIMITS)
CONFIDENCE = 0.95
MIN_CLUSTERS = 4  # for a verdict: two or three clusters often agree by chance
RIDGES = (1.0, 10.0, 100.0)  # of the linear method; chosen on a fifth of its training labels
INNER_FOLDS = 5

BY_GROUP = "Whole groups of items are held out, one part at a time, and the judgements about them predicted."
BY_JUDGEMENT = (
    "The items have no groups that could be held out, so random judgements are, one part at a time; "
    "a worker's answers to the same pair stay together."
)
BY_TIME = "The judgements are taken in the order of the log; each stretch is predicted from all before it."


class NotEnoughJudgements(Exception):
    """There are too few judgements to hold some out."""


@dataclass(frozen=True, eq=False)
class Split:
    """Indices of the labels to train on and of the labels to predict."""

    train: Ids
    test: Ids


@dataclass(frozen=True, eq=False)
class Scheme:
    """A way to hold judgements out. Errors may be correlated within a cluster, not between clusters."""

    name: str
    description: str
    splits: list[Split]
    clusters: Ids  # (P,)
    clustered_by: str
    groups: Ids | None = None  # (N,) of the items, if whole groups are held out


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval, which is missing with fewer than two clusters."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class MethodResult:
    """The metrics of one method under one scheme, and the paired differences to the reference."""

    labels: int
    decided: int
    metrics: dict[str, Estimate | None]
    calibration_error: float
    calibration: tuple[tuple[int, float, float], ...]
    reference_minus_this: dict[str, Estimate | None]
    verdict: str  # on the reference against this method: better, worse or not decided, by log loss


@dataclass(frozen=True)
class SchemeResult:
    scheme: str
    description: str
    splits: int
    predicted: int
    clusters: int
    clustered_by: str
    methods: dict[str, MethodResult]


# Schemes ------------------------------------------------------------------------------------------------------------


def leave_out(inputs: Inputs, n_parts: int, seed: int) -> Scheme:
    """Hold out parts of whole groups if possible, and parts of the judgements otherwise."""
    labels = inputs.labels
    groups = np.unique([item.group for item in inputs.items], return_inverse=True)[1]
    splits = group_splits(labels, assign_groups(groups, labels, n_parts)) if groups.max() else []
    if len(splits) >= 2:
        return Scheme("leave-group-out", BY_GROUP, splits, groups[labels.a], "groups of items", groups)
    return Scheme("leave-judgements-out", BY_JUDGEMENT, _random_splits(labels, n_parts, seed), labels.u, "workers")


def assign_groups(groups: Ids, labels: PairwiseLabels, n_parts: int) -> Ids:
    """The part of each item. Groups stay whole; the largest comes first, each joins the part with the fewest labels."""
    names, group = np.unique(groups, return_inverse=True)
    sizes = np.bincount(group[labels.a], minlength=len(names))
    part_of, filled = np.zeros(len(names), dtype=np.int64), np.zeros(min(n_parts, len(names)))
    for name in np.argsort(-sizes, kind="stable"):
        part_of[name] = int(filled.argmin())
        filled[part_of[name]] += sizes[name] + 1e-9  # groups without labels are spread too
    return np.asarray(part_of[group])


def group_splits(labels: PairwiseLabels, part: Ids) -> list[Split]:
    """Hold out one part of the items at a time; labels between two parts are neither trained on nor predicted."""
    a, b = part[labels.a], part[labels.b]
    splits = [(np.flatnonzero((a != k) & (b != k)), np.flatnonzero((a == k) & (b == k))) for k in range(part.max() + 1)]
    return [Split(train, test) for train, test in splits if len(train) and len(test)]


def _random_splits(labels: PairwiseLabels, n_parts: int, seed: int) -> list[Split]:
    """Split at random; a worker's repeated answers to a pair stay together, because one would reveal the other."""
    triples = np.stack([labels.u, np.minimum(labels.a, labels.b), np.maximum(labels.a, labels.b)])
    question = np.unique(triples, axis=1, return_inverse=True)[1].ravel()
    n_questions = int(question.max()) + 1 if len(question) else 0
    if n_questions < 2:
        raise NotEnoughJudgements
    part = (np.random.default_rng(seed).permutation(n_questions) % min(n_parts, n_questions))[question]
    return [Split(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(part.max() + 1)]


def predict_then_learn(inputs: Inputs, n_stretches: int) -> Scheme:
    """Cut the log into n_stretches + 1 stretches; all but the first are predicted."""
    if inputs.log_order is None or len(inputs.labels) < 2:
        raise NotEnoughJudgements
    stretches = np.array_split(np.argsort(inputs.log_order), min(n_stretches + 1, len(inputs.labels)))
    splits = [Split(np.concatenate(stretches[:k]), stretches[k]) for k in range(1, len(stretches))]
    return Scheme("predict-then-learn", BY_TIME, splits, inputs.labels.u, "workers")


# Methods ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EvaluationData:
    """What all methods share: the item features and the project's settings."""

    items: ItemFeatures
    settings: ModelSettings
    n_items: int
    n_users: int
    groups: Ids | None = None  # of the items, if whole groups are held out

    def fit(self, model: Any, train: PairwiseLabels, X_items: Floats | None) -> Any:
        return model.fit(train, X_items=X_items, n_items=self.n_items, n_users=self.n_users)


def crowdgppl(data: EvaluationData, train: PairwiseLabels, test: PairwiseLabels) -> dict[str, Floats]:
    estimator = build_estimator(data.settings, data.items.kernel)
    model = data.fit(estimator, train, data.items.kernel_inputs)
    return {
        "personal": model.predict_proba(test.u, test.a, test.b),
        "consensus": model.predict_consensus_proba(test.a, test.b),
    }


def gppl(data: EvaluationData, train: PairwiseLabels, test: PairwiseLabels) -> dict[str, Floats]:
    estimator = build_estimator(replace(data.settings, n_components=0), data.items.kernel)
    model = data.fit(estimator, train, data.items.kernel_inputs)
    return {"gppl": model.predict_consensus_proba(test.a, test.b)}


def gppl_per_user(data: EvaluationData, train: PairwiseLabels, test: PairwiseLabels) -> dict[str, Floats]:
    estimator = GPPLPerUser(item_kernel=data.items.kernel)
    model = data.fit(estimator, train, data.items.kernel_inputs)
    return {"gppl_per_user": model.predict_proba(test.u, test.a, test.b)}


def bradley_terry(data: EvaluationData, train: PairwiseLabels, test: PairwiseLabels) -> dict[str, Floats]:
    """Bradley-Terry; items without judgements get scores from similar items, if the kernel relates items."""
    model = data.fit(BradleyTerry(item_kernel=data.items.kernel), train, data.items.kernel_inputs)
    return {"bradley_terry": model.predict_consensus_proba(test.a, test.b)}


def linear(data: EvaluationData, train: PairwiseLabels, test: PairwiseLabels) -> dict[str, Floats]:
    model = data.fit(LinearPreference(_select_ridge(data, train)), train, data.items.X)
    return {"linear": model.predict_consensus_proba(test.a, test.b)}


def _select_ridge(data: EvaluationData, labels: PairwiseLabels) -> float:
    """The ridge with the least loss on a held-out fifth of the labels."""
    split = inner_split(labels, data.groups, data.settings.seed)
    if not (len(split.train) and len(split.test)):
        return RIDGES[-1]
    train, test = labels.take(split.train), labels.take(split.test)

    def loss(ridge: float) -> float:
        model = data.fit(LinearPreference(ridge), train, data.items.X)
        return float(label_metrics(model.predict_consensus_proba(test.a, test.b), test.y).log_loss.mean())

    return min(RIDGES, key=loss)


def inner_split(labels: PairwiseLabels, groups: Ids | None, seed: int) -> Split:
    """Hold out one fifth in the same way as the scheme does: whole groups if possible, otherwise judgements."""
    rng = np.random.default_rng(seed)
    if groups is not None:
        present = rng.permutation(np.unique(groups[labels.a]))
        a, b = (np.isin(groups[items], present[::INNER_FOLDS]) for items in (labels.a, labels.b))
        if (a & b).any() and (~a & ~b).any():
            return Split(np.flatnonzero(~a & ~b), np.flatnonzero(a & b))
    part = rng.permutation(len(labels)) % INNER_FOLDS
    return Split(np.flatnonzero(part > 0), np.flatnonzero(part == 0))


FITS = (crowdgppl, gppl, gppl_per_user, bradley_terry, linear)


# Metrics with intervals ---------------------------------------------------------------------------------------------


def estimate(values: Floats, clusters: Ids) -> Estimate | None:
    """The mean with an interval that is robust to correlation within clusters.

    The sandwich variance of a mean over clusters, with Student's t and one degree of freedom less than clusters.
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


def _metric_values(metrics: LabelMetrics, metric: str) -> tuple[Floats, NDArray[np.bool_]]:
    """The values of all labels, and a mask of the labels for which the metric is defined."""
    if metric == "accuracy":
        return metrics.correct.astype(np.float64), metrics.decided
    return getattr(metrics, metric), np.ones(len(metrics.decided), dtype=bool)


def _estimate_metrics(
    metrics: LabelMetrics, clusters: Ids, minus: LabelMetrics | None = None
) -> dict[str, Estimate | None]:
    """Estimate the mean of each metric or, given `minus`, the mean of the paired differences."""
    found = {}
    for metric in METRICS:
        values, defined = _metric_values(metrics, metric)
        if minus:
            found[metric] = estimate((values - _metric_values(minus, metric)[0])[defined], clusters[defined])
        else:
            found[metric] = _clip_interval(estimate(values[defined], clusters[defined]), UPPER_LIMITS[metric])
    return found


def _clip_interval(one: Estimate | None, upper: float) -> Estimate | None:
    """Limit an interval to the range of its metric."""
    if one is None or one.low is None or one.high is None:
        return one
    return Estimate(one.mean, max(one.low, 0.0), min(one.high, upper))


def verdict(log_loss: Estimate | None, n_clusters: int) -> str:
    """Whether the reference has a smaller loss; undecided if the interval includes 0 or there are too few clusters."""
    if log_loss is None or log_loss.low is None or log_loss.high is None or n_clusters < MIN_CLUSTERS:
        return "not decided"
    if log_loss.low <= 0 <= log_loss.high:
        return "not decided"
    return "better" if log_loss.mean < 0 else "worse"


def compare(p: dict[str, Floats], y: Floats, clusters: Ids) -> dict[str, MethodResult]:
    """The metrics of each method on the same answers, and the reference against each."""
    metrics = {method: label_metrics(p[method], y) for method in METHODS}
    results = {}
    for method, own in metrics.items():
        sums, gap = sum_metrics(p[method], y), _estimate_metrics(metrics[REFERENCE], clusters, minus=own)
        results[method] = MethodResult(
            labels=sums.labels,
            decided=sums.decided,
            metrics=_estimate_metrics(own, clusters),
            calibration_error=sums.calibration_error or 0.0,
            calibration=sums.calibration,
            reference_minus_this=gap,
            verdict=verdict(gap["log_loss"], len(np.unique(clusters))),
        )
    return results


def evaluate(
    inputs: Inputs,
    settings: ModelSettings,
    schemes: list[Scheme],
    report: ReportProgress = lambda scheme, share, detail: None,
) -> Iterator[SchemeResult]:
    """Evaluate all methods under each scheme."""
    data = EvaluationData(build_item_features(inputs, settings), settings, len(inputs.items), len(inputs.workers))
    total, done = sum(len(scheme.splits) for scheme in schemes) * len(FITS), 0
    for scheme in schemes:
        data = replace(data, groups=scheme.groups)
        p = {method: np.empty(len(inputs.labels)) for method in METHODS}
        for number, split in enumerate(scheme.splits, start=1):
            train, test = inputs.labels.take(split.train), inputs.labels.take(split.test)
            for fit in FITS:
                report(scheme.name, done / total, f", part {number} of {len(scheme.splits)}, {fit.__name__}")
                for method, predicted in fit(data, train, test).items():
                    p[method][split.test] = predicted
                done += 1
        held_out = np.concatenate([split.test for split in scheme.splits])
        clusters = scheme.clusters[held_out]
        yield SchemeResult(
            scheme=scheme.name,
            description=scheme.description,
            splits=len(scheme.splits),
            predicted=len(held_out),
            clusters=len(np.unique(clusters)),
            clustered_by=scheme.clustered_by,
            methods=compare({m: p[m][held_out] for m in METHODS}, inputs.labels.y[held_out], clusters),
        )
