"""The suggested pairs of a version: computed after it is published and written as rows that pair selection reads."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from django.db.models import Count
from django.db.models.functions import Length

from annotation.models import Assignment, Item, Project, Suggestion, Worker
from annotation.models.arms import list_designs
from annotation.services import write_suggestions
from modelling.models import ModelSnapshot, UpdateState
from modelling.planning.policy import Mask, PairQuestion, SuggestedPairs, suggest_pairs
from modelling.planning.posterior import Floats, Ints, OrderPosterior, contrasts
from modelling.planning.reading_time import ReadingTime, reading_time
from modelling.training.snapshots import FittedModel

log = logging.getLogger("concord.suggestions")

MAX_ROWS = 1000
LEAST_ROWS = 100
MAX_ITEMS = 1500  # of a group; a larger one is sampled, differently in each version
MAX_PERSONAL = 40  # workers who get suggestions of their own, those who judge now
PERSONAL_ITEMS, PERSONAL_ROWS = 120, 15
MAX_COUNTED = 200_000  # judgements; in a larger study only pair selection looks for free slots
Purpose = Project.Suggestions


@dataclass(frozen=True, eq=False)
class ItemGroup:
    """Items that can be paired: their positions in the model, primary keys and seconds to read."""

    at: Ints
    ids: Ints
    seconds: Floats


def refresh_suggestions(snapshot: ModelSnapshot, fitted: FittedModel) -> int:
    """Replace the study's suggestions by those of its newest version; return how many there are.

    Nothing happens if the study wants none, or if another version has been published in the meantime. Suggestions
    are a service: if they fail, the version stands, and pair selection continues with the old ones.
    """
    project = snapshot.project
    purpose = Project.objects.values_list("suggestions", flat=True).get(pk=project.pk)
    if purpose == Purpose.NONE:
        return 0
    try:
        rows = list(build_suggestions(snapshot, fitted, Purpose(purpose)))
    except Exception:  # log any error: the version stands without suggestions
        log.exception("no suggestions", extra={"project": project.slug, "snapshot": snapshot.number})
        return 0
    if UpdateState.objects.filter(project=project, current=snapshot).exists():
        write_suggestions(project=project, suggestions=rows)
    return len(rows)


def build_suggestions(snapshot: ModelSnapshot, fitted: FittedModel, purpose: Purpose) -> Iterator[Suggestion]:
    """Unsaved rows for everyone, and for the workers who judge now if the purpose is personal."""
    project, rng = snapshot.project, np.random.default_rng([snapshot.seed, snapshot.number])
    groups = list(item_groups(fitted, project, reading_time(project), rng))
    full = full_pairs(project)
    total = sum(len(group.at) for group in groups)
    count = max(LEAST_ROWS, min(MAX_ROWS, total))
    question = PairQuestion("order" if purpose == Purpose.PERSONAL else purpose.value, project.top_k)  # type: ignore[arg-type]
    taste = fitted.model.item_components_.T
    for group in groups:
        share = -(-count * len(group.at) // total)
        mean, cov = fitted.model.predict_consensus(items=group.at, return_cov=True)
        asked = replace(
            question,
            judgements=fitted.item_counts[group.at],
            taste=taste[group.at],
            seconds=group.seconds,
            blocked=blocked_pairs(group, full),
        )
        found = suggest_pairs(OrderPosterior.given_scale(mean, cov), asked, share, rng)
        yield from _rows(project, group, found)
    if purpose == Purpose.PERSONAL:
        for worker in judging_now(project):
            if worker in fitted.worker_index:
                yield from personal_suggestions(project, fitted, groups, worker, rng)


def item_groups(
    fitted: FittedModel, project: Project, reading: ReadingTime, rng: np.random.Generator
) -> Iterator[ItemGroup]:
    """The groups of ranked items within which pairs are formed; one group if any two items may be paired."""
    designs = list_designs(project)
    within = all(design.pairs == Project.Pairs.WITHIN_GROUP for design in designs)
    ids = fitted.item_ids[fitted.ranked]
    facts = Item.objects.filter(project=project, active=True).annotate(length=Length("text"))
    known = {pk: (group, length) for pk, group, length in facts.values_list("pk", "group", "length")}
    members: dict[str, list[int]] = {}
    for place, pk in enumerate(ids.tolist()):
        if pk in known:
            members.setdefault(known[pk][0] if within else "", []).append(place)
    for places in members.values():
        chosen = np.array(places, dtype=np.int64)
        if len(chosen) > MAX_ITEMS:
            chosen = np.sort(rng.choice(chosen, MAX_ITEMS, replace=False))
        if len(chosen) > 1:
            lengths = np.array([known[pk][1] for pk in ids[chosen].tolist()], dtype=np.float64)
            yield ItemGroup(fitted.ranked[chosen], ids[chosen], reading.per_item(lengths))


def full_pairs(project: Project) -> set[tuple[int, int]]:
    """The pairs of which no design has a free slot; none for very large studies."""
    slots = project.redundancy * len(list_designs(project))
    issued = Assignment.objects.filter(project=project, slot__isnull=False)
    if issued.count() > MAX_COUNTED:
        return set()
    counted = issued.order_by().values_list("item_lo", "item_hi").annotate(n=Count("pk")).filter(n__gte=slots)
    return {(lo, hi) for lo, hi, _n in counted}


def blocked_pairs(group: ItemGroup, full: set[tuple[int, int]]) -> Mask | None:
    place = {pk: at for at, pk in enumerate(group.ids.tolist())}
    pairs = [(place[lo], place[hi]) for lo, hi in full if lo in place and hi in place]
    if not pairs:
        return None
    blocked = np.zeros((len(group.ids),) * 2, dtype=bool)
    a, b = np.array(pairs).T
    blocked[a, b] = blocked[b, a] = True
    return blocked


def judging_now(project: Project) -> list[int]:
    """Primary keys of the active workers with open leases, those who got them last first."""
    leases = Assignment.objects.filter(project=project, closed_at=None, worker__state=Worker.State.ACTIVE)
    workers = leases.order_by("-pk").values_list("worker", flat=True)[: 20 * MAX_PERSONAL]
    return list(dict.fromkeys(workers))[:MAX_PERSONAL]


def personal_suggestions(
    project: Project, fitted: FittedModel, groups: list[ItemGroup], worker: int, rng: np.random.Generator
) -> Iterator[Suggestion]:
    """The pairs that would teach most about one worker's own order, in groups sampled down to a few items."""
    user = np.array([fitted.worker_index[worker]])
    share = min(1.0, PERSONAL_ITEMS / sum(len(group.at) for group in groups))
    for group in groups:
        size = max(2, round(share * len(group.at)))
        chosen = rng.permutation(len(group.at))[:size]
        some = ItemGroup(group.at[chosen], group.ids[chosen], group.seconds[chosen])
        rows = max(1, round(PERSONAL_ROWS * size / PERSONAL_ITEMS))
        posterior = personal_posterior(fitted, user, some.at)
        found = suggest_pairs(posterior, PairQuestion("order", seconds=some.seconds), rows, rng)
        yield from _rows(project, some, found, worker)


def personal_posterior(fitted: FittedModel, user: Ints, items: Ints) -> OrderPosterior:
    """The posterior of a worker's own scores: that of the consensus, of the component weights, and a private rest."""
    mean = fitted.model.predict_utilities(users=user, items=items)[:, 0]
    cov = fitted.model.predict_consensus(items=items, return_cov=True)[1]
    v = fitted.model.item_components_[:, items]
    weights = fitted.model.predict_weights(users=user)[1][0]
    shared = v.T @ weights @ v
    _own, sd = fitted.model.predict_tastes(users=user, items=items)
    private = np.maximum(sd[:, 0] ** 2 - contrasts(shared).mean(axis=1) / 2.0, 0.0)
    return OrderPosterior.given_scale(mean, cov + shared + np.diag(private))


def _rows(project: Project, group: ItemGroup, found: SuggestedPairs, worker: int | None = None) -> Iterator[Suggestion]:
    """Rows with the gain per second relative to that of a random pair."""
    a, b = group.ids[found.a], group.ids[found.b]
    gains = found.gain / found.random_gain if found.random_gain > 0 else found.gain
    for lo, hi, gain in zip(np.minimum(a, b).tolist(), np.maximum(a, b).tolist(), gains.tolist(), strict=True):
        yield Suggestion(project=project, worker_id=worker, item_lo_id=lo, item_hi_id=hi, gain=gain)
