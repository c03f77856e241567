"""Stable component numbers: a component keeps the number and sign of its match in the previous version."""

from dataclasses import dataclass
from itertools import count

import numpy as np
from django.db import transaction
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from annotation.models import Project, User
from annotation.services import audit
from modelling.models import ComponentName, ComponentNumbers, ModelSnapshot
from modelling.training.snapshots import FittedModel, load_fitted_model

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_LANDMARKS = 200  # items at which two versions are compared
MIN_SHARED = 5  # landmarks; with fewer a correlation is meaningless
MIN_CORRELATION = 0.5  # absolute, for two components to count as the same
MIN_SHARE = 0.01  # weaker components count in the matching as if they had this share of the largest variance
DIGITS = 5


@dataclass(frozen=True, eq=False)
class Numbering:
    """The displayed number and sign of each component, in the estimator's order."""

    numbers: Ints
    signs: Floats


@dataclass(frozen=True, eq=False)
class Profile:
    """The values of components (C, n) at some items, the landmarks, with their variances."""

    landmarks: Ints
    values: Floats
    variances: Floats

    @property
    def weights(self) -> Floats:
        largest = self.variances.max(initial=0.0)
        shares = self.variances / largest if largest > 0 else np.zeros_like(self.variances)
        return np.asarray(np.sqrt(np.maximum(shares, MIN_SHARE)))


def get_numbering(snapshot: ModelSnapshot) -> Numbering:
    """The numbers of a version's components, assigned at the first call and stored."""
    stored = ComponentNumbers.objects.filter(snapshot=snapshot).first() or _assign_numbers(snapshot)
    return _read_numbering(stored)


def _read_numbering(stored: ComponentNumbers) -> Numbering:
    return Numbering(np.array(stored.numbers, dtype=np.int64), np.array(stored.signs, dtype=np.float64))


def _assign_numbers(snapshot: ModelSnapshot) -> ComponentNumbers:
    """Match the last earlier version with numbered components, or else the first later one."""
    profile = build_profile(load_fitted_model(snapshot))
    others = ComponentNumbers.objects.filter(snapshot__project=snapshot.project_id).exclude(numbers=[])
    earlier = others.filter(snapshot__number__lt=snapshot.number).order_by("-snapshot__number").first()
    neighbour = earlier or others.order_by("snapshot__number").first()
    named = set(ComponentName.objects.filter(project=snapshot.project_id).values_list("number", flat=True))
    found = match_numbering(profile, *_read_profile(neighbour), named) if neighbour else number_by_variance(profile)
    fields = {
        "numbers": found.numbers.tolist(),
        "signs": found.signs.tolist(),
        "energies": profile.variances.tolist(),
        "landmarks": profile.landmarks.tolist(),
        "profile": [[float(f"{value:.{DIGITS}g}") for value in row] for row in profile.values],
    }
    return ComponentNumbers.objects.get_or_create(snapshot=snapshot, defaults=fields)[0]


def _read_profile(stored: ComponentNumbers) -> tuple[Profile, Numbering]:
    landmarks = np.array(stored.landmarks, dtype=np.int64)
    values = np.array(stored.profile, dtype=np.float64).reshape(len(stored.numbers), len(landmarks))
    return Profile(landmarks, values, np.array(stored.energies, dtype=np.float64)), _read_numbering(stored)


def build_profile(fitted: FittedModel) -> Profile:
    """The components at items that are evenly spread over all items."""
    n = len(fitted.item_ids)
    at = np.unique(np.linspace(0, n - 1, min(n, MAX_LANDMARKS)).astype(np.int64))
    return Profile(fitted.item_ids[at], fitted.model.item_components_[:, at], fitted.model.component_variances_)


def number_by_variance(profile: Profile) -> Numbering:
    """Number the components by variance, largest first, and keep the estimator's signs."""
    numbers = np.zeros(len(profile.variances), dtype=np.int64)
    numbers[np.argsort(-profile.variances, kind="stable")] = np.arange(1, len(numbers) + 1)
    return Numbering(numbers, np.ones(len(numbers)))


def match_numbering(profile: Profile, before: Profile, known: Numbering, named: set[int]) -> Numbering:
    """Match components by correlation; a component without a match gets a number that has no name yet."""
    r = correlations(profile, before)
    weight = np.outer(profile.weights, before.weights)
    matches = zip(*linear_sum_assignment(-np.abs(r) * weight), strict=True)
    numbers, signs = np.zeros(len(r), dtype=np.int64), np.ones(len(r))
    for new, old in matches:
        if abs(r[new, old]) >= MIN_CORRELATION:
            numbers[new], signs[new] = known.numbers[old], known.signs[old] * np.sign(r[new, old])
    free = (number for number in count(1) if number not in named | set(numbers.tolist()))
    for new in np.argsort(-profile.variances, kind="stable"):
        if numbers[new] == 0:
            numbers[new] = next(free)
    return Numbering(numbers, signs)


def correlations(profile: Profile, before: Profile) -> Floats:
    """Correlations (C, C before) of new with old components over shared landmarks; 0 if there are too few."""
    shared, at, at_before = np.intersect1d(profile.landmarks, before.landmarks, return_indices=True)
    if len(shared) < MIN_SHARED:
        return np.zeros((len(profile.values), len(before.values)))
    new, old = _standardise(profile.values[:, at]), _standardise(before.values[:, at_before])
    return np.asarray(new @ old.T / len(shared))


def _standardise(values: Floats) -> Floats:
    centred = values - values.mean(axis=1, keepdims=True)
    spread = centred.std(axis=1, keepdims=True)
    return np.asarray(centred / np.where(spread > 0, spread, 1.0))


def get_component_names(project: Project) -> dict[int, str]:
    """The names that researchers gave to components, keyed by number."""
    return dict(ComponentName.objects.filter(project=project).values_list("number", "name"))


@transaction.atomic
def name_component(*, project: Project, user: User, number: int, name: str) -> None:
    """Set or remove the name of a component."""
    old = get_component_names(project).get(number, "")
    if name == old:
        return
    if name:
        ComponentName.objects.update_or_create(project=project, number=number, defaults={"name": name})
    else:
        ComponentName.objects.filter(project=project, number=number).delete()
    audit(project, user, "named a component", {"component": number, "old": old, "new": name})
