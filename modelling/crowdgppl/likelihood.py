"""One Gaussian site exp(tau z - lam z^2 / 2) in place of each label's probit likelihood."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from .arrays import BoolArray, FloatArray, IntArray

IMPROPER = 1e-3  # a cavity with a smaller share of the marginal precision keeps its old site
SMALLEST_VARIANCE = 1e-9  # identical texts: z = 0 +- 0
DEPTH = 40.0  # tie integrals cover where the log density is within this of its top
NEAR = 1e-2  # how well top and edges are found: in standard deviations, and in the log density
POINTS, POINT_WEIGHTS = np.polynomial.legendre.leggauss(40)
HERMITE, HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
HERMITE_WEIGHTS = HERMITE_WEIGHTS / np.sqrt(2.0 * np.pi)
PART, PART_WEIGHTS = np.polynomial.legendre.leggauss(24)
NARROW = 1.0  # up to this variance the Gauss-Hermite rule is exact to 1e-8
CHUNK_ROWS = 4096
TILTED_ROWS = 400
BEND = 6.0  # log Phi is smooth beyond +-6 and bends between


def hazard(x: FloatArray) -> FloatArray:
    """phi(x) / Phi(x), without overflow at either end."""
    return np.asarray(np.sqrt(2.0 / np.pi) / erfcx(-np.clip(x, -1e8, 25.0) / np.sqrt(2.0)))


def plain_answers(y: FloatArray, weight: FloatArray) -> BoolArray:
    """Labels with one winner and weight one: their EP moments have a closed form."""
    return np.asarray(((y == 0.0) | (y == 1.0)) & (weight == 1.0))


def cavities(
    m: FloatArray, v: FloatArray, lam: FloatArray, tau: FloatArray
) -> tuple[BoolArray, FloatArray, FloatArray]:
    """Which labels have a proper cavity, and mean and variance of z there: the posterior without the label."""
    v = np.maximum(v, SMALLEST_VARIANCE)
    precision = 1.0 / v - lam
    proper = np.asarray(precision >= IMPROPER / v)
    v_c = 1.0 / np.where(proper, precision, 1.0)
    return proper, np.asarray(v_c * (m / v - tau)), np.asarray(v_c)


def ep_sites(
    m: FloatArray, v: FloatArray, lam: FloatArray, tau: FloatArray, y: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """New sites by expectation propagation, and the share of labels whose cavity was improper."""
    proper, m_c, v_c = cavities(m, v, lam, tau)
    new_lam, new_tau = lam.copy(), tau.copy()
    for chosen, rule in (
        (proper & plain_answers(y, weight), probit_site),
        (proper & ~plain_answers(y, weight) & (weight > 0), power_site),
    ):
        if chosen.any():
            new_lam[chosen], new_tau[chosen] = rule(m_c[chosen], v_c[chosen], y[chosen], weight[chosen])
    real = weight > 0
    improper = float((~proper & real).sum() / max(real.sum(), 1))
    return new_lam, new_tau, improper


def probit_site(m: FloatArray, v: FloatArray, y: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The site that matches the moments of N(z; m, v) Phi(z) or Phi(-z), in closed form."""
    sign = 2.0 * y - 1.0
    spread = np.sqrt(1.0 + v)
    x = sign * m / spread
    r = hazard(x)
    g = sign * r / spread
    k = np.clip(r * (r + x), 0.0, 1.0)
    lam = k / (1.0 + v * (1.0 - k))
    return lam, g + lam * (m + v * g)


def power_site(m: FloatArray, v: FloatArray, y: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The site that matches the moments of N(z; m, v) Phi(z)^(wy) Phi(-z)^(w(1-y)), by quadrature."""
    mean, variance = tilted_moments(m, v, weight * y, weight * (1.0 - y))
    lam = np.maximum(1.0 / variance - 1.0 / v, 0.0)
    return lam, mean / variance - m / v


def tilted_moments(m: FloatArray, v: FloatArray, up: FloatArray, down: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of N(z; m, v) Phi(z)^up Phi(-z)^down, normalised."""
    mean, variance = np.empty_like(m), np.empty_like(m)
    for start in range(0, len(m), TILTED_ROWS):
        rows = slice(start, start + TILTED_ROWS)
        mean[rows], variance[rows] = moments_of_some(m[rows], v[rows], up[rows], down[rows])
    return mean, variance


def moments_of_some(m: FloatArray, v: FloatArray, up: FloatArray, down: FloatArray) -> tuple[FloatArray, FloatArray]:
    """`tilted_moments` of so many labels that their points stay in cache."""
    top = tilted_mode(m, v, up, down)
    height = tilted_log(top, m, v, up, down)
    low, high = (edge(side, top, height, m, v, up, down) for side in (-1.0, 1.0))
    cut = np.where((low < 0.0) & (high > 0.0), 0.0, 0.5 * (low + high))
    z, widths = panels(low, cut, high)
    columns = (each[:, None] for each in (m, v, up, down))
    density = widths * np.exp(tilted_log(z, *columns) - height[:, None])
    mass = density.sum(axis=1)
    mean = (density * z).sum(axis=1) / mass
    variance = (density * (z - mean[:, None]) ** 2).sum(axis=1) / mass
    return mean, variance


def panels(low: FloatArray, cut: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre points and weights on both sides of the cut: log Phi bends at 0, and points gather there."""
    halves = [0.5 * (right - left)[:, None] for left, right in ((low, cut), (cut, high))]
    middles = [0.5 * (right + left)[:, None] for left, right in ((low, cut), (cut, high))]
    z = [middle + half * POINTS for middle, half in zip(middles, halves, strict=True)]
    return np.hstack(z), np.hstack([half * POINT_WEIGHTS for half in halves])


def tilted_log(z: FloatArray, m: FloatArray, v: FloatArray, up: FloatArray, down: FloatArray) -> FloatArray:
    """The log density of `tilted_moments`, not normalised."""
    tail = log_ndtr(-np.abs(z))
    rest = np.log1p(-np.exp(tail))
    upper = z > 0
    logs = np.where(upper, up, down) * rest + np.where(upper, down, up) * tail
    return np.asarray(logs - 0.5 * (z - m) ** 2 / v)


def tilted_slopes(
    z: FloatArray, m: FloatArray, v: FloatArray, up: FloatArray, down: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """First derivative of the log density, and minus the second (which is positive)."""
    r_up, r_down = hazard(z), hazard(-z)
    slope = -(z - m) / v + up * r_up - down * r_down
    curvature = 1.0 / v + up * r_up * (r_up + z) + down * r_down * (r_down - z)
    return slope, np.asarray(np.maximum(curvature, 1.0 / v))


def tilted_mode(m: FloatArray, v: FloatArray, up: FloatArray, down: FloatArray) -> FloatArray:
    """Near the top of the density: Newton steps kept inside a shrinking bracket."""
    reach = np.sqrt(v) + v * (up + down)
    low, high = np.minimum(m, 0.0) - reach, np.maximum(m, 0.0) + reach
    z = np.clip(m / (1.0 + v), low, high)
    for _ in range(12):
        slope, curvature = tilted_slopes(z, m, v, up, down)
        low, high = np.where(slope > 0, z, low), np.where(slope > 0, high, z)
        step = z + slope / curvature
        before, z = z, np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        if np.all(np.abs(z - before) * np.sqrt(curvature) < NEAR):
            break
    return z


def edge(
    side: float, top: FloatArray, height: FloatArray, m: FloatArray, v: FloatArray, up: FloatArray, down: FloatArray
) -> FloatArray:
    """Where the log density has fallen by DEPTH: Newton on a concave function, always from outside."""
    z = top + side * np.sqrt(2.0 * v * DEPTH)
    for _ in range(8):
        drop = tilted_log(z, m, v, up, down) - height + DEPTH
        outside = drop < -NEAR
        if not outside.any():
            break
        slope, _ = tilted_slopes(z, m, v, up, down)
        z = np.where(outside, z - drop / np.where(outside, slope, 1.0), z)
    return z


def gaussian_rule(m: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Points and weights for expectations under N(m, v) of functions that bend like log Phi: wide case."""
    sd = np.sqrt(v)
    low, high = m - 8.5 * sd, m + 8.5 * sd
    cuts = (low, np.clip(-BEND, low, high), np.clip(0.0, low, high), np.clip(BEND, low, high), high)
    z, weights = [], []
    for left, right in pairwise(cuts):
        half = 0.5 * (right - left)[:, None]
        points = 0.5 * (right + left)[:, None] + half * PART
        density = np.exp(-0.5 * ((points - m[:, None]) / sd[:, None]) ** 2) / (np.sqrt(2.0 * np.pi) * sd[:, None])
        z.append(points)
        weights.append(half * PART_WEIGHTS * density)
    return np.hstack(z), np.hstack(weights)


def quadrature(m: FloatArray, v: FloatArray) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """Rows, points and weights for expectations under N(m, v), some rows at a time."""
    v = np.maximum(v, SMALLEST_VARIANCE)
    for wide in (False, True):
        rows = np.flatnonzero((v > NARROW) == wide)
        for start in range(0, len(rows), CHUNK_ROWS):
            each = rows[start : start + CHUNK_ROWS]
            if wide:
                yield each, *gaussian_rule(m[each], v[each])
            else:
                z = m[each][:, None] + np.sqrt(v[each])[:, None] * HERMITE
                yield each, z, np.broadcast_to(HERMITE_WEIGHTS, z.shape)


def expected_log(m: FloatArray, v: FloatArray, y: FloatArray) -> FloatArray:
    """E[log p(y | z)] under N(m, v); a tie is the average of both answers."""
    value = np.zeros(len(m))
    for rows, z, weights in quadrature(m, v):
        share = y[rows][:, None]
        sign = np.where(share >= 0.5, 1.0, -1.0)
        part = np.maximum(share, 1.0 - share) * log_ndtr(sign * z)
        split = np.flatnonzero((share > 0) & (share < 1))
        part[split] += np.minimum(share, 1.0 - share)[split] * log_ndtr(-(sign * z)[split])
        value[rows] = (weights * part).sum(axis=1)
    return value


def expected_slopes(m: FloatArray, v: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """E[d log p / dz] and -E[d^2 log p / dz^2] under N(m, v)."""
    slope, curvature = np.zeros(len(m)), np.zeros(len(m))
    for rows, z, weights in quadrature(m, v):
        for share, sign in ((y[rows], 1.0), (1.0 - y[rows], -1.0)):
            if not share.any():
                continue
            x = sign * z
            r = hazard(x)
            slope[rows] += share * sign * (weights * r).sum(axis=1)
            curvature[rows] += share * (weights * np.clip(r * (r + x), 0.0, 1.0)).sum(axis=1)
    return slope, curvature


def vb_sites(m: FloatArray, v: FloatArray, y: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The sites at which the bound is stationary: expectations under q, not under a cavity."""
    slope, curvature = expected_slopes(m, v, y)
    lam = weight * curvature
    return lam, weight * slope + lam * m


def linear_sites(
    m: FloatArray, y: FloatArray, weight: FloatArray, prior_variance: float
) -> tuple[FloatArray, FloatArray]:
    """The paper's linearisation (eq:likelihood_approx) with its Beta-Bernoulli noise Q.

    Departure: the derivative of Phi is the normal density and does not depend on y.
    See test_preferring_b_lowers_a.
    """
    Phi = ndtr(m)
    G = np.exp(-0.5 * m * m) / np.sqrt(2.0 * np.pi)
    Q = beta_bernoulli(y, prior_variance)
    lam = weight * G * G / Q
    return lam, weight * G * (y - Phi) / Q + lam * m


def beta_bernoulli(y: FloatArray, prior_variance: float) -> FloatArray:
    """Q = p (1 - p) with p the mean of a Beta that has the prior's moments and has seen y once."""
    z = np.sqrt(prior_variance) * HERMITE
    spread = float((HERMITE_WEIGHTS * (ndtr(z) - 0.5) ** 2).sum())
    total = max(0.25 / max(spread, 1e-9) - 1.0, 1e-3)
    p = (y + 0.5 * total) / (1.0 + total)
    return np.asarray(p * (1.0 - p))
