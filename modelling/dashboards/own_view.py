"""What a worker is told about themselves when they have finished: nothing about others, no item's score.

Nothing is said before the end: whoever knows what the crowd prefers no longer answers for themselves.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from annotation.models import Item, Worker
from modelling.dashboards.axes import Axes, axes_of
from modelling.dashboards.components import words_of
from modelling.dashboards.surprises import Log
from modelling.models import ModelSnapshot
from modelling.words import Ends, distinguishing, words_in

FEWEST_ANSWERS = 10
CLEAR = 2.0  # standard deviations from the middle, before anything is said about a taste
WORDS = 5
FEWEST_WORDS = 2
LONGER = 1.5  # times as many words


@dataclass(frozen=True)
class Leaning:
    """What the worker seems to value more than others do: words they have read, and long or short texts."""

    words: list[str]
    length: str  # "longer", "shorter" or nothing


@dataclass(frozen=True)
class OwnView:
    answers: int
    decided: int
    agreed: int
    leanings: list[Leaning]


def own_view(snapshot: ModelSnapshot, worker: Worker) -> OwnView | None:
    """What can be said of this worker; None while the version knows too little of them."""
    axes = axes_of(snapshot)
    user = axes.fitted.position_of_worker(worker.pk)
    if user is None:
        return None
    log = Log.read(snapshot, worker, axes.fitted, user)
    if log.fit is None or log.fit.answers < FEWEST_ANSWERS:
        return None
    read = {pk for row in log.rows for pk in row[1:3]}
    texts = Item.objects.filter(pk__in=read).values_list("text", flat=True)
    known = {word for text in texts for word in words_in(text)}
    return OwnView(log.fit.answers, log.fit.decided, log.fit.agreed, leanings(snapshot, axes, user, known))


def leanings(snapshot: ModelSnapshot, axes: Axes, user: int, known: set[str]) -> list[Leaning]:
    """Of the components in use, those on which the worker clearly stands to one side, in words they have read."""
    if not axes.used:
        return []
    spread = np.sqrt(np.einsum("cc->c", axes.user_covariances(axes.used, np.array([user]))[0]))
    table = words_of(snapshot, axes.fitted.item_ids)
    found = []
    for row, sd in zip(axes.used, spread, strict=True):
        place = axes.users[row, user]
        if abs(place) >= CLEAR * sd:
            found.append(_leaning(distinguishing(table, _towards(place, axes.items[row])), known))
    return [each for each in found if each.words or each.length]


def _towards(place: float, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values turned so that high is where the worker stands."""
    return values if place > 0 else -values


def _leaning(ends: Ends, known: set[str]) -> Leaning:
    words = [word for word in ends.high if word in known][:WORDS]
    length = ""
    if ends.high_length > LONGER * ends.low_length:
        length = "longer"
    elif ends.low_length > LONGER * ends.high_length:
        length = "shorter"
    return Leaning(words if len(words) >= FEWEST_WORDS else [], length)
