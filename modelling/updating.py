"""New judgements become one new snapshot: find a project that is behind, claim it, fit, publish.

Whether a project is behind is computed from rows, never from a queue. One claim a project at a time, by a conditional
UPDATE; the claim is a lease, so a killed updater's work is taken up by the next; publishing is fenced on the owner.
"""

import logging
import socket
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from annotation.models import Judgement, Project, Retraction
from modelling.fitting import ModelSettings, fit
from modelling.inputs import Inputs, moment_of, read_inputs
from modelling.models import ConsensusScore, ModelSnapshot, UpdaterBeat, UpdateState
from modelling.snapshots import Fitted, consensus_scores, describe, save_arrays

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
    """The project that has waited longest and is now ours, if any is behind and free."""
    for state in _free_states().order_by("done_sequence"):
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
    """Reads, fits outside any transaction, and publishes. With too little to learn from, only says how far it read."""
    began = time.perf_counter()
    inputs = read_inputs(project)
    if len(inputs.items) < MIN_ITEMS or not len(inputs.labels):
        _finish(project, owner, inputs, current=None)
        return None
    settings = ModelSettings.of(project.model_settings)
    model, features = fit(inputs, settings, progress=Heartbeat(project, owner))
    fitted = Fitted(
        model,
        features,
        np.array([item.pk for item in inputs.items]),
        np.array([worker.pk for worker in inputs.workers]),
    )
    scores = consensus_scores(inputs, fitted, settings.seed)
    _refuse_nonsense(scores)
    checksum = save_arrays(project, fitted)
    snapshot = describe(project, inputs, settings, fitted, time.perf_counter() - began, checksum)
    publish(snapshot, scores, owner, inputs)
    log.info(
        "published", extra={"project": project.slug, "snapshot": snapshot.number, "sequence": snapshot.last_sequence}
    )
    return snapshot


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
    """Moves the pointer forward and gives the claim back; never moves it back, never for a claim that was lost."""
    done = {"done_sequence": inputs.moment.sequence, "done_inputs_revision": inputs.moment.inputs_revision}
    if current is not None:
        done["current"] = current  # type: ignore[assignment]
    ours = UpdateState.objects.filter(project=project, owner=owner, done_sequence__lte=inputs.moment.sequence)
    free = {"owner": "", "lease_until": None, "attempts": 0, "not_before": None, "error": ""}
    if not ours.update(**done, **free):
        raise LostClaim


def back_off(project: Project, owner: str, error: Exception) -> None:
    """The claim is given back, with a pause that doubles with each failure, and the reason in words."""
    state = UpdateState.objects.get(project=project)
    pause = min(FIRST_BACKOFF * 2 ** min(state.attempts, 10), LONGEST_BACKOFF)
    UpdateState.objects.filter(project=project, owner=owner).update(
        owner="", lease_until=None, not_before=timezone.now() + pause, error=f"{type(error).__name__}: {error}"[:500]
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
