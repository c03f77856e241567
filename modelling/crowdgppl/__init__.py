"""Preference learning from crowds with Gaussian processes: numpy and scipy only."""

from .kernels import Linear, Matern32, SquaredExponential, WeightedSum
from .labels import PairwiseLabels

__all__ = ["Linear", "Matern32", "PairwiseLabels", "SquaredExponential", "WeightedSum"]
