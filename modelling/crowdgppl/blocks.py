"""Users' labels in block coordinates, with blocks of similar size stacked for batched linear algebra.

One coordinate per label, or one per item the user has seen, whichever is fewer. D maps utilities of all items to block
coordinates: rows e_a - e_b, or rows e_i. `users.py` computes with these blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from .arrays import BoolArray, FloatArray, IntArray
from .labels import UserBatch

CHUNK_ENTRIES = 60_000  # largest size of one stack of blocks, which should fit into the CPU cache
SMALL_BLOCK = 32  # positions are cached for blocks up to this size
LARGE_BLOCK = 120  # larger blocks are added to the sums one by one
EVERYONE = slice(None)


@dataclass(eq=False)
class Block:
    """Users with blocks of similar size, padded to one shape (B, q)."""

    users: IntArray  # (B,) positions in the batch
    rows: IntArray  # label space: (B, q) label of each coordinate; item space: (L,) all labels of these users
    n_items: int

    def prior(self, M: FloatArray) -> FloatArray:
        """D M D' of each user (B, q, q)."""
        raise NotImplementedError

    def at(self, values: FloatArray, users: IntArray | slice = EVERYONE) -> FloatArray:
        """Apply D of these users to values: (N,) -> (B, q), or (N, C) -> (B, q, C)."""
        raise NotImplementedError

    def information(self, lam: FloatArray, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """W (B, q, q) or its diagonal (B, q), and r (B, q)."""
        raise NotImplementedError

    def at_labels(self, mean: FloatArray, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances of z in the order of `rows`, from the mean and covariance (left' right) in the block."""
        raise NotImplementedError

    def add_matrix(self, out: FloatArray, values: FloatArray) -> None:
        """Add matrices with the symmetric part D' values D of each user, for symmetric values, to out (N, N)."""
        raise NotImplementedError

    def add_rows(self, out: FloatArray, values: FloatArray) -> None:
        """Add D' values of each user to out (N,) or (N, C)."""
        raise NotImplementedError

    def prior_of(self, user: int, M: FloatArray) -> FloatArray:
        """D M D' of one user of the block (q, q)."""
        raise NotImplementedError

    def cross(self, user: int, M: FloatArray, a: IntArray, b: IntArray) -> FloatArray:
        """x' M D' of pairs x = e_a - e_b for one user of the block (pairs, q)."""
        raise NotImplementedError

    def cross_items(self, user: int, M: FloatArray) -> FloatArray:
        """M D' for one user of the block (N, q)."""
        raise NotImplementedError

    def add_user_rows(self, out: FloatArray, values: FloatArray) -> None:
        """Add D' values (B, q) of each user to their row of out (users of the batch, N)."""
        raise NotImplementedError

    def oriented(self, noise: FloatArray) -> FloatArray:
        """Assign noise (B, q) to coordinates in a way that does not depend on the order of labels and of pairs."""
        return noise


class LabelBlock(Block):
    """One coordinate per label."""

    def __init__(self, users: IntArray, rows: IntArray, a: IntArray, b: IntArray, y: FloatArray, n_items: int) -> None:
        super().__init__(users, rows, n_items)
        self.a, self.b, self.y = a[rows], b[rows], y[rows]
        self._places: tuple[IntArray, IntArray, IntArray] | None = None

    def oriented(self, noise: FloatArray) -> FloatArray:
        first = self.a < self.b
        keys = np.where(first, self.y, 1.0 - self.y), np.maximum(self.a, self.b), np.minimum(self.a, self.b)
        place = np.lexsort(keys, axis=1).argsort(axis=1)
        return np.where(first, 1.0, -1.0) * np.take_along_axis(noise, place, axis=1)

    def places(self) -> tuple[IntArray, IntArray, IntArray]:
        """Flat positions (B, q, q) in an (N, N) matrix of the items (a, a), (b, b) and (a, b) of each two labels."""
        if self._places is not None:
            return self._places
        a, b = self.a[:, :, None] * self.n_items, self.b[:, :, None] * self.n_items
        places = a + self.a[:, None, :], b + self.b[:, None, :], a + self.b[:, None, :]
        if self.a.shape[1] <= SMALL_BLOCK:
            self._places = places
        return places

    def prior(self, M: FloatArray) -> FloatArray:
        if M.ndim == 1:
            return self._prior_diagonal(M)
        if len(self.users) == 1:
            a, b = self.a[0], self.b[0]
            D = M[a] - M[b]
            return np.asarray((D[:, a] - D[:, b])[None])
        flat = np.ascontiguousarray(M).ravel()
        aa, bb, ab = self.places()
        out = flat.take(aa)
        out += flat.take(bb)
        cross = flat.take(ab)  # and its transpose: M is symmetric
        out -= cross
        out -= cross.transpose(0, 2, 1)
        return np.asarray(out)

    def _prior_diagonal(self, d: FloatArray) -> FloatArray:
        a, b = self.a, self.b
        da, db = d[a][:, :, None], d[b][:, :, None]
        out = da * (a[:, :, None] == a[:, None, :]) + db * (b[:, :, None] == b[:, None, :])
        out -= da * (a[:, :, None] == b[:, None, :]) + db * (b[:, :, None] == a[:, None, :])
        return np.asarray(out)

    def at(self, values: FloatArray, users: IntArray | slice = EVERYONE) -> FloatArray:
        return np.asarray(values[self.a[users]] - values[self.b[users]])

    def information(self, lam: FloatArray, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return lam[self.rows], eta[self.rows]

    def at_labels(self, mean: FloatArray, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        return mean.ravel(), (left * right).sum(axis=1).ravel()

    def add_matrix(self, out: FloatArray, values: FloatArray) -> None:
        N = self.n_items
        if values.shape[1] > LARGE_BLOCK:
            self._add_large(out, values)
            return
        aa, bb, ab = self.places()
        w, flat = values.ravel(), out.reshape(-1)
        if values.size * 4 < N * N:
            np.add.at(flat, aa.ravel(), w)
            np.add.at(flat, bb.ravel(), w)
            np.subtract.at(flat, ab.ravel(), 2.0 * w)  # and (b, a), when the sum is made symmetric
        else:
            flat += np.bincount(aa.ravel(), w, N * N)
            flat += np.bincount(bb.ravel(), w, N * N)
            flat -= np.bincount(ab.ravel(), 2.0 * w, N * N)

    def _add_large(self, out: FloatArray, values: FloatArray) -> None:
        for a, b, each in zip(self.a, self.b, values, strict=True):
            items, place = np.unique(np.concatenate((a, b)), return_inverse=True)
            n = len(a)
            signs = np.concatenate((np.ones(n), -np.ones(n)))
            D = sparse.csr_matrix((signs, (np.tile(np.arange(n), 2), place)), shape=(n, len(items)))
            out[np.ix_(items, items)] += D.T @ (D.T @ each).T

    def add_rows(self, out: FloatArray, values: FloatArray) -> None:
        add_at(out, self.a.ravel(), values.reshape(-1, *values.shape[2:]))
        add_at(out, self.b.ravel(), -values.reshape(-1, *values.shape[2:]))

    def prior_of(self, user: int, M: FloatArray) -> FloatArray:
        return self.cross(user, M, self.a[user], self.b[user])

    def cross(self, user: int, M: FloatArray, a: IntArray, b: IntArray) -> FloatArray:
        own_a, own_b = self.a[user], self.b[user]
        first, second = M[np.ix_(a, own_a)] - M[np.ix_(b, own_a)], M[np.ix_(a, own_b)] - M[np.ix_(b, own_b)]
        return np.asarray(first - second)

    def cross_items(self, user: int, M: FloatArray) -> FloatArray:
        return np.asarray(M[:, self.a[user]] - M[:, self.b[user]])

    def add_user_rows(self, out: FloatArray, values: FloatArray) -> None:
        np.add.at(out, (self.users[:, None], self.a), values)
        np.subtract.at(out, (self.users[:, None], self.b), values)


class ItemBlock(Block):
    """One coordinate per item that the user has seen."""

    def __init__(
        self, users: IntArray, rows: IntArray, owner: IntArray, items: IntArray, real: BoolArray,
        place_a: IntArray, place_b: IntArray, n_items: int,
    ) -> None:  # fmt: skip
        super().__init__(users, rows, n_items)
        self.owner, self.items, self.real = owner, items, real  # (L,), (B, q), (B, q)
        self.place_a, self.place_b = place_a, place_b  # (L,) coordinate of each label's items

    def prior(self, M: FloatArray) -> FloatArray:
        both = self.real[:, :, None] & self.real[:, None, :]
        if M.ndim == 1:
            out = np.zeros(both.shape)
            q = both.shape[1]
            out[:, np.arange(q), np.arange(q)] = np.where(self.real, M[self.items], 0.0)
            return out
        return np.where(both, M[self.items[:, :, None], self.items[:, None, :]], 0.0)

    def at(self, values: FloatArray, users: IntArray | slice = EVERYONE) -> FloatArray:
        out = values[self.items[users]]
        out[~self.real[users]] = 0.0
        return np.asarray(out)

    def information(self, lam: FloatArray, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        B, q = self.items.shape
        lam, eta = lam[self.rows], eta[self.rows]
        a, b = self.owner * q + self.place_a, self.owner * q + self.place_b
        W = -np.bincount(a * q + self.place_b, lam, B * q * q).reshape(B, q, q)
        W += W.transpose(0, 2, 1)
        diagonal = np.bincount(a, lam, B * q) + np.bincount(b, lam, B * q)
        W[:, np.arange(q), np.arange(q)] += diagonal.reshape(B, q)
        r = np.bincount(a, eta, B * q) - np.bincount(b, eta, B * q)
        return np.asarray(W, dtype=np.float64), np.asarray(r.reshape(B, q), dtype=np.float64)

    def at_labels(self, mean: FloatArray, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        o, a, b = self.owner, self.place_a, self.place_b
        covariance = left.transpose(0, 2, 1) @ right
        variance = covariance[o, a, a] + covariance[o, b, b] - covariance[o, a, b] - covariance[o, b, a]
        return mean[o, a] - mean[o, b], variance

    def add_matrix(self, out: FloatArray, values: FloatArray) -> None:
        N, q = self.n_items, values.shape[1]
        if q > LARGE_BLOCK // 4:
            for items, real, each in zip(self.items, self.real, values, strict=True):
                here = items[real]
                out[np.ix_(here, here)] += each[np.ix_(real, real)]
            return
        place = self.items[:, :, None] * N + self.items[:, None, :]
        w = np.where(self.real[:, :, None] & self.real[:, None, :], values, 0.0)
        if values.size * 4 < N * N:
            np.add.at(out.reshape(-1), place.ravel(), w.ravel())
        else:
            out += np.bincount(place.ravel(), w.ravel(), N * N).reshape(N, N)

    def add_rows(self, out: FloatArray, values: FloatArray) -> None:
        add_at(out, self.items[self.real], values[self.real])

    def prior_of(self, user: int, M: FloatArray) -> FloatArray:
        items, real = self.items[user], self.real[user]
        return np.where(real[:, None] & real, M[np.ix_(items, items)], 0.0)

    def cross(self, user: int, M: FloatArray, a: IntArray, b: IntArray) -> FloatArray:
        items, real = self.items[user], self.real[user]
        return np.where(real, M[np.ix_(a, items)] - M[np.ix_(b, items)], 0.0)

    def cross_items(self, user: int, M: FloatArray) -> FloatArray:
        return np.where(self.real[user], M[:, self.items[user]], 0.0)

    def add_user_rows(self, out: FloatArray, values: FloatArray) -> None:
        np.add.at(out, (self.users[:, None], self.items), np.where(self.real, values, 0.0))


def add_at(out: FloatArray, places: IntArray, values: FloatArray) -> None:
    """Add values to out at these positions, which may repeat; values may have columns."""
    if values.ndim == 1:
        out += np.bincount(places, values, len(out))
        return
    chooser = sparse.csr_matrix((np.ones(len(places)), (places, np.arange(len(places)))), shape=(len(out), len(places)))
    out += chooser @ values


def padded_size(n: IntArray) -> IntArray:
    """Round block sizes up to steps of about a fifth, so that few shapes are needed."""
    sizes = [1]
    while sizes[-1] < int(n.max(initial=1)):
        sizes.append(sizes[-1] + max(1, sizes[-1] // 5))
    steps = np.array(sizes)
    return np.asarray(steps[np.searchsorted(steps, n)])


def blocks_of(batch: UserBatch, n_items: int) -> list[Block]:
    """Arrange a batch in blocks of users with similar sizes; users without labels are left out."""
    if not len(batch):
        return []
    row = batch.row
    seen, place = np.unique(
        np.concatenate((row, row)) * n_items + np.concatenate((batch.a, batch.b)), return_inverse=True
    )
    seen_start = np.searchsorted(seen, np.arange(len(batch.users) + 1) * n_items)
    n_labels, n_seen = batch.counts, np.diff(seen_start)
    local = place - np.concatenate((seen_start[row], seen_start[row]))
    place_a, place_b = local[: len(batch)], local[len(batch) :]
    by_items = (n_seen < n_labels) & (n_labels > 0)
    return [
        *_label_blocks(batch, np.flatnonzero(~by_items & (n_labels > 0)), n_items),
        *_item_blocks(batch, np.flatnonzero(by_items), seen % n_items, seen_start, place_a, place_b, n_items),
    ]


def _chunks(users: IntArray, size: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Users of one padded size, as many at a time as fit in cache."""
    padded = padded_size(size[users])
    for q in np.unique(padded):
        some = users[padded == q]
        step = max(1, int(CHUNK_ENTRIES // q**2))
        for first in range(0, len(some), step):
            chunk = some[first : first + step]
            yield int(size[chunk].max()), chunk


def _label_blocks(batch: UserBatch, users: IntArray, n_items: int) -> Iterator[Block]:
    # Padding points at one row past the labels, whose site is zero.
    a, b, y = np.append(batch.a, 0), np.append(batch.b, 0), np.append(batch.y, 0.5)
    for q, chunk in _chunks(users, batch.counts):
        steps = np.arange(q)
        rows = np.where(steps < batch.counts[chunk][:, None], batch.start[chunk][:, None] + steps, len(batch))
        yield LabelBlock(chunk, rows, a, b, y, n_items)


def _item_blocks(
    batch: UserBatch, users: IntArray, seen: IntArray, seen_start: IntArray, place_a: IntArray, place_b: IntArray,
    n_items: int,
) -> Iterator[Block]:  # fmt: skip
    n_seen, seen = np.diff(seen_start), np.append(seen, 0)
    for q, chunk in _chunks(users, n_seen):
        steps = np.arange(q)
        real = steps < n_seen[chunk][:, None]
        items = seen[np.where(real, seen_start[chunk][:, None] + steps, len(seen) - 1)]
        counts = batch.counts[chunk]
        owner = np.repeat(np.arange(len(chunk)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
        rows = batch.start[chunk][owner] + within
        yield ItemBlock(chunk, rows, owner, items, real, place_a[rows], place_b[rows], n_items)
