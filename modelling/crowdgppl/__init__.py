"""Preference learning from crowds with Gaussian processes: numpy and scipy only."""

from .kernels import Linear, Matern32, SquaredExponential, WeightedSum
from .labels import PairwiseLabels
from .model import CrowdGPPL
from .sources import LabelSource, ParquetLabels, SortedLabels, write_labels

__all__ = [
    "CrowdGPPL",
    "LabelSource",
    "Linear",
    "Matern32",
    "PairwiseLabels",
    "ParquetLabels",
    "SortedLabels",
    "SquaredExponential",
    "WeightedSum",
    "write_labels",
]
