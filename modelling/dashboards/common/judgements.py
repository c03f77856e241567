"""The judgements a version is trained on, compared with the consensus and with each worker's own predictions."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from django.db.models.functions import Length
from numpy.typing import NDArray

from annotation.models import Item
from modelling.models import ModelSnapshot
from modelling.training.inputs import PREFERENCE, get_read_point
from modelling.training.snapshots import FittedModel, load_fitted_model
from modelling.training.votes import training_judgements

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MIN_PROBABILITY = 1e-12  # keeps the surprisal of every judgement finite


@dataclass(frozen=True, eq=False)
class WorkerTally:
    """A version's counts per worker, indexed by the worker's position in its arrays.

    `agreed` counts decided judgements that the consensus predicts, `explained` those that the worker's own
    scores predict. `timed` counts known response times; `median_ms` and `characters_per_second`, the median speed of
    reading both texts, are NaN where there is none. `left` counts choices of the left side among
    the decided judgements with known sides (`sided`); `contradicted` counts pairs decided both ways among the pairs
    decided more than once (`repeated`).
    """

    judgements: Ints
    decided: Ints
    agreed: Ints
    explained: Ints
    timed: Ints
    median_ms: Floats
    characters_per_second: Floats
    sided: Ints
    left: Ints
    repeated: Ints
    contradicted: Ints

    @cached_property
    def typical_ms(self) -> float:
        """Median over workers of their median response time; NaN where no time is known."""
        known = self.median_ms[np.isfinite(self.median_ms)]
        return float(np.median(known)) if len(known) else float("nan")


def worker_tally(snapshot: ModelSnapshot) -> WorkerTally:
    """Return a version's worker tally, cached until a worker is erased or another input changes."""
    return _tally(snapshot, snapshot.checksum, get_read_point(snapshot.project).inputs_revision)


@lru_cache(maxsize=8)
def _tally(snapshot: ModelSnapshot, checksum: str, inputs_revision: int) -> WorkerTally:
    fitted = load_fitted_model(snapshot)
    fields = ("worker", "item_lo", "item_hi", "choice", "response_ms", "lo_was_left")
    rows = training_judgements(snapshot).order_by().values_list(*fields)
    worker_at, item_at = fitted.worker_index, fitted.item_index
    known = [row for row in rows if row[0] in worker_at and row[1] in item_at and row[2] in item_at]
    u, a, b = (
        np.array([at[row[n]] for row in known], dtype=np.int64) for n, at in enumerate((worker_at, item_at, item_at))
    )
    y = np.array([PREFERENCE[row[3]] for row in known], dtype=np.float64)
    ms = np.array([np.nan if row[4] is None else row[4] for row in known], dtype=np.float64)
    lo_left = np.array([np.nan if row[5] is None else row[5] for row in known], dtype=np.float64)
    lengths = dict(Item.objects.filter(project=snapshot.project_id).values_list("pk", Length("text")))
    characters = np.array([lengths.get(row[1], 0) + lengths.get(row[2], 0) for row in known], dtype=np.float64)
    return _count(fitted, (u, a, b, y), ms, characters, lo_left)


def _count(
    fitted: FittedModel, labels: tuple[Ints, Ints, Ints, Floats], ms: Floats, characters: Floats, lo_left: Floats
) -> WorkerTally:
    u, a, b, y = labels
    decided, sides = y != 0.5, np.sign(y - 0.5)
    own, crowd = predicted_sides(fitted, u, a, b)
    agreed, explained = decided & (crowd == sides), decided & (own == sides)
    n = len(fitted.worker_ids)
    sided = decided & np.isfinite(lo_left)
    repeated, contradicted = repeated_pairs(u[decided], a[decided], b[decided], y[decided])
    return WorkerTally(
        judgements=np.bincount(u, minlength=n),
        decided=np.bincount(u[decided], minlength=n),
        agreed=np.bincount(u[agreed], minlength=n),
        explained=np.bincount(u[explained], minlength=n),
        timed=np.bincount(u[np.isfinite(ms)], minlength=n),
        median_ms=group_medians(u, ms, n),
        characters_per_second=group_medians(u, 1000.0 * characters / np.maximum(ms, 1.0), n),
        sided=np.bincount(u[sided], minlength=n),
        left=np.bincount(u[sided & (lo_left == y)], minlength=n),
        repeated=np.bincount(repeated, minlength=n),
        contradicted=np.bincount(contradicted, minlength=n),
    )


def repeated_pairs(u: Ints, a: Ints, b: Ints, y: Floats) -> tuple[Ints, Ints]:
    """The worker of every pair decided more than once, and of every pair decided both ways."""
    pairs, of = np.unique(np.column_stack((u, a, b)), axis=0, return_inverse=True)
    times = np.bincount(of.ravel(), minlength=len(pairs))
    wins = np.bincount(of.ravel(), y, minlength=len(pairs))
    again = times > 1
    return pairs[again, 0], pairs[again & (wins > 0) & (wins < times), 0]


def group_medians(u: Ints, values: Floats, n: int) -> Floats:
    """Median of each worker's finite values; NaN where there is none."""
    known = np.isfinite(values)
    order = np.lexsort((values[known], u[known]))
    sorted_values, counts = values[known][order], np.bincount(u[known], minlength=n)
    first = np.cumsum(counts) - counts
    has = counts > 0
    out = np.full(n, np.nan)
    low, high = first + (counts - 1) // 2, first + counts // 2
    out[has] = (sorted_values[low[has]] + sorted_values[high[has]]) / 2
    return out


@dataclass(frozen=True, eq=False)
class PairPredictions:
    """Probability that the first item of each pair is preferred: by the worker (`own`), by a random member of the
    crowd, and by a typical worker, who shares the consensus.
    """

    own: Floats
    crowd: Floats
    typical: Floats


def predict_pairs(fitted: FittedModel, u: Ints, a: Ints, b: Ints) -> PairPredictions:
    if not len(u):
        return PairPredictions(np.zeros(0), np.zeros(0), np.zeros(0))
    crowd, typical = (fitted.model.predict_consensus_proba(a, b, kind=kind) for kind in ("mean", "typical"))
    return PairPredictions(fitted.model.predict_proba(u, a, b), crowd, typical)


def predicted_sides(fitted: FittedModel, u: Ints, a: Ints, b: Ints) -> tuple[Floats, Floats]:
    """The more probable item of each pair, for its worker and for the crowd: 1 for a, -1 for b, 0 for neither."""
    own, _variance = fitted.model.predict_differences(u, a, b)
    return np.sign(own), np.sign(fitted.consensus[a] - fitted.consensus[b])


def surprisal(p: Floats, y: Floats) -> Floats:
    """Surprisal in bits of y (1: a preferred, 0: b preferred) when a is preferred with probability p.

    A tie counts as half of each, as it does in the likelihood.
    """
    safe = np.clip(p, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    return np.asarray(-(y * np.log2(safe) + (1.0 - y) * np.log2(1.0 - safe)))
