"""Feature vectors of workers, from their questionnaire answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
State: TypeAlias = dict[str, NDArray[Any]]

MAX_CATEGORIES = 20  # per question; rarer answers count as missing
NUMBER = re.compile(r"[+-]?\d{1,12}(\.\d{1,12})?")
MAX_DEVIATION = 5.0  # standard deviations; larger values are clipped


class TraitFeatures:
    """Transforms questionnaire answers into vectors: numbers are standardised, other answers one-hot encoded.

    An answer with several choices is a list and sets several columns.
    """

    def fit(self, answers: Sequence[Mapping[str, Any]]) -> TraitFeatures:
        """Learn the questions, categories and scales from these answers."""
        self.numbers: dict[str, tuple[float, float]] = {}
        self.categories: dict[str, tuple[str, ...]] = {}
        for name in sorted({name for each in answers for name in each}):
            given = [each[name] for each in answers if not _missing(each.get(name))]
            if given and all(_is_number(value) for value in given):
                values = np.array([_number(name, value) for value in given])
                self.numbers[name] = (float(values.mean()), float(values.std()) or 1.0)
            elif given:
                chosen = [choice for value in given for choice in list_choices(value)]
                common = Counter(chosen).most_common(MAX_CATEGORIES)
                self.categories[name] = tuple(sorted(value for value, _ in common))
        return self

    def transform(self, answers: Sequence[Mapping[str, Any]]) -> Floats:
        """One finite row per worker; the columns of a missing answer are 0."""
        columns = [[self._number(name, each) for each in answers] for name in self.numbers]
        for name, categories in self.categories.items():
            for category in categories:
                columns.append([float(category in list_choices(each.get(name))) / np.sqrt(2.0) for each in answers])
        return np.array(columns, dtype=np.float64).reshape(len(columns), len(answers)).T.copy()

    def _number(self, name: str, answers: Mapping[str, Any]) -> float:
        """The standardised answer; 0, the mean, if it is missing."""
        value = answers.get(name)
        if _missing(value) or not _is_number(value):
            return 0.0
        mean, spread = self.numbers[name]
        return float(np.clip((_number(name, value) - mean) / spread, -MAX_DEVIATION, MAX_DEVIATION))

    def to_state(self) -> State:
        """A flat dict of arrays, from which `from_state` restores the features."""
        pairs = [(name, category) for name, categories in self.categories.items() for category in categories]
        return {
            "number_names": np.array(list(self.numbers), dtype=np.str_),
            "number_scales": np.array(list(self.numbers.values()), dtype=np.float64).reshape(-1, 2),
            "category_names": np.array([name for name, _ in pairs], dtype=np.str_),
            "category_values": np.array([value for _, value in pairs], dtype=np.str_),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> TraitFeatures:
        traits = cls()
        scales = [(float(mean), float(spread)) for mean, spread in state["number_scales"]]
        traits.numbers = dict(zip(map(str, state["number_names"]), scales, strict=True))
        traits.categories = {}
        for name, value in zip(map(str, state["category_names"]), map(str, state["category_values"]), strict=True):
            traits.categories[name] = (*traits.categories.get(name, ()), value)
        return traits


def _missing(value: Any) -> bool:
    return value in (None, []) or (isinstance(value, str) and not value.strip())


def list_choices(value: Any) -> list[str]:
    """The choices of an answer as a list, whether it has one or several."""
    return [str(choice) for choice in value] if isinstance(value, list) else [str(value)]


def _is_number(value: Any) -> bool:
    """Whether a value is a number or, as sent by a form, a string that contains one."""
    if isinstance(value, str):
        return bool(NUMBER.fullmatch(value.strip()))
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _number(name: str, value: Any) -> float:
    number = float(value)
    if not np.isfinite(number):
        raise ValueError(f"The answer to {name!r} is not a finite number.")
    return number
