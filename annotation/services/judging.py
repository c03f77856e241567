"""Record and retract judgements. A request may be sent any number of times and is stored once."""

import uuid as uuids
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from annotation.exceptions import (
    AlreadyRecorded,
    AssignedToAnotherWorker,
    AssignmentNotFound,
    PayloadConflict,
    RequestError,
    StudyNotOpen,
    TieNotOffered,
    TooLateToRetract,
)
from annotation.models import Assignment, Judgement, JudgementNote, Project, Retraction, Worker
from annotation.services.pairs.leasing import reissue
from annotation.services.participation.pilot import pause_after_pilot
from annotation.storage import event_log, fault_injection, queries
from annotation.storage.write_lock import serialise_writes

UNDO_AFTER_FINISHING = timedelta(minutes=1)


@dataclass(frozen=True)
class Receipt:
    """The stored judgement, and whether this request created it."""

    judgement: Judgement
    created: bool
    done: int | None = None  # the worker's number of judgements, if this request counted them


def record_judgement(
    *,
    worker: Worker,
    uuid: uuids.UUID,
    assignment: uuids.UUID,
    choice: str,
    skip_reason: str = "",
    response_ms: int | None = None,
    note: str = "",
    source: str = Judgement.Source.BROWSER,
) -> Receipt:
    """Store one judgement, or return the stored one if this request is a retry.

    Insert first and look for a stored judgement only if that fails: checking first would race with a second request.
    """
    lease = queries.find_lease(worker, assignment)
    if lease is None:
        raise _lease_error(worker, assignment)
    judgement = _build_judgement(
        lease, uuid, to_canonical(choice, lo_is_left=lease.lo_is_left), skip_reason, response_ms
    )
    judgement.source = source
    try:
        done = _store(judgement, lease, note)
    except (IntegrityError, RequestError) as error:
        return Receipt(_find_stored(judgement, error), created=False)
    fault_injection.maybe_fail("after_commit")
    event_log.notify(judgement.project_id)
    return Receipt(judgement, created=True, done=done)


def _lease_error(worker: Worker, assignment: uuids.UUID) -> AssignmentNotFound:
    others = Assignment.objects.filter(public_id=assignment, project=worker.project)
    return AssignedToAnotherWorker() if others.exists() else AssignmentNotFound()


def to_canonical(choice: str, *, lo_is_left: bool) -> str:
    """Translate left/right (or a/b from an import) to the pair's canonical order; leave tie and skip unchanged."""
    first = {"left": True, "a": True, "right": False, "b": False}.get(choice)
    if first is None:
        return choice
    return Judgement.Choice.LO if first == lo_is_left else Judgement.Choice.HI


def _build_judgement(
    lease: Assignment, uuid: uuids.UUID, choice: str, skip_reason: str, response_ms: int | None
) -> Judgement:
    """Build the unsaved judgement; the browser's response time is clipped to the time since the lease was issued."""
    now = timezone.now()
    longest = max(0, int((now - lease.issued_at).total_seconds() * 1000))
    clipped = None if response_ms is None else min(max(response_ms, 0), longest)
    return Judgement(
        uuid=uuid,
        project=lease.project,
        assignment=lease,
        worker=lease.worker,
        item_lo=lease.item_lo,
        item_hi=lease.item_hi,
        round=lease.round,
        choice=choice,
        skip_reason=(skip_reason or Judgement.SkipReason.OTHER) if choice == Judgement.Choice.SKIP else "",
        lo_was_left=lease.lo_is_left,
        response_ms=clipped,
        clock_doubtful=clipped != response_ms,
        late=now > lease.expires_at,
        created_at=now,
    )


@serialise_writes
def _store(judgement: Judgement, lease: Assignment, note: str) -> int:
    """Append the judgement, close its lease and finish the worker if done. Return the worker's number of judgements."""
    if judgement.choice == Judgement.Choice.TIE and not lease.tie_offered:
        raise TieNotOffered
    event_log.append([judgement])
    _check_open(judgement.worker)
    if note:
        JudgementNote.objects.create(judgement=judgement, text=note)
    worker = judgement.worker
    done = queries.count_judgements(worker)
    if done >= worker.judgements_wanted:
        worker.state = Worker.State.FINISHED
        worker.save(update_fields=["state"])
        if worker.stopped:  # answers that arrive after stopping may complete the quota
            Worker.objects.filter(pk=worker.pk, ended_at=None).update(outcome="")
        pause_after_pilot(worker.project)
    queries.close_lease(lease, judgement.created_at)
    fault_injection.maybe_fail("before_commit")
    return done


def _check_open(worker: Worker) -> None:
    """Check the states again while the event log is locked: the study may have closed, or the worker been erased.

    An erasure also locks the log first, so either it sees this answer or this check sees the erasure.
    """
    state, project_state = queries.get_states(worker)
    if state == Worker.State.WITHDRAWN:
        raise AssignmentNotFound
    if project_state != Project.State.OPEN:
        raise StudyNotOpen


def _find_stored(attempt: Judgement, error: IntegrityError | RequestError) -> Judgement:
    """Return the judgement that this request repeats; otherwise raise the conflict, or `error` if there is none."""
    first = Judgement.objects.filter(uuid=attempt.uuid).first()
    if first is None:
        first = Judgement.objects.filter(assignment=attempt.assignment).first()
        raise AlreadyRecorded(first) if first else error
    if first.worker_id != attempt.worker_id:
        raise AssignmentNotFound
    stored, sent = [(j.assignment_id, j.choice, j.skip_reason) for j in (first, attempt)]
    if stored != sent:
        raise PayloadConflict(first)
    return first


def retract(*, worker: Worker, judgement: uuids.UUID, uuid: uuids.UUID) -> Retraction:
    """Append an event that retracts a judgement, and reissue its pair. Idempotent."""
    target = Judgement.objects.filter(uuid=judgement, worker=worker).select_related("project", "assignment").first()
    if target is None:
        raise AssignmentNotFound
    try:
        return _store_retraction(worker, target, uuid)
    except (IntegrityError, RequestError) as error:
        done = Retraction.objects.filter(judgement=target).first()
        if done is not None:
            return done
        # If the insert failed, this UUID belongs to the retraction of another judgement.
        raise error if isinstance(error, RequestError) else AssignmentNotFound from error


@transaction.atomic
def _store_retraction(worker: Worker, target: Judgement, uuid: uuids.UUID) -> Retraction:
    event = Retraction(uuid=uuid, project=target.project, judgement=target, created_at=timezone.now())
    event_log.append([event])
    stored = Worker.objects.get(pk=worker.pk)
    if stored.ended_at or stored.suspended:
        raise TooLateToRetract
    if stored.state == Worker.State.FINISHED:
        _reopen(worker, target)
    _check_open(worker)
    reissue(target, event.created_at)
    return event


def _reopen(worker: Worker, target: Judgement) -> None:
    """Make a worker who has just finished active again, because they are undoing their last answer."""
    if not is_recent(target):
        raise TooLateToRetract
    worker.state, worker.outcome = Worker.State.ACTIVE, ""
    worker.save(update_fields=["state", "outcome"])


def is_recent(judgement: Judgement) -> bool:
    """Whether a worker who has finished can still undo this judgement."""
    return timezone.now() - judgement.created_at < UNDO_AFTER_FINISHING
