"""Preference learning from crowds with Gaussian processes: numpy and scipy only."""

from .kernels import Linear, Matern32, SquaredExponential, WeightedSum
from .labels import ArrayStore, LabelStore, NoLabels, PairwiseLabels, UserBatch
from .model import CrowdGPPL
from .shards import Executor, LocalExecutor

__all__ = [
    "ArrayStore",
    "CrowdGPPL",
    "Executor",
    "LabelStore",
    "Linear",
    "LocalExecutor",
    "Matern32",
    "NoLabels",
    "PairwiseLabels",
    "SquaredExponential",
    "UserBatch",
    "WeightedSum",
]
