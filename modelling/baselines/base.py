"""The estimator interface of the baselines, which implement `_fit` and `_moments`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from modelling.crowdgppl.arrays import FloatArray, IntArray, State
from modelling.crowdgppl.kernels import kernel_from_state
from modelling.crowdgppl.labels import PairwiseLabels, indices
from modelling.crowdgppl.model import count, optional
from modelling.crowdgppl.predictions import majority
from modelling.crowdgppl.state import from_text, to_text

# Mean (n,) and covariance (n, n) of the utilities of n items, or their variances (n,) where items are independent.
Moments = tuple[FloatArray, FloatArray]


class Baseline(ABC):
    """An estimator with the interface of CrowdGPPL."""

    SETTINGS: ClassVar[tuple[str, ...]]  # arguments of the constructor
    FITTED: ClassVar[tuple[str, ...]]  # arrays that fit computes
    n_items_: int
    n_users_: int

    @abstractmethod
    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """Compute the FITTED arrays."""

    @abstractmethod
    def _moments(self, user: int | None, items: IntArray, X_new: FloatArray | None) -> Moments:
        """Mean and covariance of one user's utilities of these items; for user None, of the consensus."""

    def fit(
        self,
        labels: PairwiseLabels,
        X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None,
        n_items: int | None = None,
        n_users: int | None = None,
    ) -> Self:
        """Fit from scratch to these labels."""
        if len(labels) == 0:
            raise ValueError("There are no labels to learn from.")
        X, Z = optional(X_items, "X_items"), optional(X_users, "X_users")
        self.n_items_ = count("items", labels.n_items, n_items, X)
        self.n_users_ = count("users", labels.n_users, n_users, Z)
        self._fit(labels, X, Z)
        return self

    def predict_consensus(
        self, items: npt.ArrayLike | None = None, X_items: npt.ArrayLike | None = None,
        return_std: bool = False, return_cov: bool = False,
    ) -> Any:  # fmt: skip
        """The consensus scores of these items."""
        X = optional(X_items, "X_items")
        mean, cov = self._moments(None, self._items(items, X), X)
        if return_cov:
            return mean, np.diag(cov) if cov.ndim == 1 else cov
        return (mean, _sd(cov)) if return_std else mean

    def predict_utilities(
        self, users: npt.ArrayLike | None = None, items: npt.ArrayLike | None = None,
        X_items: npt.ArrayLike | None = None, X_users: npt.ArrayLike | None = None, return_std: bool = False,
    ) -> Any:  # fmt: skip
        """The users' utilities of these items, (items, users)."""
        X = optional(X_items, "X_items")
        chosen = self._items(items, X)
        wanted = np.arange(self.n_users_) if users is None else indices(users, "users")
        each = [self._moments(int(user), chosen, X) for user in wanted]
        mean = np.array([mean for mean, _ in each]).reshape(len(wanted), len(chosen)).T
        if not return_std:
            return mean
        return mean, np.array([_sd(cov) for _, cov in each]).reshape(len(wanted), len(chosen)).T

    def predict_proba(
        self, u: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike,
        X_items: npt.ArrayLike | None = None, X_users: npt.ArrayLike | None = None,
    ) -> FloatArray:  # fmt: skip
        """P(user u prefers a to b) for each triple."""
        X = optional(X_items, "X_items")
        users, i, j = indices(u, "u"), self._items(a, X), self._items(b, X)
        p = np.empty(len(users))
        for user, rows in _rows_by_user(users):
            p[rows] = self._link(*self._difference(user, i[rows], j[rows], X))
        return p

    def predict_consensus_proba(
        self, a: npt.ArrayLike, b: npt.ArrayLike, kind: str = "mean", n_workers: int = 1,
        X_items: npt.ArrayLike | None = None,
    ) -> FloatArray:  # fmt: skip
        """P(a preferred to b) by the mean or the majority of n workers, or by a typical worker."""
        X = optional(X_items, "X_items")
        mean, variance = self._difference(None, self._items(a, X), self._items(b, X), X)
        if kind == "typical":
            return self._link(mean, variance)
        if kind not in ("mean", "majority") or n_workers < 1:
            raise ValueError("kind must be 'typical', 'mean' or 'majority', and n_workers at least 1.")
        if kind == "majority":
            return majority(self._link(mean, variance), n_workers)
        return self._link(mean * np.sqrt(n_workers), variance * n_workers)

    def _link(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """P(difference + unit normal noise > 0): eq:predict_z."""
        return np.asarray(ndtr(mean / np.sqrt(1.0 + variance)))

    def _difference(self, user: int | None, a: IntArray, b: IntArray, X_new: FloatArray | None) -> Moments:
        """Mean and variance of f(a) - f(b) for each pair."""
        used, positions = np.unique(np.concatenate([a, b]), return_inverse=True)
        i, j = positions[: len(a)], positions[len(a) :]
        mean, cov = self._moments(user, used, X_new)
        variance = cov[i] + cov[j] if cov.ndim == 1 else cov[i, i] + cov[j, j] - 2.0 * cov[i, j]
        return mean[i] - mean[j], np.asarray(np.maximum(variance, 0.0))

    def _items(self, wanted: npt.ArrayLike | None, X_new: FloatArray | None) -> IntArray:
        """Validate item indices (rows of X_new follow the known items); by default all new items, or all known ones."""
        new = 0 if X_new is None else len(X_new)
        if wanted is None:
            return np.arange(self.n_items_ if new else 0, self.n_items_ + new)
        chosen = indices(wanted, "items")
        if len(chosen) and chosen.max() >= self.n_items_ + new:
            raise ValueError(f"Item index {chosen.max()} is out of range: there are {self.n_items_ + new} items.")
        return chosen

    def to_state(self) -> State:
        """A flat dict of arrays, from which `from_state` restores the model."""
        settings = {name: getattr(self, name) for name in self.SETTINGS}
        plain = {name: value.to_state() if hasattr(value, "to_state") else value for name, value in settings.items()}
        state = {name: np.array(getattr(self, name)) for name in self.FITTED}
        sizes = np.array([self.n_items_, self.n_users_])
        return {**state, "sizes": sizes, "settings": to_text(plain)}

    @classmethod
    def from_state(cls, state: State) -> Self:
        settings = {name: _restore_setting(value) for name, value in from_text(state["settings"]).items()}
        model = cls(**settings)
        model.n_items_, model.n_users_ = (int(size) for size in state["sizes"])
        for name in cls.FITTED:
            setattr(model, name, state[name].copy())
        return model


def _restore_setting(value: Any) -> Any:
    """Convert a stored setting back to the kernel or tuple that the constructor takes."""
    if isinstance(value, Mapping):
        return kernel_from_state(dict(value))
    return tuple(value) if isinstance(value, list) else value


def _rows_by_user(users: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Each user with the indices of their rows."""
    order = np.argsort(users, kind="stable")
    found, starts = np.unique(users[order], return_index=True)
    for user, rows in zip(found, np.split(order, starts[1:]), strict=True):
        yield int(user), rows


def _sd(cov: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.maximum(cov if cov.ndim == 1 else np.diagonal(cov), 0.0)))
