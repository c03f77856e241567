"""The information that one judgement gives about a latent difference, in bits. Arrays in, arrays out."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, ndtr

Floats = NDArray[np.float64]

# The entropy of a probit answer as a function of the latent difference is close to a Gaussian of this variance.
ENTROPY_VARIANCE = np.pi * np.log(2.0) / 2.0
LEAST_PROBABILITY = 1e-300
POINTS, POINT_WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
POINT_WEIGHTS = POINT_WEIGHTS / POINT_WEIGHTS.sum()


def with_lapses(p: Floats, lapse: float) -> Floats:
    """The probability of an answer if a share of answers is given at random."""
    return np.asarray(0.5 * lapse + (1.0 - lapse) * p)


def entropy(p: Floats) -> Floats:
    """The entropy, in bits, of an answer with probability p."""
    return np.asarray((entr(p) + entr(1.0 - p)) / np.log(2.0))


def expected_information(mean: Floats, variance: Floats, lapse: float = 0.0) -> Floats:
    """The expected information, in bits, of an answer about a latent difference distributed as N(mean, variance).

    It is the answer's entropy minus its expected entropy given the difference (BALD). That is close to a Gaussian
    above the entropy of an answer to a clear difference, with the same value and curvature at 0.
    """
    total = entropy(with_lapses(ndtr(mean / np.sqrt(1.0 + variance)), lapse))
    least = entropy(np.asarray(0.5 * lapse))
    width = ENTROPY_VARIANCE * (1.0 - least) / (1.0 - lapse) ** 2
    spread = width + variance
    noise = least + (1.0 - least) * np.sqrt(width / spread) * np.exp(-(mean**2) / (2.0 * spread))
    return np.asarray(np.maximum(total - noise, 0.0))


def observed_information(mean: Floats, variance: Floats, y: Floats, lapse: float = 0.0) -> Floats:
    """The information, in bits, that answers y (1, 0 or .5 for a tie) gave about differences ~ N(mean, variance).

    The Kullback-Leibler divergence from the prior to the posterior of each difference given its answer alone, by
    Gauss-Hermite quadrature; its mean over the predicted answers is the expected information. A tie counts as half
    an answer for each item.
    """
    d = mean[:, None] + np.sqrt(variance)[:, None] * POINTS
    loglik = y[:, None] * np.log(np.maximum(with_lapses(ndtr(d), lapse), LEAST_PROBABILITY))
    loglik += (1.0 - y[:, None]) * np.log(np.maximum(with_lapses(ndtr(-d), lapse), LEAST_PROBABILITY))
    joint = np.exp(loglik) * POINT_WEIGHTS
    evidence = joint.sum(axis=1)
    divergence = (joint * loglik).sum(axis=1) / evidence - np.log(evidence)
    return np.asarray(np.maximum(divergence, 0.0) / np.log(2.0))
