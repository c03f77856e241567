"""Covariance functions over rows of features; immutable, so `fit` returns a copy."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.spatial.distance import pdist

from .arrays import FloatArray

Columns = tuple[int, int] | None

MEDIAN_ROWS = 3000  # most rows used for the median distance, evenly spaced, so no random numbers are needed
MANY_DIMENSIONS = 200  # beyond this the median is multiplied by the square root of the number of features
ROUNDING = 1e-12  # squared distances below this share of the squared norms count as rounding errors of 0


@runtime_checkable
class Kernel(Protocol):
    """The interface of a covariance function."""

    def fit(self, X: FloatArray) -> Kernel: ...
    def __call__(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray: ...
    def diagonal(self, X: FloatArray) -> FloatArray: ...
    def paired(self, X: FloatArray, Y: FloatArray) -> FloatArray: ...
    def to_state(self) -> dict[str, Any]: ...


def block(X: FloatArray, columns: Columns) -> FloatArray:
    """Select the columns that a kernel uses."""
    return X if columns is None else X[:, columns[0] : columns[1]]


def squared_distances(X: FloatArray, Y: FloatArray) -> FloatArray:
    """All squared distances (n, m); exactly 0 between equal rows."""
    centre = X.mean(axis=0) if len(X) else 0.0
    X, Y = X - centre, Y - centre
    size = (X * X).sum(axis=1)[:, None] + (Y * Y).sum(axis=1)[None, :]
    distances: FloatArray = size - 2.0 * (X @ Y.T)
    distances[distances <= ROUNDING * size] = 0.0
    return distances


def median_distance(X: FloatArray) -> float:
    """The median of the non-zero distances, 1 where all rows are equal; scaled up in many dimensions."""
    rows = X if len(X) <= MEDIAN_ROWS else X[np.linspace(0, len(X) - 1, MEDIAN_ROWS).astype(int)]
    distances = pdist(rows)
    distances = distances[distances > 0]
    if not distances.size:
        return 1.0
    dimensions = np.sqrt(X.shape[1]) if X.shape[1] > MANY_DIMENSIONS else 1.0
    return float(np.median(distances) * dimensions)


@dataclass(frozen=True)
class Stationary:
    """A kernel of the distance between rows, in units of a length-scale."""

    length_scale: float | str = "median"
    scale: float = 1.0  # multiplies the median distance
    columns: Columns = None

    def fit(self, X: FloatArray) -> Stationary:
        """Return a copy with the length-scale as a number."""
        if self.length_scale == "median":
            return replace(self, length_scale=self.scale * median_distance(block(X, self.columns)), scale=1.0)
        if isinstance(self.length_scale, str) or not self.length_scale > 0:
            raise ValueError(f"length_scale must be a positive number or 'median', not {self.length_scale!r}.")
        return self

    def correlation(self, distances: FloatArray) -> FloatArray:
        """The covariance at these squared distances, already divided by the squared length-scale."""
        raise NotImplementedError

    def _at(self, distances: FloatArray) -> FloatArray:
        if isinstance(self.length_scale, str):
            raise ValueError("This kernel has no length-scale yet: call fit first.")
        return self.correlation(distances / self.length_scale**2)

    def __call__(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        X = block(X, self.columns)
        return self._at(squared_distances(X, X if Y is None else block(Y, self.columns)))

    def diagonal(self, X: FloatArray) -> FloatArray:
        """k(x, x) of each row."""
        return np.ones(len(X))

    def paired(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """k(x_i, y_i), row by row."""
        difference = block(X, self.columns) - block(Y, self.columns)
        return self._at((difference * difference).sum(axis=1))

    def to_state(self) -> dict[str, Any]:
        return plain(self)


@dataclass(frozen=True)
class Matern32(Stationary):
    """Matern 3/2, the paper's choice."""

    def correlation(self, distances: FloatArray) -> FloatArray:
        r = np.sqrt(3.0 * distances)
        return np.asarray((1.0 + r) * np.exp(-r))


@dataclass(frozen=True)
class SquaredExponential(Stationary):
    """The smoothest stationary kernel."""

    def correlation(self, distances: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-0.5 * distances))


@dataclass(frozen=True)
class Linear:
    """Inner products of centred features, divided by their mean square norm: mean diagonal 1."""

    columns: Columns = None
    norm: float | None = None
    centre: FloatArray | None = field(default=None, compare=False, repr=False)

    def fit(self, X: FloatArray) -> Linear:
        """Return a copy with the mean and the norm of these rows."""
        if self.norm is not None:
            return self
        X = block(X, self.columns)
        centre = X.mean(axis=0)
        norm = float(((X - centre) ** 2).sum(axis=1).mean())
        return replace(self, centre=centre, norm=norm if norm > 0 else 1.0)

    def _centred(self, X: FloatArray) -> FloatArray:
        if self.norm is None or self.centre is None:
            raise ValueError("This kernel has no mean yet: call fit first.")
        return np.asarray((block(X, self.columns) - self.centre) / np.sqrt(self.norm))

    def __call__(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        X = self._centred(X)
        return X @ (X if Y is None else self._centred(Y)).T

    def diagonal(self, X: FloatArray) -> FloatArray:
        """k(x, x) of each row."""
        return self.paired(X, X)

    def paired(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """k(x_i, y_i), row by row."""
        return np.asarray(np.einsum("nd,nd->n", self._centred(X), self._centred(Y)))

    def to_state(self) -> dict[str, Any]:
        return plain(self)


@dataclass(frozen=True)
class WeightedSum:
    """A sum of kernels, each times its weight, usually over different blocks of columns."""

    terms: tuple[tuple[float, Kernel], ...]

    def __post_init__(self) -> None:
        if not self.terms or any(weight < 0 for weight, _ in self.terms):
            raise ValueError("A weighted sum needs at least one kernel and no negative weight.")

    def fit(self, X: FloatArray) -> WeightedSum:
        """Return a copy with every term fitted."""
        return WeightedSum(tuple((weight, kernel.fit(X)) for weight, kernel in self.terms))

    def __call__(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        total = np.zeros((len(X), len(X if Y is None else Y)))
        for weight, kernel in self.terms:
            total += weight * kernel(X, Y)
        return total

    def diagonal(self, X: FloatArray) -> FloatArray:
        """k(x, x) of each row."""
        return self.paired(X, X)

    def paired(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """k(x_i, y_i), row by row."""
        total = np.zeros(len(X))
        for weight, kernel in self.terms:
            total += weight * kernel.paired(X, Y)
        return total

    def to_state(self) -> dict[str, Any]:
        terms = [[weight, kernel.to_state()] for weight, kernel in self.terms]
        return {"kind": "WeightedSum", "terms": terms}


def correlations(kernel: Kernel, X: FloatArray, Y: FloatArray) -> FloatArray:
    """Prior correlations (n, m) between the rows of X and of Y."""
    sizes = np.outer(kernel.diagonal(X), kernel.diagonal(Y))
    return np.asarray(kernel(X, Y) / np.sqrt(np.maximum(sizes, 1e-300)))


def plain(kernel: Stationary | Linear) -> dict[str, Any]:
    """Convert a kernel to JSON-serialisable values."""
    state: dict[str, Any] = {"kind": type(kernel).__name__}
    for each in fields(kernel):
        value = getattr(kernel, each.name)
        state[each.name] = value.tolist() if isinstance(value, np.ndarray) else value
    return state


KINDS: dict[str, Any] = {"Matern32": Matern32, "SquaredExponential": SquaredExponential, "Linear": Linear}


def kernel_from_state(state: dict[str, Any]) -> Kernel:
    """Restore a kernel from its `to_state`."""
    if state["kind"] == "WeightedSum":
        return WeightedSum(tuple((weight, kernel_from_state(term)) for weight, term in state["terms"]))
    if state["kind"] not in KINDS:
        raise ValueError(f"There is no kernel called {state['kind']!r}.")
    values = {name: value for name, value in state.items() if name != "kind"}
    if values.get("columns") is not None:
        values["columns"] = (int(values["columns"][0]), int(values["columns"][1]))
    if values.get("centre") is not None:
        values["centre"] = np.asarray(values["centre"], dtype=np.float64)
    kernel: Kernel = KINDS[state["kind"]](**values)
    return kernel
