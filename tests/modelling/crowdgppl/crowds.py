"""Small crowds with a known truth, drawn from the model or from a story, for the tests of the engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from modelling.crowdgppl import CrowdGPPL, Matern32, PairwiseLabels


@dataclass(frozen=True)
class Crowd:
    """Labels to learn from, labels to be judged by, and the truth behind both."""

    labels: PairwiseLabels
    held: PairwiseLabels
    t: np.ndarray  # (N,)
    F: np.ndarray  # (N, U)
    V: np.ndarray  # (N, C)
    W: np.ndarray  # (U, C)
    X: np.ndarray | None = None

    @property
    def sizes(self):
        return {"n_items": self.F.shape[0], "n_users": self.F.shape[1]}


def draw_labels(rng, F, per_user, ties=0.0):
    """Each user judges this many random pairs, with the model's own noise; some judgements become ties."""
    N, U = F.shape
    u = np.repeat(np.arange(U), per_user)
    a = rng.integers(0, N, len(u))
    b = (a + rng.integers(1, N, len(u))) % N
    y = (F[a, u] - F[b, u] + rng.standard_normal(len(u)) > 0).astype(float)
    y[rng.random(len(u)) < ties] = 0.5
    return PairwiseLabels(u, a, b, y)


def make_crowd(
    seed=0,
    n_users=30,
    n_items=12,
    per_user=20,
    components=2,
    variance=8.0,
    consensus=4.0,
    ties=0.0,
    held_per_user=20,
    features=False,
):
    """A crowd drawn from the model: t, V and W Gaussian, V and t smooth over features where there are some."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_items, 2)) if features else None
    root = np.eye(n_items) if X is None else np.linalg.cholesky(Matern32().fit(X)(X) + 1e-9 * np.eye(n_items))
    t = root @ rng.standard_normal(n_items) * np.sqrt(consensus)
    V = root @ rng.standard_normal((n_items, components)) * np.sqrt(variance / max(components, 1))
    W = rng.standard_normal((n_users, components))
    F = t[:, None] + V @ W.T
    return Crowd(draw_labels(rng, F, per_user, ties), draw_labels(rng, F, held_per_user), t, F, V, W, X)


# seed, users, items, labels of each user, tastes: small enough for a long Gibbs run
TINY_CROWDS = [(7, 5, 5, 12, 2), (8, 6, 6, 15, 3)]
OTHER_TINY_CROWDS = [
    (5, 1, 4, 25, 0), (5, 4, 4, 10, 1), (6, 5, 5, 12, 1), (11, 8, 4, 6, 1), (9, 4, 6, 8, 2), (10, 4, 4, 20, 3),
]  # fmt: skip


def tiny_crowd(seed, users, items, per_user, tastes):
    """A crowd whose consensus and tastes all have scale 1."""
    return make_crowd(seed, users, items, per_user, tastes, variance=float(max(tastes, 1)), consensus=1.0)


def tiny_model(crowd, tastes):
    """Fitted with the scales held at the truth, as the Gibbs run holds them."""
    settings = {"t_prior": (1e6, 1e6), "personal_variance": float(max(tastes, 1))}
    return CrowdGPPL(n_components=tastes, **settings).fit(crowd.labels, **crowd.sizes)


def fitted(labels, X_items=None, n_items=None, n_users=None, X_users=None, **settings):
    """A model with the scale given, so that a test waits for one fit and not for a search."""
    settings.setdefault("personal_variance", 8.0)
    settings.setdefault("n_components", 4)
    model = CrowdGPPL(**settings)
    return model.fit(labels, X_items=X_items, X_users=X_users, n_items=n_items, n_users=n_users)


def scores(model, labels):
    """Accuracy and cross entropy on plain labels."""
    p = model.predict_proba(labels.u, labels.a, labels.b)
    right = np.where(labels.y == 1, p, 1 - p)
    return float((right > 0.5).mean()), float(-np.log(right).mean())


def kendall(a, b):
    """Rank correlation of two score lists."""
    from scipy.stats import kendalltau

    return float(kendalltau(a, b).statistic)


def consensus_over_pairs(model, n_items):
    """Every difference of consensus (i < j), and its standard deviation."""
    i, j = np.triu_indices(n_items, 1)
    mean, cov = model.predict_consensus(return_cov=True)
    return mean[i] - mean[j], np.sqrt(cov[i, i] + cov[j, j] - 2 * cov[i, j])


def personal_over_pairs(model, n_items):
    """Every user's differences (pairs, users), and their standard deviations."""
    pairs = list(zip(*np.triu_indices(n_items, 1), strict=True))
    F = model.predict_utilities()
    sd = [model.predict_utilities(items=[i], among=[j], return_std=True)[1][0] for i, j in pairs]
    return np.stack([F[i] - F[j] for i, j in pairs]), np.stack(sd)
