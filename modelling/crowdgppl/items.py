"""The item step: t and every v_c given the users, through statistics summed by unordered pair."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import lapack

from .arrays import BoolArray, FloatArray, IntArray
from .inducing import ItemSpace
from .ledger import Block, Islands, Ledger
from .users import PairMoments, Users

STATISTICS_BYTES = 50e6  # beyond this only one row of the pair statistics is formed at a time
DENSE_ITEMS = 400  # up to here the graph Laplacian of the pairs is a plain matrix
SWEEPS = 2  # Gauss-Seidel sweeps over the means of t and the v_c


@dataclass
class Items:
    """q(b_c) = N(mean_c, cov_c) in whitened coordinates; column 0 is t, absent where `first` is 1."""

    mean: FloatArray  # (M, C + 1)
    cov: FloatArray  # (C + 1, M, M)
    first: int = 0
    precision: FloatArray | None = None  # (C + 1, M, M) and
    shift: FloatArray | None = None  # (M, C + 1): natural parameters, kept between mini-batches only

    @property
    def components(self) -> range:
        return range(self.first, self.mean.shape[1])

    @property
    def energy(self) -> FloatArray:
        """(C + 1,) E[|b_c|^2]."""
        return np.asarray((self.mean**2).sum(axis=0) + np.einsum("cmm->c", self.cov))

    def rescale(self, k: FloatArray) -> None:
        """v_c -> k_c v_c."""
        self.mean[:, 1:] *= k
        self.cov[1:] *= (k * k)[:, None, None]
        if self.precision is not None and self.shift is not None:
            self.precision[1:] /= (k * k)[:, None, None]
            self.shift[:, 1:] /= k

    def copy(self) -> Items:
        """The same items, independent of these."""
        precision = None if self.precision is None else self.precision.copy()
        shift = None if self.shift is None else self.shift.copy()
        return Items(self.mean.copy(), self.cov.copy(), self.first, precision, shift)


@dataclass
class PairStatistics:
    """Sums over labels of each pair: T = sum lam E[w~ w~^T] and R = sum tau E[w~], with w~ = (1, w)."""

    blocks: list[tuple[sparse.csr_array, FloatArray, FloatArray]]  # lam by (pair, user); W~; Omega of the users
    R: FloatArray  # (Qn, C + 1)
    factor: float
    T: FloatArray | None = None  # (C + 1, Qn, C + 1) where it fits

    def form_row(self, c: int) -> FloatArray:
        """(Qn, C + 1): row c of every T, from the labels; small enough to stay in cache."""
        total = None
        for lam, W, Omega in self.blocks:
            part = lam @ second_moments(W, Omega, c)
            total = part if total is None else np.add(total, part, out=total)
        if total is None:
            return np.zeros_like(self.R)
        return np.asarray(total if self.factor == 1.0 else np.multiply(total, self.factor, out=total))

    def row(self, c: int) -> FloatArray:
        """(Qn, C + 1): row c of every T."""
        return self.form_row(c) if self.T is None else self.T[c]

    @property
    def diagonal(self) -> FloatArray:
        """(C + 1, Qn): the diagonal of every T."""
        if self.T is not None:
            return np.ascontiguousarray(np.einsum("cqc->cq", self.T))
        total = np.zeros_like(self.R)
        for lam, W, Omega in self.blocks:
            second = W * W
            second[:, 1:] += np.einsum("ucc->uc", Omega)
            total += self.factor * (lam @ second)
        return np.ascontiguousarray(total.T)


@dataclass
class KeptStatistics:
    """The statistics of one update, so that the next forms only what has changed since.

    A row of T is a sum over the labels of one pair in their order, whichever other rows are formed with it: kept
    rows and new ones are equal to the last bit.
    """

    pair_a: IntArray
    pair_b: IntArray
    T: FloatArray  # (C + 1, Qn, C + 1)
    stale: IntArray  # users who have moved since

    def serves(self, ledger: Ledger) -> bool:
        """Whether the pairs are still the same."""
        return np.array_equal(self.pair_a, ledger.pair_a) and np.array_equal(self.pair_b, ledger.pair_b)


def second_moments(W: FloatArray, Omega: FloatArray, c: int) -> FloatArray:
    """Row c of E[w~ w~^T] of each user, (U, C + 1)."""
    out = W[:, c : c + 1] * W
    if c > 0:
        out[:, 1:] += Omega[:, c - 1]
    return out


def pair_statistics(
    ledger: Ledger,
    lam: FloatArray,
    tau: FloatArray,
    users: Users,
    blocks: Iterable[Block] | None = None,
    factor: float = 1.0,
) -> PairStatistics:
    """The statistics of these blocks of labels (all by default), times a factor."""
    n_pairs, K = ledger.n_pairs, users.W.shape[1] + 1
    R = np.zeros((n_pairs, K))
    parts = []
    for block in ledger.blocks if blocks is None else blocks:
        W = np.ones((block.n_users, K))
        W[:, 1:] = users.W[block.users]
        R += factor * (block.matrix(tau, n_pairs) @ W)
        parts.append((block.matrix(lam, n_pairs), W, users.Omega[block.users]))
    statistics = PairStatistics(parts, R, factor)
    if fits_in_memory(n_pairs, K):
        T = np.empty((K, n_pairs, K))
        for c in range(K):
            T[c] = statistics.form_row(c)
        statistics.T = T
    return statistics


def fits_in_memory(n_pairs: int, K: int) -> bool:
    """Whether the T of all pairs is small enough to hold."""
    return n_pairs * K * K * 8 <= STATISTICS_BYTES


def kept_statistics(
    ledger: Ledger, lam: FloatArray, tau: FloatArray, users: Users, kept: KeptStatistics | None
) -> tuple[PairStatistics, KeptStatistics | None]:
    """`pair_statistics` of all labels, formed anew only for the pairs of users who have moved."""
    if len(ledger.blocks) != 1 or kept is None or not kept.serves(ledger):
        statistics = pair_statistics(ledger, lam, tau, users)
        if statistics.T is None or len(ledger.blocks) != 1:
            return statistics, None
        return statistics, KeptStatistics(ledger.pair_a, ledger.pair_b, statistics.T, np.zeros(0, dtype=np.int64))
    W = np.hstack((np.ones((len(users.W), 1)), users.W))
    touched = np.zeros(ledger.n_pairs, dtype=bool)
    touched[ledger.q[ledger.rows_of(kept.stale)]] = True
    rows = np.flatnonzero(touched)
    changed = ledger.block_of_pairs(touched).matrix(lam, ledger.n_pairs)[rows]
    for c, row in enumerate(kept.T):
        row[rows] = changed @ second_moments(W, users.Omega, c)
    R = ledger.blocks[0].matrix(tau, ledger.n_pairs) @ W
    return PairStatistics([], R, 1.0, kept.T), kept


def pair_moments(ledger: Ledger, space: ItemSpace, items: Items, s: FloatArray, rest: FloatArray) -> PairMoments:
    """Differences of the means of t and v over each pair, and their variances."""
    return PairMoments(pair_differences(space, ledger, items.mean), all_pair_variances(ledger, space, items, s, rest))


def late_pair_moments(ledger: Ledger, space: ItemSpace, items: Items, s: FloatArray, rest: FloatArray) -> PairMoments:
    """The same, the variances made when they are first asked for: of the items as they are now, whatever moves."""
    now = items.copy()
    return PairMoments(
        pair_differences(space, ledger, items.mean), lambda: all_pair_variances(ledger, space, now, s, rest)
    )


def all_pair_variances(ledger: Ledger, space: ItemSpace, items: Items, s: FloatArray, rest: FloatArray) -> FloatArray:
    """(Qn, C + 1): the variances of t and the v_c over each pair."""
    V = np.zeros((ledger.n_pairs, items.mean.shape[1]))
    for c in items.components:
        V[:, c] = pair_variances(space, items.cov[c], ledger) + rest / s[c]
    return np.maximum(V, 0.0, out=V)


def pair_differences(space: ItemSpace, ledger: Ledger, mean: FloatArray) -> FloatArray:
    """(Qn, C + 1): the means of t and the v_c at the first item of each pair minus those at the second."""
    D = space.times(mean)
    d = D[ledger.pair_a]
    d -= D[ledger.pair_b]
    return np.asarray(d)


def pair_variances(space: ItemSpace, S: FloatArray, ledger: Ledger) -> FloatArray:
    """(Psi_a - Psi_b)^T S (Psi_a - Psi_b) of every pair, by row products."""
    a, b = ledger.pair_a, ledger.pair_b
    if space.Psi is None:
        own = S.diagonal()
        return np.asarray(own[a] + own[b] - 2.0 * S[a, b])
    rows = space.Psi @ S
    if space.n_items**2 <= 4 * ledger.n_pairs:
        cov = rows @ space.Psi.T
        own = cov.diagonal()
        return np.asarray(own[a] + own[b] - 2.0 * cov[a, b])
    own = np.einsum("nm,nm->n", rows, space.Psi)
    return np.asarray(own[a] + own[b] - 2.0 * pair_covariances(rows, space.Psi, ledger))


def pair_covariances(rows: FloatArray, Psi: FloatArray, ledger: Ledger) -> FloatArray:
    """rows_a^T Psi_b of every pair: island by island, or pair by pair."""
    a, b, islands = ledger.pair_a, ledger.pair_b, ledger.islands
    if islands is not None:
        return np.asarray((rows[islands.items] @ Psi[islands.items].swapaxes(1, 2)).ravel()[islands.places])
    pieces = (slice(i, i + 4096) for i in range(0, len(a), 4096))
    return np.concatenate([np.zeros(0), *(np.einsum("qm,qm->q", rows[a[i]], Psi[b[i]]) for i in pieces)])


def laplacian(ledger: Ledger, weights: FloatArray) -> FloatArray | sparse.csr_array:
    """The graph Laplacian of the pair weights, dense for few items."""
    a, b, N = ledger.pair_a, ledger.pair_b, ledger.n_items
    degree = np.bincount(a, weights, N) + np.bincount(b, weights, N)
    if N <= DENSE_ITEMS:
        out = np.zeros((N, N))
        flat = out.ravel()
        flat[a * N + b] = flat[b * N + a] = -weights
        flat[:: N + 1] = degree
        return out
    i, j = np.concatenate((a, b, np.arange(N))), np.concatenate((b, a, np.arange(N)))
    return sparse.csr_array((np.concatenate((-weights, -weights, degree)), (i, j)), shape=(N, N))


def evidence(space: ItemSpace, ledger: Ledger, weights: FloatArray) -> FloatArray:
    """Psi^T Lap(weights) Psi."""
    if space.Psi is not None and ledger.n_items > DENSE_ITEMS and ledger.islands is not None:
        return evidence_of_islands(space.Psi, ledger, ledger.islands, weights)
    L = laplacian(ledger, weights)
    if space.Psi is None:
        return L if isinstance(L, np.ndarray) else L.toarray()
    return np.asarray(space.Psi.T @ (L @ space.Psi))


def evidence_of_islands(Psi: FloatArray, ledger: Ledger, islands: Islands, weights: FloatArray) -> FloatArray:
    """The same from the small Laplacian of each island."""
    G, n = islands.items.shape
    degree = np.bincount(ledger.pair_a, weights, len(Psi)) + np.bincount(ledger.pair_b, weights, len(Psi))
    L = np.zeros(G * n * n)
    L[islands.places] = L[islands.mirrored] = -weights
    L[islands.own_places] = degree[islands.members]
    rows = Psi[islands.items]
    return np.asarray(rows.reshape(G * n, -1).T @ (L.reshape(G, n, n) @ rows).reshape(G * n, -1))


def inverse_from(factor: FloatArray) -> FloatArray:
    """The inverse of a matrix from its lower Cholesky factor."""
    inverse, info = lapack.dpotri(factor, lower=1)
    if info:
        raise np.linalg.LinAlgError("The precision of an item component is not positive definite.")
    np.copyto(inverse, inverse.T, where=strictly_upper(len(inverse)))
    return np.asarray(inverse)


@lru_cache(maxsize=4)
def strictly_upper(M: int) -> BoolArray:
    """The places above the diagonal of an M x M matrix."""
    return ~np.tri(M, dtype=bool)


def item_step(
    space: ItemSpace,
    ledger: Ledger,
    items: Items,
    s: FloatArray,
    statistics: PairStatistics,
    rho: float = 1.0,
    sweeps: int = SWEEPS,
    held: FloatArray | None = None,
) -> None:
    """t and all v_c given the users, in place: coordinate ascent, or a natural-gradient step of size rho.

    `held` (M, C + 1) is a part of the gradient that is not followed.
    eq:Sv, eq:hatv, eq:St, eq:hatt and eq:S_stochastic, eq:fhat_stochastic, with Q^-1 G^2 = lam.
    Departure: the printed (1 - rho) S_t lacks its inverse and v-hat has an S too many.
    See test_one_batch_with_rho_one_is_the_batch_posterior.
    """
    identity = np.eye(space.M)
    diagonal = statistics.diagonal
    factors = []
    for c in items.components:
        target = evidence(space, ledger, diagonal[c]) + s[c] * identity
        if items.precision is not None:
            target = items.precision[c] = (1.0 - rho) * items.precision[c] + rho * target
        factors.append(linalg.cholesky(target, lower=True, check_finite=False))
    sweep_means(space, ledger, items, statistics, factors, rho, sweeps, held)
    for c, factor in zip(items.components, factors, strict=True):
        items.cov[c] = inverse_from(factor)


def sweep_means(
    space: ItemSpace,
    ledger: Ledger,
    items: Items,
    statistics: PairStatistics,
    factors: list[FloatArray],
    rho: float,
    sweeps: int,
    held: FloatArray | None,
) -> None:
    """Gauss-Seidel over the means: each component fits what the others leave."""
    a, b = ledger.pair_a, ledger.pair_b
    d = pair_differences(space, ledger, items.mean)
    base = None if items.shift is None else items.shift.copy()
    for _ in range(sweeps):
        for c, factor in zip(items.components, factors, strict=True):
            row = statistics.row(c)
            left = statistics.R[:, c] - np.einsum("qk,qk->q", row, d) + row[:, c] * d[:, c]
            shift = space.transposed(ledger.incidence @ left)
            if held is not None:
                shift -= held[:, c]
            if base is not None and items.shift is not None:
                shift = items.shift[:, c] = (1.0 - rho) * base[:, c] + rho * shift
            mean, _ = lapack.dpotrs(factor, shift, lower=1)
            items.mean[:, c] = mean
            D_c = space.times(mean)
            d[:, c] = D_c[a] - D_c[b]


def mean_gradient(
    space: ItemSpace, ledger: Ledger, items: Items, s: FloatArray, statistics: PairStatistics
) -> FloatArray:
    """(M, C + 1): the slope of the bound in the means of t and the v_c, users and sites held; zero at an item step."""
    d = pair_differences(space, ledger, items.mean)
    out = np.zeros_like(items.mean)
    for c in items.components:
        left = statistics.R[:, c] - np.einsum("qk,qk->q", statistics.row(c), d)
        out[:, c] = space.transposed(ledger.incidence @ left) - s[c] * items.mean[:, c]
    return out
