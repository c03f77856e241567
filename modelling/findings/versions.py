"""Claims and bridging items of a version, computed once for pages, exports and the report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import numpy as np

from annotation.models import Item
from modelling.findings.bridging import Bridging, TasteGroup, find_bridging, taste_groups
from modelling.findings.claims import Claims, simultaneous_claims
from modelling.models import ModelSnapshot
from modelling.planning.groups import PairGroup, pair_groups
from modelling.planning.policy import Mask
from modelling.planning.posterior import OrderPosterior
from modelling.training.components.axes import load_component_axes
from modelling.training.inputs import get_read_point
from modelling.training.snapshots import load_fitted_model
from modelling.training.votes import Votes, get_votes

MAX_ITEMS = 1500  # of a group; larger ones have no claims


@dataclass(frozen=True, eq=False)
class GroupFindings:
    """The items of one group, best first, with their claims and, if tastes are known, how they bridge them."""

    name: str
    items: list[Item]
    claims: Claims
    bridging: Bridging | None


@dataclass(frozen=True, eq=False)
class Findings:
    """The findings of a version; the components of the taste groups are rows of its `ComponentAxes`."""

    groups: list[GroupFindings]
    taste_groups: list[TasteGroup]

    def group(self, name: str) -> GroupFindings | None:
        """The group of this name, or the first one; None if there is none."""
        return next((group for group in self.groups if group.name == name), self.groups[0] if self.groups else None)


def get_findings(snapshot: ModelSnapshot) -> Findings:
    """Compute once per version, and again after a person is erased."""
    return _cached_findings(snapshot, snapshot.created_at, get_read_point(snapshot.project).inputs_revision)


@lru_cache(maxsize=8)
def _cached_findings(snapshot: ModelSnapshot, created_at: datetime, inputs_revision: int) -> Findings:
    fitted, axes, votes = load_fitted_model(snapshot), load_component_axes(snapshot), get_votes(snapshot)
    rng = np.random.default_rng([snapshot.seed, 3])
    groups = []
    for group in pair_groups(fitted, snapshot.project):
        if len(group) <= MAX_ITEMS:
            groups.append(group.take(np.argsort(-fitted.consensus[group.at], kind="stable")))
    posteriors = [group.posterior(fitted) for group in groups]
    claims = simultaneous_claims(posteriors, [_linked(votes, group) for group in groups], rng)
    tastes = taste_groups(axes.users, axes.user_covariances(range(len(axes.axes)))) if axes.axes else []
    found = Item.objects.select_related("project").in_bulk([pk for group in groups for pk in group.ids.tolist()])
    rows = []
    for group, posterior, claimed in zip(groups, posteriors, claims, strict=True):
        bridging = _bridging(posterior, axes.items[:, group.at], tastes, rng) if tastes else None
        rows.append(GroupFindings(group.name, [found[pk] for pk in group.ids.tolist()], claimed, bridging))
    return Findings(rows, tastes)


def _bridging(
    posterior: OrderPosterior, components: np.ndarray, tastes: list[TasteGroup], rng: np.random.Generator
) -> Bridging:
    centred = components - components.mean(axis=1, keepdims=True)
    return find_bridging(posterior, centred, tastes, rng)


def _linked(votes: Votes, group: PairGroup) -> Mask:
    """The pairs that chains of judgements link: nothing is claimed about others, which only the texts relate."""
    parts = np.array([votes.of(pk).part or -1 for pk in group.ids.tolist()])
    return np.asarray((parts[:, None] == parts[None, :]) & (parts[:, None] > 0))
