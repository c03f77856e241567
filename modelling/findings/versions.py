"""Claims and bridging items of a version, computed once for pages, exports and the report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from annotation.models import Item
from modelling.findings.bridging import Bridging, TasteGroup, find_bridging, taste_groups
from modelling.findings.claims import LEVEL, Claims, simultaneous_claims
from modelling.models import ModelSnapshot
from modelling.planning.groups import PairGroup, pair_groups
from modelling.planning.policy import Mask
from modelling.planning.posterior import OrderPosterior, contrasts
from modelling.training.components.axes import load_component_axes
from modelling.training.inputs import get_read_point
from modelling.training.snapshots import FittedModel, load_fitted_model
from modelling.training.votes import Votes, get_votes

MAX_ITEMS = 1500  # in a group; larger groups have no claims
MAX_TIER_PAIRS = 45_000  # in all groups together; with more pairs, the ranking has no tiers


@dataclass(frozen=True, eq=False)
class GroupFindings:
    """The items of one group, best first, with their claims and, if the model has tastes, their bridging scores.

    The items fall into `n_parts` parts of the comparison graph. Nothing is claimed across parts, so the rank ranges
    allow for any order of the parts.
    """

    name: str
    items: list[Item]
    claims: Claims
    bridging: Bridging | None
    n_parts: int


@dataclass(frozen=True, eq=False)
class Findings:
    """A version's findings; the taste groups number components by their rows in the version's `ComponentAxes`."""

    groups: list[GroupFindings]
    taste_groups: list[TasteGroup]

    def group(self, name: str) -> GroupFindings | None:
        """The group with this name, or else the first one; None if there are no groups."""
        return next((group for group in self.groups if group.name == name), self.groups[0] if self.groups else None)


@dataclass(frozen=True, eq=False)
class GroupClaims:
    """The items of one group, best first, their posterior and their claims."""

    group: PairGroup
    posterior: OrderPosterior
    claims: Claims


def get_findings(snapshot: ModelSnapshot) -> Findings:
    """A version's findings, cached; they are computed again after a person is erased."""
    return _cached_findings(snapshot, snapshot.created_at, get_read_point(snapshot.project).inputs_revision)


def get_tiers(snapshot: ModelSnapshot) -> dict[int, int]:
    """The tier of each item, by primary key; empty for a study with so many pairs that this would take seconds."""
    groups = pair_groups(load_fitted_model(snapshot), snapshot.project)
    if sum(len(group) * (len(group) - 1) // 2 for group in groups) > MAX_TIER_PAIRS:
        return {}
    found = _cached_claims(snapshot, snapshot.created_at, get_read_point(snapshot.project).inputs_revision)
    return {
        pk: tier for each in found for pk, tier in zip(each.group.ids.tolist(), each.claims.tier.tolist(), strict=True)
    }


@lru_cache(maxsize=8)
def _cached_claims(snapshot: ModelSnapshot, created_at: datetime, inputs_revision: int) -> list[GroupClaims]:
    fitted, votes = load_fitted_model(snapshot), get_votes(snapshot)
    groups = []
    for group in pair_groups(fitted, snapshot.project):
        if len(group) <= MAX_ITEMS:
            groups.append(group.take(np.argsort(-fitted.consensus[group.at], kind="stable")))
    posteriors = [group.posterior(fitted) for group in groups]
    rng = np.random.default_rng([snapshot.seed, 3])
    allowed = [_linked(votes, group) & _supported(fitted, group) for group in groups]
    claims = simultaneous_claims(posteriors, allowed, rng)
    return [GroupClaims(*row) for row in zip(groups, posteriors, claims, strict=True)]


@lru_cache(maxsize=8)
def _cached_findings(snapshot: ModelSnapshot, created_at: datetime, inputs_revision: int) -> Findings:
    claimed, axes = _cached_claims(snapshot, created_at, inputs_revision), load_component_axes(snapshot)
    votes = get_votes(snapshot)
    rng = np.random.default_rng([snapshot.seed, 4])
    tastes = taste_groups(axes.users, axes.user_covariances(range(len(axes.axes)))) if axes.axes else []
    every = [pk for each in claimed for pk in each.group.ids.tolist()]
    found = Item.objects.select_related("project").in_bulk(every)
    rows = []
    for each in claimed:
        bridging = _bridging(each.posterior, axes.items[:, each.group.at], tastes, rng) if tastes else None
        ids = each.group.ids.tolist()
        items = [found[pk] for pk in ids]
        rows.append(GroupFindings(each.group.name, items, each.claims, bridging, votes.count_parts(ids)))
    return Findings(rows, tastes)


def _bridging(
    posterior: OrderPosterior, components: np.ndarray, tastes: list[TasteGroup], rng: np.random.Generator
) -> Bridging:
    centred = components - components.mean(axis=1, keepdims=True)
    return find_bridging(posterior, centred, tastes, rng)


def _linked(votes: Votes, group: PairGroup) -> Mask:
    """The pairs linked by chains of judgements; nothing is claimed about other pairs, which only the texts relate."""
    parts = np.array([votes.of(pk).part or -1 for pk in group.ids.tolist()])
    return np.asarray((parts[:, None] == parts[None, :]) & (parts[:, None] > 0))


def _supported(fitted: FittedModel, group: PairGroup) -> Mask:
    """The pairs whose order is probable even if the common scale of the scores is uncertain.

    Claims are computed given that scale. After very few judgements its sign is as uncertain as the order.
    """
    mean, cov = fitted.model.predict_consensus(items=group.at, return_cov=True)
    return np.asarray(mean[:, None] - mean[None, :] > ndtri(LEVEL) * np.sqrt(np.maximum(contrasts(cov), 0.0)))
