"""Pairwise labels as validated arrays, and the store that holds each user's labels and sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .arrays import FloatArray, IntArray, State

CHUNK_ENTRIES = 4e6  # total size of the blocks of users solved at once: 32 MB for each matrix
CHUNK_LABELS, CHUNK_LABELS_PER_ITEM = 40_000, 20  # chunks need enough labels, because the sums of each have N^2 entries
MAX_WEIGHT = 1e6  # with larger weights, rounding errors of one label could swamp all others


def indices(values: npt.ArrayLike, name: str) -> IntArray:
    """Return one-dimensional non-negative whole numbers, or raise ValueError."""
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
    """Return one-dimensional finite numbers, or raise ValueError."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not {array.ndim}-d.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds values that are missing or infinite.")
    return array


@dataclass(frozen=True, eq=False)
class PairwiseLabels:
    """Which user (u) compared which items (a, b), and the answer y: 1 a preferred, 0 b preferred, .5 a tie.

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
        if (self.weights > MAX_WEIGHT).any():
            raise ValueError(f"A weight must not be above {MAX_WEIGHT:,.0f}.")

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
        """Select these labels, in this order."""
        return PairwiseLabels(self.u[rows], self.a[rows], self.b[rows], self.y[rows], self.weights[rows])

    def joined(self, other: PairwiseLabels) -> PairwiseLabels:
        """Append other labels."""
        pairs = ((self.u, other.u), (self.a, other.a), (self.b, other.b))
        u, a, b = (np.concatenate(pair) for pair in pairs)
        y, weight = np.concatenate((self.y, other.y)), np.concatenate((self.weights, other.weights))
        return PairwiseLabels(u, a, b, y, weight)


@dataclass(eq=False)
class UserBatch:
    """Some users with all their labels, sorted by user, and the site of each label.

    A site is a Gaussian factor exp(eta z - lam z^2 / 2) in place of the probit likelihood of one label. `lam` is NaN
    where a label has no site yet.
    """

    users: IntArray  # (B,)
    start: IntArray  # (B + 1,) where each user's labels start
    a: IntArray  # (P,)
    b: IntArray
    y: FloatArray
    weight: FloatArray
    lam: FloatArray
    eta: FloatArray

    def __len__(self) -> int:
        return len(self.y)

    @property
    def counts(self) -> IntArray:
        """The number of labels of each user."""
        return np.diff(self.start)

    @property
    def row(self) -> IntArray:
        """The position in `users` of the user of each label."""
        return np.repeat(np.arange(len(self.users)), self.counts)

    def split_into(self, largest: int | None, n_items: int) -> UserBatch:
        """The same labels with users of more than `largest` labels split into several."""
        if largest is None or not len(self) or min(int(self.counts.max()), n_items) <= largest:
            return self
        large = np.minimum(self.counts, n_items) > largest
        parts = np.where(large, -(-self.counts // largest), 1)
        first = np.concatenate(([0], np.cumsum(parts)[:-1]))
        within = np.arange(parts.sum()) - np.repeat(first, parts)
        start = np.repeat(self.start[:-1], parts) + within * np.repeat(self.counts, parts) // np.repeat(parts, parts)
        return replace(self, users=np.repeat(self.users, parts), start=np.append(start, self.start[-1]))

    def select(self, keep: npt.NDArray[np.bool_]) -> UserBatch:
        """The same users with some of their labels."""
        start = np.concatenate(([0], np.cumsum(keep)))[self.start]
        columns = {name: getattr(self, name)[keep] for name in ("a", "b", "y", "weight", "lam", "eta")}
        return replace(self, start=start, **columns)

    def users_between(self, first: int, last: int) -> UserBatch:
        """The users at positions `first` to `last` with their labels."""
        rows = slice(self.start[first], self.start[last])
        columns = {name: getattr(self, name)[rows] for name in ("a", "b", "y", "weight", "lam", "eta")}
        start = self.start[first : last + 1] - self.start[first]
        return replace(self, users=self.users[first:last], start=start, **columns)

    def related_labels(
        self, focus: Sequence[tuple[IntArray, IntArray]], n_items: int, size: int
    ) -> npt.NDArray[np.bool_]:
        """Mark the labels to use for pairs (a, b) of each user: all labels of users with blocks of at most `size`.

        For other users: labels without a site, labels that share an item with the pairs, and then the newest.
        """
        keep = np.ones(len(self), dtype=bool)
        for user in np.flatnonzero(np.minimum(self.counts, n_items) > size).tolist():
            rows = slice(self.start[user], self.start[user + 1])
            items = np.concatenate(focus[user])
            shared = np.isin(self.a[rows], items) | np.isin(self.b[rows], items)
            new = np.isnan(self.lam[rows])
            order = np.lexsort((np.arange(len(new)), shared, new))[::-1]
            keep[rows] = False
            keep[self.start[user] + order[: max(size, int(new.sum()))]] = True
        return keep

    def new_labels(self) -> npt.NDArray[np.bool_]:
        """Mark the labels that have no site yet."""
        return np.isnan(self.lam)


class LabelStore(Protocol):
    """Labels and sites of each user: arrays in memory, or rows in a database.

    `load` returns all labels of these users; `save_sites` stores their sites for the next visit. A store may also drop
    sites: they are recomputed at the next visit.
    """

    @property
    def n_users(self) -> int: ...

    def active_users(self) -> IntArray:
        """Return the users that have labels, sorted."""
        ...

    def count_labels(self, users: IntArray) -> IntArray:
        """Return the number of labels of each of these users."""
        ...

    def load(self, users: IntArray) -> UserBatch: ...

    def save_sites(self, batch: UserBatch) -> None: ...


class ArrayStore:
    """Labels and sites in memory, sorted by user."""

    def __init__(self, labels: PairwiseLabels, n_users: int) -> None:
        order = self.order(labels)
        self.u, self.a, self.b = labels.u[order], labels.a[order], labels.b[order]
        self.y, self.weight = labels.y[order], labels.weights[order]
        self.lam, self.eta = np.full(len(order), np.nan), np.zeros(len(order))
        self.start = np.zeros(n_users + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.u, minlength=n_users), out=self.start[1:])

    @staticmethod
    def order(labels: PairwiseLabels) -> IntArray:
        """Sort by user, then by items and answer: rounding must not depend on the order in which labels arrive."""
        return np.asarray(np.lexsort((labels.weights, labels.y, labels.b, labels.a, labels.u)))

    @property
    def n_users(self) -> int:
        return len(self.start) - 1

    def __len__(self) -> int:
        return len(self.y)

    def active_users(self) -> IntArray:
        """Return the users that have labels, sorted."""
        return np.flatnonzero(np.diff(self.start))

    def count_labels(self, users: IntArray) -> IntArray:
        """Return the number of labels of each of these users."""
        return np.asarray(np.diff(self.start)[users])

    def rows(self, users: IntArray) -> IntArray:
        """Return the positions of the labels of these users, user by user."""
        counts = self.count_labels(users)
        shift = np.repeat(self.start[users] - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
        return np.asarray(np.arange(counts.sum()) + shift)

    def load(self, users: IntArray) -> UserBatch:
        """Copy the labels and sites of these users."""
        rows = self.rows(users)
        start = np.concatenate(([0], np.cumsum(self.count_labels(users))))
        return UserBatch(
            np.asarray(users), start, self.a[rows], self.b[rows], self.y[rows], self.weight[rows], self.lam[rows],
            self.eta[rows],
        )  # fmt: skip

    def save_sites(self, batch: UserBatch) -> None:
        """Store the sites of these users."""
        rows = self.rows(batch.users)
        self.lam[rows], self.eta[rows] = batch.lam, batch.eta

    def labels(self) -> PairwiseLabels:
        """Return all labels, sorted by user."""
        return PairwiseLabels(self.u, self.a, self.b, self.y, self.weight)

    def to_state(self) -> State:
        """Labels and sites as arrays."""
        names = ("u", "a", "b", "y", "weight", "lam", "eta")
        return {f"labels_{name}": np.array(getattr(self, name)) for name in names} | {
            "labels_n_users": np.array(self.n_users)
        }

    @classmethod
    def from_state(cls, state: State) -> ArrayStore:
        """Inverse of `to_state`."""
        if "labels_u" not in state:
            raise ValueError("This state holds no labels: give the store that does.")
        labels = PairwiseLabels(*(state[f"labels_{name}"] for name in ("u", "a", "b", "y", "weight")))
        store = cls(labels, int(state["labels_n_users"]))
        store.lam, store.eta = np.array(state["labels_lam"]), np.array(state["labels_eta"])
        return store

    def add(self, labels: PairwiseLabels, n_users: int) -> None:
        """Append labels without sites; the others keep theirs."""
        joined = self.labels().joined(labels)
        lam = np.concatenate((self.lam, np.full(len(labels), np.nan)))
        eta = np.concatenate((self.eta, np.zeros(len(labels))))
        self.__init__(joined, max(n_users, self.n_users))  # type: ignore[misc]
        order = self.order(joined)
        self.lam, self.eta = lam[order], eta[order]

    def remove(self, labels: PairwiseLabels) -> None:
        """Delete one stored label for each label given, the newest equal one; raise ValueError if there is none."""
        rows = self.find(labels)
        keep = np.ones(len(self), dtype=bool)
        keep[rows] = False
        lam, eta, n_users = self.lam[keep], self.eta[keep], self.n_users
        self.__init__(self.labels().take(keep), n_users)  # type: ignore[misc]
        self.lam, self.eta = lam, eta

    def find(self, labels: PairwiseLabels) -> IntArray:
        """Return the stored label equal to each label given; raise ValueError if there is none."""
        found: list[int] = []
        taken: set[int] = set()
        for u, a, b, y, weight in zip(labels.u, labels.a, labels.b, labels.y, labels.weights, strict=True):
            rows = np.arange(self.start[u], self.start[u + 1]) if u < self.n_users else np.zeros(0, dtype=np.int64)
            same = (self.a[rows] == a) & (self.b[rows] == b) & (self.y[rows] == y)
            flipped = (self.a[rows] == b) & (self.b[rows] == a) & (self.y[rows] == 1.0 - y)
            match = [int(row) for row in rows[(same | flipped) & (self.weight[rows] == weight)] if row not in taken]
            if not match:
                raise ValueError(f"User {u} has no label that compares {a} with {b} with the answer {y:g}.")
            taken.add(match[-1])
            found.append(match[-1])
        return np.array(found, dtype=np.int64)


class NoLabels:
    """An empty store, for a model that only predicts for unknown users."""

    def __init__(self, n_users: int) -> None:
        self.n_users = n_users

    def active_users(self) -> IntArray:
        """Return no users."""
        return np.zeros(0, dtype=np.int64)

    def count_labels(self, users: IntArray) -> IntArray:
        """Return zeros."""
        return np.zeros(len(users), dtype=np.int64)

    def load(self, users: IntArray) -> UserBatch:
        """Return a batch without labels."""
        none, no_values = np.zeros(0, dtype=np.int64), np.zeros(0)
        start = np.zeros(len(users) + 1, dtype=np.int64)
        return UserBatch(np.asarray(users), start, none, none, no_values, no_values, no_values, no_values)

    def save_sites(self, batch: UserBatch) -> None:
        """Do nothing: there are no sites."""


def chunks_of_users(users: IntArray, counts: IntArray, n_items: int) -> Sequence[IntArray]:
    """Split users, in order, into chunks whose blocks fit into memory and which other machines can work on."""
    entries = np.cumsum(np.minimum(counts, n_items).astype(np.float64) ** 2) // CHUNK_ENTRIES
    labels = np.cumsum(counts) // max(CHUNK_LABELS, CHUNK_LABELS_PER_ITEM * n_items)
    parts = np.split(users, np.flatnonzero(np.diff(entries) + np.diff(labels)) + 1)
    return [part for part in parts if len(part)]


def batches_of_users(
    users: IntArray, counts: IntArray, batch_size: int | None, batch_labels: int | None, rng: np.random.Generator
) -> Sequence[IntArray]:
    """Split users into random batches of about equal numbers of labels: one epoch without replacement.

    A batch has at most about `batch_size` users and `batch_labels` labels, but at least one user.
    """
    by_users = 1 if batch_size is None else int(np.ceil(len(users) / batch_size))
    by_labels = 1 if batch_labels is None else int(np.ceil(counts.sum() / batch_labels))
    n_batches = min(max(by_users, by_labels), len(users))
    if n_batches <= 1:
        return [users]
    order = rng.permutation(len(users))
    if by_users >= by_labels:
        parts = np.array_split(order, n_batches)
    else:
        middle = np.cumsum(counts[order]) - 0.5 * counts[order]
        place = np.minimum((middle * n_batches / max(counts.sum(), 1)).astype(np.int64), n_batches - 1)
        parts = [part for part in np.split(order, np.flatnonzero(np.diff(place)) + 1) if len(part)]
    return [np.sort(users[part]) for part in parts]
