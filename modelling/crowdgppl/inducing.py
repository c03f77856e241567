"""Items in whitened coordinates: K is about Psi Psi^T, so that no inverse of K is ever needed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from .arrays import FloatArray, IntArray
from .kernels import Kernel

JITTER = 1e-6  # added to K_mm before its factorisation
SPECTRAL_ITEMS = 1500  # up to here an eigen-decomposition of K is cheap, and the best choice of M directions
CHUNK_PAIRS = 2048  # pairs whose features are held at once
CHUNK_ITEMS = 512  # items whose features are centred at a time: their copies stay in the cache
MANY_ITEMS = 3000  # beyond this a covariance of all pairs of items would take hundreds of megabytes
EIGEN_FLOOR = 1e-9  # directions with a smaller share of the largest eigenvalue carry rounding only


@dataclass(frozen=True, eq=False)
class Centre:
    """The mean of some items: its row, and of what Psi leaves out, the covariance of each of them with their mean.

    Of more than MANY_ITEMS what Psi leaves out is taken as each item's own: the mean of so many has none.
    """

    items: IntArray  # (n,) sorted
    row: FloatArray  # (M,)
    across: FloatArray  # (n,), or nothing


@dataclass(frozen=True, eq=False)
class ItemSpace:
    """Rows Psi_i of all items; for features also the map that gives the row of an item never seen.

    Without features K is the identity and Psi is too: `kernel` is None and `Psi` is not stored.
    """

    n_items: int
    kernel: Kernel | None = None
    X: FloatArray | None = None  # (N, D) features of the items
    landmarks: FloatArray | None = None  # (m, D)
    map: FloatArray | None = None  # (m, M): Psi(x) = k(x, landmarks) map
    Psi: FloatArray | None = None  # (N, M)
    centres: dict[bytes, Centre] = field(default_factory=dict, init=False, repr=False)  # the last one asked for

    @property
    def M(self) -> int:
        return self.n_items if self.Psi is None else self.Psi.shape[1]

    @property
    def dense(self) -> FloatArray:
        """Psi as a matrix, also where it is the identity."""
        return np.eye(self.n_items) if self.Psi is None else self.Psi

    @cached_property
    def own_variances(self) -> FloatArray:
        """k(x, x) of each item."""
        if self.kernel is None or self.X is None:
            return np.ones(self.n_items)
        parts = range(0, self.n_items, CHUNK_ITEMS)
        return np.concatenate([np.zeros(0), *(self.kernel.diagonal(self.X[i : i + CHUNK_ITEMS]) for i in parts)])

    def times(self, B: FloatArray) -> FloatArray:
        """Psi B."""
        return B if self.Psi is None else self.Psi @ B

    def transposed(self, R: FloatArray) -> FloatArray:
        """Psi^T R."""
        return R if self.Psi is None else self.Psi.T @ R

    def project(self, X: FloatArray | None, count: int) -> FloatArray:
        """The rows Psi* of items never seen; zeros where there are no features."""
        if self.kernel is None or self.landmarks is None or self.map is None:
            return np.zeros((count, self.M))
        if X is None:
            raise ValueError("These items need features: the model was fitted with X_items.")
        if X.shape[1] != self.landmarks.shape[1]:
            raise ValueError(f"X_items has {X.shape[1]} columns; the model was fitted with {self.landmarks.shape[1]}.")
        return self.kernel(X, self.landmarks) @ self.map

    def view(self, X_new: FloatArray | None, n_new: int) -> ItemView:
        """Known items followed by new ones, for prediction."""
        return ItemView(self, self.project(X_new, n_new), X_new) if n_new else ItemView(self)

    def extended(self, X_new: FloatArray | None, n_new: int, room: int) -> ItemSpace:
        """The space with new items; up to `room` new directions for what the old ones cannot say of them."""
        if self.kernel is None or self.landmarks is None or self.map is None or self.Psi is None or self.X is None:
            return replace(self, n_items=self.n_items + n_new)
        if X_new is None:
            raise ValueError("New items need features: the model was fitted with X_items.")
        Psi_new = self.project(X_new, n_new)
        E, root = leading(self.kernel(X_new) - Psi_new @ Psi_new.T, min(room, n_new), scale=1.0)
        inverse_root = E / root
        old = np.vstack((self.map, np.zeros((n_new, self.M))))
        new = np.vstack((-self.map @ (Psi_new.T @ inverse_root), inverse_root))
        pad = np.zeros((self.n_items, E.shape[1]))
        Psi = np.block([[self.Psi, pad], [Psi_new, E * root]])
        return replace(
            self,
            n_items=self.n_items + n_new,
            X=np.vstack((self.X, X_new)),
            landmarks=np.vstack((self.landmarks, X_new)),
            map=np.hstack((old, new)),
            Psi=Psi,
        )


@dataclass(frozen=True, eq=False)
class ItemView:
    """Rows of items, known or new, with what Psi leaves out of their covariance."""

    space: ItemSpace
    Psi_new: FloatArray | None = None  # (n, M) of items never seen
    X_new: FloatArray | None = None  # (n, D)

    def rows(self, items: IntArray) -> FloatArray:
        """Psi of these items."""
        if self.space.Psi is None:
            known = np.flatnonzero(items < self.space.n_items)
            out = np.zeros((len(items), self.space.M))
            out[known, items[known]] = 1.0
            return out
        return gathered(self.space.Psi, self.Psi_new, items)

    def own_variances(self, items: IntArray) -> FloatArray:
        """k(x, x) of these items."""
        kernel = self.space.kernel
        new = None if self.X_new is None or kernel is None else kernel.diagonal(self.X_new)
        return np.ones(len(items)) if kernel is None else gathered(self.space.own_variances, new, items)

    def rest(self, a: IntArray, b: IntArray) -> FloatArray:
        """k_aa + k_bb - 2 k_ab - |Psi_a - Psi_b|^2 of each pair: exactly 0 for equal items."""
        out = np.zeros(len(a))
        if self.space.Psi is None and self.Psi_new is None:
            return out
        for start in range(0, len(a), CHUNK_PAIRS):
            rows = slice(start, start + CHUNK_PAIRS)
            explained = ((self.rows(a[rows]) - self.rows(b[rows])) ** 2).sum(axis=1)
            out[rows] = np.maximum(self._prior_distances(a[rows], b[rows]) - explained, 0.0)
        return out

    def _prior_distances(self, a: IntArray, b: IntArray) -> FloatArray:
        kernel, X = self.space.kernel, self.space.X
        if kernel is None or X is None:
            return np.asarray(2.0 * (a != b))
        paired = kernel.paired(gathered(X, self.X_new, a), gathered(X, self.X_new, b))
        return np.asarray(self.own_variances(a) + self.own_variances(b) - 2.0 * paired)

    def rest_variances(self, items: IntArray) -> FloatArray:
        """The diagonal of `rest_covariance`, without the rest of it."""
        if self.space.Psi is None and self.Psi_new is None:
            return np.zeros(len(items))
        return np.asarray(np.maximum(self.own_variances(items) - (self.rows(items) ** 2).sum(axis=1), 0.0))

    def rest_covariance(self, items: IntArray, others: IntArray | None = None) -> FloatArray:
        """K** - Psi* Psi*^T of these items, with each other or with others."""
        kernel, X, across = self.space.kernel, self.space.X, items if others is None else others
        Psi, Psi_across = (self.rows(each) for each in (items, across))
        if kernel is None or X is None:
            prior = (items[:, None] == across[None, :]).astype(np.float64)
        else:
            rows = gathered(X, self.X_new, items)
            prior = kernel(rows, None if others is None else gathered(X, self.X_new, others))
        return np.asarray(prior - Psi @ Psi_across.T)

    def centre(self, among: IntArray) -> Centre:
        """The mean of these items. The last one is kept: whoever reads asks for that of all ranked items."""
        items = np.sort(among)
        if not len(items) or items[-1] >= self.space.n_items:
            return self._centre(items)
        name, kept = items.tobytes(), self.space.centres
        found = kept.get(name)
        if found is None:
            found = self._centre(items)
            kept.clear()
            kept[name] = found
        return found

    def _centre(self, items: IntArray) -> Centre:
        across = self.rest_covariance(items).mean(axis=1) if len(items) <= MANY_ITEMS else np.zeros(0)
        return Centre(items, self.rows(items).mean(axis=0), across)

    def rest_from(self, centre: Centre, items: IntArray) -> FloatArray:
        """The variance that Psi leaves out of how far each item is from a mean."""
        if not len(centre.across):
            return self.rest_variances(items)
        place = np.minimum(np.searchsorted(centre.items, items), len(centre.items) - 1)
        across, outside = centre.across[place], centre.items[place] != items
        if outside.any():
            across[outside] = self.rest_covariance(items[outside], centre.items).mean(axis=1)
        return np.asarray(np.maximum(self.rest_variances(items) - 2.0 * across + centre.across.mean(), 0.0))


def gathered(known: FloatArray, new: FloatArray | None, items: IntArray) -> FloatArray:
    """The rows of these items, those of known ones first in the counting: nothing is copied but what is asked for."""
    if new is None:
        return np.asarray(known[items])
    fresh = items >= len(known)
    out = known[np.where(fresh, 0, items)]
    out[fresh] = new[items[fresh] - len(known)]
    return np.asarray(out)


def leading(K: FloatArray, count: int, scale: float | None = None) -> tuple[FloatArray, FloatArray]:
    """The leading eigenvectors (n, k) of a covariance and the square roots of their eigenvalues (k,)."""
    if count == 0:
        return np.zeros((len(K), 0)), np.zeros(0)
    first = max(0, len(K) - count) if 2 * count < len(K) else 0
    values, vectors = linalg.eigh(K, subset_by_index=(first, len(K) - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    largest = values[0] if scale is None else scale
    keep = min(count, int((values > EIGEN_FLOOR * max(largest, EIGEN_FLOOR)).sum()))
    return np.ascontiguousarray(vectors[:, :keep]), np.sqrt(values[:keep])


def item_space(
    X: FloatArray | None, n_items: int, kernel: Kernel, n_inducing: int | None, choice: str, seed: int
) -> ItemSpace:
    """The items in whitened coordinates: the identity, leading eigenvectors, or K-means++ inducing points."""
    if X is None:
        return ItemSpace(n_items)
    kernel = kernel.fit(X)
    M = n_items if n_inducing is None else min(n_inducing, n_items)
    if choice == "kmeans" or (choice == "auto" and n_items > SPECTRAL_ITEMS and n_items > M):
        return nystrom_space(X, kernel, cluster_centres(X, M, seed))
    return spectral_space(X, kernel, M)


def spectral_space(X: FloatArray, kernel: Kernel, M: int) -> ItemSpace:
    """The M leading eigenvectors of K: truncation smooths across items."""
    E, root = leading(kernel(X), M)
    return ItemSpace(len(X), kernel, X, X, E / root, E * root)


def nystrom_space(X: FloatArray, kernel: Kernel, landmarks: FloatArray) -> ItemSpace:
    """Psi = K_nm L^-T with K_mm + jitter = L L^T (the paper's inducing points)."""
    K_mm = kernel(landmarks)
    K_mm[np.diag_indices_from(K_mm)] += JITTER
    L = linalg.cholesky(K_mm, lower=True)
    inverse = linalg.solve_triangular(L, np.eye(len(landmarks)), lower=True).T
    return ItemSpace(len(X), kernel, X, landmarks, inverse, kernel(X, landmarks) @ inverse)


def cluster_centres(X: FloatArray, M: int, seed: int) -> FloatArray:
    """K-means++ centres of the rows; the distinct rows themselves where there are no more than M."""
    distinct = np.unique(X, axis=0)
    if len(distinct) <= M:
        return np.asarray(distinct)
    from sklearn.cluster import KMeans  # heavy to import, and most fits need no clusters

    centres = KMeans(n_clusters=M, n_init=1, max_iter=20, random_state=seed).fit(X).cluster_centers_
    return np.asarray(centres, dtype=np.float64)
