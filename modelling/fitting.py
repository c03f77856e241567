"""One fit of crowdGPPL to a project's judgements: settings and texts in, a fitted estimator out. No rows, no clock."""

from collections.abc import Callable

import numpy as np

from modelling.crowdgppl import CrowdGPPL
from modelling.features import TextFeatures
from modelling.inputs import Inputs, News
from modelling.model_settings import ModelSettings, item_kernel

Progress = Callable[..., None]


def fit(inputs: Inputs, settings: ModelSettings, progress: Progress | None = None) -> tuple[CrowdGPPL, TextFeatures]:
    """A model of these judgements, learned from scratch, and the features by which it reads a text."""
    texts = [item.text for item in inputs.items]
    features = TextFeatures().fit(texts, numeric=numeric_columns(inputs))
    kernel = item_kernel(settings.kernel, features.blocks)
    model = CrowdGPPL(
        n_components=min(settings.n_components, len(inputs.workers)),
        n_inducing_items=settings.n_inducing_items,
        item_kernel=kernel,
        t_prior=settings.consensus_prior,
        personal_variance=settings.personal_variance or "auto",
        random_state=settings.seed,
        track_bound=True,
        progress=progress,
    )
    X_items = features.transform(texts, numeric=numeric_columns(inputs)) if kernel else None
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
