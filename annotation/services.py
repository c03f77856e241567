"""The writes. Each is one short transaction, keyword-only, and leaves the log and the audit in order."""

import uuid as uuids
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from annotation import ledger
from annotation.assignment import Candidate, choose_pair
from annotation.models import (
    Assignment,
    AuditEntry,
    EventHead,
    Item,
    Judgement,
    JudgementNote,
    Membership,
    PlatformIdentity,
    Project,
    Retraction,
    User,
    Worker,
)
from annotation.refusals import AlreadyRecorded, DifferentPayload, NotOpen, NotYours, TieNotOffered, TooLate

POLICY = "least-judged"


@dataclass(frozen=True)
class Receipt:
    """What the worker is told: which judgement stands, and whether this request made it."""

    judgement: Judgement
    created: bool


# Projects ------------------------------------------------------------------------------------------------------------


@transaction.atomic
def create_project(*, owner: User | None, **fields: Any) -> Project:
    """A draft project with its event log, and its first owner."""
    project = Project.objects.create(**fields)
    EventHead.objects.create(project=project)
    if owner is not None:
        Membership.objects.create(project=project, user=owner, role=Membership.Role.OWNER)
    audit(project, owner, "created the project")
    return project


@transaction.atomic
def change_project(*, project: Project, user: User | None, changes: dict[str, Any]) -> None:
    """The project with these fields changed; old and new values are in the audit."""
    old = {name: getattr(project, name) for name in changes if getattr(project, name) != changes[name]}
    if not old:
        return
    for name in old:
        setattr(project, name, changes[name])
    project.save(update_fields=list(old))
    if "model_settings" in old:
        ledger.raise_inputs_revision(project.pk)
    audit(project, user, "changed settings", {name: [old[name], changes[name]] for name in old})


@transaction.atomic
def set_membership(*, project: Project, user: User, member: User, role: str | None) -> None:
    """`member` has this role in the project, or none. The last owner cannot be removed."""
    memberships = Membership.objects.select_for_update().filter(project=project)
    if role is None:
        memberships.filter(user=member).delete()
    else:
        memberships.update_or_create(user=member, project=project, defaults={"role": role})
    if not memberships.filter(role=Membership.Role.OWNER).exists():
        raise ValueError(_("A project needs at least one owner. Nothing was changed; name another owner first."))
    audit(project, user, "changed a member", {"member": member.get_username(), "role": role})


def audit(project: Project | None, user: User | None, action: str, details: dict[str, Any] | None = None) -> None:
    AuditEntry.objects.create(project=project, user=user, action=action, details=details or {})


# Workers -------------------------------------------------------------------------------------------------------------


@transaction.atomic
def enrol(
    *, project: Project, traits: dict[str, Any] | None = None, platform: str = "", external_id: str = ""
) -> Worker:
    """A new worker who has consented; under a platform's id, the one worker with that id."""
    if not external_id:
        return Worker.objects.create(project=project, traits=traits or {}, consented_at=timezone.now())
    known = PlatformIdentity.objects.filter(project=project, platform=platform, external_id=external_id)
    if identity := known.select_related("worker").first():
        return identity.worker
    worker = Worker.objects.create(project=project, traits=traits or {}, consented_at=timezone.now())
    PlatformIdentity.objects.create(project=project, worker=worker, platform=platform, external_id=external_id)
    return worker


@transaction.atomic
def assign(*, worker: Worker, rng: Random, now: Callable[[], Any] = timezone.now) -> Assignment | None:
    """The pair this worker sees next: the open one if there is one, else a new lease; None when no work is left."""
    project = worker.project
    if worker.state != Worker.State.ACTIVE or project.state != Project.State.OPEN:
        return None
    lease = timedelta(minutes=project.lease_minutes)
    open_assignment = worker.assignments.filter(closed_at=None).select_related("item_lo", "item_hi").first()
    if open_assignment is not None:
        if open_assignment.expires_at < now():
            open_assignment.expires_at = now() + lease
            open_assignment.save(update_fields=["expires_at"])
        return open_assignment
    pair = choose_pair(_candidates(worker), rng)
    if pair is None:
        return None
    issued = now()
    return Assignment.objects.create(
        project=project,
        worker=worker,
        item_lo_id=pair.lo,
        item_hi_id=pair.hi,
        lo_is_left=rng.random() < 0.5,
        policy=POLICY,
        propensity=pair.propensity,
        issued_at=issued,
        expires_at=issued + lease,
    )


def _candidates(worker: Worker) -> list[Candidate]:
    """Each active item with how often it was judged and which items it may not meet again for this worker."""
    project = worker.project
    judged: dict[int, int] = {}
    met: dict[int, set[int]] = {}
    workers_of_pair: dict[tuple[int, int], int] = {}
    for lo, hi, worker_id in Assignment.objects.filter(project=project).values_list("item_lo", "item_hi", "worker"):
        pair = (lo, hi)
        workers_of_pair[pair] = workers_of_pair.get(pair, 0) + 1
        for item, other in ((lo, hi), (hi, lo)):
            judged[item] = judged.get(item, 0) + 1
            if worker_id == worker.pk or workers_of_pair[pair] >= project.redundancy:
                met.setdefault(item, set()).add(other)
    within = project.pairs == Project.Pairs.WITHIN_GROUP
    items = Item.objects.filter(project=project, active=True).values_list("pk", "group")
    return [Candidate(pk, group if within else "", judged.get(pk, 0), frozenset(met.get(pk, ()))) for pk, group in items]


# Judgements ----------------------------------------------------------------------------------------------------------


def record_judgement(
    *,
    worker: Worker,
    uuid: uuids.UUID,
    assignment: uuids.UUID,
    choice: str,
    skip_reason: str = "",
    response_ms: int | None = None,
    note: str = "",
) -> Receipt:
    """One stored judgement, however often it is sent. Insert first; on a conflict, compare and replay the first answer."""
    lease = Assignment.objects.select_related("project", "worker", "item_lo", "item_hi").filter(
        public_id=assignment, worker=worker
    ).first()
    if lease is None:
        raise NotYours
    if choice == Judgement.Choice.TIE and not lease.project.ties_allowed:
        raise TieNotOffered
    judgement = _judgement_under(lease, uuid, to_canonical(choice, lo_is_left=lease.lo_is_left), skip_reason, response_ms)
    try:
        _store(judgement, lease, note)
    except IntegrityError as conflict:
        return Receipt(_first_answer(judgement, conflict), created=False)
    for name in settings.AFTER_JUDGEMENT:
        import_string(name)(judgement.project_id)
    return Receipt(judgement, created=True)


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
        source=Judgement.Source.BROWSER,
        response_ms=clipped,
        clock_doubtful=clipped != response_ms,
        late=now > lease.expires_at,
        created_at=now,
    )


@transaction.atomic
def _store(judgement: Judgement, lease: Assignment, note: str) -> None:
    """Everything a judgement causes, in order."""
    if Project.objects.values_list("state", flat=True).get(pk=judgement.project_id) != Project.State.OPEN:
        raise NotOpen
    ledger.append([judgement])
    Assignment.objects.filter(pk=lease.pk).update(closed_at=judgement.created_at)
    if note:
        JudgementNote.objects.create(judgement=judgement, text=note)
    if judgement.worker.judgements.count() >= judgement.project.judgements_per_worker:
        Worker.objects.filter(pk=judgement.worker_id).update(state=Worker.State.FINISHED)


def _first_answer(attempt: Judgement, conflict: IntegrityError) -> Judgement:
    """The judgement that was stored before this attempt, if the attempt says the same."""
    first = Judgement.objects.filter(uuid=attempt.uuid).first()
    if first is None:
        first = Judgement.objects.filter(assignment=attempt.assignment).first()
        raise AlreadyRecorded(first) if first else conflict
    if first.worker_id != attempt.worker_id:
        raise NotYours
    if (first.assignment_id, first.choice, first.skip_reason) != (
        attempt.assignment_id,
        attempt.choice,
        attempt.skip_reason,
    ):
        raise DifferentPayload(first)
    return first


@transaction.atomic
def retract(*, worker: Worker, judgement: uuids.UUID, uuid: uuids.UUID) -> Retraction:
    """The judgement is taken back by an event of its own; the pair may be given out anew. Twice is once."""
    target = Judgement.objects.filter(uuid=judgement, worker=worker).select_related("project").first()
    if target is None:
        raise NotYours
    if done := Retraction.objects.filter(judgement=target).first():
        return done
    if worker.state == Worker.State.FINISHED:
        raise TooLate
    event = Retraction(uuid=uuid, project=target.project, judgement=target, created_at=timezone.now())
    ledger.append([event])
    return event
