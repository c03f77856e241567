"""The prior covariance of items: K = share * K_features + (1 - share) * I, unit mean diagonal.

The identity is each item's own part: with enough votes an item's score follows the votes whatever its features say.
Without features K is the identity and is stored as its diagonal.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from .arrays import FloatArray, IntArray
from .kernels import Kernel

MAX_SHARE = 0.98  # below 1, so that K is well conditioned and enough votes outweigh the features
MIN_SHARE = 0.02
FIRST_SHARE = 0.5
BLOCK = 64
SAME_FEATURES = 1e-9  # relative difference of kernel values below which all items have the same features


class ItemPrior:
    """K of all items, its inverse, and products with its Cholesky factor L."""

    def __init__(
        self, n_items: int, kernel: Kernel | None = None, X: FloatArray | None = None, share: float = FIRST_SHARE,
        size: float | None = None, K_features: FloatArray | None = None,
    ) -> None:  # fmt: skip
        """`kernel` must be fitted; `size` is the mean diagonal of its matrix over the items of the fit."""
        self.n_items, self.kernel, self.X, self.share = n_items, kernel, X, share
        self.K_features: FloatArray | None = None
        if kernel is None or X is None:
            self.kernel = self.X = None
            return
        K = kernel(X) if K_features is None else K_features
        self.size = (float(np.diagonal(K).mean()) or 1.0) if size is None else size
        if np.ptp(K) > SAME_FEATURES * np.abs(K).max(initial=0.0):  # features differ
            self.K_features = K / self.size if K_features is None else K

    def __getstate__(self) -> dict[str, Any]:
        """Leave out matrices that can be computed again, so that they are not sent to other processes."""
        return {name: value for name, value in vars(self).items() if name not in ("K", "K_inverse", "_factor")}

    def with_share(self, share: float) -> ItemPrior:
        """Return a copy with another share."""
        if self.kernel is None or share == self.share:
            return self
        return ItemPrior(self.n_items, self.kernel, self.X, share, self.size, self.K_features)

    def extended(self, X_new: FloatArray | None, n_new: int) -> ItemPrior:
        """Return a copy with new items appended."""
        if self.kernel is None or self.X is None:
            return ItemPrior(self.n_items + n_new)
        if X_new is None:
            raise ValueError("New items need features: the model was fitted with X_items.")
        if X_new.shape[1] != self.X.shape[1]:
            raise ValueError(f"X_items has {X_new.shape[1]} columns; the model was fitted with {self.X.shape[1]}.")
        X = np.vstack((self.X, X_new))
        return ItemPrior(self.n_items + n_new, self.kernel, X, self.share, self.size)

    @cached_property
    def K(self) -> FloatArray:
        """K as a matrix (N, N), or its diagonal (N,) where it is the identity."""
        if self.K_features is None:
            return np.ones(self.n_items)
        K = self.share * self.K_features
        K[np.diag_indices_from(K)] += 1.0 - self.share
        return 0.5 * (K + K.T)

    @cached_property
    def _factor(self) -> FloatArray:
        return np.asarray(linalg.cholesky(self.K, lower=True))

    @cached_property
    def K_inverse(self) -> FloatArray:
        """The inverse of K in the same form."""
        return np.ones(self.n_items) if self.K.ndim == 1 else inverse_of(self.K)[0]

    @property
    def log_det(self) -> float:
        return 0.0 if self.K.ndim == 1 else 2.0 * float(np.log(np.diagonal(self._factor)).sum())

    def variance(self, a: IntArray, b: IntArray) -> FloatArray:
        """x' K x of pairs x = e_a - e_b."""
        K = self.K
        return np.asarray(K[a] + K[b] if K.ndim == 1 else K[a, a] + K[b, b] - 2.0 * K[a, b])

    def whiten(self, M: FloatArray) -> FloatArray:
        """L' M L, with K = L L'."""
        return M if self.K.ndim == 1 else self._factor.T @ M @ self._factor

    def unwhiten(self, vectors: FloatArray) -> FloatArray:
        """L times the vectors: orthonormal relative to K."""
        return vectors if self.K.ndim == 1 else self._factor @ vectors

    def whitened(self, vectors: FloatArray) -> FloatArray:
        """L^-1 times the vectors: the inverse of `unwhiten`."""
        if self.K.ndim == 1:
            return vectors
        return np.asarray(linalg.solve_triangular(self._factor, vectors, lower=True))


def times(K: FloatArray, B: FloatArray) -> FloatArray:
    """K B, for K a matrix or the diagonal of one."""
    if K.ndim == 2:
        return K @ B
    return np.asarray(K * B if B.ndim == 1 else K[:, None] * B)


def add_scaled(out: FloatArray, K: FloatArray, scale: float) -> FloatArray:
    """Add scale * K to a matrix in place."""
    if K.ndim == 2:
        out += scale * K
    else:
        out[np.diag_indices_from(out)] += scale * K
    return out


def inverse_of(precision: FloatArray) -> tuple[FloatArray, float]:
    """Inverse and log determinant of a positive definite matrix, by Cholesky."""
    factor, info = linalg.lapack.dpotrf(precision, lower=1)
    if info:
        raise linalg.LinAlgError("A precision matrix is not positive definite.")
    log_det = 2.0 * float(np.log(np.diagonal(factor)).sum())
    inverse, _ = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    for start in range(0, len(inverse), BLOCK):  # copy the lower triangle to the upper
        stop = start + BLOCK
        inverse[start:stop, stop:] = inverse[stop:, start:stop].T
        square = inverse[start:stop, start:stop]
        upper = np.triu_indices(len(square), 1)
        square[upper] = square.T[upper]
    return inverse.T, log_det  # row-major; the inverse is symmetric
