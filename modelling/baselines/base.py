"""The baselines' common estimator interface; each baseline implements `_fit` and `_moments`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class NewRows:
    """Features of items and users that were not in the fit; their indices follow the known ones."""

    items: FloatArray | None = None
    users: FloatArray | None = None

    @classmethod
    def of(cls, X_items: npt.ArrayLike | None = None, X_users: npt.ArrayLike | None = None) -> NewRows:
        return cls(optional(X_items, "X_items"), optional(X_users, "X_users"))


class Baseline(ABC):
    """An estimator with CrowdGPPL's interface."""

    SETTINGS: ClassVar[tuple[str, ...]]  # arguments of the constructor
    FITTED: ClassVar[tuple[str, ...]]  # arrays that fit computes
    n_items_: int
    n_users_: int

    @abstractmethod
    def _fit(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """Compute the FITTED arrays."""

    @abstractmethod
    def _moments(self, user: int | None, items: IntArray, new: NewRows) -> Moments:
        """Mean and covariance of one user's utilities for these items, or of the consensus if user is None."""

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
        new = NewRows.of(X_items)
        mean, cov = self._moments(None, self._items(items, new), new)
        if return_cov:
            return mean, np.diag(cov) if cov.ndim == 1 else cov
        return (mean, _sd(cov)) if return_std else mean

    def predict_utilities(
        self, users: npt.ArrayLike | None = None, items: npt.ArrayLike | None = None,
        X_items: npt.ArrayLike | None = None, X_users: npt.ArrayLike | None = None, return_std: bool = False,
    ) -> Any:  # fmt: skip
        """The users' utilities for these items, (items, users)."""
        new = NewRows.of(X_items, X_users)
        chosen, wanted = self._items(items, new), self._users(users, new)
        if not return_std:
            return self._means(wanted, chosen, new)
        each = [self._moments(int(user), chosen, new) for user in wanted]
        mean = np.array([mean for mean, _ in each]).reshape(len(wanted), len(chosen)).T
        return mean, np.array([_sd(cov) for _, cov in each]).reshape(len(wanted), len(chosen)).T

    def predict_proba(
        self, u: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike,
        X_items: npt.ArrayLike | None = None, X_users: npt.ArrayLike | None = None,
    ) -> FloatArray:  # fmt: skip
        """P(user u prefers a to b) for each triple."""
        new = NewRows.of(X_items, X_users)
        users = indices(u, "u")
        return self._link(*self._differences(users, self._items(a, new), self._items(b, new), new))

    def predict_consensus_proba(
        self, a: npt.ArrayLike, b: npt.ArrayLike, kind: str = "mean", n_workers: int = 1,
        X_items: npt.ArrayLike | None = None,
    ) -> FloatArray:  # fmt: skip
        """P(a preferred to b) by the mean or the majority of n workers, or by a typical worker."""
        new = NewRows.of(X_items)
        mean, variance = self._difference(None, self._items(a, new), self._items(b, new), new)
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

    def _means(self, users: IntArray, items: IntArray, new: NewRows) -> FloatArray:
        """Mean utilities (items, users)."""
        each = [self._moments(int(user), items, new)[0] for user in users]
        return np.array(each).reshape(len(users), len(items)).T

    def _differences(self, users: IntArray, a: IntArray, b: IntArray, new: NewRows) -> Moments:
        """Mean and variance of f_u(a) - f_u(b) for each triple."""
        mean, variance = np.empty(len(users)), np.empty(len(users))
        for user, rows in _rows_by_user(users):
            mean[rows], variance[rows] = self._difference(user, a[rows], b[rows], new)
        return mean, variance

    def _difference(self, user: int | None, a: IntArray, b: IntArray, new: NewRows) -> Moments:
        """Mean and variance of f(a) - f(b) for each pair, for one user or the consensus."""
        used, positions = np.unique(np.concatenate([a, b]), return_inverse=True)
        i, j = positions[: len(a)], positions[len(a) :]
        mean, cov = self._moments(user, used, new)
        variance = cov[i] + cov[j] if cov.ndim == 1 else cov[i, i] + cov[j, j] - 2.0 * cov[i, j]
        return mean[i] - mean[j], np.asarray(np.maximum(variance, 0.0))

    def _items(self, wanted: npt.ArrayLike | None, new: NewRows) -> IntArray:
        """Validate item indices (new items follow the known ones); by default all new items, or else all known ones."""
        n_new = 0 if new.items is None else len(new.items)
        if wanted is None:
            return np.arange(self.n_items_ if n_new else 0, self.n_items_ + n_new)
        chosen = indices(wanted, "items")
        if len(chosen) and chosen.max() >= self.n_items_ + n_new:
            raise ValueError(f"Item index {chosen.max()} is out of range: there are {self.n_items_ + n_new} items.")
        return chosen

    def _users(self, wanted: npt.ArrayLike | None, new: NewRows) -> IntArray:
        """Validate user indices, which may be unknown; by default all new users, or all known ones if none are new."""
        n_new = 0 if new.users is None else len(new.users)
        if wanted is None:
            return np.arange(self.n_users_ if n_new else 0, self.n_users_ + n_new)
        return indices(wanted, "users")

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
