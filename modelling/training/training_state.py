"""All models behind a version: the fitted model and the scoreboard's baselines."""

from dataclasses import dataclass, replace

import numpy as np

from modelling.crowdgppl import ArrayStore, PairwiseLabels
from modelling.training.evaluation.scoreboard import BaselineModels
from modelling.training.fit import Progress, fit, report_iterations
from modelling.training.inputs import Ids, InputDelta, Inputs, InputSummary, primary_keys, read_labels_by_worker
from modelling.training.settings import ModelSettings
from modelling.training.size import check_size
from modelling.training.snapshots import FittedModel
from modelling.training.storage.array_store import Arrays
from modelling.training.storage.label_store import DatabaseStore, UpdateRows, build_records


@dataclass(frozen=True)
class TrainingState:
    """crowdGPPL and its baselines, fitted to the same labels."""

    fitted: FittedModel
    baselines: BaselineModels

    @classmethod
    def fit(
        cls, inputs: InputSummary, settings: ModelSettings, progress: Progress, rows: UpdateRows | None = None
    ) -> "TrainingState":
        """Fit all models from scratch, in memory if the inputs hold the labels, otherwise from database rows."""
        check_size(len(inputs.items), settings)
        if isinstance(inputs, Inputs):
            labels: PairwiseLabels | DatabaseStore = inputs.labels
        else:
            labels = copy_labels(inputs, rows, progress)
        model, features, traits = fit(inputs, settings, progress, labels)
        progress("compare")
        baselines = BaselineModels.fit_for(model, labels, progress, settings.scoreboard_methods)
        if isinstance(inputs, Inputs) and isinstance(model.store, ArrayStore):
            sequences = inputs.sequences[np.argsort(inputs.labels.u, kind="stable")]
            model.use_store(DatabaseStore.from_arrays(primary_keys(inputs.workers), model.store, sequences))
        ranked = np.flatnonzero([item.active for item in inputs.items])
        fitted = FittedModel(model, features, traits, primary_keys(inputs.items), ranked, inputs.item_counts)
        return cls(fitted, baselines)

    def advance(self, delta: InputDelta, progress: Progress | None = None) -> "TrainingState":
        """Update the models in place with the labels added and removed since this state; return the new state."""
        report_iterations(self.fitted.model, progress)
        fitted = update_model(self.fitted, delta)
        update_baselines(self.baselines, delta)
        return replace(self, fitted=fitted)

    @classmethod
    def from_arrays(cls, arrays: Arrays, number: int) -> "TrainingState":
        """Restore the state of version `number` from its arrays."""
        return cls(FittedModel.from_arrays(arrays, number), BaselineModels.from_arrays(arrays))

    def to_arrays(self) -> Arrays:
        return {**self.fitted.to_arrays(), **self.baselines.to_arrays()}


def copy_labels(inputs: InputSummary, rows: UpdateRows | None, progress: Progress) -> DatabaseStore:
    """Copy the judgements of a large study into one row per worker."""
    if rows is None:
        raise ValueError("A large study can only be fitted from database rows.")
    store = DatabaseStore.empty(primary_keys(inputs.workers), rows)
    for part in read_labels_by_worker(inputs):
        labels = part.labels
        store.add(labels.u, build_records(part.sequences, labels.a, labels.b, labels.y))
        progress("read", int(store.counts.sum()), inputs.counts.included)
    return store


def update_model(fitted: FittedModel, delta: InputDelta) -> FittedModel:
    """Update crowdGPPL in place: only workers with new or retracted labels and a few others are visited."""
    model, added, removed = fitted.model, delta.added, delta.removed
    known = model.X_users_
    X_users = None if known is None else np.vstack((known, fitted.traits.transform(delta.traits)))
    model.grow(X_users=X_users, n_users=len(delta.worker_ids))
    users = np.union1d(added.u, removed.u)
    if len(users):
        sizes = {"n_added": len(added), "n_removed": len(removed)}
        model.update_users(users, lambda: fitted.store.apply(delta), **sizes)
    n_items = len(fitted.item_ids)
    change = count_per_item(added, n_items) - count_per_item(removed, n_items)
    return replace(fitted, item_counts=fitted.item_counts + change)


def update_baselines(baselines: BaselineModels, delta: InputDelta) -> None:
    """Update GPPL in place with the new labels; the other baselines stay as the last refit left them."""
    if baselines.gppl is not None:
        report_iterations(baselines.gppl, None)
        baselines.gppl.absorb(delta.added)


def count_per_item(labels: PairwiseLabels, n_items: int) -> Ids:
    """The number of labels about each item."""
    return np.bincount(labels.a, minlength=n_items) + np.bincount(labels.b, minlength=n_items)
