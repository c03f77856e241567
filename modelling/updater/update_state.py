"""A project's UpdateState row: when an update is due, which process runs it, its progress and its result.

Whether an update is due is computed from rows, never from a queue.
"""

import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from annotation.models import Judgement, JudgementImport, Project, Retraction
from modelling.models import ModelSnapshot, UpdateState
from modelling.training.inputs import ReadPoint, get_read_point
from modelling.training.snapshots import CODE_VERSION
from modelling.updater import leases
from modelling.updater.failure_messages import KILLED, failure_message

log = logging.getLogger("concord.updater")

PATIENCE = timedelta(seconds=60)  # an incomplete batch waits no longer than this
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=10)
MAX_FAILURES = 3  # in a row; from then on the pause no longer grows
REPORT_SECONDS = 1.0
ReportProgress = Callable[..., None]  # (what is being done, share done, detail)
STAGES = {"read": "reading", "fit": "fitting", "compare": "comparing"}
SUCCEEDED: dict[str, Any] = {"progress": {}, "attempts": 0, "not_before": None}
Condition = UpdateState.Condition


def claim_project(
    owner: str, only: Project | None = None, accept: Callable[[UpdateState], bool] = lambda state: True
) -> UpdateState | None:
    """Lease the project with the oldest version among those that are due and pass `accept`.

    The project `only` is due at once, without waiting for a full batch or for the pause after a failure.
    """
    patience = PATIENCE if only is None else timedelta(0)
    for state in _claimable_states(only).order_by(F("current__created_at").asc(nulls_first=True), "pk"):
        due = needs_update(state, patience) and accept(state)
        if due and not _pauses_after_kills(state) and _claim(state, owner):
            return state
    return None


def _claim(state: UpdateState, owner: str) -> bool:
    unchanged = UpdateState.objects.filter(not_before=state.not_before)
    tried = get_read_point(state.project).inputs_revision
    return leases.claim(unchanged, state, owner, attempts=F("attempts") + 1, tried_inputs_revision=tried)


def _claimable_states(only: Project | None) -> "QuerySet[UpdateState]":
    create_missing_states()
    states = UpdateState.objects.select_related("project", "current")
    behind = Q(project__head__sequence__gt=F("done_sequence"))
    behind |= Q(project__head__inputs_revision__gt=F("done_inputs_revision"))
    behind |= Q(current__isnull=False) & ~Q(current__code_version=CODE_VERSION)
    importing = JudgementImport.objects.filter(project=OuterRef("project"), state=JudgementImport.State.RUNNING)
    free = states.filter(leases.free_leases(), behind, ~Exists(importing))  # versions contain an import as a whole
    if only is not None:
        return free.filter(project=only)
    changed = Q(tried_inputs_revision__lt=F("project__head__inputs_revision"))  # may have fixed the cause of a failure
    return free.filter(Q(not_before=None) | Q(not_before__lte=timezone.now()) | changed)


def create_missing_states() -> None:
    missing = list(Project.objects.filter(update_state=None, head__isnull=False).values_list("pk", flat=True))
    if missing:
        UpdateState.objects.bulk_create([UpdateState(project_id=pk) for pk in missing], ignore_conflicts=True)


def _pauses_after_kills(state: UpdateState) -> bool:
    """Pause a project whose updates were killed several times in a row, and return whether it was paused."""
    if not state.owner or state.attempts < MAX_FAILURES:
        return False
    with suppress(leases.LeaseLost):
        leases.release(
            state,
            Q(lease_until=state.lease_until),
            not_before=timezone.now() + LONGEST_PAUSE,
            condition=Condition.DEGRADED,
            message=KILLED,
            progress={},
        )
        if state.message != KILLED:
            log.error("update killed %d times in a row", state.attempts, extra={"project": state.project.slug})
    return True


def needs_update(state: UpdateState, patience: timedelta) -> bool:
    """Whether a batch of events is full or has waited long enough, or the inputs or the code version have changed."""
    latest = get_read_point(state.project)
    if state.current and state.current.code_version != CODE_VERSION:
        return True
    if latest.sequence and latest.inputs_revision > state.done_inputs_revision:
        return True
    new = latest.sequence - state.done_sequence
    if new <= 0 or new >= state.project.update_batch:
        return new > 0
    return not patience or _oldest_new_event(state) < timezone.now() - patience


def _oldest_new_event(state: UpdateState) -> datetime:
    after = {"project": state.project, "sequence": state.done_sequence + 1}
    for kind in (Judgement, Retraction):
        if event := kind._default_manager.filter(**after).first():
            return event.created_at
    return timezone.now()


def finish_update(state: UpdateState, read: ReadPoint, current: ModelSnapshot | None, message: str = "") -> None:
    """Set the current version and the position in the log, and release the lease.

    If no judgements are left there is no current version: pages must not show what was removed from a study.
    """
    leases.release(
        state,
        Q(done_sequence__lte=read.sequence),  # the position never moves backwards
        current=current,
        condition=Condition.OK if current else Condition.WAITING,
        message=message,
        done_sequence=read.sequence,
        done_inputs_revision=read.inputs_revision,
        **SUCCEEDED,
    )


def record_failure(state: UpdateState, error: BaseException) -> None:
    """Release the lease with a pause that grows with each failure, and store the reason for the page.

    The traceback is logged once for each new reason, not at each attempt.
    """
    stored = UpdateState.objects.filter(pk=state.pk).first()
    if stored is None:
        return  # the project has been deleted
    message = failure_message(error)
    if message != stored.message:
        log.error("update failed: %s", message, exc_info=error, extra={"project": state.project.slug})
    pause = {"not_before": timezone.now() + retry_delay(stored.attempts), "progress": {}}
    with suppress(leases.LeaseLost):
        leases.release(state, condition=Condition.DEGRADED, message=message, **pause)


def retry_delay(failures: int) -> timedelta:
    """Return the pause, which doubles with each failure in a row and is LONGEST_PAUSE from MAX_FAILURES on."""
    return LONGEST_PAUSE if failures >= MAX_FAILURES else FIRST_PAUSE * 2 ** max(failures, 0)


class ProgressReporter:
    """The progress callback of a fit: at most once a second it stores the progress and checks the lease."""

    def __init__(
        self, state: UpdateState, clock: Callable[[], float] = time.monotonic, report: ReportProgress | None = None
    ) -> None:
        self.state, self.clock, self.report_progress = state, clock, report
        self.last = clock()

    def __call__(self, stage: str, iteration: int = 0, most: int = 0, change: float = 0.0, processes: int = 1) -> None:
        if self.clock() - self.last >= REPORT_SECONDS:
            self.report(stage, iteration, most, change, processes)

    def report(self, stage: str, iteration: int = 0, most: int = 0, change: float = 0.0, processes: int = 1) -> None:
        """Store the progress now; raise LeaseLost if another updater has taken over."""
        self.last = self.clock()
        progress: dict[str, Any] = {
            "what": STAGES[stage],
            "iteration": iteration,
            "share": round(min(iteration / most, 1.0), 3) if most else 0.0,
            "change": float(f"{change:.3g}") if math.isfinite(change) else 0.0,
        }
        if processes > 1:
            progress["processes"] = processes
        leases.write(self.state, progress=progress)
        if self.report_progress:
            detail = f", iteration {iteration}, change {progress['change']:g}" if iteration else ""
            self.report_progress(f"{self.state.project.slug}: {progress['what']}", progress["share"], detail)
