"""Component 2 stays component 2: every version's components get the numbers and signs of those they continue."""

from dataclasses import dataclass
from itertools import count

import numpy as np
from django.db import transaction
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from annotation.models import Project, User
from annotation.services import audit
from modelling.models import ComponentName, ComponentNumbers, ModelSnapshot
from modelling.snapshots import Fitted, load_fitted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LANDMARKS = 200  # items by which two versions are compared
FEWEST_SHARED = 5  # of them; with fewer a correlation says nothing
SAME = 0.5  # absolute correlation over items from which two components are one
FAINT = 0.01  # share of the largest energy that even an unused component counts for when partners are found
DIGITS = 5


@dataclass(frozen=True, eq=False)
class Numbering:
    """The number and sign on pages of each component of an estimator, in the estimator's order."""

    numbers: Ints
    signs: Floats


@dataclass(frozen=True, eq=False)
class Profile:
    """Components (C, n) at a few items, with their energies."""

    landmarks: Ints
    values: Floats
    energies: Floats

    @property
    def weights(self) -> Floats:
        largest = self.energies.max(initial=0.0)
        shares = self.energies / largest if largest > 0 else np.zeros_like(self.energies)
        return np.asarray(np.sqrt(np.maximum(shares, FAINT)))


def numbers_of(snapshot: ModelSnapshot) -> Numbering:
    """The numbers of a version's components: decided when somebody first asks, the same ever after."""
    stored = ComponentNumbers.objects.filter(snapshot=snapshot).first() or _decide(snapshot)
    return _numbering(stored)


def _numbering(stored: ComponentNumbers) -> Numbering:
    return Numbering(np.array(stored.numbers, dtype=np.int64), np.array(stored.signs, dtype=np.float64))


def _decide(snapshot: ModelSnapshot) -> ComponentNumbers:
    """Follows the nearest version that has numbers, an earlier one where there is one."""
    profile = profile_of(load_fitted(snapshot))
    others = ComponentNumbers.objects.filter(snapshot__project=snapshot.project_id)
    earlier = others.filter(snapshot__number__lt=snapshot.number).order_by("-snapshot__number").first()
    near = earlier or others.order_by("snapshot__number").first()
    named = set(ComponentName.objects.filter(project=snapshot.project_id).values_list("number", flat=True))
    found = followed(profile, *_as_numbered(near), named) if near else fresh(profile)
    fields = {
        "numbers": found.numbers.tolist(),
        "signs": found.signs.tolist(),
        "energies": profile.energies.tolist(),
        "landmarks": profile.landmarks.tolist(),
        "profile": [[float(f"{value:.{DIGITS}g}") for value in row] for row in profile.values],
    }
    return ComponentNumbers.objects.get_or_create(snapshot=snapshot, defaults=fields)[0]


def _as_numbered(stored: ComponentNumbers) -> tuple[Profile, Numbering]:
    landmarks = np.array(stored.landmarks, dtype=np.int64)
    values = np.array(stored.profile, dtype=np.float64).reshape(len(stored.numbers), len(landmarks))
    return Profile(landmarks, values, np.array(stored.energies, dtype=np.float64)), _numbering(stored)


def profile_of(fitted: Fitted) -> Profile:
    """The components at items spread evenly over all of them."""
    n = len(fitted.item_ids)
    at = np.unique(np.linspace(0, n - 1, min(n, LANDMARKS)).astype(np.int64))
    return Profile(fitted.item_ids[at], fitted.model.item_components_[:, at], fitted.model.component_energy_)


def fresh(profile: Profile) -> Numbering:
    """Numbers by energy, the strongest first, with the estimator's own signs."""
    numbers = np.zeros(len(profile.energies), dtype=np.int64)
    numbers[np.argsort(-profile.energies, kind="stable")] = np.arange(1, len(numbers) + 1)
    return Numbering(numbers, np.ones(len(numbers)))


def followed(profile: Profile, before: Profile, known: Numbering, named: set[int]) -> Numbering:
    """Each component takes number and sign of the one it is; one that is new takes a number that nobody has named."""
    r = correlations(profile, before)
    weight = np.outer(profile.weights, before.weights)
    partners = zip(*linear_sum_assignment(-np.abs(r) * weight), strict=True)
    numbers, signs = np.zeros(len(r), dtype=np.int64), np.ones(len(r))
    for new, old in partners:
        if abs(r[new, old]) >= SAME:
            numbers[new], signs[new] = known.numbers[old], known.signs[old] * np.sign(r[new, old])
    free = (number for number in count(1) if number not in named | set(numbers.tolist()))
    for new in np.argsort(-profile.energies, kind="stable"):
        if numbers[new] == 0:
            numbers[new] = next(free)
    return Numbering(numbers, signs)


def correlations(profile: Profile, before: Profile) -> Floats:
    """(C, C before): of each new component with each old one over the items both know; 0 where there are too few."""
    shared, at, at_before = np.intersect1d(profile.landmarks, before.landmarks, return_indices=True)
    if len(shared) < FEWEST_SHARED:
        return np.zeros((len(profile.values), len(before.values)))
    new, old = _standardised(profile.values[:, at]), _standardised(before.values[:, at_before])
    return np.asarray(new @ old.T / len(shared))


def _standardised(values: Floats) -> Floats:
    centred = values - values.mean(axis=1, keepdims=True)
    spread = centred.std(axis=1, keepdims=True)
    return np.asarray(centred / np.where(spread > 0, spread, 1.0))


def names_of(project: Project) -> dict[int, str]:
    """What researchers call the components, by number."""
    return dict(ComponentName.objects.filter(project=project).values_list("number", "name"))


@transaction.atomic
def name_component(*, project: Project, user: User, number: int, name: str) -> None:
    """The component has this name from now on, or none; the old one is in the audit."""
    old = names_of(project).get(number, "")
    if name == old:
        return
    if name:
        ComponentName.objects.update_or_create(project=project, number=number, defaults={"name": name})
    else:
        ComponentName.objects.filter(project=project, number=number).delete()
    audit(project, user, "named a component", {"component": number, "old": old, "new": name})
