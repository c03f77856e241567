"""Who works on which project: found from rows, claimed by a conditional UPDATE, held by a lease, fenced on the owner.

Whether a project is behind is computed, never queued. A claim is a lease, so a killed updater's work is taken up by the
next; whoever lost the claim can neither publish nor speak for the project any more.
"""

import logging
import math
import os
import socket
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from annotation.models import Judgement, Project, Retraction
from modelling.inputs import Moment, moment_of
from modelling.models import ExportJob, ModelSnapshot, SettingsSearch, UpdaterBeat, UpdateState, WebhookDelivery
from modelling.snapshots import CODE_VERSION
from modelling.troubles import KILLED, words_for

log = logging.getLogger("concord.updater")

LEASE = timedelta(seconds=30)
PATIENCE = timedelta(seconds=60)  # a batch that does not fill is taken in after this
ALIVE = timedelta(seconds=30)
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=10)
FAILURES = 3  # in a row, after which the pause is the longest at once
EVERY_SECOND = 1.0
Tell = Callable[..., None]  # what is being done, which share of it is done, a detail
STAGES = {
    "read": "reading", "fit": "fitting", "refine": "refining", "compare": "comparing",
}  # fmt: skip  # whatever else a fit reports is choosing
FREE: dict[str, Any] = {"owner": "", "lease_until": None, "progress": {}}
CALM: dict[str, Any] = {**FREE, "attempts": 0, "not_before": None}
Condition = UpdateState.Condition


class LostClaim(Exception):
    """Another updater has taken over; what this one made is thrown away."""


def claim_one(owner: str, only: Project | None = None) -> Project | None:
    """The project whose version is oldest and that is now ours, if any is behind and free.

    Whoever names one project does not want to wait for a full batch of it, or for the pause after a failure.
    """
    patience = PATIENCE if only is None else timedelta(0)
    for state in _free_states(only).order_by(F("current__created_at").asc(nulls_first=True), "pk"):
        if is_behind(state, patience) and not _rests_after_kills(state) and _claim(state, owner):
            return state.project
    return None


def _claim(state: UpdateState, owner: str) -> bool:
    now = timezone.now()
    free = UpdateState.objects.filter(unheld(now), pk=state.pk, not_before=state.not_before)
    tried = moment_of(state.project).inputs_revision
    claimed = free.update(owner=owner, lease_until=now + LEASE, attempts=F("attempts") + 1, tried_inputs_revision=tried)
    return bool(claimed)


def _free_states(only: Project | None) -> "QuerySet[UpdateState]":
    now = timezone.now()
    _make_missing_states()
    free = UpdateState.objects.select_related("project", "current").filter(unheld(now), project__head__isnull=False)
    if only is not None:
        return free.filter(project=only)
    changed = Q(tried_inputs_revision__lt=F("project__head__inputs_revision"))  # the cause may be mended
    return free.filter(Q(not_before=None) | Q(not_before__lte=now) | changed)


def unheld(now: datetime) -> Q:
    """Rows of any kind of job that nobody has claimed, or whose claim has run out."""
    return Q(lease_until=None) | Q(lease_until__lt=now)


def _rests_after_kills(state: UpdateState) -> bool:
    """Whoever worked on this project was killed again and again: it is left alone for a while, and that is said."""
    if not state.owner or state.attempts < FAILURES:
        return False
    killed = UpdateState.objects.filter(pk=state.pk, owner=state.owner, lease_until=state.lease_until)
    pause = timezone.now() + LONGEST_PAUSE
    if killed.update(not_before=pause, condition=Condition.DEGRADED, words=KILLED, **FREE) and state.words != KILLED:
        log.error("the update was killed %d times in a row", state.attempts, extra={"project": state.project.slug})
    return True


def owner_here() -> str:
    """A name for this process that no other updater has."""
    return f"{socket.gethostname()[:25]}-{os.getpid()}"


def release_claims_of_the_dead() -> None:
    """Claims of updaters that were killed on this machine, whatever they were at, need not run out first."""
    host = f"{socket.gethostname()[:25]}-"
    for kind in (UpdateState, SettingsSearch, ExportJob, WebhookDelivery):
        claims = kind._default_manager.filter(lease_until__isnull=False)
        for owner in set(claims.filter(owner__startswith=host).values_list("owner", flat=True)):
            pid = owner.removeprefix(host)
            if pid.isdigit() and not _is_alive(int(pid)):
                claims.filter(owner=owner).update(lease_until=timezone.now() - timedelta(seconds=1))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid != os.getpid()


def _make_missing_states() -> None:
    missing = list(Project.objects.filter(update_state=None, head__isnull=False))
    if missing:
        UpdateState.objects.bulk_create([UpdateState(project=project) for project in missing], ignore_conflicts=True)


def is_held(state: UpdateState) -> bool:
    """Somebody works on this project now."""
    return state.lease_until is not None and state.lease_until >= timezone.now()


def is_behind(state: UpdateState, patience: timedelta) -> bool:
    """A full batch of events, or fewer that have waited so long; or other inputs, or a version of older code."""
    wanted = moment_of(state.project)
    if state.current and state.current.code_version != CODE_VERSION:
        return True
    new = wanted.sequence - state.done_sequence
    if wanted.sequence and wanted.inputs_revision > state.done_inputs_revision:
        return True
    if new <= 0 or new >= state.project.update_batch:
        return new > 0
    return not patience or _oldest_new_event(state) < timezone.now() - patience


def _oldest_new_event(state: UpdateState) -> datetime:
    after = {"project": state.project, "sequence": state.done_sequence + 1}
    for kind in (Judgement, Retraction):
        if event := kind._default_manager.filter(**after).first():
            return event.created_at
    return timezone.now()


def finish(project: Project, owner: str, moment: Moment, current: ModelSnapshot | None, words: str = "") -> None:
    """Moves the pointer forward and gives the claim back; never moves it back, never for a claim that was lost.

    Where nothing is left to learn from, no version is shown: what was taken out of a study does not live on in a page.
    """
    done = {"done_sequence": moment.sequence, "done_inputs_revision": moment.inputs_revision}
    condition = Condition.OK if current else Condition.WAITING
    ours = UpdateState.objects.filter(project=project, owner=owner, done_sequence__lte=moment.sequence)
    if not ours.update(current=current, condition=condition, words=words, **done, **CALM):
        raise LostClaim


def back_off(project: Project, owner: str, error: BaseException) -> None:
    """The claim is given back with a pause that grows with each failure, and the reason in plain words.

    The log gets the traceback once for each new reason, not once for each attempt.
    """
    state = UpdateState.objects.filter(project=project).first()
    if state is None:
        return  # the project was deleted meanwhile
    words = words_for(error)
    if words != state.words:
        log.error("the update failed: %s", words, exc_info=error, extra={"project": project.slug})
    UpdateState.objects.filter(project=project, owner=owner).update(
        not_before=timezone.now() + pause_after(state.attempts),
        condition=Condition.DEGRADED,
        words=words,
        **FREE,
    )


def pause_after(failures: int) -> timedelta:
    """Doubles with each failure in a row; from the third on it is the longest."""
    return LONGEST_PAUSE if failures >= FAILURES else FIRST_PAUSE * 2 ** max(failures, 0)


class Heartbeat:
    """Called at each iteration of a long fit: extends the lease, says that this updater lives and how far it has come.

    At most once a second, by one statement of its own; nobody waits for it.
    """

    def __init__(
        self, project: Project, owner: str, clock: Callable[[], float] = time.monotonic, tell: Tell | None = None
    ) -> None:
        self.project, self.owner, self.clock, self.tell = project, owner, clock, tell
        self.last = clock()

    def __call__(self, stage: str, iteration: int = 0, most: int = 0, change: float = 0.0) -> None:
        if self.clock() - self.last < EVERY_SECOND:
            return
        self.say(stage, iteration, most, change)

    def say(self, stage: str, iteration: int = 0, most: int = 0, change: float = 0.0) -> None:
        """The page and the terminal show this now; LostClaim where somebody else has taken over."""
        self.last = self.clock()
        progress = {
            "what": STAGES.get(stage, "choosing"),
            "iteration": iteration,
            "share": round(min(iteration / most, 1.0), 3) if most else 0.0,
            "change": float(f"{change:.3g}") if math.isfinite(change) else 0.0,
        }
        beat()
        ours = UpdateState.objects.filter(project=self.project, owner=self.owner)
        if not ours.update(lease_until=timezone.now() + LEASE, progress=progress):
            raise LostClaim
        if self.tell:
            detail = f", iteration {iteration}, change {progress['change']:g}" if iteration else ""
            self.tell(f"{self.project.slug}: {progress['what']}", progress["share"], detail)


def beat() -> None:
    """An updater lives on this machine."""
    name, now = socket.gethostname()[:80], timezone.now()
    if not UpdaterBeat.objects.filter(name=name).update(seen_at=now):
        UpdaterBeat.objects.update_or_create(name=name, defaults={"seen_at": now})


def updater_is_alive() -> bool:
    return UpdaterBeat.objects.filter(seen_at__gte=timezone.now() - ALIVE).exists()
