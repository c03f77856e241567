"""One answer becomes one Judgement, however often it is sent; taking it back is an event of its own."""

import uuid as uuids
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.utils import timezone

from annotation import faults, ledger, statements
from annotation.models import Assignment, Judgement, JudgementNote, Project, Retraction, Worker
from annotation.refusals import (
    AlreadyRecorded,
    DifferentPayload,
    LentToSomebodyElse,
    NotOpen,
    NotYours,
    Refused,
    TieNotOffered,
    TooLate,
)
from annotation.services.leasing import give_again
from annotation.services.turns import one_at_a_time


@dataclass(frozen=True)
class Receipt:
    """What the worker is told: which judgement stands, and whether this request made it."""

    judgement: Judgement
    created: bool
    done: int | None = None  # how many judgements the worker now has, where this request counted them


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
    """One stored judgement. Insert first; whatever stands against it, an answer that is stored already is replayed."""
    lease = statements.lease_of(worker, assignment)
    if lease is None:
        raise _not_theirs(worker, assignment)
    judgement = _judgement_under(
        lease, uuid, to_canonical(choice, lo_is_left=lease.lo_is_left), skip_reason, response_ms
    )
    judgement.source = source
    try:
        done = _store(judgement, lease, note)
    except (IntegrityError, Refused) as refusal:
        return Receipt(_first_answer(judgement, refusal), created=False)
    faults.hit("after_commit")
    ledger.announce(judgement.project_id)
    return Receipt(judgement, created=True, done=done)


def _not_theirs(worker: Worker, assignment: uuids.UUID) -> NotYours:
    elsewhere = Assignment.objects.filter(public_id=assignment, project=worker.project)
    return LentToSomebodyElse() if elsewhere.exists() else NotYours()


def to_canonical(choice: str, *, lo_is_left: bool) -> str:
    """left / right, or a / b of a file, in terms of the pair's canonical order; tie and skip stay what they are."""
    first = {"left": True, "a": True, "right": False, "b": False}.get(choice)
    if first is None:
        return choice
    return Judgement.Choice.LO if first == lo_is_left else Judgement.Choice.HI


def _judgement_under(
    lease: Assignment, uuid: uuids.UUID, choice: str, skip_reason: str, response_ms: int | None
) -> Judgement:
    """The row this answer would become. The server's clock rules: the browser's figure is clipped to the lease."""
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


@one_at_a_time
def _store(judgement: Judgement, lease: Assignment, note: str) -> int:
    """Everything a judgement causes, in order. Returns how many the worker now has."""
    if judgement.choice == Judgement.Choice.TIE and not lease.tie_offered:
        raise TieNotOffered
    ledger.append([judgement])
    _refuse_unless_open(judgement.worker)
    statements.close_lease(lease, judgement.created_at)
    if note:
        JudgementNote.objects.create(judgement=judgement, text=note)
    worker = judgement.worker
    done = statements.count_standing(worker)
    if done >= worker.project.judgements_per_worker:
        worker.state = Worker.State.FINISHED
        worker.save(update_fields=["state"])
    faults.hit("before_commit")
    return done


def _refuse_unless_open(worker: Worker) -> None:
    """Asked again when the log is ours until commit: the study may just have closed, the person just been erased.

    Whoever erases a person takes the log first, too, so either they see this answer or we see them.
    """
    state, project_state = statements.states_of(worker)
    if state == Worker.State.WITHDRAWN:
        raise NotYours
    if project_state != Project.State.OPEN:
        raise NotOpen


def _first_answer(attempt: Judgement, refusal: IntegrityError | Refused) -> Judgement:
    """The judgement that was stored before this attempt, if the attempt says the same."""
    first = Judgement.objects.filter(uuid=attempt.uuid).first()
    if first is None:
        first = Judgement.objects.filter(assignment=attempt.assignment).first()
        raise AlreadyRecorded(first) if first else refusal
    if first.worker_id != attempt.worker_id:
        raise NotYours
    said, says = [(j.assignment_id, j.choice, j.skip_reason) for j in (first, attempt)]
    if said != says:
        raise DifferentPayload(first)
    return first


def retract(*, worker: Worker, judgement: uuids.UUID, uuid: uuids.UUID) -> Retraction:
    """The judgement is taken back by an event of its own, and its pair is given again. Twice is once."""
    target = Judgement.objects.filter(uuid=judgement, worker=worker).select_related("project", "assignment").first()
    if target is None:
        raise NotYours
    try:
        return _take_back(worker, target, uuid)
    except (IntegrityError, Refused) as refusal:
        done = Retraction.objects.filter(judgement=target).first()
        if done is not None:
            return done
        # Where the insert failed, the id belongs to the undoing of another answer.
        raise refusal if isinstance(refusal, Refused) else NotYours from refusal


@transaction.atomic
def _take_back(worker: Worker, target: Judgement, uuid: uuids.UUID) -> Retraction:
    event = Retraction(uuid=uuid, project=target.project, judgement=target, created_at=timezone.now())
    ledger.append([event])
    if Worker.objects.get(pk=worker.pk).state == Worker.State.FINISHED:
        raise TooLate
    _refuse_unless_open(worker)
    give_again(target, event.created_at)
    return event
