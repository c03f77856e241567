"""Effects of order and difficulty: fatigue within a worker's sequence, and ties between close and distant items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from modelling.crowdgppl.arrays import FloatArray, IntArray

from .answers import Answers
from .estimates import Estimate, share, share_difference


def order_effect(answers: Answers, scores: FloatArray, in_order: NDArray[np.bool_]) -> Estimate | None:
    """Agreement with the scores in the last third of each worker's answers minus agreement in the first third.

    Only the answers `in_order` count: those known to be stored in the order in which they were given.
    """
    y, gap = answers.y[in_order], (scores[answers.a] - scores[answers.b])[in_order]
    agreed, decided = (y - 0.5) * gap > 0, y != 0.5
    position = positions(answers.worker[in_order])
    first, last = ((position < 1 / 3) & decided, (position >= 2 / 3) & decided)
    before, after = (share(float(agreed[third].sum()), int(third.sum())) for third in (first, last))
    return share_difference(before, after) if before and after else None


def positions(worker: IntArray) -> FloatArray:
    """Each answer's relative position among its worker's answers, from 0 for the first to just below 1."""
    order = np.argsort(worker, kind="stable")
    counts = np.bincount(worker)
    starts = np.cumsum(counts) - counts
    place = np.empty(len(worker))
    place[order] = np.arange(len(worker)) - starts[worker[order]]
    return np.asarray(place / counts[worker])


def tie_rates_by_gap(answers: Answers, scores: FloatArray) -> tuple[Estimate | None, Estimate | None]:
    """Tie rates of the judgements with score differences up to the median, and of the others."""
    gap, tied = np.abs(scores[answers.a] - scores[answers.b]), answers.y == 0.5
    near = gap <= np.median(gap)
    return tuple(  # type: ignore[return-value]
        share(float(answers.count[half & tied].sum()), int(answers.count[half].sum())) for half in (near, ~near)
    )
