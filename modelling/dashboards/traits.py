"""What workers said about themselves: groups to colour a picture by, and answers that go with a component."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from django.utils.translation import gettext as _
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Answers = Mapping[str, Any]

FEWEST = 5  # workers with an answer, and without it; with fewer nothing is said about it
CLEAR = 3.0  # standard errors; many answers are tried, so two would often be chance
MOST_LINKS = 6
MOST_GROUPS = 6  # colours that can be told apart; rarer answers are put together
QUARTILES = (25, 50, 75)


@dataclass(frozen=True)
class Link:
    """An answer that goes with a component: how far its workers lie from the others, in standard deviations."""

    trait: str
    answer: str
    effect: float
    clearness: float
    workers: int


@dataclass(frozen=True)
class Groups:
    """Workers put into groups by one trait: the names of the groups, and the group of each worker."""

    names: list[str]
    of: list[int]


def traits_in(answers: Sequence[Answers]) -> list[str]:
    """The questions that at least two workers answered differently."""
    seen: dict[str, set[str]] = {}
    for each in answers:
        for name, value in each.items():
            if not _missing(value):
                seen.setdefault(name, set()).add(str(value))
    return sorted(name for name, values in seen.items() if len(values) > 1)


def links(answers: Sequence[Answers], values: Floats) -> list[Link]:
    """The answers that clearly go with high or low values, the clearest first."""
    tried = [_links_of(name, [each.get(name) for each in answers], values) for name in traits_in(answers)]
    clear = [link for found in tried for link in found if abs(link.clearness) >= CLEAR]
    return sorted(clear, key=lambda link: (-abs(link.clearness), link.trait, link.answer))[:MOST_LINKS]


def _links_of(name: str, given: list[Any], values: Floats) -> list[Link]:
    known = [place for place, value in enumerate(given) if not _missing(value)]
    if all(_is_number(given[place]) for place in known):
        return _slope(name, np.array([float(given[place]) for place in known]), values[known])
    counts = Counter(str(given[place]) for place in known)
    said = np.array([str(given[place]) for place in known])
    common = sorted(answer for answer, n in counts.items() if FEWEST <= n <= len(known) - FEWEST)
    return [_difference(name, answer, values[known], said == answer) for answer in common]


def _difference(name: str, answer: str, values: Floats, chosen: NDArray[np.bool_]) -> Link:
    """Of the means of those who gave the answer and those who gave another (Welch)."""
    these, others = values[chosen], values[~chosen]
    gap, spread = float(these.mean() - others.mean()), float(values.std()) or 1.0
    error = float(np.sqrt(these.var(ddof=1) / len(these) + others.var(ddof=1) / len(others))) or 1.0
    return Link(name, answer, gap / spread, gap / error, len(these))


def _slope(name: str, numbers: Floats, values: Floats) -> list[Link]:
    """The change of the values for one standard deviation more of a number."""
    if len(numbers) < 2 * FEWEST or numbers.std() == 0 or values.std() == 0:
        return []
    r = float(np.clip(np.corrcoef(numbers, values)[0, 1], -1.0, 1.0))
    error = np.sqrt(max(1.0 - r * r, 1e-9) / (len(numbers) - 2))
    return [Link(name, _("higher"), r, float(r / error), len(numbers))]


def groups(answers: Sequence[Answers], trait: str) -> Groups:
    """Each worker's group by this trait: the common answers, quarters of a number, or no answer."""
    given = [each.get(trait) for each in answers]
    known = [value for value in given if not _missing(value)]
    name_of, names = _quarters(known) if known and all(map(_is_number, known)) else _common(known)
    silent = [_("no answer")] if len(known) < len(given) else []
    at = {name: place for place, name in enumerate(names)}
    return Groups(names + silent, [len(names) if _missing(value) else at[name_of(value)] for value in given])


def _common(known: list[Any]) -> tuple[Callable[[Any], str], list[str]]:
    """The most frequent answers in alphabetical order; the others are put together."""
    counts = Counter(map(str, known)).most_common()
    common, others = sorted(answer for answer, _n in counts[:MOST_GROUPS]), _("other answers")
    rest = [others] if len(counts) > MOST_GROUPS and others not in common else []
    return lambda value: str(value) if str(value) in common else others, common + rest


def _quarters(known: list[Any]) -> tuple[Callable[[Any], str], list[str]]:
    """Four equal parts of the numbers, from the lowest up; fewer where numbers coincide."""
    numbers = np.array(known, dtype=np.float64)
    cuts = np.unique(np.r_[numbers.min(), np.percentile(numbers, QUARTILES), numbers.max()])
    if len(cuts) == 1:
        return lambda _value: f"{cuts[0]:g}", [f"{cuts[0]:g}"]
    names = [f"{low:g} – {high:g}" for low, high in pairwise(cuts)]
    return lambda value: names[int(np.searchsorted(cuts[1:-1], value, side="right"))], names


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
