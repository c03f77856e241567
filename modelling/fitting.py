"""One fit of crowdGPPL to a project's judgements: settings and texts in, a fitted estimator out. No rows, no clock."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from modelling.crowdgppl import CrowdGPPL, WeightedSum
from modelling.features import TextFeatures, TraitFeatures
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


def fit(
    inputs: Inputs, settings: ModelSettings, progress: Progress | None = None
) -> tuple[CrowdGPPL, TextFeatures, TraitFeatures]:
    """A model of these judgements, learned from scratch, and the features by which it reads texts and workers."""
    reading, traits = read_texts(inputs, settings), read_traits(inputs, settings)
    model = estimator(settings, reading.kernel, len(inputs.workers), progress)
    X_users = traits.transform([worker.traits for worker in inputs.workers])
    sizes = {"n_items": len(inputs.items), "n_users": len(inputs.workers)}
    model.fit(inputs.labels, X_items=reading.seen, X_users=X_users if X_users.any() else None, **sizes)
    return model, reading.features, traits


def read_traits(inputs: Inputs, settings: ModelSettings) -> TraitFeatures:
    """How answers to the questionnaire become vectors; of no columns where they are not to be learned from."""
    return TraitFeatures().fit([worker.traits for worker in inputs.workers] if settings.traits else [])


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
        reliability=settings.reliability,
        random_state=settings.seed,
        track_bound=True,
        progress=progress,
    )


def step(model: CrowdGPPL, news: News, traits: TraitFeatures | None = None) -> None:
    """The model has learned what came since and forgotten what was taken back, without starting again."""
    if len(news.forgotten):
        model.forget(news.forgotten)
    if len(news.learned):
        known = model.X_users_
        X_users = None if known is None or traits is None else np.vstack((known, traits.transform(news.traits)))
        model.partial_fit(news.learned, X_users=X_users, n_items=model.n_items_, n_users=len(news.worker_ids))


def refine(model: CrowdGPPL, settings: ModelSettings) -> None:
    """The slower pass, where the study wants it and is small enough; where it is not, the model's warnings say why."""
    if not settings.refine:
        return
    if why := model.hindrance_:
        model.warnings_ = [*model.warnings_, why]
    else:
        model.refine()


def numeric_columns(inputs: Inputs) -> np.ndarray | None:
    """The researcher's own columns, where every item has them all."""
    names = set.intersection(*(set(item.features) for item in inputs.items)) if inputs.items else set()
    if not names:
        return None
    return np.array([[float(item.features[name]) for name in sorted(names)] for item in inputs.items])
