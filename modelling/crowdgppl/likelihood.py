"""Moments of one label under a Gaussian, and the site that matches them (expectation propagation).

Answers follow the threshold model of Glenn and David (1960): with the noisy difference z + e, e ~ N(0, 1), item a is
preferred above a margin, b below minus the margin, and in between the two are tied:

    P(y = 1) = Phi(z - margin)    P(y = 0) = Phi(-z - margin)    P(y = 1/2) = Phi(z + margin) - Phi(z - margin)

Without ties the margin is 0. Anyone may slip: with probability `lapse` an answer is given at random, a tie with the
share `tie_share` of ties among all answers, else a or b. The log likelihood of any other fractional y is
y log P(1) + (1 - y) log P(0) with margin 0. A weight is an exponent of the likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from .arrays import FloatArray

MIN_VARIANCE = 1e-9  # for identical items, where the variance of z is 0
MIN_CAVITY = 1e-3  # smallest precision of a cavity, as a share of the marginal precision
DEPTH = 30.0  # quadrature covers the range where the log density is within this of its maximum
SEARCH_STEPS = 50
POINTS, POINT_WEIGHTS = np.polynomial.legendre.leggauss(48)
CHUNK_ROWS = 2048
LOG_ROOT_2_PI = 0.5 * np.log(2.0 * np.pi)

Moments = tuple[FloatArray, FloatArray, FloatArray]
LogDensity = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Response:
    """How a difference of utilities becomes an answer."""

    margin: float = 0.0  # noisy differences of smaller size are ties
    lapse: float = 0.0  # share of answers given at random
    tie_share: float = 0.0  # share of ties among them

    def log_decided(self, x: FloatArray) -> FloatArray:
        """log P of an answer a or b that is Phi(x) without lapses."""
        return self._with_lapses(log_ndtr(x), 0.5 * (1.0 - self.tie_share))

    def log_tie(self, log_p: FloatArray) -> FloatArray:
        """log P of a tie that is exp(log_p) without lapses."""
        return self._with_lapses(log_p, self.tie_share)

    def _with_lapses(self, log_p: FloatArray, at_random: float) -> FloatArray:
        if not self.lapse or not at_random:
            return np.asarray(np.log1p(-self.lapse) + log_p)
        return np.asarray(np.logaddexp(np.log(self.lapse * at_random), np.log1p(-self.lapse) + log_p))

    def slope(self, x: FloatArray) -> FloatArray:
        """Derivative of `log_decided`."""
        if not self.lapse:
            return hazard(x)
        return np.asarray(np.exp(np.log1p(-self.lapse) - LOG_ROOT_2_PI - 0.5 * x**2 - self.log_decided(x)))

    def probability(self, mean: FloatArray, spread: FloatArray, n_answers: int = 1) -> FloatArray:
        """P(a) + P(tie) / 2 where the noisy difference is N(mean, spread^2); the mean of n answers lapses less."""
        high, low = ndtr((mean + self.margin) / spread), ndtr((mean - self.margin) / spread)
        lapse = self.lapse / n_answers
        return np.asarray(0.5 * (lapse + (1.0 - lapse) * (high + low)))


PROBIT = Response()


def hazard(x: FloatArray) -> FloatArray:
    """phi(x) / Phi(x), without overflow at either end."""
    return np.asarray(np.sqrt(2.0 / np.pi) / erfcx(-np.clip(x, -1e8, 25.0) / np.sqrt(2.0)))


def tilted_moments(
    m: FloatArray, v: FloatArray, y: FloatArray, weight: FloatArray, response: Response = PROBIT
) -> Moments:
    """Log normaliser, mean and variance of N(z; m, v) P(y | z)^weight."""
    decided = ((y == 0.0) | (y == 1.0)) & (weight == 1.0)
    if decided.all():
        return _decided_moments(m, v, y, response)
    log_z, mean, variance = np.zeros_like(m), m.copy(), v.copy()
    tied = (y == 0.5) & (weight == 1.0) & (response.margin > 0)
    for rows, moments in ((decided, _decided_moments), (tied, _tie_moments)):
        if rows.any():
            log_z[rows], mean[rows], variance[rows] = moments(m[rows], v[rows], y[rows], response)
    others = np.flatnonzero(~decided & ~tied & (weight > 0))
    for start in range(0, len(others), CHUNK_ROWS):
        rows = others[start : start + CHUNK_ROWS]
        log_z[rows], mean[rows], variance[rows] = _quadrature_moments(m[rows], v[rows], y[rows], weight[rows], response)
    return log_z, mean, variance


def _decided_moments(m: FloatArray, v: FloatArray, y: FloatArray, response: Response) -> Moments:
    sign = 2.0 * y - 1.0
    spread = np.sqrt(1.0 + v)
    x = (sign * m - response.margin) / spread
    r = response.slope(x)
    k = np.minimum(r * (r + x), 1.0)  # negative where the answer is rather a lapse
    return response.log_decided(x), m + v * sign * r / spread, v * (1.0 + v * (1.0 - k)) / (1.0 + v)


def _tie_moments(m: FloatArray, v: FloatArray, y: FloatArray, response: Response) -> Moments:
    log_z, upper, lower, high, low, spread = _tie_parts(m, v, response)
    slope = (lower - upper) / spread  # d log Z / d |m|
    curvature = (lower * low - upper * high) / spread**2 - slope**2
    variance = v + v**2 * np.maximum(curvature, -1.0 / (1.0 + v))
    return log_z, m + v * slope * np.where(m < 0, -1.0, 1.0), np.maximum(variance, MIN_VARIANCE)


def _tie_parts(m: FloatArray, v: FloatArray, response: Response) -> tuple[FloatArray, ...]:
    """log Z of a tie, the densities at both edges divided by Z, the edges, and the spread."""
    spread, size = np.sqrt(1.0 + v), np.abs(m)
    high, low = (response.margin - size) / spread, (-response.margin - size) / spread
    log_z = response.log_tie(log_between(low, high))
    density = np.log1p(-response.lapse) - LOG_ROOT_2_PI
    upper, lower = (np.exp(density - 0.5 * edge**2 - log_z) for edge in (high, low))
    return log_z, upper, lower, high, low, spread


def log_between(low: FloatArray, high: FloatArray) -> FloatArray:
    """log(Phi(high) - Phi(low)), for low + high not above 0."""
    log_high = log_ndtr(high)
    return np.asarray(log_high + np.log(-np.expm1(np.minimum(log_ndtr(low) - log_high, -1e-300))))


def margin_gradient(
    m: FloatArray, v: FloatArray, y: FloatArray, weight: FloatArray, response: Response
) -> tuple[float, float]:
    """Gradient of the sum of log Z in the margin, and the sum of its squares."""
    gradient = np.zeros_like(m)
    decided, tied = (y == 0.0) | (y == 1.0), y == 0.5
    spread = np.sqrt(1.0 + v[decided])
    gradient[decided] = -response.slope(((2.0 * y[decided] - 1.0) * m[decided] - response.margin) / spread) / spread
    _, upper, lower, _, _, spread = _tie_parts(m[tied], v[tied], response)
    gradient[tied] = (upper + lower) / spread
    return float(weight @ gradient), float(weight @ gradient**2)


def expected_lapses(
    m: FloatArray, v: FloatArray, y: FloatArray, weight: FloatArray, response: Response
) -> tuple[float, float]:
    """Expected number of answers given at random, and the number of all answers: one step of EM."""
    certain = np.log1p(-response.lapse)
    without, log_z = np.zeros_like(m), np.zeros_like(m)  # log Z without a lapse and in all
    decided, tied = (y == 0.0) | (y == 1.0), (y == 0.5) & (response.margin > 0)
    spread, size = np.sqrt(1.0 + v), np.abs(m)
    x = ((2.0 * y[decided] - 1.0) * m[decided] - response.margin) / spread[decided]
    without[decided], log_z[decided] = certain + log_ndtr(x), response.log_decided(x)
    log_tie = log_between((-response.margin - size[tied]) / spread[tied], (response.margin - size[tied]) / spread[tied])
    without[tied], log_z[tied] = certain + log_tie, response.log_tie(log_tie)
    known = decided | tied
    return float(weight[known] @ -np.expm1((without - log_z)[known])), float(weight[known].sum())


def _quadrature_moments(m: FloatArray, v: FloatArray, y: FloatArray, weight: FloatArray, response: Response) -> Moments:
    """Moments by Gauss-Legendre quadrature, in two parts split at 0 or, if 0 is out of range, at the mode."""

    def log_density(z: FloatArray) -> FloatArray:
        columns = (each if z.ndim == 1 else each[:, None] for each in (m, v, y, weight))
        m_, v_, y_, weight_ = columns
        return np.asarray(weight_ * log_likelihood(z, y_, response) - 0.5 * (z - m_) ** 2 / v_)

    mode = _find_mode(
        np.minimum(m, -response.margin) - v * weight * 10.0,
        np.maximum(m, response.margin) + v * weight * 10.0,
        log_density,
    )
    top, reach = log_density(mode), np.sqrt(2.0 * v * DEPTH)
    low = _edge(mode, mode - reach, top, log_density)
    high = _edge(mode, mode + reach, top, log_density)
    cut = np.where((low < 0.0) & (high > 0.0), 0.0, mode)  # log Phi has most curvature near 0
    left, right = 0.5 * (cut - low)[:, None], 0.5 * (high - cut)[:, None]
    z = np.hstack((cut[:, None] + left * (POINTS - 1.0), cut[:, None] + right * (POINTS + 1.0)))
    density = np.hstack((left * POINT_WEIGHTS, right * POINT_WEIGHTS)) * np.exp(log_density(z) - top[:, None])
    mass = density.sum(axis=1)
    mean = (density * z).sum(axis=1) / mass
    variance = (density * (z - mean[:, None]) ** 2).sum(axis=1) / mass
    return np.log(mass) + top - LOG_ROOT_2_PI - 0.5 * np.log(v), mean, variance


def log_likelihood(z: FloatArray, y: FloatArray, response: Response) -> FloatArray:
    """log P(y | z)."""
    margin = response.margin
    decided, tied = (y == 0.0) | (y == 1.0), (y == 0.5) & (margin > 0)
    shift = np.where(decided, margin, 0.0)
    value = y * response.log_decided(z - shift) + (1.0 - y) * response.log_decided(-z - shift)
    if np.any(tied):
        size = np.abs(z)
        value = np.where(tied, response.log_tie(log_between(-margin - size, margin - size)), value)
    return np.asarray(value)


def _find_mode(low: FloatArray, high: FloatArray, log_density: LogDensity) -> FloatArray:
    """Find the mode of a log-concave density by golden-section search."""
    ratio = 0.6180339887498949
    for _ in range(SEARCH_STEPS):
        width = ratio * (high - low)
        left, right = high - width, low + width
        up = log_density(left) < log_density(right)
        low, high = np.where(up, left, low), np.where(up, high, right)
    return 0.5 * (low + high)


def _edge(mode: FloatArray, far: FloatArray, top: FloatArray, log_density: LogDensity) -> FloatArray:
    """Find the point between the mode and `far` where the log density is DEPTH below its maximum."""
    near = mode
    for _ in range(12):
        middle = 0.5 * (near + far)
        inside = log_density(middle) > top - DEPTH
        near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    return far


def cavity(m: FloatArray, v: FloatArray, lam: FloatArray, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of z without its own site."""
    v = np.maximum(v, MIN_VARIANCE)
    precision = np.maximum(1.0 / v - lam, MIN_CAVITY / v)
    return (m / v - eta) / precision, 1.0 / precision


def log_site_integral(m: FloatArray, v: FloatArray, lam: FloatArray, eta: FloatArray) -> FloatArray:
    """log of the integral of N(z; m, v) exp(eta z - lam z^2 / 2)."""
    return np.asarray(-0.5 * np.log1p(v * lam) + 0.5 * (2.0 * m * eta + v * eta**2 - lam * m**2) / (1.0 + v * lam))


def matched_site(
    m: FloatArray, v: FloatArray, y: FloatArray, weight: FloatArray, sharpness: FloatArray | float = 1.0,
    response: Response = PROBIT,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """The site (lam, eta) that matches the label's moments under the cavity N(m, v); P(y) depends on sharpness * z."""
    m, v = m * sharpness, v * sharpness**2
    _, mean, variance = tilted_moments(m, v, y, weight, response)
    lam = np.maximum(1.0 / variance - 1.0 / v, 0.0)  # at 0 only the mean matches: an answer that is rather a lapse
    eta = mean * (lam + 1.0 / v) - m / v
    return lam * sharpness**2, eta * sharpness
