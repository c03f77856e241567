"""The estimator contract of the baselines: each says what it expects of one user, the rest follows from that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from modelling.crowdgppl.arrays import FloatArray, IntArray, State, matrix
from modelling.crowdgppl.inducing import ItemSpace, ItemView
from modelling.crowdgppl.kernels import kernel_from_state
from modelling.crowdgppl.labels import PairwiseLabels, indices
from modelling.crowdgppl.predict import majority
from modelling.crowdgppl.state import unwords, words

Moments = tuple[FloatArray, FloatArray]  # mean (n,) and covariance (n, n) of the utilities of n items


class Baseline(ABC):
    """Fits, predicts and is kept like CrowdGPPL."""

    SETTINGS: ClassVar[tuple[str, ...]]  # arguments of the constructor
    LEARNED: ClassVar[tuple[str, ...]]  # arrays that fit leaves behind
    n_items_: int
    n_users_: int

    @abstractmethod
    def _learn(self, labels: PairwiseLabels, X_items: FloatArray | None, X_users: FloatArray | None) -> None:
        """Leaves the LEARNED arrays behind."""

    @abstractmethod
    def _moments(self, user: int | None, items: IntArray, X_new: FloatArray | None) -> Moments:
        """Utilities of these items for one user; None is the consensus."""

    def fit(
        self,
        labels: PairwiseLabels,
        X_items: npt.ArrayLike | None = None,
        X_users: npt.ArrayLike | None = None,
        n_items: int | None = None,
        n_users: int | None = None,
    ) -> Self:
        """The posterior given these labels alone."""
        if len(labels) == 0:
            raise ValueError("There are no labels to learn from.")
        X = None if X_items is None else matrix(X_items, "X_items")
        Z = None if X_users is None else matrix(X_users, "X_users")
        self.n_items_ = _count("items", labels.n_items, n_items, X)
        self.n_users_ = _count("users", labels.n_users, n_users, Z)
        self._learn(labels, X, Z)
        return self

    def predict_consensus(
        self, items: npt.ArrayLike | None = None, X_items: npt.ArrayLike | None = None,
        return_std: bool = False, return_cov: bool = False,
    ) -> Any:  # fmt: skip
        """The consensus at these items."""
        X = _optional(X_items)
        mean, cov = self._moments(None, self._items(items, X), X)
        if return_cov:
            return mean, cov
        return (mean, _sd(cov)) if return_std else mean

    def predict_utilities(
        self, users: npt.ArrayLike | None = None, items: npt.ArrayLike | None = None,
        X_items: npt.ArrayLike | None = None, X_users: npt.ArrayLike | None = None, return_std: bool = False,
    ) -> Any:  # fmt: skip
        """The utilities of these users for these items, (items, users)."""
        X = _optional(X_items)
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
        """P(user u prefers a to b), for each triple."""
        X = _optional(X_items)
        users, i, j = indices(u, "u"), self._items(a, X), self._items(b, X)
        p = np.empty(len(users))
        for user, rows in _groups(users):
            p[rows] = self._link(*self._difference(user, i[rows], j[rows], X))
        return p

    def predict_consensus_proba(
        self, a: npt.ArrayLike, b: npt.ArrayLike, kind: str = "typical",
        n_workers: int | None = None, X_items: npt.ArrayLike | None = None,
    ) -> FloatArray:  # fmt: skip
        """P(a preferred to b) by a typical worker, or by the mean or majority of n of them."""
        X = _optional(X_items)
        mean, variance = self._difference(None, self._items(a, X), self._items(b, X), X)
        if kind == "typical":
            return self._link(mean, variance)
        if kind not in ("mean", "majority") or n_workers is None or n_workers < 1:
            raise ValueError("kind must be 'typical', or 'mean' or 'majority' with n_workers, at least 1.")
        if kind == "majority":
            return majority(self._link(mean, variance), n_workers)
        return self._link(mean * np.sqrt(n_workers), variance * n_workers)

    def _link(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """P(difference + unit normal noise > 0): eq:predict_z."""
        return np.asarray(ndtr(mean / np.sqrt(1.0 + variance)))

    def _difference(self, user: int | None, a: IntArray, b: IntArray, X_new: FloatArray | None) -> Moments:
        """Mean and variance of f(a) - f(b) for each pair."""
        used, places = np.unique(np.concatenate([a, b]), return_inverse=True)
        i, j = places[: len(a)], places[len(a) :]
        mean, cov = self._moments(user, used, X_new)
        variance = cov[i, i] + cov[j, j] - 2.0 * cov[i, j]
        return mean[i] - mean[j], np.asarray(np.maximum(variance, 0.0))

    def _items(self, wanted: npt.ArrayLike | None, X_new: FloatArray | None) -> IntArray:
        """Indices of known items, and after them of the rows of X_new; the new ones alone if none are named."""
        new = 0 if X_new is None else len(X_new)
        if wanted is None:
            return np.arange(self.n_items_ if new else 0, self.n_items_ + new)
        chosen = indices(wanted, "items")
        if len(chosen) and chosen.max() >= self.n_items_ + new:
            raise ValueError(f"There is no item {chosen.max()}: there are {self.n_items_ + new}.")
        return chosen

    def to_state(self) -> State:
        """A flat dict of arrays from which `from_state` predicts the same."""
        settings = {name: getattr(self, name) for name in self.SETTINGS}
        plain = {name: value.to_state() if hasattr(value, "to_state") else value for name, value in settings.items()}
        state = {name: np.array(getattr(self, name)) for name in self.LEARNED}
        sizes = np.array([self.n_items_, self.n_users_])
        return {**state, **_space_arrays(getattr(self, "space", None)), "sizes": sizes, "settings": words(plain)}

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The model that `to_state` wrote."""
        settings = {name: _revived(value) for name, value in unwords(state["settings"]).items()}
        model = cls(**settings)
        model.n_items_, model.n_users_ = (int(size) for size in state["sizes"])
        for name in cls.LEARNED:
            setattr(model, name, state[name].copy())
        if "space.kernel" in state:
            model.space = _space(state, model.n_items_)  # type: ignore[attr-defined]
        return model


def view_of(space: ItemSpace, X_new: FloatArray | None) -> ItemView:
    """Known items followed by new ones."""
    return space.view(X_new, 0 if X_new is None else len(X_new))


def _space_arrays(space: ItemSpace | None) -> State:
    """The item space, where there is one, as arrays."""
    if space is None:
        return {}
    arrays = {name: getattr(space, name) for name in ("X", "landmarks", "map", "Psi")}
    kept = {f"space.{name}": array for name, array in arrays.items() if array is not None}
    return {**kept, "space.kernel": words(None if space.kernel is None else space.kernel.to_state())}


def _space(state: State, n_items: int) -> ItemSpace:
    """The item space that `_space_arrays` wrote."""
    kernel = unwords(state["space.kernel"])
    parts = [state.get(f"space.{name}") for name in ("X", "landmarks", "map", "Psi")]
    return ItemSpace(n_items, None if kernel is None else kernel_from_state(kernel), *parts)


def _revived(value: Any) -> Any:
    """A setting as the constructor took it: kernels and tuples again."""
    if isinstance(value, Mapping):
        return kernel_from_state(dict(value))
    return tuple(value) if isinstance(value, list) else value


def _groups(users: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Each user and the rows that are theirs."""
    order = np.argsort(users, kind="stable")
    found, starts = np.unique(users[order], return_index=True)
    for user, rows in zip(found, np.split(order, starts[1:]), strict=True):
        yield int(user), rows


def _count(name: str, seen: int, stated: int | None, X: FloatArray | None) -> int:
    count = len(X) if X is not None else seen if stated is None else stated
    if count < seen:
        raise ValueError(f"The labels speak of {seen} {name}, but there are only {count}.")
    return count


def _optional(X: npt.ArrayLike | None) -> FloatArray | None:
    return None if X is None else matrix(X, "X_items")


def _sd(cov: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.maximum(np.diagonal(cov), 0.0)))
