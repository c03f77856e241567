"""What a researcher may want to look at twice about a worker, each with its evidence. Nothing here excludes anybody.

The bounds are wide on purpose: whoever dissents, reads fast or likes the left side a little is not flagged.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from django.utils.translation import gettext as _

from modelling.dashboards.answers import Tally

ENOUGH_ANSWERS = 20  # below, chance alone looks like anything
FAR = 4.0  # standard deviations of a fair coin; one honest worker in 16,000 gets so far
HASTE = 0.25  # of the time that half of the workers need
ENOUGH_REPEATS = 3
LIKE_CHANCE = 1.0  # standard deviations above one half
SELF_UNLIKE = 0.7  # of the answers the model has itself learned from; who answers by a taste is above


@dataclass(frozen=True)
class Flag:
    name: str
    words: str
    evidence: str


def flags_of(tally: Tally, place: int) -> list[Flag]:
    """What stands out about the worker at this place."""
    found = [one_sided(tally, place), hasty(tally, place), contradictory(tally, place), like_nobody(tally, place)]
    return [flag for flag in found if flag]


def one_sided(tally: Tally, place: int) -> Flag | None:
    """Sides are dealt by a fair coin, so whoever reads takes about as many from the left as from the right."""
    left, sided = int(tally.left[place]), int(tally.sided[place])
    if sided < ENOUGH_ANSWERS or abs(left - sided / 2) <= FAR * sqrt(sided) / 2:
        return None
    if 2 * left > sided:
        return Flag("one_sided", _("one side"), _("left in %(k)d of %(n)d answers") % {"k": left, "n": sided})
    return Flag("one_sided", _("one side"), _("right in %(k)d of %(n)d answers") % {"k": sided - left, "n": sided})


def hasty(tally: Tally, place: int) -> Flag | None:
    own, usual = float(tally.median_ms[place]), tally.usual_ms
    if tally.answers[place] < ENOUGH_ANSWERS or np.isnan(own) or np.isnan(usual) or own >= HASTE * usual:
        return None
    seconds = {"own": own / 1000, "usual": usual / 1000}
    return Flag("hasty", _("very fast"), _("median %(own).1f s, usual are %(usual).1f s") % seconds)


def contradictory(tally: Tally, place: int) -> Flag | None:
    repeats, against = int(tally.repeated[place]), int(tally.contradicted[place])
    if repeats < ENOUGH_REPEATS or 2 * against <= repeats:
        return None
    facts = {"k": against, "n": repeats}
    return Flag("contradictory", _("contradicts themselves"), _("in %(k)d of %(n)d pairs asked again") % facts)


def like_nobody(tally: Tally, place: int) -> Flag | None:
    """A dissenter agrees with themselves; whoever answers at random agrees with nobody."""
    n, agreed, foreseen = (int(each[place]) for each in (tally.decided, tally.agreed, tally.foreseen))
    if n < ENOUGH_ANSWERS or agreed > n / 2 + LIKE_CHANCE * sqrt(n) / 2 or foreseen >= SELF_UNLIKE * n:
        return None
    shares = {"crowd": 100 * agreed / n, "own": 100 * foreseen / n}
    words = _("the crowd expects %(crowd).0f %% of the answers, their own model %(own).0f %%") % shares
    return Flag("like_nobody", _("like chance"), words)
