"""One fit of crowdGPPL to a project's judgements: settings and texts in, a fitted estimator out. No rows, no clock."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from modelling.crowdgppl import CrowdGPPL
from modelling.features import TextFeatures, default_item_kernel
from modelling.inputs import Inputs, News

Progress = Callable[..., None]


@dataclass(frozen=True)
class ModelSettings:
    """What a project may choose about its model."""

    n_components: int = 10
    n_inducing_items: int = 100
    seed: int = 0

    @classmethod
    def of(cls, given: dict[str, Any]) -> "ModelSettings":
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in given.items() if name in known})

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def fit(inputs: Inputs, settings: ModelSettings, progress: Progress | None = None) -> tuple[CrowdGPPL, TextFeatures]:
    """A model of these judgements, learned from scratch, and the features by which it reads a text."""
    texts = [item.text for item in inputs.items]
    features = TextFeatures().fit(texts, numeric=numeric_columns(inputs))
    model = CrowdGPPL(
        n_components=min(settings.n_components, len(inputs.workers)),
        n_inducing_items=settings.n_inducing_items,
        item_kernel=default_item_kernel(features.blocks),
        random_state=settings.seed,
        progress=progress,
    )
    X_items = features.transform(texts, numeric=numeric_columns(inputs))
    model.fit(inputs.labels, X_items=X_items, n_items=len(inputs.items), n_users=len(inputs.workers))
    return model, features


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
