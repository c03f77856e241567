"""Preference learning from crowds with Gaussian processes: numpy and scipy only."""

from .kernels import Linear, Matern32, SquaredExponential, WeightedSum
from .labels import PairwiseLabels
from .model import CrowdGPPL

__all__ = ["CrowdGPPL", "Linear", "Matern32", "PairwiseLabels", "SquaredExponential", "WeightedSum"]
