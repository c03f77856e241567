"""One fit of crowdGPPL to a project's judgements: settings and texts in, a fitted estimator out. No rows, no clock."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from modelling.crowdgppl import CrowdGPPL, WeightedSum
from modelling.features import TextFeatures
from modelling.inputs import Inputs, News
from modelling.model_settings import ModelSettings, item_kernel

Progress = Callable[..., None]


@dataclass(frozen=True)
class Reading:
    """The items as models see them. Where every item stands alone there is no kernel, and models get no features."""

    features: TextFeatures
    X: NDArray[np.float64]
    kernel: WeightedSum | None

    @property
    def seen(self) -> NDArray[np.float64] | None:
        return self.X if self.kernel else None


def read_texts(inputs: Inputs, settings: ModelSettings) -> Reading:
    """Every item's text and own numbers, as vectors."""
    texts, numbers = [item.text for item in inputs.items], numeric_columns(inputs)
    features = TextFeatures().fit(texts, numeric=numbers)
    return Reading(features, features.transform(texts, numeric=numbers), item_kernel(settings.kernel, features.blocks))


def fit(inputs: Inputs, settings: ModelSettings, progress: Progress | None = None) -> tuple[CrowdGPPL, TextFeatures]:
    """A model of these judgements, learned from scratch, and the features by which it reads a text."""
    reading = read_texts(inputs, settings)
    model = estimator(settings, reading.kernel, len(inputs.workers), progress)
    model.fit(inputs.labels, X_items=reading.seen, n_items=len(inputs.items), n_users=len(inputs.workers))
    return model, reading.features


def estimator(
    settings: ModelSettings, kernel: WeightedSum | None, n_users: int, progress: Progress | None = None
) -> CrowdGPPL:
    """crowdGPPL as a project's settings want it, not fitted."""
    return CrowdGPPL(
        n_components=min(settings.n_components, n_users),
        n_inducing_items=settings.n_inducing_items,
        item_kernel=kernel,
        t_prior=settings.consensus_prior,
        personal_variance=settings.personal_variance or "auto",
        random_state=settings.seed,
        track_bound=True,
        progress=progress,
    )


def step(model: CrowdGPPL, news: News) -> None:
    """The model has learned what came since and forgotten what was taken back, without starting again."""
    if len(news.forgotten):
        model.forget(news.forgotten)
    if len(news.learned):
        model.partial_fit(news.learned, n_items=model.n_items_, n_users=len(news.worker_ids))


def numeric_columns(inputs: Inputs) -> np.ndarray | None:
    """The researcher's own columns, where every item has them all."""
    names = set.intersection(*(set(item.features) for item in inputs.items)) if inputs.items else set()
    if not names:
        return None
    return np.array([[float(item.features[name]) for name in sorted(names)] for item in inputs.items])
