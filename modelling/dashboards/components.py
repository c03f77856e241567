"""The few latent components that explain why people differ, strongest first."""

from dataclasses import dataclass

import numpy as np

from annotation.models import Item
from modelling.models import ModelSnapshot
from modelling.snapshots import load_fitted

IN_USE = 0.05  # of the largest energy
ENDS = 3


@dataclass(frozen=True)
class Component:
    """`variance` is the paper's 1/(s_v s_w); `energy` tells whether it is in use."""

    number: int
    variance: float
    energy: float
    share: float
    in_use: bool
    high: list[Item]
    low: list[Item]


@dataclass(frozen=True)
class ComponentsPage:
    components: list[Component]

    @property
    def used(self) -> int:
        return sum(component.in_use for component in self.components)


def components_page(snapshot: ModelSnapshot) -> ComponentsPage:
    """Components in order of energy, each with the items at its two ends."""
    fitted = load_fitted(snapshot)
    energy = fitted.model.component_energy_
    largest = float(energy.max(initial=0.0))
    items = {item.pk: item for item in Item.objects.filter(project=snapshot.project, active=True)}
    shown = np.array([position for position, pk in enumerate(fitted.item_ids) if int(pk) in items], dtype=np.int64)
    components = []
    for number, c in enumerate(np.argsort(-energy, kind="stable"), start=1):
        order = shown[np.argsort(fitted.model.item_components_[c][shown], kind="stable")]
        share = float(energy[c]) / largest if largest > 0 else 0.0
        ends = [[items[int(fitted.item_ids[p])] for p in part] for part in (order[::-1][:ENDS], order[:ENDS])]
        variance = float(fitted.model.component_variances_[c])
        used = largest > 0 and share > IN_USE
        components.append(Component(number, variance, float(energy[c]), 100 * share, used, *ends))
    return ComponentsPage(components)
