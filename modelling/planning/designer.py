"""Predict a planned study's results: simulated crowds judge it, and accuracy is measured as judgements come in.

The researcher says how often answers agree. If the difference of two items has variance T of its own and an answer adds
noise of variance 1, two answers to a random pair agree with probability 1/2 + arcsin(rho) / pi, where rho is the share
of the variance that the answers have in common: T / (T + 1) for a worker who answers twice, and the consensus's share,
2 spread^2 / (T + 1), for two workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import asin, pi, sin, sqrt
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from modelling.planning.posterior import Floats
from modelling.planning.simulator import RANDOM, SimulatedStudy, StudyDesign, simulate
from modelling.training.ranking import rank_items

MIN_ITEMS, MAX_ITEMS = 3, 200
MAX_WORKERS, MAX_JUDGEMENTS = 500, 5000
MIN_CROWDS, MAX_CROWDS = 3, 20
POINTS = 20  # on a curve
BAND = (0.1, 0.9)  # quantiles over the crowds
TARGETS = (0.7, 0.8, 0.9)  # values of Kendall's tau for which the needed judgements are stated
MEASURES = ("tau", "recall", "width")
POLICIES = (RANDOM, "order", "top")


@dataclass(frozen=True)
class StudyPlan:
    """A planned study and what its crowd is assumed to be like; agreements are probabilities."""

    n_items: int
    n_workers: int
    judgements_each: int
    redundancy: int
    policy: str
    top_k: int
    random_share: float
    self_agreement: float
    agreement: float
    crowds: int

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> StudyPlan:
        return cls(**stored)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def n_judgements(self) -> int:
        return self.n_workers * self.judgements_each

    @property
    def design(self) -> StudyDesign:
        spread, disagreement = spreads(self.self_agreement, self.agreement)
        return StudyDesign(
            n_items=self.n_items,
            n_workers=self.n_workers,
            judgements_each=self.judgements_each,
            spread=spread,
            disagreement=disagreement,
            policy=self.policy,
            top_k=self.top_k,
            random_share=self.random_share,
            redundancy=self.redundancy,
        )

    def grid(self) -> list[int]:
        """The numbers of judgements at which the curves are read."""
        first = min(max(self.n_items // 2, 2), self.n_judgements)
        return np.unique(np.linspace(first, self.n_judgements, POINTS).round().astype(int)).tolist()


def spreads(self_agreement: float, agreement: float) -> tuple[float, float]:
    """Standard deviations of consensus and tastes, in units of an answer's noise, from the two agreements."""
    own, shared = sin(pi * (self_agreement - 0.5)), sin(pi * (agreement - 0.5))
    total = own / (1.0 - own)
    consensus = min(shared * (total + 1.0), total)
    return sqrt(consensus / 2.0), sqrt(max(total - consensus, 0.0) / 2.0)


def agreements(spread: float, disagreement: float) -> tuple[float, float]:
    """Compute the agreements from the standard deviations: the inverse of `spreads`."""
    consensus, total = 2.0 * spread**2, 2.0 * (spread**2 + disagreement**2)
    own, shared = total / (total + 1.0), consensus / (total + 1.0)
    return 0.5 + asin(own) / pi, 0.5 + asin(shared) / pi


Row = tuple[int, float, float, float]  # judgements, tau, recall of the top k, mean width of the rank intervals


def simulate_plan(plan: StudyPlan, seed: int) -> Iterator[Row]:
    """Simulate one crowd and yield the accuracy after every update."""
    study = simulate(plan.design, seed)
    for n in study.run():
        yield n, *accuracy(study, plan.top_k)


def accuracy(study: SimulatedStudy, top_k: int) -> tuple[float, float, float]:
    """Kendall's tau with the true order, share of the true top k found, and mean width of the 95% rank intervals."""
    assert study.model is not None  # noqa: S101
    scores, cov = study.model.predict_consensus(return_cov=True)
    truth, ranking = study.crowd.t, rank_items(scores, cov, np.random.default_rng(0))
    tau = kendalltau(scores, truth).statistic
    top = set(np.argsort(-scores)[:top_k].tolist()) & set(np.argsort(-truth)[:top_k].tolist())
    return float(np.nan_to_num(tau)), len(top) / top_k, float((ranking.rank_high - ranking.rank_low).mean())


def read_curves(plan: StudyPlan, rows: list[Row]) -> dict[str, list[float]]:
    """Interpolate one crowd's measures at the points of the plan's grid."""
    n, *columns = np.array(rows, dtype=float).T
    curves = (np.interp(plan.grid(), n, column) for column in columns)
    return {name: curve.round(4).tolist() for name, curve in zip(MEASURES, curves, strict=True)}


@dataclass(frozen=True, eq=False)
class Band:
    """The mean and a quantile range over the crowds, at each point of the grid."""

    mean: Floats
    low: Floats
    high: Floats


def bands(crowds: list[dict[str, list[float]]]) -> dict[str, Band]:
    """Summarise the curves of all simulated crowds."""
    found = {}
    for name in MEASURES:
        curves = np.array([crowd[name] for crowd in crowds], dtype=float)
        low, high = np.quantile(curves, BAND, axis=0)
        found[name] = Band(curves.mean(axis=0), low, high)
    return found


def judgements_for(target: float, grid: list[int], mean: Floats) -> int | None:
    """The first number of judgements on the grid at which the mean reaches the target; None if it never does."""
    reached = np.flatnonzero(mean >= target)
    return int(grid[reached[0]]) if len(reached) else None
