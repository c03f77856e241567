"""Random crowds with a known ground truth, drawn from the paper's generative model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modelling.crowdgppl import PairwiseLabels
from modelling.simulation.demo_crowd import Floats, Ints

JITTER = 1e-8  # relative to a unit diagonal: enough for a grid of 1,000 points


@dataclass(frozen=True)
class SimulatedCrowd:
    """A crowd, its labels and its true utilities: F = V^T W + t (eq:vw_plus_t)."""

    labels: PairwiseLabels
    X_items: Floats | None  # (N, D), or None without item features
    X_users: Floats | None  # (U, E), or None without user features
    t: Floats  # (N,) consensus
    V: Floats  # (C, N) item components
    W: Floats  # (C, U) user components
    F: Floats  # (N, U) the utility of every item for every user

    @property
    def n_items(self) -> int:
        return len(self.t)

    @property
    def n_users(self) -> int:
        return int(self.W.shape[1])


def grid(side: int) -> Floats:
    """A side x side grid of points on the unit square, (side^2, 2)."""
    ticks = np.linspace(0.0, 1.0, side)
    return np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)


def matern_32(X: Floats, lengthscale: float | None = None) -> Floats:
    """The Matern 3/2 covariance of the rows of X; the default length-scale is the median non-zero distance."""
    squared = np.sum(X**2, axis=1)
    distance = np.sqrt(np.maximum(squared[:, None] + squared[None, :] - 2 * X @ X.T, 0.0))
    np.fill_diagonal(distance, 0.0)
    if lengthscale is None:
        nonzero = distance[distance > 1e-9]
        lengthscale = float(np.median(nonzero)) if len(nonzero) else 1.0
    scaled = np.sqrt(3.0) * distance / lengthscale
    K: Floats = (1 + scaled) * np.exp(-scaled)
    return K


def draw_functions(
    rng: np.random.Generator, X: Floats | None, n_points: int, scales: Floats, lengthscale: float | None = None
) -> Floats:
    """Sample one Gaussian process per inverse scale, (len(scales), n_points); without X the points are independent."""
    white = rng.standard_normal((len(scales), n_points))
    if X is not None:
        root = np.linalg.cholesky(matern_32(X, lengthscale) + JITTER * np.eye(n_points))
        white = white @ root.T
    return white / np.sqrt(scales)[:, None]


def draw_crowd(
    rng: np.random.Generator,
    *,
    n_users: int,
    n_labels: int,
    n_components: int,
    X_items: Floats | None = None,
    n_items: int | None = None,
    X_users: Floats | None = None,
    s_t: float = 1.0,
    s_v: float | Sequence[float] = 1.0,
    s_w: float | Sequence[float] = 1.0,
    lengthscale: float | None = None,
    tie_margin: float = 0.0,
    labelled_items: Ints | None = None,
) -> SimulatedCrowd:
    """Sample a crowd from eq:joint_crowd. Only labelled_items (default: all) appear in its labels."""
    n_items = _count_items(X_items, n_items)
    t = draw_functions(rng, X_items, n_items, np.array([s_t]), lengthscale)[0]
    V = draw_functions(rng, X_items, n_items, _per_component(s_v, n_components), lengthscale)
    W = draw_functions(rng, X_users, n_users, _per_component(s_w, n_components))
    F = t[:, None] + V.T @ W
    labels = draw_labels(rng, F, n_labels, tie_margin=tie_margin, labelled_items=labelled_items)
    return SimulatedCrowd(labels=labels, X_items=X_items, X_users=X_users, t=t, V=V, W=W, F=F)


def draw_labels(
    rng: np.random.Generator, F: Floats, n_labels: int, *, tie_margin: float = 0.0, labelled_items: Ints | None = None
) -> PairwiseLabels:
    """Sample n_labels labels, spread evenly over users; a user's pairs are distinct if there are enough.

    A difference of utilities plus unit normal noise (eq:plphi) within tie_margin of zero is a tie.
    """
    n_items, n_users = F.shape
    items = np.arange(n_items) if labelled_items is None else np.asarray(labelled_items, dtype=np.int64)
    if len(items) < 2:
        raise ValueError("At least two items are needed.")
    u = np.sort(np.arange(n_labels, dtype=np.int64) % n_users)
    low, high = _draw_pairs(rng, len(items), np.bincount(u, minlength=n_users))
    swapped = rng.random(n_labels) < 0.5
    a, b = items[np.where(swapped, high, low)], items[np.where(swapped, low, high)]
    difference = F[a, u] - F[b, u] + rng.standard_normal(n_labels)
    y = np.where(np.abs(difference) <= tie_margin, 0.5, (difference > 0).astype(np.float64))
    order = rng.permutation(n_labels)
    return PairwiseLabels(u=u[order], a=a[order], b=b[order], y=y[order])


def _draw_pairs(rng: np.random.Generator, n_items: int, counts: Ints) -> tuple[Ints, Ints]:
    """Sample counts[user] pairs low < high for each user, distinct if there are enough."""
    n_pairs = n_items * (n_items - 1) // 2
    drawn = [rng.choice(n_pairs, size=count, replace=count > n_pairs) for count in counts]
    flat = np.concatenate(drawn) if drawn else np.empty(0, dtype=np.int64)
    return _unrank_pairs(flat.astype(np.int64))


def _unrank_pairs(rank: Ints) -> tuple[Ints, Ints]:
    """The pair low < high at each rank of the list (0,1), (0,2), (1,2), (0,3), ..."""
    high = np.floor((1 + np.sqrt(1 + 8 * rank.astype(np.float64))) / 2).astype(np.int64)
    high -= high * (high - 1) // 2 > rank  # the root may round up
    return rank - high * (high - 1) // 2, high


def _per_component(scale: float | Sequence[float], n_components: int) -> Floats:
    """One positive inverse scale for each component."""
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), (n_components,))
    if np.any(scales <= 0):
        raise ValueError("Inverse scales must be positive.")
    return scales


def _count_items(X_items: Floats | None, n_items: int | None) -> int:
    if X_items is not None:
        return len(X_items)
    if n_items is None:
        raise ValueError("Either X_items or n_items is required.")
    return n_items
