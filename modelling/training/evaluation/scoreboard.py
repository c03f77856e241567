"""The scoreboard: each method predicts the new labels before learning from them, and its metrics are added up.

The baselines are fitted to the same labels as crowdGPPL at every refit. In a step GPPL (the same preferences for
everyone) learns from the new labels without keeping them; retracted labels leave it at the next refit. Bradley-Terry
(no texts) is fitted at refits only. Neither holds anything that grows with the number of labels. GPPL holds a matrix
over all pairs of items, so studies with very many items are compared with Bradley-Terry alone. Other methods that the
settings name are fitted at refits, too, in studies that are not large: some of them hold the labels.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from annotation.models import Project
from modelling.baselines import BradleyTerry
from modelling.baselines.bradley_terry import merge_labels
from modelling.baselines.catalogue import CATALOGUE, Estimator, Method
from modelling.crowdgppl import CrowdGPPL, NoLabels, PairwiseLabels
from modelling.engines import Engine
from modelling.models import ModelSnapshot, ScoreboardEntry
from modelling.training.fit import Progress, largest_batch, report_iterations
from modelling.training.inputs import InputDelta
from modelling.training.snapshots import FittedModel, select_prefix
from modelling.training.storage.array_store import Arrays
from modelling.training.storage.label_store import DatabaseStore, WithoutSites

Floats = NDArray[np.float64]
CalibrationBin = tuple[int, float, float]  # labels, sum of the predicted probabilities, sum of the observed answers

MIN_PROBABILITY = 1e-12  # bounds the loss of a single label
MIN_SCORED = 50  # new judgements; fewer say nothing about a method
CALIBRATION_BINS = 10
MAX_LABELS = 300  # per worker, for predictions on the scoreboard; more would slow down updates
MAX_GPPL_ITEMS = 2000
MAX_OTHER_LABELS = 20_000  # per study, for the methods that its settings add
USERS_PER_READ = 10_000  # in a large study, for Bradley-Terry
METHODS = ScoreboardEntry.Method

log = logging.getLogger("concord.scoreboard")


# Metrics ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MetricSums:
    """Prediction metrics summed over labels. Sums of two sets of labels can be added."""

    labels: int = 0
    decided: int = 0
    correct: int = 0
    log_loss: float = 0.0
    brier: float = 0.0
    calibration: tuple[CalibrationBin, ...] = ((0, 0.0, 0.0),) * CALIBRATION_BINS

    def __add__(self, other: MetricSums) -> MetricSums:
        bins = zip(self.calibration, other.calibration, strict=True)
        return MetricSums(
            self.labels + other.labels,
            self.decided + other.decided,
            self.correct + other.correct,
            self.log_loss + other.log_loss,
            self.brier + other.brier,
            tuple((a[0] + b[0], a[1] + b[1], a[2] + b[2]) for a, b in bins),
        )

    @property
    def accuracy(self) -> float | None:
        """Share of the decided labels predicted with probability above 1/2; None without decided labels."""
        return self.correct / self.decided if self.decided else None

    @property
    def mean_log_loss(self) -> float | None:
        return self.log_loss / self.labels if self.labels else None

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error over ten bins."""
        gaps = sum(abs(predicted - observed) for _labels, predicted, observed in self.calibration)
        return gaps / self.labels if self.labels else None


@dataclass(frozen=True)
class LabelMetrics:
    """Prediction metrics of each label; `correct` has a meaning only where `decided` is true."""

    decided: NDArray[np.bool_]
    correct: NDArray[np.bool_]
    log_loss: Floats
    brier: Floats


def label_metrics(p: Floats, y: Floats) -> LabelMetrics:
    """Metrics of predicted probabilities that the first item wins; y is 1, 0, or 0.5 for a tie."""
    p = np.clip(p, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    log_loss = -(y * np.log(p) + (1.0 - y) * np.log1p(-p))
    return LabelMetrics(y != 0.5, (p - 0.5) * (y - 0.5) > 0, log_loss, (p - y) ** 2)


def sum_metrics(p: Floats, y: Floats) -> MetricSums:
    """Sum `label_metrics` over all labels, and add the calibration."""
    p, each = np.clip(p, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY), label_metrics(p, y)
    bins = np.minimum((p * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    columns = (np.bincount(bins, weights, CALIBRATION_BINS) for weights in (np.ones(len(p)), p, y))
    return MetricSums(
        labels=len(p),
        decided=int(each.decided.sum()),
        correct=int(each.correct.sum()),
        log_loss=float(each.log_loss.sum()),
        brier=float(each.brier.sum()),
        calibration=tuple((int(n), float(p), float(y)) for n, p, y in zip(*columns, strict=True)),
    )


# Predictions --------------------------------------------------------------------------------------------------------


@dataclass
class BaselineModels:
    """The other methods on the scoreboard."""

    gppl: CrowdGPPL | None  # None with more than MAX_GPPL_ITEMS items
    bradley_terry: BradleyTerry
    others: dict[str, Estimator] = field(default_factory=dict)  # by their names in the catalogue

    @classmethod
    def fit_for(
        cls,
        model: Engine,
        labels: PairwiseLabels | DatabaseStore,
        progress: Progress | None = None,
        others: Sequence[str] = (),
    ) -> BaselineModels:
        """Fit the baselines to the labels of a newly fitted model, with its kernel and seed."""
        merged = labels if isinstance(labels, PairwiseLabels) else read_merged_labels(labels)
        gppl = fit_gppl(model, labels, progress) if model.n_items_ <= MAX_GPPL_ITEMS else None
        bradley_terry = BradleyTerry().fit(merged, n_items=model.n_items_)
        in_memory = isinstance(labels, PairwiseLabels) and len(labels) <= MAX_OTHER_LABELS
        wanted = others if in_memory and gppl is not None else ()
        fitted = {name: fit_other(CATALOGUE[name], model, merged, progress) for name in wanted}
        return cls(gppl, bradley_terry, {name: each for name, each in fitted.items() if each is not None})

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> BaselineModels:
        state = select_prefix(arrays, "gppl.")
        gppl = CrowdGPPL.from_state(state, NoLabels(0)) if state else None
        names = sorted({key.split(".")[1] for key in arrays if key.startswith("other.")})
        others = {
            name: CATALOGUE[name].estimator.from_state(select_prefix(arrays, f"other.{name}."))
            for name in names
            if name in CATALOGUE
        }
        return cls(gppl, BradleyTerry.from_state(select_prefix(arrays, "bradley_terry.")), others)

    def to_arrays(self) -> Arrays:
        named = {"gppl": self.gppl, "bradley_terry": self.bradley_terry}
        named |= {f"other.{name}": model for name, model in self.others.items()}
        states = {name: model.to_state() for name, model in named.items() if model is not None}
        return {f"{model}.{name}": array for model, state in states.items() for name, array in state.items()}


def fit_other(method: Method, model: Engine, labels: PairwiseLabels, progress: Progress | None) -> Estimator | None:
    """Fit a method with this model's features, kernel and seed; None if features it needs are missing or it fails."""
    if progress is not None:
        progress("compare")
    if method.needs and model.X_items_ is None:
        return None
    try:
        return method.fit(
            labels,
            X_items=model.X_items_,
            X_users=model.X_users_,
            n_items=model.n_items_,
            n_users=model.n_users_,
            kernel=model.item_kernel,
            seed=model.random_state,
        )
    except (np.linalg.LinAlgError, ValueError) as error:  # a method for comparison must not stop the update
        log.warning("%s is left off the scoreboard: %s", method.name, error)
        return None


def predict_other(model: Estimator, labels: PairwiseLabels) -> Floats:
    """P(a preferred); a worker who joined after the last refit is predicted like any unknown worker."""
    known = labels.u < model.n_users_
    if known.all() or not isinstance(model, CrowdGPPL):
        return np.asarray(model.predict_proba(labels.u, labels.a, labels.b))
    p = np.asarray(model.predict_consensus_proba(labels.a, labels.b))
    p[known] = model.predict_proba(labels.u[known], labels.a[known], labels.b[known])
    return p


def fit_gppl(model: Engine, labels: PairwiseLabels | DatabaseStore, progress: Progress | None) -> CrowdGPPL:
    """Fit GPPL with the kernel and seed of this model; it keeps no labels."""
    n_labels = len(labels) if isinstance(labels, PairwiseLabels) else int(labels.counts.sum())
    gppl = CrowdGPPL(
        n_components=0,
        item_kernel=model.item_kernel,
        batch_labels=largest_batch(n_labels),
        random_state=model.random_state,
        executor=model.executor,
    )
    report_iterations(gppl, progress, "compare")
    source = labels if isinstance(labels, PairwiseLabels) else WithoutSites(labels)
    gppl.fit(source, X_items=model.X_items_, n_items=model.n_items_, n_users=model.n_users_)
    return gppl.use_store(NoLabels(model.n_users_))


def read_merged_labels(store: DatabaseStore) -> PairwiseLabels:
    """One label for each distinct pair and answer of a large study, with the number of times it was given."""
    merged: PairwiseLabels | None = None
    users = store.active_users()
    for start in range(0, len(users), USERS_PER_READ):
        batch = store.load(users[start : start + USERS_PER_READ])
        labels = PairwiseLabels(np.zeros(len(batch), dtype=np.int64), batch.a, batch.b, batch.y)
        merged = merge_labels(labels if merged is None else merged.joined(labels))
    if merged is None:
        raise ValueError("There are no labels to learn from.")
    return merged


def score_predictions(fitted: FittedModel, baselines: BaselineModels, delta: InputDelta) -> dict[str, MetricSums]:
    """Score each method's predictions of the new labels about items it knows, before it learns from them."""
    known, new = len(fitted.item_ids), delta.added
    new = new.take((new.a < known) & (new.b < known))
    if not len(new):
        return {}
    X_users = fitted.new_worker_features(delta)
    probabilities: dict[str, Floats] = {
        METHODS.PERSONAL: fitted.model.predict_proba(new.u, new.a, new.b, X_users=X_users, most=MAX_LABELS),
        METHODS.CONSENSUS: fitted.model.predict_consensus_proba(new.a, new.b),
        METHODS.BRADLEY_TERRY: baselines.bradley_terry.predict_consensus_proba(new.a, new.b),
    }
    if baselines.gppl is not None:
        probabilities[METHODS.GPPL] = baselines.gppl.predict_consensus_proba(new.a, new.b)
    probabilities |= {name: predict_other(model, new) for name, model in baselines.others.items()}
    return {str(method): sum_metrics(p, new.y) for method, p in probabilities.items()}


# Rows ---------------------------------------------------------------------------------------------------------------


def scoreboard_entries(snapshot: ModelSnapshot, sums: dict[str, MetricSums]) -> list[ScoreboardEntry]:
    """The unsaved scoreboard entries of a version."""
    return [
        ScoreboardEntry(
            snapshot=snapshot,
            method=method,
            labels=each.labels,
            decided=each.decided,
            correct=each.correct,
            log_loss=each.log_loss,
            brier=each.brier,
            calibration=[list(bin) for bin in each.calibration],
        )
        for method, each in sums.items()
    ]


def metric_sums(entry: ScoreboardEntry) -> MetricSums:
    bins = tuple((int(n), float(predicted), float(observed)) for n, predicted, observed in entry.calibration)
    return MetricSums(entry.labels, entry.decided, entry.correct, entry.log_loss, entry.brier, bins)


def scoreboard_totals(project: Project, upto: int | None = None) -> dict[str, MetricSums]:
    """Each method's sums over all versions, or over the versions up to number `upto`."""
    entries = _read_entries(project, upto)
    return {method: _total(e for e in entries if e.method == method) for method in _names(entries)} if entries else {}


def running_totals(project: Project, upto: int | None = None) -> list[tuple[int, dict[str, MetricSums]]]:
    """Each version's number with each method's sums up to and including that version."""
    entries = _read_entries(project, upto)
    running = {method: MetricSums() for method in _names(entries)}
    versions = []
    for number, of_version in groupby(entries, key=lambda entry: entry.snapshot.number):
        for entry in of_version:
            running[entry.method] = running[entry.method] + metric_sums(entry)
        versions.append((number, dict(running)))
    return versions


def _read_entries(project: Project, upto: int | None) -> list[ScoreboardEntry]:
    entries = ScoreboardEntry.objects.filter(snapshot__project=project).select_related("snapshot")
    if upto is not None:
        entries = entries.filter(snapshot__number__lte=upto)
    return list(entries.order_by("snapshot__number", "method"))


def _names(entries: list[ScoreboardEntry]) -> list[str]:
    """The names of the methods that every study has, then of the others that have entries."""
    return list(dict.fromkeys([*map(str, METHODS), *sorted(entry.method for entry in entries)]))


def _total(entries: Iterable[ScoreboardEntry]) -> MetricSums:
    return sum((metric_sums(entry) for entry in entries), start=MetricSums())
