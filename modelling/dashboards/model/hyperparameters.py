"""The hyperparameters of a version in plain words: spreads, the share of random answers, the use of features."""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

from django.template.defaultfilters import floatformat
from django.utils.translation import gettext_lazy

from modelling.models import ModelSnapshot


@dataclass(frozen=True)
class HyperparameterRow:
    """One hyperparameter as shown on a page; `value` or `previous` is empty if its version has none."""

    label: str
    explanation: str
    value: str
    previous: str = ""


def _as_sd(variance: float) -> str:
    return floatformat(sqrt(variance), 2)


def _as_number(value: float) -> str:
    return floatformat(value, 2)


def _as_percent(share: float) -> str:
    return f"{floatformat(100 * share, 0)} %"


def _as_fine_percent(share: float) -> str:
    return f"{floatformat(100 * share, 1)} %"


DESCRIPTIONS: dict[str, tuple[Any, Any, Callable[[float], str]]] = {
    "consensus_variance": (
        gettext_lazy("spread of the consensus"),
        gettext_lazy(
            "Standard deviation of the scores on which the crowd agrees, in units of the noise of one answer."
        ),
        _as_sd,
    ),
    "taste_variance": (
        gettext_lazy("spread of personal tastes"),
        gettext_lazy("Standard deviation of the differences between workers' own scores and the consensus."),
        _as_sd,
    ),
    "own_taste_variance": (
        gettext_lazy("tastes outside the components"),
        gettext_lazy("Standard deviation of the part of personal tastes that no component describes."),
        _as_sd,
    ),
    "lapse": (
        gettext_lazy("answers given at random"),
        gettext_lazy("Share of answers that look like slips. Without evidence the model assumes 2 %."),
        _as_fine_percent,
    ),
    "tie_margin": (
        gettext_lazy("differences that count as ties"),
        gettext_lazy("Workers answer that both are equal if the difference they perceive is smaller than this."),
        _as_number,
    ),
    "feature_share": (
        gettext_lazy("consensus that follows the texts"),
        gettext_lazy("Share of its variance that similar texts or features explain. The rest is each item's own."),
        _as_percent,
    ),
    "taste_feature_share": (
        gettext_lazy("tastes that follow the texts"),
        gettext_lazy("The same share for personal tastes."),
        _as_percent,
    ),
}


def hyperparameter_rows(snapshot: ModelSnapshot, previous: ModelSnapshot | None = None) -> list[HyperparameterRow]:
    """The hyperparameters that this version or the previous one has."""
    now, before = _formatted(snapshot), _formatted(previous) if previous else {}
    return [
        HyperparameterRow(str(label), str(explanation), now.get(name, ""), before.get(name, ""))
        for name, (label, explanation, _format) in DESCRIPTIONS.items()
        if name in now or name in before
    ]


def _formatted(snapshot: ModelSnapshot) -> dict[str, str]:
    values = snapshot.hyperparameters
    return {
        name: format_value(values[name])
        for name, (_label, _explanation, format_value) in DESCRIPTIONS.items()
        if name in values
    }
