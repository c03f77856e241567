"""The judgements a version has learned from, beside what the crowd and each worker's own model make of them."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from django.db.models import Q, QuerySet
from numpy.typing import NDArray

from annotation.models import Judgement, Worker
from modelling.inputs import PREFERENCE, moment_of
from modelling.models import ModelSnapshot
from modelling.snapshots import Fitted, load_fitted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NEVER = 1e-12  # no probability is so small that an answer would be infinitely surprising


@dataclass(frozen=True, eq=False)
class Tally:
    """For each worker of a version, by position: how many answers, and how many of the decided ones were expected.

    `agreed` are those the consensus expects, `foreseen` those the worker's own predicted scores expect; `median_ms` is
    not a number where no time is known. Of the decided answers whose sides are known (`sided`) `left` went to the left;
    of the pairs decided more than once (`repeated`) `contradicted` were decided both ways.
    """

    answers: Ints
    decided: Ints
    agreed: Ints
    foreseen: Ints
    median_ms: Floats
    sided: Ints
    left: Ints
    repeated: Ints
    contradicted: Ints

    @cached_property
    def usual_ms(self) -> float:
        """What half of the workers stay below; not a number where no time is known."""
        known = self.median_ms[np.isfinite(self.median_ms)]
        return float(np.median(known)) if len(known) else float("nan")


def learned_from(snapshot: ModelSnapshot) -> "QuerySet[Judgement]":
    """The answers that stood when the version was made: what every page about it counts and lists.

    Those that an erased person took along are gone at once; that raises the project's inputs_revision, and nothing
    else changes what a version has learned from: whoever keeps what follows from it keeps it with that number.
    """
    taken_back_later = Q(retraction__sequence__gt=snapshot.last_sequence) & ~Q(worker__outcome=Worker.ERASED)
    events = Judgement.objects.filter(project=snapshot.project_id, sequence__lte=snapshot.last_sequence)
    return events.filter(Q(retraction=None) | taken_back_later, choice__in=list(PREFERENCE))


def tally_of(snapshot: ModelSnapshot) -> Tally:
    """Counted once for each version, and again when somebody was erased since."""
    return _tally(snapshot, snapshot.checksum, moment_of(snapshot.project).inputs_revision)


@lru_cache(maxsize=8)
def _tally(snapshot: ModelSnapshot, checksum: str, inputs_revision: int) -> Tally:
    fitted = load_fitted(snapshot)
    fields = ("worker", "item_lo", "item_hi", "choice", "response_ms", "lo_was_left")
    rows = learned_from(snapshot).order_by().values_list(*fields)
    worker_at, item_at = fitted.worker_at, fitted.item_at
    known = [row for row in rows if row[0] in worker_at and row[1] in item_at and row[2] in item_at]
    u, a, b = (
        np.array([at[row[n]] for row in known], dtype=np.int64) for n, at in enumerate((worker_at, item_at, item_at))
    )
    y = np.array([PREFERENCE[row[3]] for row in known], dtype=np.float64)
    ms = np.array([np.nan if row[4] is None else row[4] for row in known], dtype=np.float64)
    lo_left = np.array([np.nan if row[5] is None else row[5] for row in known], dtype=np.float64)
    return _counted(fitted, (u, a, b, y), ms, lo_left)


def _counted(fitted: Fitted, labels: tuple[Ints, Ints, Ints, Floats], ms: Floats, lo_left: Floats) -> Tally:
    u, a, b, y = labels
    decided, sides = y != 0.5, np.sign(y - 0.5)
    own, crowd = expected_sides(fitted, u, a, b)
    agreed, foreseen = decided & (crowd == sides), decided & (own == sides)
    n = len(fitted.worker_ids)
    sided = decided & np.isfinite(lo_left)
    repeated, contradicted = asked_again(u[decided], a[decided], b[decided], y[decided])
    return Tally(
        answers=np.bincount(u, minlength=n),
        decided=np.bincount(u[decided], minlength=n),
        agreed=np.bincount(u[agreed], minlength=n),
        foreseen=np.bincount(u[foreseen], minlength=n),
        median_ms=medians(u, ms, n),
        sided=np.bincount(u[sided], minlength=n),
        left=np.bincount(u[sided & (lo_left == y)], minlength=n),
        repeated=np.bincount(repeated, minlength=n),
        contradicted=np.bincount(contradicted, minlength=n),
    )


def asked_again(u: Ints, a: Ints, b: Ints, y: Floats) -> tuple[Ints, Ints]:
    """The worker of every pair that was decided more than once, and of those that were decided both ways."""
    pairs, of = np.unique(np.column_stack((u, a, b)), axis=0, return_inverse=True)
    times = np.bincount(of.ravel(), minlength=len(pairs))
    wins = np.bincount(of.ravel(), y, minlength=len(pairs))
    again = times > 1
    return pairs[again, 0], pairs[again & (wins > 0) & (wins < times), 0]


def medians(u: Ints, values: Floats, n: int) -> Floats:
    """The median of each worker's values; not a number where there is none."""
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
class Chances:
    """Of each judgement: the probability that its first item is preferred, by its worker and by a typical one."""

    own: Floats
    crowd: Floats


def chances(fitted: Fitted, u: Ints, a: Ints, b: Ints) -> Chances:
    """What the version expects of these pairs."""
    if not len(u):
        return Chances(np.zeros(0), np.zeros(0))
    return Chances(fitted.model.predict_proba(u, a, b), fitted.model.predict_consensus_proba(a, b))


def expected_sides(fitted: Fitted, u: Ints, a: Ints, b: Ints) -> tuple[Floats, Floats]:
    """1 where a is more probable than b, by the pair's worker and by a typical one; -1 where b is; 0 where neither.

    A Gaussian is more probable above 0 just where its mean is, which is far cheaper to know; draws need not be one.
    """
    if fitted.model.refined_ is not None:
        found = chances(fitted, u, a, b)
        return np.sign(found.own - 0.5), np.sign(found.crowd - 0.5)
    consensus = fitted.model.predict_consensus()
    return np.sign(fitted.model.predict_gaps(u, a, b)), np.sign(consensus[a] - consensus[b])


def surprise(p: Floats, y: Floats) -> Floats:
    """In bits: how unexpected it is that a was preferred (y = 1) or b (0) where a was expected with probability p.

    A tie counts as half of each, as it does for the model.
    """
    safe = np.clip(p, NEVER, 1.0 - NEVER)
    return np.asarray(-(y * np.log2(safe) + (1.0 - y) * np.log2(1.0 - safe)))
