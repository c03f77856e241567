"""Simpler models to beat: Bradley-Terry with one score per item, and with shrunken deviations of each judge.

Both are penalised logistic regressions fitted by Newton's method with conjugate gradients; their penalties are chosen
by cross-validation. A tie counts as half a win for either side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from benchmarks.studies.generate import Labels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RIDGES = 10.0 ** np.arange(-3.0, 2.6, 0.5)  # precisions of scores
FOLDS, FOLDS_OF_MANY, MANY = 5, 2, 30_000  # above MANY labels two folds are enough
FEW = 5_000  # labels up to which both penalties are searched over a whole grid
NEWTON_STEPS, CG_STEPS, TOLERANCE = 30, 200, 1e-6


class PairLabels(Protocol):
    """Judges u, items a and b, answers y in [0, 1]."""

    @property
    def u(self) -> Ints: ...
    @property
    def a(self) -> Ints: ...
    @property
    def b(self) -> Ints: ...
    @property
    def y(self) -> Floats: ...
    def __len__(self) -> int: ...


def penalised_logistic(X: sparse.csr_matrix, y: Floats, weight: Floats, ridge: Floats, start: Floats) -> Floats:
    """Maximise sum weight (y log p + (1 - y) log(1 - p)) - theta' diag(ridge) theta / 2, with p = expit(X theta).

    The objective is strictly concave; steps are halved until it does not fall.
    """
    Xt = X.T.tocsr()
    squares = Xt.multiply(Xt).tocsr()
    theta = start.copy()

    def objective(theta: Floats, eta: Floats) -> float:
        return float(weight @ (y * eta - np.logaddexp(0.0, eta)) - 0.5 * ridge @ theta**2)

    eta = X @ theta
    value = objective(theta, eta)
    for _ in range(NEWTON_STEPS):
        p = expit(eta)
        gradient = Xt @ (weight * (y - p)) - ridge * theta
        curvature = weight * p * (1 - p)
        diagonal = squares @ curvature + ridge
        if np.sqrt((gradient**2 / diagonal).sum()) < TOLERANCE * max(1.0, np.sqrt(len(y))):
            break
        step = _conjugate_gradients(X, Xt, curvature, ridge, diagonal, gradient)
        move = X @ step
        for _ in range(30):
            new = objective(theta + step, eta + move)
            if new >= value - 1e-10 * abs(value):
                break
            step, move = step / 2, move / 2
        theta, eta, value = theta + step, eta + move, new
    return theta


def _conjugate_gradients(
    X: sparse.csr_matrix, Xt: sparse.csr_matrix, curvature: Floats, ridge: Floats, diagonal: Floats, g: Floats
) -> Floats:
    """(X' diag(curvature) X + diag(ridge))^-1 g with a diagonal preconditioner."""
    x, r = np.zeros_like(g), g.copy()
    z = r / diagonal
    p, rz = z.copy(), float(r @ z)
    goal = 1e-6 * rz
    for _ in range(CG_STEPS):
        Ap = Xt @ (curvature * (X @ p)) + ridge * p
        step = rz / float(p @ Ap)
        x += step * p
        r -= step * Ap
        z = r / diagonal
        new = float(r @ z)
        if new <= goal:
            break
        p, rz = z + new / rz * p, new
    return x


def differences(a: Ints, b: Ints, n: int) -> sparse.csr_matrix:
    """Rows e_a - e_b; index -1 is left out."""
    rows = np.arange(len(a))
    keep_a, keep_b = a >= 0, b >= 0
    values = np.concatenate([np.ones(keep_a.sum()), -np.ones(keep_b.sum())])
    at = (np.concatenate([rows[keep_a], rows[keep_b]]), np.concatenate([a[keep_a], b[keep_b]]))
    return sparse.csr_matrix((values, at), shape=(len(a), n))


@dataclass(frozen=True)
class BradleyTerry:
    """One score per item; P(a beats b) = expit(score_a - score_b)."""

    scores: Floats
    ridge: float

    @classmethod
    def fit(cls, labels: PairLabels, n_items: int, ridge: float, start: Floats | None = None) -> BradleyTerry:
        """The posterior mode under independent N(0, 1 / ridge) scores."""
        pairs, at = np.unique(labels.a * n_items + labels.b, return_inverse=True)
        weight = np.bincount(at).astype(float)
        y = np.bincount(at, labels.y) / weight
        X = differences(pairs // n_items, pairs % n_items, n_items)
        start = np.zeros(n_items) if start is None else start
        return cls(penalised_logistic(X, y, weight, np.full(n_items, ridge), start), ridge)

    @classmethod
    def cross_validated(cls, labels: PairLabels, n_items: int, seed: int = 0) -> BradleyTerry:
        """Choose the ridge with the lowest held-out log loss."""
        folds = fold_numbers(len(labels), seed)
        starts: dict[int, Floats] = {}

        def held_out(ridge: float) -> float:
            total = 0.0
            for fold in range(folds.max() + 1):
                model = cls.fit(subset(labels, folds != fold), n_items, ridge, starts.get(fold))
                starts[fold] = model.scores
                test = subset(labels, folds == fold)
                total += log_loss(model.personal(test.u, test.a, test.b), test.y) * len(test)
            return total / len(labels)

        best = descend(held_out, RIDGES, len(RIDGES) // 2)
        return cls.fit(labels, n_items, float(RIDGES[best]))

    def personal(self, u: Ints, a: Ints, b: Ints) -> Floats:
        """P(a preferred to b), the same for every judge."""
        return np.asarray(expit(self.scores[a] - self.scores[b]))

    def random_member(self, a: Ints, b: Ints) -> Floats:
        """P(a preferred to b) by a random member of the crowd."""
        return np.asarray(expit(self.scores[a] - self.scores[b]))


@dataclass(frozen=True)
class HierarchicalBradleyTerry:
    """A shared score per item plus a deviation per judge and item, both shrunken towards 0."""

    scores: Floats
    deviations: Floats  # of the (judge, item) pairs that occur
    keys: Ints  # judge * n_items + item of each deviation, sorted
    ridge: float
    ridge_personal: float

    @classmethod
    def fit(
        cls, labels: PairLabels, n_items: int, ridge: float, ridge_personal: float, start: Floats | None = None
    ) -> HierarchicalBradleyTerry:
        """The joint posterior mode of scores and deviations."""
        keys, at = np.unique(
            np.concatenate([labels.u * n_items + labels.a, labels.u * n_items + labels.b]), return_inverse=True
        )
        P = len(labels)
        X = sparse.hstack([differences(labels.a, labels.b, n_items), differences(at[:P], at[P:], len(keys))]).tocsr()
        penalty = np.concatenate([np.full(n_items, ridge), np.full(len(keys), ridge_personal)])
        start = np.zeros(len(penalty)) if start is None else start
        theta = penalised_logistic(X, labels.y, np.ones(P), penalty, start)
        return cls(theta[:n_items], theta[n_items:], keys, ridge, ridge_personal)

    @classmethod
    def cross_validated(
        cls, labels: PairLabels, n_items: int, seed: int = 0, first_ridge: float = 0.1
    ) -> HierarchicalBradleyTerry:
        """Choose both penalties by alternating searches for the lowest held-out log loss."""
        folds = fold_numbers(len(labels), seed)
        starts: dict[int, Floats] = {}

        def held_out(ridge: float, personal: float) -> float:
            total = 0.0
            for fold in range(folds.max() + 1):
                model = cls.fit(subset(labels, folds != fold), n_items, ridge, personal, starts.get(fold))
                starts[fold] = np.concatenate([model.scores, model.deviations])
                test = subset(labels, folds == fold)
                total += log_loss(model.personal(test.u, test.a, test.b), test.y) * len(test)
            return total / len(labels)

        i = int(np.abs(np.log(RIDGES / first_ridge)).argmin())
        j = int(np.abs(np.log(RIDGES / (10 * first_ridge))).argmin())
        known: dict[tuple[int, int], float] = {}

        def cell(i: int, j: int) -> float:
            if (i, j) not in known:
                known[i, j] = held_out(float(RIDGES[i]), float(RIDGES[j]))
            return known[i, j]

        if len(labels) <= FEW:
            coarse = range(0, len(RIDGES), 2)
            i, j = min(((i, j) for i in coarse for j in coarse), key=lambda at: cell(*at))
        for _ in range(3):
            before = (i, j)
            j = descend(lambda ridge, i=i: cell(i, int(np.searchsorted(RIDGES, ridge))), RIDGES, j)
            i = descend(lambda ridge, j=j: cell(int(np.searchsorted(RIDGES, ridge)), j), RIDGES, i)
            if (i, j) == before:
                break
        return cls.fit(labels, n_items, float(RIDGES[i]), float(RIDGES[j]))

    def personal(self, u: Ints, a: Ints, b: Ints) -> Floats:
        """P(judge u prefers a to b); a deviation that never occurred is 0."""
        own = self._deviation(u, a) - self._deviation(u, b)
        return np.asarray(expit(self.scores[a] - self.scores[b] + own))

    def _deviation(self, u: Ints, item: Ints) -> Floats:
        key = u * len(self.scores) + item
        at = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where(self.keys[at] == key, self.deviations[at], 0.0)

    def random_member(self, a: Ints, b: Ints) -> Floats:
        """P(a preferred to b) by a random member: deviations integrated out by the usual probit approximation."""
        gap = self.scores[a] - self.scores[b]
        return np.asarray(expit(gap / np.sqrt(1 + np.pi / 8 * 2 / self.ridge_personal)))


def subset(labels: PairLabels, rows: NDArray[np.bool_]) -> Labels:
    """Select some of the labels."""
    return Labels(labels.u[rows], labels.a[rows], labels.b[rows], labels.y[rows])


def fold_numbers(n: int, seed: int) -> Ints:
    """A random fold for each label."""
    count = min(FOLDS if n <= MANY else FOLDS_OF_MANY, n)
    return np.random.default_rng(seed).permutation(np.arange(n) % count)


def descend(loss, grid: Floats, start: int) -> int:  # type: ignore[no-untyped-def]
    """The index of a local minimum of a loss over a grid, downhill from `start`."""
    known: dict[int, float] = {}

    def at(i: int) -> float:
        if i not in known:
            known[i] = loss(float(grid[i])) if 0 <= i < len(grid) else np.inf
        return known[i]

    i = start
    while True:
        best = min((i, i - 1, i + 1), key=at)
        if best == i:
            return i
        i = best


def log_loss(q: Floats, y: Floats) -> float:
    """Mean -(y log q + (1 - y) log(1 - q)); y may be an answer or its expectation."""
    q = np.clip(q, 1e-12, 1 - 1e-12)
    return float(-(y * np.log(q) + (1 - y) * np.log1p(-q)).mean())
