"""Pairwise labels as validated arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .arrays import FloatArray, IntArray

MOST_WEIGHT = 1e6  # beyond it one label would swallow the last digits of all others


def indices(values: npt.ArrayLike, name: str) -> IntArray:
    """One-dimensional non-negative whole numbers; anything else is refused in plain words."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not {array.ndim}-d.")
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold whole numbers (indices), not {array.dtype}.")
    if array.min() < 0:
        raise ValueError(f"{name} holds a negative index.")
    return array.astype(np.int64)


def numbers(values: npt.ArrayLike, name: str) -> FloatArray:
    """One-dimensional finite numbers."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not {array.ndim}-d.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds values that are missing or infinite.")
    return array


@dataclass(frozen=True, eq=False)
class PairwiseLabels:
    """Who (u) compared what (a with b), and the answer y: 1 a preferred, 0 b preferred, .5 a tie.

    A weight is a power of the label's likelihood: 2 counts it twice, 0 not at all.
    """

    u: IntArray
    a: IntArray
    b: IntArray
    y: FloatArray
    weight: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("u", "a", "b"):
            object.__setattr__(self, name, indices(getattr(self, name), name))
        object.__setattr__(self, "y", numbers(self.y, "y"))
        weight = np.ones(len(self.y)) if self.weight is None else numbers(self.weight, "weight")
        object.__setattr__(self, "weight", weight)
        self._check()

    def _check(self) -> None:
        lengths = {len(self.u), len(self.a), len(self.b), len(self.y), len(self.weights)}
        if len(lengths) != 1:
            raise ValueError("u, a, b, y and weight must have the same length.")
        if (self.a == self.b).any():
            raise ValueError("An item is compared with itself: a and b must differ in every label.")
        if ((self.y < 0) | (self.y > 1)).any():
            raise ValueError("y must lie between 0 (b preferred) and 1 (a preferred).")
        if (self.weights < 0).any():
            raise ValueError("A weight must not be negative.")
        if (self.weights > MOST_WEIGHT).any():
            raise ValueError(f"A weight counts a label so many times; it must not be above {MOST_WEIGHT:,.0f}.")

    @property
    def weights(self) -> FloatArray:
        """The weight of each label, ones where none were given."""
        return np.ones(len(self.y)) if self.weight is None else self.weight

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_items(self) -> int:
        """One more than the largest item index."""
        return int(max(self.a.max(), self.b.max())) + 1 if len(self) else 0

    @property
    def n_users(self) -> int:
        """One more than the largest user index."""
        return int(self.u.max()) + 1 if len(self) else 0

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> PairwiseLabels:
        """These labels only, in this order."""
        return PairwiseLabels(self.u[rows], self.a[rows], self.b[rows], self.y[rows], self.weights[rows])

    def joined(self, other: PairwiseLabels) -> PairwiseLabels:
        """These labels and then the others."""
        pairs = ((self.u, other.u), (self.a, other.a), (self.b, other.b))
        u, a, b = (np.concatenate(pair) for pair in pairs)
        y, weight = np.concatenate((self.y, other.y)), np.concatenate((self.weights, other.weights))
        return PairwiseLabels(u, a, b, y, weight)

    def user_batches(self, batch_size: int | None, rng: np.random.Generator) -> Iterator[IntArray]:
        """The users with labels, in random batches: one epoch without replacement."""
        users = np.unique(self.u)
        if batch_size is None or batch_size >= len(users):
            yield users
            return
        shuffled = rng.permutation(users)
        for batch in np.array_split(shuffled, int(np.ceil(len(users) / batch_size))):
            yield np.sort(batch)
