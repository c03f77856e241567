"""New judgements become one new snapshot: find a project that is behind, claim it, fit, publish.

Whether a project is behind is computed from rows, never from a queue. One claim a project at a time, by a conditional
UPDATE; the claim is a lease, so a killed updater's work is taken up by the next; publishing is fenced on the owner.
"""

import logging
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from annotation.models import Judgement, Project, Retraction
from modelling.arrays import Damaged
from modelling.fitting import ModelSettings, fit, step
from modelling.inputs import Inputs, ids_of, moment_of, news_since, read_inputs
from modelling.models import ConsensusScore, ModelSnapshot, UpdaterBeat, UpdateState
from modelling.snapshots import (
    CODE_VERSION,
    Fitted,
    consensus_scores,
    current_snapshot,
    describe,
    read_fitted,
    save_arrays,
)

log = logging.getLogger("concord.updater")

LEASE = timedelta(seconds=30)
PATIENCE = timedelta(seconds=60)  # a batch that does not fill is taken in after this
ALIVE = timedelta(seconds=30)
FIRST_BACKOFF = timedelta(seconds=5)
LONGEST_BACKOFF = timedelta(minutes=10)
MIN_ITEMS = 2


class LostClaim(Exception):
    """Another updater has taken over; what this one made is thrown away."""


def run_one(owner: str) -> ModelSnapshot | None:
    """Brings one project that is behind up to date; None when there is none or it could not be done."""
    project = claim_one(owner)
    if project is None:
        return None
    try:
        return update(project, owner)
    except LostClaim:
        log.warning("another updater took over", extra={"project": project.slug})
    except Exception as error:  # the boundary of a background job: say it, back off, go on with the others
        log.exception("the update failed", extra={"project": project.slug})
        back_off(project, owner, error)
    return None


def claim_one(owner: str) -> Project | None:
    """The project whose version is oldest and that is now ours, if any is behind and free."""
    for state in _free_states().order_by(F("current__created_at").asc(nulls_first=True), "pk"):
        if is_behind(state) and _free_states().filter(pk=state.pk).update(
            owner=owner, lease_until=timezone.now() + LEASE, attempts=F("attempts") + 1
        ):
            return state.project
    return None


def _free_states() -> Any:
    now = timezone.now()
    _make_missing_states()
    return UpdateState.objects.select_related("project").filter(
        Q(lease_until=None) | Q(lease_until__lt=now), Q(not_before=None) | Q(not_before__lte=now)
    )


def _make_missing_states() -> None:
    missing = Project.objects.filter(update_state=None, head__isnull=False)
    UpdateState.objects.bulk_create([UpdateState(project=project) for project in missing], ignore_conflicts=True)


def is_behind(state: UpdateState) -> bool:
    """A full batch of events, or fewer that have waited a minute, or changed inputs of a project that has events."""
    wanted = moment_of(state.project)
    new = wanted.sequence - state.done_sequence
    if wanted.sequence and wanted.inputs_revision > state.done_inputs_revision:
        return True
    return new >= state.project.update_batch or (new > 0 and _oldest_new_event(state) < timezone.now() - PATIENCE)


def _oldest_new_event(state: UpdateState) -> datetime:
    after = {"project": state.project, "sequence": state.done_sequence + 1}
    for kind in (Judgement, Retraction):
        if event := kind._default_manager.filter(**after).first():
            return event.created_at
    return timezone.now()


def update(project: Project, owner: str) -> ModelSnapshot | None:
    """Reads, learns outside any transaction, publishes. With too little to learn from, only says how far it read."""
    began = time.perf_counter()
    inputs = read_inputs(project)
    if sum(item.active for item in inputs.items) < MIN_ITEMS or not len(inputs.labels):
        _finish(project, owner, inputs, current=None)
        return None
    settings, parent = ModelSettings.of(project.model_settings), current_snapshot(project)
    fitted = learn_on(parent, inputs, settings)
    kind = ModelSnapshot.Kind.STEP if fitted else ModelSnapshot.Kind.REFIT
    fitted = fitted or start_again(inputs, settings, Heartbeat(project, owner))
    scores = consensus_scores(inputs, fitted, settings.seed)
    _refuse_nonsense(scores)
    snapshot = describe(inputs, settings, fitted, parent, kind)
    snapshot.project, snapshot.checksum = project, save_arrays(project, fitted)
    snapshot.seconds = round(time.perf_counter() - began, 3)
    publish(snapshot, scores, owner, inputs)
    facts = {"project": project.slug, "snapshot": snapshot.number, "sequence": snapshot.last_sequence}
    log.info("published", extra=facts)
    return snapshot


def learn_on(parent: ModelSnapshot | None, inputs: Inputs, settings: ModelSettings) -> Fitted | None:
    """The parent's model with what is new, or None where a fit from scratch is called for."""
    if parent is None or not may_step(parent, inputs, settings):
        return None
    try:
        fitted = read_fitted(parent.project, parent.checksum)
    except Damaged:
        return None
    if not {item.pk for item in inputs.items} <= set(fitted.item_ids.tolist()):
        return None
    news = news_since(inputs, parent.last_sequence, fitted.item_ids, fitted.worker_ids)
    step(fitted.model, news)
    return replace(fitted, worker_ids=news.worker_ids)


def may_step(parent: ModelSnapshot, inputs: Inputs, settings: ModelSettings) -> bool:
    """Same inputs, settings and code, enough workers for every component, and less than twice the data of the refit."""
    same = (parent.inputs_revision, parent.settings, parent.code_version)
    if same != (inputs.moment.inputs_revision, settings.as_dict(), CODE_VERSION):
        return False
    refits = ModelSnapshot.objects.filter(project=parent.project, kind=ModelSnapshot.Kind.REFIT)
    last = refits.filter(number__lte=parent.number).latest()
    return len(inputs.workers) > settings.n_components and len(inputs.labels) < 2 * last.included


def start_again(inputs: Inputs, settings: ModelSettings, progress: "Heartbeat") -> Fitted:
    model, features = fit(inputs, settings, progress=progress)
    return Fitted(model, features, ids_of(inputs.items), ids_of(inputs.workers))


def _refuse_nonsense(scores: list[ConsensusScore]) -> None:
    if not all(np.isfinite([score.mean, score.sd, score.polarisation]).all() for score in scores):
        raise FloatingPointError("The fit gave a score that is not a number.")


@transaction.atomic
def publish(snapshot: ModelSnapshot, scores: list[ConsensusScore], owner: str, inputs: Inputs) -> None:
    """The snapshot, its scores and the pointer to it appear together, or not at all."""
    newest = ModelSnapshot.objects.filter(project=snapshot.project).order_by("-number").first()
    snapshot.number = newest.number + 1 if newest else 1
    snapshot.save(force_insert=True)
    for score in scores:
        score.snapshot = snapshot
    ConsensusScore.objects.bulk_create(scores)
    _finish(snapshot.project, owner, inputs, current=snapshot)


def _finish(project: Project, owner: str, inputs: Inputs, current: ModelSnapshot | None) -> None:
    """Moves the pointer forward and gives the claim back; never moves it back, never for a claim that was lost.

    Where nothing is left to learn from, no version is shown: what was taken out of a study does not live on in a page.
    """
    done = {"done_sequence": inputs.moment.sequence, "done_inputs_revision": inputs.moment.inputs_revision}
    ours = UpdateState.objects.filter(project=project, owner=owner, done_sequence__lte=inputs.moment.sequence)
    free: dict[str, Any] = {
        "owner": "",
        "lease_until": None,
        "attempts": 0,
        "not_before": None,
        "words": "",
        "progress": {},
    }
    if not ours.update(current=current, **done, **free):
        raise LostClaim


def back_off(project: Project, owner: str, error: Exception) -> None:
    """The claim is given back, with a pause that doubles with each failure, and the reason in words."""
    state = UpdateState.objects.get(project=project)
    pause = min(FIRST_BACKOFF * 2 ** min(state.attempts, 10), LONGEST_BACKOFF)
    UpdateState.objects.filter(project=project, owner=owner).update(
        owner="",
        lease_until=None,
        not_before=timezone.now() + pause,
        condition=UpdateState.Condition.DEGRADED,
        words=f"{type(error).__name__}: {error}"[:500],
    )


class Heartbeat:
    """Called by the fit at each iteration: extends the lease now and then, and says that this updater lives."""

    def __init__(self, project: Project, owner: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.project, self.owner, self.clock = project, owner, clock
        self.last = clock()

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        if self.clock() - self.last < LEASE.total_seconds() / 6:
            return
        self.last = self.clock()
        beat()
        ours = UpdateState.objects.filter(project=self.project, owner=self.owner)
        if not ours.update(lease_until=timezone.now() + LEASE):
            raise LostClaim


def beat() -> None:
    UpdaterBeat.objects.update_or_create(name=socket.gethostname()[:80], defaults={"seen_at": timezone.now()})


def updater_is_alive() -> bool:
    return UpdaterBeat.objects.filter(seen_at__gte=timezone.now() - ALIVE).exists()
