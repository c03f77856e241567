"""Which pair next, and with what chance it was chosen. Plain functions of facts; the random source is passed in."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Candidate:
    """An item that can be shown: in which group, how often it was given out, and whom it may not meet again."""

    item: int
    group: str
    judged: int
    met: frozenset[int]


@dataclass(frozen=True)
class Pair:
    lo: int
    hi: int
    propensity: float


def draw_pair(firsts: list[int], partners_of: Callable[[int], list[int]], rng: Random, tries: int) -> Pair | None:
    """One of `firsts` against one of its partners. None when a few tries found no partner: then look at every pair."""
    for first in rng.sample(firsts, min(tries, len(firsts))):
        seconds = partners_of(first)
        if not seconds:
            continue
        second = rng.choice(seconds)
        back = partners_of(second) if second in firsts else []
        chance = 1 / len(seconds) + (1 / len(back) if first in back else 0.0)
        return Pair(min(first, second), max(first, second), propensity=chance / len(firsts))
    return None


def choose_pair(candidates: list[Candidate], rng: Random) -> Pair | None:
    """One of the least judged items, against one of its least judged partners; None when no pair is left."""
    groups: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.group, []).append(candidate)
    able = [c for c in candidates if _has_partner(c, groups[c.group])]
    firsts = _least_judged(able)
    if not firsts:
        return None
    first = rng.choice(firsts)
    second = rng.choice(_least_judged(_partners(first, groups[first.group])))
    there = 1 / len(firsts) / len(_least_judged(_partners(first, groups[first.group])))
    back = _chance_of(first, second, firsts, groups[first.group])
    lo, hi = sorted((first.item, second.item))
    return Pair(lo, hi, propensity=there + back)


def _partners(candidate: Candidate, group: list[Candidate]) -> list[Candidate]:
    return [other for other in group if other.item != candidate.item and other.item not in candidate.met]


def _has_partner(candidate: Candidate, group: list[Candidate]) -> bool:
    return len(candidate.met) < len(group) - 1 or bool(_partners(candidate, group))


def _least_judged(candidates: list[Candidate]) -> list[Candidate]:
    fewest = min((c.judged for c in candidates), default=0)
    return [c for c in candidates if c.judged == fewest]


def _chance_of(partner: Candidate, first: Candidate, firsts: list[Candidate], group: list[Candidate]) -> float:
    """The chance of the same pair drawn the other way round."""
    seconds = _least_judged(_partners(first, group))
    return 1 / len(firsts) / len(seconds) if first in firsts and partner in seconds else 0.0
