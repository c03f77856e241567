"""Small crowds with a known truth for the tests of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from modelling.crowdgppl import ArrayStore, CrowdGPPL, Matern32, PairwiseLabels
from modelling.crowdgppl.inference import Inference, Options
from modelling.crowdgppl.item_prior import ItemPrior
from modelling.crowdgppl.posterior import Posterior


@dataclass(frozen=True)
class Crowd:
    """Labels to fit, held-out labels, and the truth behind both."""

    labels: PairwiseLabels
    held: PairwiseLabels
    t: np.ndarray  # (N,)
    F: np.ndarray  # (N, U)
    X: np.ndarray | None = None

    @property
    def sizes(self) -> dict[str, int]:
        return {"n_items": self.F.shape[0], "n_users": self.F.shape[1]}


def draw_labels(rng: np.random.Generator, F: np.ndarray, per_user: int, ties: float = 0.0) -> PairwiseLabels:
    """Random pairs with the model's own noise; a share of the answers become ties."""
    N, U = F.shape
    u = np.repeat(np.arange(U), per_user)
    a = rng.integers(0, N, len(u))
    b = (a + rng.integers(1, N, len(u))) % N
    y = (F[a, u] - F[b, u] + rng.standard_normal(len(u)) > 0).astype(float)
    y[rng.random(len(u)) < ties] = 0.5
    return PairwiseLabels(u, a, b, y)


def make_crowd(
    seed: int = 0, n_users: int = 30, n_items: int = 12, per_user: int = 20, components: int = 2,
    variance: float = 4.0, consensus: float = 2.0, ties: float = 0.0, features: bool = False,
) -> Crowd:  # fmt: skip
    """A crowd drawn from the model: t, v_c and w_u Gaussian, t and v_c smooth over features if there are any."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_items, 2)) if features else None
    root = np.eye(n_items) if X is None else np.linalg.cholesky(Matern32().fit(X)(X) + 1e-9 * np.eye(n_items))
    t = root @ rng.standard_normal(n_items) * np.sqrt(consensus)
    V = root @ rng.standard_normal((n_items, components)) * np.sqrt(variance / max(components, 1))
    F = t[:, None] + V @ rng.standard_normal((components, n_users))
    return Crowd(draw_labels(rng, F, per_user, ties), draw_labels(rng, F, 20), t, F, X)


def labels_from(*rows: tuple[int, int, int, float], weight: Any = None) -> PairwiseLabels:
    """Labels from rows (u, a, b, y)."""
    u, a, b, y = (np.array(column) for column in zip(*rows, strict=True))
    return PairwiseLabels(u, a, b, y.astype(float), weight)


def fit(crowd: Crowd, **settings: Any) -> CrowdGPPL:
    """Fit a crowd with few components."""
    settings.setdefault("n_components", 4)
    return CrowdGPPL(**settings).fit(crowd.labels, X_items=crowd.X, **crowd.sizes)


def fit_sites(
    labels: PairwiseLabels, v_t: float, tau: float, n_items: int, n_users: int
) -> tuple[Posterior, ArrayStore]:
    """Update the sites alone, at given scales, until they settle."""
    post = Posterior.start(ItemPrior(n_items), n_users)
    post.v_t, post.tau = v_t, tau
    post.clear_cache()
    store = ArrayStore(labels, n_users)
    inference = Inference(store, post, Options(), np.random.default_rng(0))
    for _ in range(40):
        inference.sum_over_users(store.active_users())
    return post, store


def log_loss(model: CrowdGPPL, labels: PairwiseLabels) -> float:
    """Mean log loss of labels without ties."""
    p = model.predict_proba(labels.u, labels.a, labels.b)
    return float(-np.log(np.where(labels.y == 1, p, 1 - p)).mean())
