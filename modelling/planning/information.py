"""The information that one judgement gives about a latent difference, in bits. Arrays in, arrays out."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, log_ndtr, ndtr

Floats = NDArray[np.float64]

# The entropy of a probit answer as a function of the latent difference is close to a Gaussian of this variance.
ENTROPY_VARIANCE = np.pi * np.log(2.0) / 2.0
POINTS, POINT_WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
POINT_WEIGHTS = POINT_WEIGHTS / POINT_WEIGHTS.sum()


def expected_information(mean: Floats, variance: Floats) -> Floats:
    """The expected information, in bits, of an answer about a latent difference distributed as N(mean, variance).

    It is the answer's entropy minus its expected entropy given the difference (BALD).
    """
    p = ndtr(mean / np.sqrt(1.0 + variance))
    total = (entr(p) + entr(1.0 - p)) / np.log(2.0)
    spread = ENTROPY_VARIANCE + variance
    noise = np.sqrt(ENTROPY_VARIANCE / spread) * np.exp(-(mean**2) / (2.0 * spread))
    return np.asarray(np.maximum(total - noise, 0.0))


def observed_information(mean: Floats, variance: Floats, y: Floats) -> Floats:
    """The information, in bits, that answers y (1, 0 or .5 for a tie) gave about differences ~ N(mean, variance).

    The Kullback-Leibler divergence from the prior to the posterior of each difference given its answer alone, by
    Gauss-Hermite quadrature; its mean over the predicted answers is the expected information. A tie counts as half
    an answer for each item.
    """
    d = mean[:, None] + np.sqrt(variance)[:, None] * POINTS
    loglik = y[:, None] * log_ndtr(d) + (1.0 - y[:, None]) * log_ndtr(-d)
    joint = np.exp(loglik) * POINT_WEIGHTS
    evidence = joint.sum(axis=1)
    divergence = (joint * loglik).sum(axis=1) / evidence - np.log(evidence)
    return np.asarray(np.maximum(divergence, 0.0) / np.log(2.0))
