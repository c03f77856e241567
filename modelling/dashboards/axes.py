"""The components as every page shows them: numbered and signed as in earlier versions, and named."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from django.utils.translation import gettext as _
from numpy.typing import NDArray

from modelling.models import ModelSnapshot
from modelling.numbering import names_of, numbers_of
from modelling.snapshots import Fitted, load_fitted

Floats = NDArray[np.float64]

IN_USE = 0.05  # of the largest energy
EVERYBODY = slice(None)
NOTHING = 1e-6  # energy of scores that differ by a thousandth of the noise of one answer: rounding, not taste


@dataclass(frozen=True)
class Axis:
    """One component. `variance` is the paper's 1/(s_v s_w), `prior` the same before any label; energy tells its use."""

    number: int
    name: str
    variance: float
    prior: float
    energy: float
    share: float
    in_use: bool

    @property
    def title(self) -> str:
        """What it is called: by name where it has one."""
        return self.name or _("Component %(number)d") % {"number": self.number}


@dataclass(frozen=True, eq=False)
class Axes:
    """All components of a version in the order of their numbers; rows of `items` and `users` belong to `axes`."""

    fitted: Fitted
    axes: list[Axis]
    places: NDArray[np.int64]  # of each axis among the estimator's components
    signs: Floats

    @cached_property
    def items(self) -> Floats:
        """(C, N)"""
        return self.signs[:, None] * self.fitted.model.item_components_[self.places]

    @cached_property
    def users(self) -> Floats:
        """(C, U)"""
        return self.signs[:, None] * self.fitted.model.user_components_[self.places]

    @property
    def used(self) -> list[int]:
        """The rows of the components in use, the strongest first."""
        return [row for row in self.strongest if self.axes[row].in_use]

    @property
    def strongest(self) -> list[int]:
        """All rows, the strongest first."""
        return sorted(range(len(self.axes)), key=lambda row: -self.axes[row].energy)

    def contributions(self, items: NDArray[np.int64], user: int) -> Floats:
        """(C, items): what each component adds to this worker's scores of these items, v_ci w_uc."""
        return np.asarray(self.items[:, items] * self.users[:, [user]])

    def user_covariances(self, rows: Sequence[int], users: NDArray[np.int64] | slice = EVERYBODY) -> Floats:
        """(U, k, k): the posterior covariance of these workers' places on these components."""
        turn = displayed_user_turn(self.fitted)[:, self.places[list(rows)]] * self.signs[list(rows)]
        return np.asarray(turn.T @ (self.fitted.model._post.users.Omega[users] @ turn))


def displayed_user_turn(fitted: Fitted) -> Floats:
    """(C, C): leads from the fitted to the displayed components of the workers."""
    return fitted.model._displayed.user_turn


def axes_of(snapshot: ModelSnapshot) -> Axes:
    """The components of a version, numbered, signed and named."""
    fitted, numbering, names = load_fitted(snapshot), numbers_of(snapshot), names_of(snapshot.project)
    model, places = fitted.model, np.argsort(numbering.numbers, kind="stable")
    largest = float(model.component_energy_.max(initial=0.0, where=model.component_energy_ > NOTHING))
    axes = [
        Axis(
            number=(number := int(numbering.numbers[c])),
            name=names.get(number, ""),
            variance=float(model.component_variances_[c]),
            prior=float(model.prior_component_variance_[c]),
            energy=(energy := float(model.component_energy_[c])),
            share=100 * energy / largest if largest > 0 else 0.0,
            in_use=largest > 0 and energy > IN_USE * largest,
        )
        for c in places
    ]
    return Axes(fitted, axes, places, numbering.signs[places])
