"""How much one more judgement of a pair would teach. Arrays in, arrays out."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, ndtr

Floats = NDArray[np.float64]

# The entropy of a probit answer, as a function of its latent difference, is close to a bell of this variance.
BELL = np.pi * np.log(2.0) / 2.0


def expected_information(mean: Floats, variance: Floats) -> Floats:
    """Bits that an answer is expected to tell about a difference known as N(mean, variance).

    What the answer leaves open in all, less what would stay open if the difference were known exactly.
    """
    p = ndtr(mean / np.sqrt(1.0 + variance))
    in_all = (entr(p) + entr(1.0 - p)) / np.log(2.0)
    noise = np.sqrt(BELL / (BELL + variance)) * np.exp(-(mean**2) / (2.0 * (BELL + variance)))
    return np.asarray(np.maximum(in_all - noise, 0.0))
