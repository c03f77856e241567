"""The reliability of a version's judgements, computed once per version for the page and the export."""

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import numpy as np
from django.db.models import Count, F, Value
from numpy.typing import NDArray

from annotation.models import Arm, Item, Judgement, Worker
from annotation.services.pairs.selection import LEAST_JUDGED, RANDOM, SUGGESTED
from modelling.crowdgppl.arrays import FloatArray
from modelling.models import ModelSnapshot
from modelling.training.inputs import PREFERENCE, get_read_point
from modelling.training.reliability import (
    Answers,
    Estimate,
    Fit,
    fit_scale,
    fit_statistics,
    krippendorff_alpha,
    order_effect,
    random_share_reliability,
    self_consistency,
    separation,
    separation_reliability,
    share,
    spearman_brown,
    split_half,
    tie_rates_by_gap,
)
from modelling.training.reliability.scale import MAX_PART
from modelling.training.votes import training_judgements

MAX_JUDGEMENTS = 200_000  # above this, judgements are summed by pair and nothing is computed per worker
MAX_SPLIT_PART = 300  # linked items; fitting 200 halves takes a few seconds
ADAPTIVE = ("ssr", "separation", "split_half", "split_half_spearman_brown")  # misleading where pairs were suggested


@dataclass(frozen=True)
class MemberFit:
    """Infit and outfit of an item (by key) or a worker (by code); `low` and `high` are the expected range of infit."""

    name: str
    n: int
    infit: float
    outfit: float
    low: float
    high: float

    @property
    def misfits(self) -> bool:
        """Whether answers are less predictable than the model expects."""
        return self.infit > self.high


@dataclass(frozen=True, eq=False)
class Policies:
    """How the pairs were chosen: the numbers of suggested and random pairs, and which answers have random pairs."""

    suggested: int
    random: int
    by_chance: NDArray[np.bool_]

    @classmethod
    def count(cls, policies: list[str | None], count: FloatArray) -> "Policies":
        chance = np.array([policy in (RANDOM, LEAST_JUDGED) for policy in policies], dtype=bool)
        suggested = np.array([policy == SUGGESTED for policy in policies], dtype=bool)
        return cls(int(count[suggested].sum()), int(count[chance].sum()), chance)


@dataclass(frozen=True)
class VersionReliability:
    """Every measure of the study by name, None where it cannot be computed, and the fit of items and workers."""

    by_worker: bool
    largest_part: int
    measures: dict[str, Estimate | None]
    items: list[MemberFit]
    workers: list[MemberFit]
    policies: Policies

    def is_inflated(self, name: str) -> bool:
        """Whether a measure must not be reported, because pairs were suggested and it assumes that they were not."""
        return self.policies.suggested > 0 and name in ADAPTIVE

    def too_many_items(self, name: str) -> bool:
        """Whether a measure was left out because a part of the comparison graph is too large for it."""
        return self.largest_part > (MAX_SPLIT_PART if name.startswith("split_half") else MAX_PART)


def get_reliability(snapshot: ModelSnapshot, arm: Arm | None = None) -> VersionReliability:
    """The reliability of a version or one of its arms, cached; it is computed again after a person is erased."""
    return _cached_reliability(snapshot, snapshot.created_at, get_read_point(snapshot.project).inputs_revision, arm)


@lru_cache(maxsize=8)
def _cached_reliability(
    snapshot: ModelSnapshot, created_at: datetime, inputs_revision: int, arm: Arm | None
) -> VersionReliability:
    judgements = training_judgements(snapshot).filter(**({"worker__arm": arm} if arm else {})).order_by("sequence")
    by_worker = judgements.count() <= MAX_JUDGEMENTS
    fields = ["item_lo", "item_hi", "choice", "lo_was_left", "assignment__policy", "source"]
    if by_worker:
        rows = list(judgements.values_list(F("worker"), *fields, Value(1)))
    else:
        rows = list(judgements.order_by().values_list(Value(0), *fields).annotate(Count("pk")))
    if not rows:
        return VersionReliability(by_worker, 0, {}, [], [], Policies.count([], np.zeros(0)))
    worker_ids, worker = np.unique([row[0] for row in rows], return_inverse=True)
    item_ids, places = np.unique([row[1:3] for row in rows], return_inverse=True)
    a, b = places.reshape(-1, 2).T
    y = np.array([PREFERENCE[row[3]] for row in rows])
    count = np.array([row[7] for row in rows], dtype=np.float64)
    answers = Answers(worker.reshape(-1), a, b, y, count, len(item_ids), len(worker_ids))
    lo_left = np.array([np.nan if row[4] is None else row[4] for row in rows], dtype=np.float64)
    imported = np.array([row[6] == Judgement.Source.IMPORT for row in rows])
    policies = Policies.count([row[5] for row in rows], count)
    members = worker_ids.tolist() if by_worker else None
    return _measure(answers, lo_left, imported, policies, item_ids.tolist(), members)


def _measure(
    answers: Answers,
    lo_left: FloatArray,
    imported: NDArray[np.bool_],
    policies: Policies,
    item_ids: list[int],
    worker_ids: list[int] | None,
) -> VersionReliability:
    scale, largest = fit_scale(answers), int(np.bincount(answers.parts).max())
    reliability = separation_reliability(scale, answers.parts)
    measures: dict[str, Estimate | None] = {
        "ssr": reliability,
        "separation": separation(reliability) if reliability else None,
    }
    if policies.suggested:
        found = random_share_reliability(answers, policies.by_chance, scale)
        measures |= {"reliability_random": found.reliability, "reliability_projected": found.projected}
    workers: list[MemberFit] = []
    if worker_ids is not None:
        half = split_half(answers, scale.log_nu) if largest <= MAX_SPLIT_PART else None
        measures |= {"split_half": half, "split_half_spearman_brown": spearman_brown(half) if half else None}
        measures |= {"alpha": krippendorff_alpha(answers), "self_consistency": self_consistency(answers)}
        fit = fit_statistics(answers, scale, [answers.worker], len(worker_ids))
        codes = Worker.objects.visible().filter(pk__in=worker_ids).values_list("pk", "code")
        workers = _members(fit, worker_ids, dict(codes))
        measures["order_effect"] = order_effect(answers, scale.scores, ~imported)
    decided, total = answers.y != 0.5, int(answers.count.sum())
    sided = decided & np.isfinite(lo_left)
    left = sided & ((answers.y == 1.0) == (lo_left == 1.0))
    measures["left_share"] = share(float(answers.count[left].sum()), int(answers.count[sided].sum()))
    measures["tie_rate"] = share(float(answers.count[~decided].sum()), total)
    near, far = tie_rates_by_gap(answers, scale.scores)
    measures |= {"tie_rate_near": near, "tie_rate_far": far}
    fit = fit_statistics(answers, scale, [answers.a, answers.b], len(item_ids))
    items = _members(fit, item_ids, dict(Item.objects.filter(pk__in=item_ids).values_list("pk", "key")))
    return VersionReliability(worker_ids is not None, largest, measures, items, workers, policies)


def _members(fit: Fit, ids: list[int], names: dict[int, str]) -> list[MemberFit]:
    """The fit of the items or workers that have a name, largest infit first."""
    columns = (fit.n, fit.infit, fit.outfit, fit.low, fit.high)
    rows = zip(ids, *(column.tolist() for column in columns), strict=True)
    found = [MemberFit(names[pk], *numbers) for pk, *numbers in rows if pk in names]
    return sorted(found, key=lambda each: (-each.infit, each.name))
