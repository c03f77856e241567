"""The information gained from suggested and from random pairs: bits per judgement, measured as answers come in.

Each version measures the judgements that are new to it with the posterior of its parent, so nothing is measured with a
model that has already learned from it. The sums are part of the version's diagnostics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

import numpy as np

from annotation.models import Judgement, Project
from annotation.services.pairs.selection import LEAST_JUDGED, RANDOM, SUGGESTED
from modelling.planning.information import expected_information, observed_information
from modelling.planning.reading_time import PLAUSIBLE_MS
from modelling.training.inputs import PREFERENCE
from modelling.training.ranking import Z_95
from modelling.training.snapshots import FittedModel

MAX_MEASURED = 2000  # judgements of one version; of more, the newest
POLICIES = (SUGGESTED, RANDOM, LEAST_JUDGED)
Row = tuple[str, int, int, str, int | None]  # policy, lower and higher item, choice, response time


@dataclass(frozen=True)
class GainSums:
    """Sums over one policy's judgements; `seconds` and `timed_bits` are sums over the `timed` ones only."""

    n: int = 0
    expected: float = 0.0
    bits: float = 0.0
    squares: float = 0.0
    timed: int = 0
    timed_bits: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: GainSums) -> GainSums:
        mine, theirs = asdict(self), asdict(other)
        return GainSums(**{name: mine[name] + theirs[name] for name in mine})

    @property
    def mean(self) -> float:
        """Bits per judgement."""
        return self.bits / self.n if self.n else 0.0

    @property
    def half_width(self) -> float:
        """Half the width of the mean's 95% interval."""
        if self.n < 2:
            return 0.0
        variance = max(self.squares - self.n * self.mean**2, 0.0) / (self.n - 1)
        return Z_95 * sqrt(variance / self.n)

    @property
    def per_minute(self) -> float | None:
        return 60.0 * self.timed_bits / self.seconds if self.seconds else None


def measure_new_pairs(fitted: FittedModel, project: Project, first: int, last: int) -> dict[str, dict[str, Any]]:
    """Each policy's sums over the judgements after event `first` up to `last`, measured with the model before them."""
    new = Judgement.objects.answers().filter(project=project, sequence__gt=first, sequence__lte=last)
    fields = ("assignment__policy", "item_lo", "item_hi", "choice", "response_ms")
    rows = new.filter(assignment__policy__in=POLICIES).order_by("-sequence").values_list(*fields)[:MAX_MEASURED]
    known = [row for row in rows if row[1] in fitted.item_index and row[2] in fitted.item_index]
    return {policy: asdict(sums) for policy, sums in sum_gains(fitted, known).items()}


def sum_gains(fitted: FittedModel, rows: list[Row]) -> dict[str, GainSums]:
    if not rows:
        return {}
    items, places = np.unique(
        [[fitted.item_index[row[1]], fitted.item_index[row[2]]] for row in rows], return_inverse=True
    )
    a, b = places.reshape(-1, 2).T
    mean, cov = fitted.model.predict_consensus(items=items, return_cov=True)
    taste = fitted.model.item_components_[:, items]
    sd = np.sqrt(1.0 + ((taste[:, a] - taste[:, b]) ** 2).sum(axis=0))  # of an answer, given the consensus
    d = (mean[a] - mean[b]) / sd
    variance = np.maximum(cov[a, a] + cov[b, b] - 2.0 * cov[a, b], 0.0) / sd**2
    y = np.array([PREFERENCE[Judgement.Choice(row[3])] for row in rows])
    bits = observed_information(d, variance, y, fitted.lapse)
    expected = expected_information(d, variance, fitted.lapse)
    found: dict[str, GainSums] = defaultdict(GainSums)
    for row, got, hoped in zip(rows, bits.tolist(), expected.tolist(), strict=True):
        ms = row[4] if row[4] is not None and PLAUSIBLE_MS[0] <= row[4] <= PLAUSIBLE_MS[1] else None
        timed = (1, got, ms / 1000) if ms is not None else (0, 0.0, 0.0)
        found[row[0]] += GainSums(1, hoped, got, got**2, *timed)
    return dict(found)


def add_up(stored: Iterable[dict[str, dict[str, Any]]]) -> dict[str, GainSums]:
    """Add up the sums of several versions, by policy."""
    total: dict[str, GainSums] = defaultdict(GainSums)
    for version in stored:
        for policy, sums in version.items():
            total[policy] += GainSums(**sums)
    return dict(total)
