"""Labels as inference sees them: oriented to unordered pairs, and their users in buckets of similar length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from .arrays import BoolArray, FloatArray, IntArray
from .labels import PairwiseLabels

CHUNK_VALUES = 400_000  # numbers in one work array of a chunk of users: about the second-level cache
BLOCK_USERS = 8192  # users whose second moments are formed at a time
SPARE = 8  # places of the islands' matrices for each pair, beyond which they waste more than they save


@dataclass(frozen=True)
class Bucket:
    """Users with about the same number of labels; `slots` points to their labels, P where there is none."""

    users: IntArray  # (k,)
    slots: IntArray  # (k, n)

    def chunks(self, width: int) -> Iterator[Bucket]:
        """The bucket in pieces whose (k, n, width) arrays stay in cache."""
        step = max(1, CHUNK_VALUES // (max(self.slots.shape[1], width) * width))
        for start in range(0, len(self.users), step):
            yield Bucket(self.users[start : start + step], self.slots[start : start + step])


@dataclass(frozen=True)
class Block:
    """The labels of some users, ordered by pair: the shape of a sparse (pairs, users) matrix."""

    users: slice | IntArray
    n_users: int
    order: IntArray
    columns: IntArray
    rows: IntArray  # row pointer

    def matrix(self, values: FloatArray, n_pairs: int) -> sparse.csr_array:
        """One value per label, summed by pair and user."""
        return sparse.csr_array((values[self.order], self.columns, self.rows), shape=(n_pairs, self.n_users))


@dataclass(frozen=True, eq=False)
class Islands:
    """Items that are compared only among themselves, as texts on one topic are: one small square matrix for each.

    Rows beyond an island's own items repeat item 0; no pair has a place there.
    """

    items: IntArray  # (G, n)
    members: IntArray  # the items that are compared at all, and
    own_places: IntArray  # where each stands on the diagonals of the (G, n, n) matrices
    places: IntArray  # (Qn,) where each pair stands above or below them, and
    mirrored: IntArray

    @classmethod
    def of(cls, pair_a: IntArray, pair_b: IntArray, n_items: int) -> Islands:
        """The connected parts of the graph of the pairs."""
        graph = sparse.coo_array((np.ones(len(pair_a)), (pair_a, pair_b)), shape=(n_items, n_items))
        _, part = connected_components(graph, directed=False)
        members = np.unique(np.concatenate((pair_a, pair_b)))
        _, island = np.unique(part[members], return_inverse=True)
        sizes = np.bincount(island)
        order = np.argsort(island, kind="stable")
        row = np.zeros(len(members), dtype=np.int64)
        row[order] = np.arange(len(members)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        n = int(sizes.max())
        items = np.zeros((len(sizes), n), dtype=np.int64)
        items[island, row] = members
        base, row_of = np.zeros(n_items, dtype=np.int64), np.zeros(n_items, dtype=np.int64)
        base[members], row_of[members] = island * n * n, row
        i, j, start = row_of[pair_a], row_of[pair_b], base[pair_a]
        return cls(items, members, base[members] + row * (n + 1), start + i * n + j, start + j * n + i)


@dataclass(frozen=True, eq=False)
class Ledger:
    """Every label once. Arrays over labels have one more place at the end, a label that says nothing."""

    labels: PairwiseLabels
    n_items: int
    n_users: int
    pair_a: IntArray  # (Qn,) the smaller index of each unordered pair
    pair_b: IntArray
    q: IntArray  # (P + 1,) the pair of each label
    y: FloatArray  # (P + 1,) the answer, turned with the pair
    weight: FloatArray  # (P + 1,)
    u: IntArray  # (P,)

    @classmethod
    def of(cls, labels: PairwiseLabels, n_items: int, n_users: int) -> Ledger:
        """The labels with their pairs counted once."""
        low, high = np.minimum(labels.a, labels.b), np.maximum(labels.a, labels.b)
        codes, q = numbered(low * n_items + high, n_items**2)
        y = np.where(labels.a < labels.b, labels.y, 1.0 - labels.y)
        return cls(
            labels=labels,
            n_items=n_items,
            n_users=n_users,
            pair_a=codes // n_items,
            pair_b=codes % n_items,
            q=np.append(q, 0),
            y=np.append(y, 0.5),
            weight=np.append(labels.weights, 0.0),
            u=labels.u,
        )

    def without_labels(self) -> Ledger:
        """The same items, and neither labels nor users."""
        return Ledger.of(self.labels.take(np.zeros(0, dtype=np.int64)), self.n_items, 0)

    @property
    def n_labels(self) -> int:
        return len(self.u)

    @property
    def n_pairs(self) -> int:
        return len(self.pair_a)

    @cached_property
    def counts(self) -> IntArray:
        """(U,) labels of each user."""
        return np.bincount(self.u, minlength=self.n_users)

    @cached_property
    def user_rows(self) -> tuple[IntArray, IntArray]:
        """The labels sorted by user, and where each user's begin."""
        order = stable_order(self.u, self.n_users)
        return order, np.concatenate(([0], np.cumsum(self.counts)))

    def rows_of(self, users: IntArray) -> IntArray:
        """The labels of these users."""
        order, start = self.user_rows
        if not len(users):
            return np.zeros(0, dtype=np.int64)
        return np.concatenate([order[start[u] : start[u + 1]] for u in users])

    @cached_property
    def buckets(self) -> list[Bucket]:
        """All users who have labels, in buckets."""
        return self.buckets_of(np.flatnonzero(self.counts))

    def buckets_of(self, users: IntArray) -> list[Bucket]:
        """These users, grouped by their number of labels rounded up."""
        order, start = self.user_rows
        widths = rounded_up(self.counts[users])
        buckets = []
        for width in np.unique(widths[widths > 0]):
            members = users[widths == width]
            offset = np.arange(width)
            present = offset < self.counts[members][:, None]
            places = np.minimum(start[members][:, None] + offset, len(order) - 1)
            buckets.append(Bucket(members, np.where(present, order[places], self.n_labels)))
        return buckets

    @cached_property
    def blocks(self) -> list[Block]:
        """All labels, by ranges of users."""
        blocks = []
        for first in range(0, self.n_users, BLOCK_USERS):
            last = min(first + BLOCK_USERS, self.n_users)
            chosen = np.flatnonzero((self.u >= first) & (self.u < last))
            blocks.append(self._block(slice(first, last), last - first, chosen, self.u[chosen] - first))
        return blocks

    def block_of(self, users: IntArray) -> Block:
        """The labels of these users only (sorted, each once)."""
        chosen = self.rows_of(users)
        return self._block(users, len(users), chosen, np.searchsorted(users, self.u[chosen]))

    def block_of_pairs(self, touched: BoolArray) -> Block:
        """The labels of these pairs only, of all users."""
        chosen = np.flatnonzero(touched[self.q[:-1]])
        return self._block(slice(None), self.n_users, chosen, self.u[chosen])

    def _block(self, users: slice | IntArray, n_users: int, chosen: IntArray, columns: IntArray) -> Block:
        by_pair = stable_order(self.q[chosen], self.n_pairs)
        order = chosen[by_pair]
        rows = np.concatenate(([0], np.cumsum(np.bincount(self.q[order], minlength=self.n_pairs))))
        return Block(users, n_users, order, columns[by_pair], rows)

    @cached_property
    def islands(self) -> Islands | None:
        """The groups of items that are compared only among themselves; none where their matrices would be wasteful."""
        if not self.n_pairs:
            return None
        found = Islands.of(self.pair_a, self.pair_b, self.n_items)
        return found if found.items.size * found.items.shape[1] <= SPARE * self.n_pairs else None

    @cached_property
    def incidence(self) -> sparse.csr_array:
        """(N, Qn): +1 at the first item of a pair, -1 at the second."""
        rows = np.concatenate((self.pair_a, self.pair_b))
        columns = np.tile(np.arange(self.n_pairs), 2)
        signs = np.repeat((1.0, -1.0), self.n_pairs)
        return sparse.csr_array((signs, (rows, columns)), shape=(self.n_items, self.n_pairs))


def numbered(codes: IntArray, bound: int) -> tuple[IntArray, IntArray]:
    """The distinct codes in order, and the place of each code among them; by a table where that is small."""
    if bound > 4 * len(codes) + 2**16:
        distinct, places = np.unique(codes, return_inverse=True)
        return distinct, places.astype(np.int64)
    present = np.zeros(bound, dtype=bool)
    present[codes] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[codes]


def stable_order(values: IntArray, bound: int) -> IntArray:
    """A stable argsort of whole numbers below a bound; numpy counts instead of comparing where they are short."""
    short = values.astype(np.uint16) if bound <= 2**16 else values
    return np.argsort(short, kind="stable")


def rounded_up(counts: IntArray) -> IntArray:
    """Each count rounded up to one of few widths, wasting at most a quarter."""
    step = np.maximum(1, 2 ** np.maximum(0, np.floor(np.log2(np.maximum(counts, 1))).astype(np.int64) - 2))
    return np.asarray(-(-counts // step) * step, dtype=np.int64)
