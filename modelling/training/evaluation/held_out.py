"""Evaluate all methods on a project's held-out judgements. Arrays in, metrics out; no rows are written.

Two schemes hold judgements out. *Leave-group-out*: whole groups of items, so that a method must predict texts without
any judgement; without groups, random judgements. *Predict-then-learn*: judgements in the order of the log, each block
predicted from everything before it. Each method is fitted from scratch for each split, to the same judgements.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from modelling.baselines import LinearPreference
from modelling.baselines.catalogue import CATALOGUE, Method
from modelling.crowdgppl import PairwiseLabels
from modelling.training.evaluation.rivals import RIVALS
from modelling.training.evaluation.scoreboard import LabelMetrics, label_metrics, sum_metrics
from modelling.training.executors import get_executor
from modelling.training.fit import ItemFeatures, build_estimator, build_item_features, build_trait_features
from modelling.training.inputs import Inputs
from modelling.training.settings import NONE, ModelSettings
from modelling.training.size import check_size

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
ReportProgress = Callable[[str, float, str], None]  # scheme, share done, detail

REFERENCE = "personal"  # the project's model for each worker; the other methods are compared with it
STUDY_MODEL = "study model"  # the project's own engine
TITLES = {"personal": "crowdGPPL, personal", "consensus": "crowdGPPL, consensus"} | {
    name: method.title for name, method in (CATALOGUE | RIVALS).items() if name != "crowdgppl"
}
DEFAULT_METHODS = ("gppl", "gppl_per_user", "bradley_terry", "linear")  # besides crowdGPPL itself
UPPER_LIMITS = {"accuracy": 1.0, "log_loss": float("inf"), "brier": 1.0}
METRICS = tuple(UPPER_LIMITS)
CONFIDENCE = 0.95
MIN_CLUSTERS = 4  # for a verdict: two or three clusters often agree by chance
RIDGES = (1.0, 10.0, 100.0)  # of the linear method; chosen on a fifth of its training labels
INNER_FOLDS = 5

BY_GROUP = "Whole groups of items are held out, one part at a time, and the judgements about them predicted."
BY_JUDGEMENT = (
    "The items have no groups to hold out, so random judgements are held out, one part at a time; "
    "a worker's answers to the same pair stay together."
)
BY_TIME = "Judgements are taken in the order of the log; each block is predicted from all earlier ones."


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
    """A mean with its 95% interval, which is missing with fewer than two clusters."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class MethodResult:
    """The metrics of one method under one scheme, and the reference's paired differences from it."""

    labels: int
    decided: int
    metrics: dict[str, Estimate | None]
    calibration_error: float
    calibration: tuple[tuple[int, float, float], ...]
    reference_minus_this: dict[str, Estimate | None]
    verdict: str  # on the reference against this method: better, worse or not decided, by log loss
    cpu_seconds: float  # to fit and predict all parts


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
    """Hold out whole groups of items if possible, and random judgements otherwise."""
    labels = inputs.labels
    groups = np.unique([item.group for item in inputs.items], return_inverse=True)[1]
    splits = group_splits(labels, assign_groups(groups, labels, n_parts)) if groups.max() else []
    if len(splits) >= 2:
        return Scheme("leave-group-out", BY_GROUP, splits, groups[labels.a], "groups of items", groups)
    return Scheme("leave-judgements-out", BY_JUDGEMENT, _random_splits(labels, n_parts, seed), labels.u, "workers")


def assign_groups(groups: Ids, labels: PairwiseLabels, n_parts: int) -> Ids:
    """Assign each item to a part: groups stay whole and, largest first, join the part with the fewest labels."""
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


def predict_then_learn(inputs: Inputs, n_blocks: int) -> Scheme:
    """Cut the log into n_blocks + 1 blocks and predict all but the first, each from those before it."""
    if inputs.log_order is None or len(inputs.labels) < 2:
        raise NotEnoughJudgements
    blocks = np.array_split(np.argsort(inputs.log_order), min(n_blocks + 1, len(inputs.labels)))
    splits = [Split(np.concatenate(blocks[:k]), blocks[k]) for k in range(1, len(blocks))]
    return Scheme("predict-then-learn", BY_TIME, splits, inputs.labels.u, "workers")


# Methods ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EvaluationData:
    """What all methods share: the features and the project's settings."""

    items: ItemFeatures
    X_users: Floats | None
    settings: ModelSettings
    n_items: int
    n_users: int
    groups: Ids | None = None  # each item's group, if whole groups are held out

    def fit(self, model: Any, train: PairwiseLabels, X_items: Floats | None, X_users: Floats | None = None) -> Any:
        return model.fit(train, X_items=X_items, X_users=X_users, n_items=self.n_items, n_users=self.n_users)


def predict_study_model(data: EvaluationData, train: PairwiseLabels, test: PairwiseLabels) -> dict[str, Floats]:
    """Fit the project's engine with its settings; predict the test labels for each worker and by the consensus."""
    estimator = build_estimator(data.settings, data.items.kernel)
    model = data.fit(estimator, train, data.items.kernel_inputs, data.X_users)
    return {
        "personal": model.predict_proba(test.u, test.a, test.b),
        "consensus": model.predict_consensus_proba(test.a, test.b),
    }


def predict_other(
    method: Method, data: EvaluationData, train: PairwiseLabels, test: PairwiseLabels
) -> dict[str, Floats]:
    """Fit a method with the project's features, kernel and seed, and predict the test labels."""
    if method.name == "linear":
        model = data.fit(LinearPreference(_select_ridge(data, train)), train, data.items.X)
    else:
        model = method.fit(
            train,
            X_items=data.items.kernel_inputs,
            X_users=data.X_users,
            n_items=data.n_items,
            n_users=data.n_users,
            kernel=data.items.kernel,
            seed=data.settings.seed,
        )
    return {method.name: model.predict_proba(test.u, test.a, test.b)}


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
    """Hold out one fifth in the same way as the scheme: whole groups if possible, otherwise judgements."""
    rng = np.random.default_rng(seed)
    if groups is not None:
        present = rng.permutation(np.unique(groups[labels.a]))
        a, b = (np.isin(groups[items], present[::INNER_FOLDS]) for items in (labels.a, labels.b))
        if (a & b).any() and (~a & ~b).any():
            return Split(np.flatnonzero(~a & ~b), np.flatnonzero(a & b))
    part = rng.permutation(len(labels)) % INNER_FOLDS
    return Split(np.flatnonzero(part > 0), np.flatnonzero(part == 0))


@dataclass(frozen=True, eq=False)
class FitTask:
    """One method to be fitted to one part of the labels. Tasks do not depend on each other."""

    method: str  # its name in the catalogue
    train: PairwiseLabels
    test: PairwiseLabels


@dataclass(frozen=True, eq=False)
class FitOutcome:
    """The predictions for the test labels by method, and what they cost."""

    probabilities: dict[str, Floats]
    cpu_seconds: float


def run_task(task: FitTask, data: EvaluationData) -> FitOutcome:
    """Fit one method and predict the test labels."""
    began = time.process_time()
    if task.method == STUDY_MODEL:
        probabilities = predict_study_model(data, task.train, task.test)
    else:
        probabilities = predict_other((CATALOGUE | RIVALS)[task.method], data, task.train, task.test)
    return FitOutcome(probabilities, time.process_time() - began)


# Metrics with intervals ---------------------------------------------------------------------------------------------


def estimate(values: Floats, clusters: Ids) -> Estimate | None:
    """The mean with an interval that is robust to correlation within clusters.

    The variance is the cluster-robust sandwich estimate; Student's t has one degree of freedom fewer than clusters.
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


def compare(
    p: dict[str, Floats], y: Floats, clusters: Ids, cpu_seconds: Mapping[str, float]
) -> dict[str, MethodResult]:
    """The metrics of each method on the same answers, and the reference compared with each."""
    metrics = {method: label_metrics(predicted, y) for method, predicted in p.items()}
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
            cpu_seconds=round(cpu_seconds[method], 3),
        )
    return results


def engine_title(settings: ModelSettings) -> str:
    """The name of the project's engine in tables."""
    return CATALOGUE[settings.engine].title


def method_titles(settings: ModelSettings) -> dict[str, str]:
    """The title of every row of a table, by its name in the results."""
    engine = engine_title(settings)
    return TITLES | {"personal": f"{engine}, personal", "consensus": f"{engine}, consensus"}


def lacking_features(methods: Sequence[Method], settings: ModelSettings) -> list[Method]:
    """The methods that cannot run because the settings declare items independent; linear uses features anyway."""
    return [method for method in methods if method.needs and settings.kernel == NONE and method.name != "linear"]


def evaluate(
    inputs: Inputs,
    settings: ModelSettings,
    schemes: list[Scheme],
    methods: Sequence[Method],
    report: ReportProgress = lambda scheme, share, detail: None,
) -> Iterator[SchemeResult]:
    """Evaluate the project's own model and these methods under each scheme."""
    executor, labels, data = get_executor(), inputs.labels, _evaluation_data(inputs, settings)
    titles = {STUDY_MODEL: engine_title(settings)} | {method.name: method.title for method in methods}
    total, done = sum(len(scheme.splits) for scheme in schemes) * len(titles), 0
    for scheme in schemes:
        p, seconds = dict[str, Floats](), Counter[str]()
        planned = [(number, split, name) for number, split in enumerate(scheme.splits, start=1) for name in titles]
        tasks = (FitTask(name, labels.take(split.train), labels.take(split.test)) for _, split, name in planned)
        outcomes = executor.stream(run_task, tasks, executor.share(replace(data, groups=scheme.groups)))
        for number, split, name in planned:
            report(scheme.name, done / total, f", part {number} of {len(scheme.splits)}, {titles[name]}")
            outcome = next(outcomes)
            for method, predicted in outcome.probabilities.items():
                p.setdefault(method, np.empty(len(labels)))[split.test] = predicted
                seconds[method] += outcome.cpu_seconds
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
            methods=compare({m: each[held_out] for m, each in p.items()}, labels.y[held_out], clusters, seconds),
        )


def _evaluation_data(inputs: Inputs, settings: ModelSettings) -> EvaluationData:
    check_size(len(inputs.items), settings)
    traits = build_trait_features(inputs, settings).transform([worker.traits for worker in inputs.workers])
    items = build_item_features(inputs, settings)
    X_users = traits if traits.any() else None
    return EvaluationData(items, X_users, settings, len(inputs.items), len(inputs.workers))
