"""Inverse scales s with Gamma posteriors, and the move that trades scale between items and users."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma

from .arrays import BoolArray, FloatArray


@dataclass
class Scales:
    """q(s_c) = Gamma(shape, rate) for each component, or a fixed value where `learned` is false.

    Departure: beta is a rate, E[s] = shape / rate, whatever the text says of a scale.
    See test_the_scale_update_is_the_stationary_point_of_the_bound.
    """

    prior_shape: FloatArray
    prior_rate: FloatArray
    learned: BoolArray
    shape: FloatArray
    rate: FloatArray

    @classmethod
    def prior(cls, shape: FloatArray, rate: FloatArray, learned: BoolArray) -> Scales:
        """Scales at their prior; a fixed one is its value shape / rate."""
        return cls(shape, rate, learned, shape.copy(), rate.copy())

    @property
    def mean(self) -> FloatArray:
        """E[s]."""
        return self.shape / self.rate

    @property
    def prior_mean(self) -> FloatArray:
        """E[s] before any label."""
        return self.prior_shape / self.prior_rate

    @property
    def mean_log(self) -> FloatArray:
        """E[ln s]."""
        value = np.log(self.mean)
        if self.learned.any():
            value = np.where(self.learned, digamma(self.shape) - np.log(self.rate), value)
        return np.asarray(value)

    def update(self, dimension: float, energy: FloatArray, rho: float = 1.0) -> None:
        """eq:qs: shape = alpha_0 + M / 2, rate = beta_0 + E[|x|^2] / 2, moved by rho."""
        shape = self.prior_shape + 0.5 * dimension
        rate = self.prior_rate + 0.5 * energy
        self.shape = np.where(self.learned, (1.0 - rho) * self.shape + rho * shape, self.shape)
        self.rate = np.where(self.learned, (1.0 - rho) * self.rate + rho * rate, self.rate)

    def fix(self, components: slice, value: float) -> None:
        """These components have this scale and keep it."""
        for values in (self.prior_shape, self.shape):
            values[components] = value
        for values in (self.prior_rate, self.rate):
            values[components] = 1.0
        self.learned[components] = False

    def copy(self, components: slice = slice(None)) -> Scales:
        """The scales of these components, independent of the originals."""
        prior_shape, prior_rate = self.prior_shape[components].copy(), self.prior_rate[components].copy()
        shape, rate = self.shape[components].copy(), self.rate[components].copy()
        return Scales(prior_shape, prior_rate, self.learned[components].copy(), shape, rate)


def best_exchange(scale_v: Scales, scale_w: Scales, Ev: FloatArray, Ew: FloatArray, M: int, U: int) -> FloatArray:
    """k_c: v_c -> k v_c, w_c -> w_c / k raises the bound most; the likelihood does not see it.

    The scales of t stand in column 0 of `scale_v` and are left out; Ev and Ew are (C,) second moments.
    """
    learned = scale_v.learned[1:] & scale_w.learned
    a_v, b_v = scale_v.prior_shape[1:], scale_v.prior_rate[1:]
    a_w, b_w = scale_w.prior_shape, scale_w.prior_rate
    half_v, half_w = 0.5 * Ev, 0.5 * Ew
    A = np.where(learned, (2.0 * a_v + U) * half_v * b_w, scale_v.mean[1:] * Ev)
    B = np.where(learned, 2.0 * (a_w - a_v) * half_v * half_w + (M - U) * b_v * b_w, float(M - U))
    C = np.where(learned, (2.0 * a_w + M) * half_w * b_v, scale_w.mean * Ew)
    A, C = np.maximum(A, 1e-300), np.maximum(C, 0.0)
    root = np.sqrt(B * B + 4.0 * A * C)
    square = np.where(B >= 0, (B + root) / (2.0 * A), 2.0 * C / np.maximum(root - B, 1e-300))
    return np.asarray(np.sqrt(np.clip(square, 1e-4, 1e4)))
