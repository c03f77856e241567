"""The suggested pairs of a version: computed after it is published and written as rows that pair selection reads."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from django.db.models import Count

from annotation.models import Assignment, Project, Suggestion, Worker
from annotation.models.arms import list_designs
from annotation.services import write_suggestions
from modelling.models import ModelSnapshot, UpdateState
from modelling.planning.groups import PairGroup, pair_groups
from modelling.planning.policy import Mask, PairQuestion, SuggestedPairs, suggest_pairs
from modelling.planning.posterior import Ints, OrderPosterior, contrasts
from modelling.planning.reading_time import ReadingTime, reading_time
from modelling.training.snapshots import FittedModel

log = logging.getLogger("concord.suggestions")

MAX_ROWS = 1000
LEAST_ROWS = 100
MAX_ITEMS = 1500  # in a group; a larger one is sampled, differently in each version
MAX_PERSONAL = 40  # workers who get suggestions of their own: those who are judging now
PERSONAL_ITEMS, PERSONAL_ROWS = 120, 15
MAX_COUNTED = 200_000  # judgements; in a larger study only pair selection looks for free slots
Purpose = Project.Suggestions


def refresh_suggestions(snapshot: ModelSnapshot, fitted: FittedModel) -> int:
    """Replace the study's suggestions with those of this version; return how many were computed.

    They are not stored if another version has been published in the meantime. Return 0 if suggestions are switched off
    or computing them fails; a failure is logged, and pair selection continues with the old suggestions.
    """
    project = snapshot.project
    purpose = Project.objects.values_list("suggestions", flat=True).get(pk=project.pk)
    if purpose == Purpose.NONE:
        return 0
    try:
        rows = list(build_suggestions(snapshot, fitted, Purpose(purpose)))
    except Exception:  # log any error: the version is kept without suggestions
        log.exception("no suggestions", extra={"project": project.slug, "snapshot": snapshot.number})
        return 0
    if UpdateState.objects.filter(project=project, current=snapshot).exists():
        write_suggestions(project=project, suggestions=rows)
    return len(rows)


def build_suggestions(snapshot: ModelSnapshot, fitted: FittedModel, purpose: Purpose) -> Iterator[Suggestion]:
    """Unsaved suggestions for everyone and, if the purpose is personal, for each worker who is judging now."""
    project, rng = snapshot.project, np.random.default_rng([snapshot.seed, snapshot.number])
    groups, reading = list(sampled_groups(fitted, project, rng)), reading_time(project)
    full, total = full_pairs(project), sum(len(group) for group in groups)
    count = max(LEAST_ROWS, min(MAX_ROWS, total))
    question = PairQuestion("order" if purpose == Purpose.PERSONAL else purpose.value, project.top_k)  # type: ignore[arg-type]
    taste = fitted.model.item_components_.T
    for group in groups:
        share = -(-count * len(group) // total)
        asked = replace(
            question,
            judgements=fitted.item_counts[group.at],
            taste=taste[group.at],
            lapse=fitted.lapse,
            seconds=reading.per_item(group.lengths),
            blocked=blocked_pairs(group, full),
        )
        found = suggest_pairs(group.posterior(fitted), asked, share, rng)
        yield from _rows(project, group, found)
    if purpose == Purpose.PERSONAL:
        for worker in judging_now(project):
            if worker in fitted.worker_index:
                yield from personal_suggestions(project, fitted, groups, reading, worker, rng)


def sampled_groups(fitted: FittedModel, project: Project, rng: np.random.Generator) -> Iterator[PairGroup]:
    """The study's groups; of a very large one, a random sample of its items."""
    for group in pair_groups(fitted, project):
        large = len(group) > MAX_ITEMS
        yield group.take(np.sort(rng.permutation(len(group))[:MAX_ITEMS])) if large else group


def full_pairs(project: Project) -> set[tuple[int, int]]:
    """The pairs for which no design has a free slot; empty for a very large study."""
    slots = project.redundancy * len(list_designs(project))
    issued = Assignment.objects.filter(project=project, slot__isnull=False)
    if issued.count() > MAX_COUNTED:
        return set()
    counted = issued.order_by().values_list("item_lo", "item_hi").annotate(n=Count("pk")).filter(n__gte=slots)
    return {(lo, hi) for lo, hi, _n in counted}


def blocked_pairs(group: PairGroup, full: set[tuple[int, int]]) -> Mask | None:
    place = {pk: at for at, pk in enumerate(group.ids.tolist())}
    pairs = [(place[lo], place[hi]) for lo, hi in full if lo in place and hi in place]
    if not pairs:
        return None
    blocked = np.zeros((len(group.ids),) * 2, dtype=bool)
    a, b = np.array(pairs).T
    blocked[a, b] = blocked[b, a] = True
    return blocked


def judging_now(project: Project) -> list[int]:
    """Primary keys of the active workers with open leases, the newest lease first."""
    leases = Assignment.objects.filter(project=project, closed_at=None, worker__state=Worker.State.ACTIVE)
    workers = leases.order_by("-pk").values_list("worker", flat=True)[: 20 * MAX_PERSONAL]
    return list(dict.fromkeys(workers))[:MAX_PERSONAL]


def personal_suggestions(
    project: Project,
    fitted: FittedModel,
    groups: list[PairGroup],
    reading: ReadingTime,
    worker: int,
    rng: np.random.Generator,
) -> Iterator[Suggestion]:
    """The most informative pairs about one worker's own order, in groups sampled down to a few items."""
    user = np.array([fitted.worker_index[worker]])
    share = min(1.0, PERSONAL_ITEMS / sum(len(group) for group in groups))
    for group in groups:
        size = max(2, round(share * len(group)))
        some = group.take(rng.permutation(len(group))[:size])
        rows = max(1, round(PERSONAL_ROWS * size / PERSONAL_ITEMS))
        posterior = personal_posterior(fitted, user, some.at)
        question = PairQuestion("order", lapse=fitted.lapse, seconds=reading.per_item(some.lengths))
        found = suggest_pairs(posterior, question, rows, rng)
        yield from _rows(project, some, found, worker)


def personal_posterior(fitted: FittedModel, user: Ints, items: Ints) -> OrderPosterior:
    """The posterior of a worker's own scores: consensus, component weights and a private residual."""
    mean = fitted.model.predict_utilities(users=user, items=items)[:, 0]
    cov = fitted.model.predict_consensus(items=items, return_cov=True)[1]
    v = fitted.model.item_components_[:, items]
    weights = fitted.model.predict_weights(users=user)[1][0]
    shared = v.T @ weights @ v
    _own, sd = fitted.model.predict_tastes(users=user, items=items)
    private = np.maximum(sd[:, 0] ** 2 - contrasts(shared).mean(axis=1) / 2.0, 0.0)
    return OrderPosterior.given_scale(mean, cov + shared + np.diag(private))


def _rows(project: Project, group: PairGroup, found: SuggestedPairs, worker: int | None = None) -> Iterator[Suggestion]:
    """Unsaved suggestions, each with its gain per second relative to a random pair."""
    a, b = group.ids[found.a], group.ids[found.b]
    gains = found.gain / found.random_gain if found.random_gain > 0 else found.gain
    for lo, hi, gain in zip(np.minimum(a, b).tolist(), np.maximum(a, b).tolist(), gains.tolist(), strict=True):
        yield Suggestion(project=project, worker_id=worker, item_lo_id=lo, item_hi_id=hi, gain=gain)
