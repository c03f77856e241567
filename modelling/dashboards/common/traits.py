"""Questionnaire answers of workers: groups to colour a figure by, and answers associated with a component."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from django.utils.translation import gettext as _
from numpy.typing import NDArray

from modelling.features.traits import list_choices

Floats = NDArray[np.float64]
Traits = Mapping[str, Any]

MIN_WORKERS = 5  # with an answer, and without it, before an association is reported
MIN_Z = 3.0  # standard errors; many answers are tested, so 2 would often be chance
MAX_LINKS = 6
MAX_GROUPS = 6  # distinguishable colours; rarer answers are combined
QUARTILES = (25, 50, 75)


@dataclass(frozen=True)
class TraitLink:
    """An answer associated with a component: how much its workers differ from the others, in standard deviations."""

    trait: str
    answer: str
    effect: float
    error: float  # standard error of the effect
    workers: int

    @property
    def z(self) -> float:
        return self.effect / self.error


@dataclass(frozen=True)
class TraitGroups:
    """Workers grouped by one trait: the names of the groups, and the index of each worker's group."""

    names: list[str]
    of: list[int]


def format_answer(value: Any) -> str:
    """An answer as text; several choices are joined."""
    return ", ".join(list_choices(value))


def varying_traits(answers: Sequence[Traits]) -> list[str]:
    """The questions that at least two workers answered differently."""
    seen: dict[str, set[str]] = {}
    for each in answers:
        for name, value in each.items():
            if not _is_missing(value):
                seen.setdefault(name, set()).add(format_answer(value))
    return sorted(name for name, values in seen.items() if len(values) > 1)


def find_links(answers: Sequence[Traits], values: Floats, sds: Floats) -> list[TraitLink]:
    """The answers clearly associated with high or low values, by decreasing |z|.

    `values` and `sds` are posterior means and standard deviations. The workers' values are not known exactly, so each
    counts as a draw from its posterior (as plausible values do in educational testing): its variance adds to the
    spread of the values, and once more to the error of a mean.
    """
    positions = Positions(values, np.square(sds))
    tested = [_test_trait(name, [each.get(name) for each in answers], positions) for name in varying_traits(answers)]
    clear = [link for found in tested for link in found if abs(link.z) >= MIN_Z]
    return sorted(clear, key=lambda link: (-abs(link.z), link.trait, link.answer))[:MAX_LINKS]


@dataclass(frozen=True, eq=False)
class Positions:
    """Workers' values, such as their positions on a component, with their posterior variances."""

    means: Floats
    variances: Floats

    def of(self, chosen: Any) -> "Positions":
        return Positions(self.means[chosen], self.variances[chosen])

    @property
    def spread(self) -> float:
        return float(np.sqrt(self.means.var() + self.variances.mean())) or 1.0

    @property
    def error_of_mean(self) -> float:
        return float(np.sqrt((self.means.var(ddof=1) + 2.0 * self.variances.mean()) / len(self.means)))

    def compare(self, chosen: NDArray[np.bool_]) -> tuple[float, float]:
        """Mean difference of the chosen workers from the others, with its standard error (Welch)."""
        these, others = self.of(chosen), self.of(~chosen)
        error = float(np.hypot(these.error_of_mean, others.error_of_mean))
        return float(these.means.mean() - others.means.mean()), error or 1.0


def _test_trait(name: str, answers: list[Any], positions: Positions) -> list[TraitLink]:
    known = [index for index, value in enumerate(answers) if not _is_missing(value)]
    if all(_is_number(answers[index]) for index in known):
        return _correlation(name, np.array([float(answers[index]) for index in known]), positions.of(known))
    chosen = [list_choices(answers[index]) for index in known]
    counts = Counter(choice for choices in chosen for choice in choices)
    common = sorted(answer for answer, n in counts.items() if MIN_WORKERS <= n <= len(known) - MIN_WORKERS)
    return [
        _mean_difference(name, answer, positions.of(known), np.array([answer in choices for choices in chosen]))
        for answer in common
    ]


def _mean_difference(name: str, answer: str, positions: Positions, chosen: NDArray[np.bool_]) -> TraitLink:
    """Welch's test of the workers with the answer against the others."""
    gap, error = positions.compare(chosen)
    return TraitLink(name, answer, gap / positions.spread, error / positions.spread, int(chosen.sum()))


def _correlation(name: str, numbers: Floats, positions: Positions) -> list[TraitLink]:
    """Change of the values per standard deviation of a numeric answer."""
    values, n = positions.means, len(numbers)
    if n < 2 * MIN_WORKERS or numbers.std() == 0 or values.std() == 0:
        return []
    slope = float(np.mean((numbers - numbers.mean()) / numbers.std() * (values - values.mean())))
    residual = max(float(values.var()) - slope**2, 1e-9) + 2.0 * float(positions.variances.mean())
    error = np.sqrt(residual / (n - 2))
    return [TraitLink(name, _("higher"), slope / positions.spread, float(error) / positions.spread, n)]


def group_by_trait(answers: Sequence[Traits], trait: str) -> TraitGroups:
    """Group workers by a trait: its common answers, quarters of a number, or no answer."""
    values = [each.get(trait) for each in answers]
    known = [value for value in values if not _is_missing(value)]
    name_of, names = _quarters(known) if known and all(map(_is_number, known)) else _common_answers(known)
    missing = [_("no answer")] if len(known) < len(values) else []
    index = {name: place for place, name in enumerate(names)}
    return TraitGroups(
        names + missing, [len(names) if _is_missing(value) else index[name_of(value)] for value in values]
    )


def _common_answers(known: list[Any]) -> tuple[Callable[[Any], str], list[str]]:
    """The most frequent answers in alphabetical order; the others are combined."""
    counts = Counter(map(format_answer, known)).most_common()
    common, others = sorted(answer for answer, _n in counts[:MAX_GROUPS]), _("other answers")
    rest = [others] if len(counts) > MAX_GROUPS and others not in common else []
    return lambda value: answer if (answer := format_answer(value)) in common else others, common + rest


def _quarters(known: list[Any]) -> tuple[Callable[[Any], str], list[str]]:
    """Quartile ranges in ascending order; fewer where quartiles coincide."""
    numbers = np.array(known, dtype=np.float64)
    cuts = np.unique(np.r_[numbers.min(), np.percentile(numbers, QUARTILES), numbers.max()])
    if len(cuts) == 1:
        return lambda _value: f"{cuts[0]:g}", [f"{cuts[0]:g}"]
    names = [f"{low:g} – {high:g}" for low, high in pairwise(cuts)]
    return lambda value: names[int(np.searchsorted(cuts[1:-1], value, side="right"))], names


def _is_missing(value: Any) -> bool:
    return value in (None, []) or (isinstance(value, str) and not value.strip())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
