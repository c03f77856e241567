"""The groups of ranked items from which a study forms pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from django.db.models.functions import Length

from annotation.models import Item, Project
from annotation.models.arms import list_designs
from modelling.planning.posterior import Floats, Ints, OrderPosterior
from modelling.training.snapshots import FittedModel


@dataclass(frozen=True, eq=False)
class PairGroup:
    """Items that can be paired: their positions in the model, primary keys and text lengths."""

    name: str
    at: Ints
    ids: Ints
    lengths: Floats

    def __len__(self) -> int:
        return len(self.at)

    def take(self, chosen: Ints) -> PairGroup:
        return PairGroup(self.name, self.at[chosen], self.ids[chosen], self.lengths[chosen])

    def posterior(self, fitted: FittedModel) -> OrderPosterior:
        """The posterior of the group's consensus scores."""
        return OrderPosterior.given_scale(*fitted.model.predict_consensus(items=self.at, return_cov=True))


def has_pairs_within_groups(project: Project) -> bool:
    """Whether every arm of the study forms pairs only within groups."""
    return all(design.pairs == Project.Pairs.WITHIN_GROUP for design in list_designs(project))


def pair_groups(fitted: FittedModel, project: Project) -> list[PairGroup]:
    """The groups with two or more ranked items; a single group of all items unless pairs stay within groups."""
    within = has_pairs_within_groups(project)
    ids = fitted.item_ids[fitted.ranked]
    facts = Item.objects.filter(project=project, active=True).annotate(length=Length("text"))
    known = {pk: (group, length) for pk, group, length in facts.values_list("pk", "group", "length")}
    members: dict[str, list[int]] = {}
    for place, pk in enumerate(ids.tolist()):
        if pk in known:
            members.setdefault(known[pk][0] if within else "", []).append(place)
    found = []
    for name, places in members.items():
        if len(places) > 1:
            lengths = np.array([known[pk][1] for pk in ids[places].tolist()], dtype=np.float64)
            found.append(PairGroup(name, fitted.ranked[places], ids[places], lengths))
    return found
