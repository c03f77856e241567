"""The expected information gain of one more judgement. Arrays in, arrays out."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, ndtr

Floats = NDArray[np.float64]

# The entropy of a probit answer as a function of the latent difference is close to a Gaussian of this variance.
ENTROPY_VARIANCE = np.pi * np.log(2.0) / 2.0


def expected_information(mean: Floats, variance: Floats) -> Floats:
    """Expected bits of an answer about a latent difference with the distribution N(mean, variance).

    The entropy of the answer, less its expected entropy given the difference (BALD).
    """
    p = ndtr(mean / np.sqrt(1.0 + variance))
    total = (entr(p) + entr(1.0 - p)) / np.log(2.0)
    spread = ENTROPY_VARIANCE + variance
    noise = np.sqrt(ENTROPY_VARIANCE / spread) * np.exp(-(mean**2) / (2.0 * spread))
    return np.asarray(np.maximum(total - noise, 0.0))
