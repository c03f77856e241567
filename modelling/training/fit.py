"""One fit of a study's model: settings and inputs in, a fitted estimator out. Writes no rows and reads no clock."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from modelling.crowdgppl import CrowdGPPL, Executor, LabelStore, PairwiseLabels, WeightedSum
from modelling.engines import PAPER_SVI, Engine, PaperSVIEngine
from modelling.features.sentences import INSTALL, has_sentence_vectors
from modelling.features.text import TextFeatures
from modelling.features.traits import TraitFeatures
from modelling.training.executors import get_executor
from modelling.training.inputs import Inputs, InputSummary
from modelling.training.settings import SENTENCES, InvalidSettings, ModelSettings, item_kernel

Progress = Callable[..., None]  # stage, iteration, largest number of iterations, change, processes
BATCH_LABELS, LARGEST_BATCH_LABELS = 40_000, 200_000  # studies with more labels are fitted in mini-batches
BATCHES = 25  # mini-batches grow with a study from this number on, so that they can be shared among machines


@dataclass(frozen=True)
class ItemFeatures:
    """Feature vectors of the items and the kernel over them; without a kernel, items are independent."""

    features: TextFeatures
    X: NDArray[np.float64]
    kernel: WeightedSum | None

    @property
    def kernel_inputs(self) -> NDArray[np.float64] | None:
        """The estimator's X_items: the features, or None without a kernel."""
        return self.X if self.kernel else None


def build_item_features(inputs: InputSummary, settings: ModelSettings) -> ItemFeatures:
    texts, numbers = [item.text for item in inputs.items], numeric_columns(inputs)
    features = TextFeatures(uses_sentences(settings)).fit(texts, numeric=numbers)
    X = features.transform(texts, numeric=numbers)
    return ItemFeatures(features, X, item_kernel(settings.kernel, features.blocks))


def uses_sentences(settings: ModelSettings) -> bool:
    """Whether the settings need sentence embeddings; raise InvalidSettings if their package is missing."""
    if settings.kernel == SENTENCES and not has_sentence_vectors():
        raise InvalidSettings(
            "The model settings compare the meaning of sentences, but the package for it is not installed on this "
            f"server ({INSTALL}). Install it, or choose another item similarity in the model settings."
        )
    return settings.kernel == SENTENCES


def build_trait_features(inputs: InputSummary, settings: ModelSettings) -> TraitFeatures:
    """The encoder of questionnaire answers, which has no columns if the settings do not use them."""
    return TraitFeatures().fit([worker.traits for worker in inputs.workers] if settings.traits else [])


def numeric_columns(inputs: InputSummary) -> np.ndarray | None:
    """The researcher's numeric columns that all items have."""
    names = set.intersection(*(set(item.features) for item in inputs.items)) if inputs.items else set()
    if not names:
        return None
    return np.array([[float(item.features[name]) for name in sorted(names)] for item in inputs.items])


def build_estimator(
    settings: ModelSettings,
    kernel: WeightedSum | None,
    progress: Progress | None = None,
    n_labels: int = 0,
    executor: Executor | None = None,
) -> Engine:
    """An unfitted estimator with the project's settings, for a fit to about `n_labels` labels."""
    model: Engine
    if settings.engine == PAPER_SVI:
        model = PaperSVIEngine(n_components=settings.n_components, item_kernel=kernel, random_state=settings.seed)
    else:
        model = CrowdGPPL(
            n_components=settings.n_components,
            item_kernel=kernel,
            batch_labels=largest_batch(n_labels),
            reliability=settings.reliability,
            random_state=settings.seed,
            executor=executor,
        )
    report_iterations(model, progress)
    return model


def largest_batch(n_labels: int) -> int:
    """The number of labels in a mini-batch of a study with this many."""
    return min(max(BATCH_LABELS, n_labels // BATCHES), LARGEST_BATCH_LABELS)


def report_iterations(model: Engine, progress: Progress | None, stage: str = "fit") -> None:
    """Report each iteration of the model's fits and updates to `progress`."""
    if progress is None:
        model.progress = None
        return
    model.progress = lambda step: progress(
        stage, int(step["iteration"]), int(step["most"]), float(step["change"]), model.executor.n_processes
    )


def fit(
    inputs: InputSummary,
    settings: ModelSettings,
    progress: Progress | None = None,
    labels: PairwiseLabels | LabelStore | None = None,
) -> tuple[Engine, TextFeatures, TraitFeatures]:
    """Fit from scratch; return the estimator and the features of texts and workers.

    `labels` may be in memory or in a store; by default they are those of the inputs.
    """
    if labels is None and isinstance(inputs, Inputs):
        labels = inputs.labels
    if labels is None:
        raise ValueError("There are no labels to learn from.")
    items, traits = build_item_features(inputs, settings), build_trait_features(inputs, settings)
    n_labels = inputs.counts.included
    model = build_estimator(settings, items.kernel, progress, n_labels, get_executor(n_labels))
    X_users = traits.transform([worker.traits for worker in inputs.workers])
    sizes = {"n_items": len(inputs.items), "n_users": len(inputs.workers)}
    model.fit(labels, X_items=items.kernel_inputs, X_users=X_users if X_users.any() else None, **sizes)
    return model, items.features, traits
