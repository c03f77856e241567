"""Flags: what to check about a worker, with the evidence. A flag excludes no one."""

from dataclasses import dataclass
from math import sqrt

from django.utils.translation import gettext as _

from modelling.dashboards.common.judgements import WorkerTally

# Thresholds are wide on purpose: workers who disagree, read fast or slightly prefer one side are not flagged.
MIN_JUDGEMENTS = 20
MAX_SIDE_Z = 4.0  # standard deviations of a fair coin; one honest worker in 16,000 exceeds it
FAST = 0.25  # a share of the typical response time
MIN_TIMED = 10  # response times before a worker counts as too fast to have read the texts
MIN_MS = 1000.0  # no one reads two texts and presses a button in less than a second
MAX_CHARACTERS_PER_SECOND = 100.0  # about 17 English words; fast readers skim 10
MIN_REPEATS = 3


@dataclass(frozen=True)
class Flag:
    """Something to check about a worker, with its evidence."""

    name: str
    label: str
    evidence: str


def find_flags(tally: WorkerTally, at: int) -> list[Flag]:
    """All flags of the worker at this index."""
    found = [_one_sided(tally, at), _very_fast(tally, at), _contradictory(tally, at)]
    return [flag for flag in found if flag]


def _one_sided(tally: WorkerTally, at: int) -> Flag | None:
    """Flag a worker who mostly chooses one side: sides are random, so readers choose each about equally often."""
    left, sided = int(tally.left[at]), int(tally.sided[at])
    if sided < MIN_JUDGEMENTS or abs(left - sided / 2) <= MAX_SIDE_Z * sqrt(sided) / 2:
        return None
    if 2 * left > sided:
        evidence = _("chose the text on the left in %(k)d of %(n)d judgements") % {"k": left, "n": sided}
    else:
        evidence = _("chose the text on the right in %(k)d of %(n)d judgements") % {"k": sided - left, "n": sided}
    return Flag("one_sided", _("one-sided"), evidence)


def _very_fast(tally: WorkerTally, at: int) -> Flag | None:
    """Flag a worker who is too fast to have read the texts, or much faster than the others."""
    n, own, typical = int(tally.timed[at]), float(tally.median_ms[at]), tally.typical_ms
    rate = float(tally.characters_per_second[at])
    unread = n >= MIN_TIMED and (own < MIN_MS or rate > MAX_CHARACTERS_PER_SECOND)
    if not unread and (n < MIN_JUDGEMENTS or not own < FAST * typical):
        return None
    facts = {"own": own / 1000, "typical": typical / 1000, "rate": rate, "n": n}
    evidence = _("median response time %(own).1f s; typical: %(typical).1f s (n = %(n)d)")
    if rate > MAX_CHARACTERS_PER_SECOND:
        evidence = _(
            "median response time %(own).1f s, %(rate).0f characters per second; typical: %(typical).1f s (n = %(n)d)"
        )
    return Flag("hasty", _("very fast"), evidence % facts)


def _contradictory(tally: WorkerTally, at: int) -> Flag | None:
    repeated, contradicted = int(tally.repeated[at]), int(tally.contradicted[at])
    if repeated < MIN_REPEATS or 2 * contradicted <= repeated:
        return None
    evidence = _("different answers to %(k)d of %(n)d repeated pairs") % {"k": contradicted, "n": repeated}
    return Flag("contradictory", _("contradictory"), evidence)
