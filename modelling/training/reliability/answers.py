"""Judgements as arrays, with their distinct pairs and the parts of the comparison graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from modelling.crowdgppl.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Answers:
    """Which worker compared which items, the answer y (1 a preferred, 0 b, .5 a tie) and how often it was given.

    Items and workers are positions; a pair always has its items in the same order. Answers are in order of time.
    """

    worker: IntArray
    a: IntArray
    b: IntArray
    y: FloatArray
    count: FloatArray
    n_items: int
    n_workers: int

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray]:
        """The distinct pairs as numbers, and the pair of each answer."""
        found, pair = np.unique(self.a * self.n_items + self.b, return_inverse=True)
        return found, pair.reshape(-1)

    @property
    def pair(self) -> IntArray:
        """Position of each answer's pair among the distinct pairs."""
        return self._pairs[1]

    @property
    def pair_items(self) -> tuple[IntArray, IntArray]:
        """Both items of each distinct pair."""
        return self._pairs[0] // self.n_items, self._pairs[0] % self.n_items

    @cached_property
    def parts(self) -> IntArray:
        """The part of the comparison graph that each item belongs to."""
        a, b = self.pair_items
        links = coo_matrix((np.ones(len(a)), (a, b)), shape=(self.n_items,) * 2)
        return np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)

    @cached_property
    def first_answers(self) -> IntArray:
        """Positions of each worker's first answer to each pair."""
        return np.unique(self.worker * (self.pair.max(initial=0) + 1) + self.pair, return_index=True)[1]


def centre(values: FloatArray, parts: IntArray) -> FloatArray:
    """Subtract the mean of each part from its values, along the last dimension."""
    result = values.copy()
    for part in np.unique(parts):
        result[..., parts == part] -= values[..., parts == part].mean(axis=-1, keepdims=True)
    return result
