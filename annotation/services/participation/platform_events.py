"""A platform's reports about submissions: stored once, and acted on unless a newer one has arrived."""

from django.db import IntegrityError
from django.db.models import QuerySet

from annotation.models import PlatformEvent, PlatformIdentity, Project, Worker
from annotation.platforms.prolific_webhook import SubmissionStatus
from annotation.services.pairs.leasing import expire_leases
from annotation.services.participation.outcomes import set_outcome
from annotation.storage.write_lock import serialise_writes


def record_status(*, project: Project, message: SubmissionStatus) -> bool:
    """Store the event and act on it in one transaction; False if it was stored before."""
    try:
        identity = _record(project, message)
    except IntegrityError:
        return False
    # The worker may have joined in the meantime, and have looked for events before this one was committed.
    if identity is None and (joined := _find_identity(project, message.session_id)):
        apply_earlier_events(joined.worker)
    return True


def _find_identity(project: Project, session_id: str) -> PlatformIdentity | None:
    return PlatformIdentity.objects.filter(project=project, session_id=session_id).first()


@serialise_writes
def _record(project: Project, message: SubmissionStatus) -> PlatformIdentity | None:
    identity = _find_identity(project, message.session_id)
    PlatformEvent.objects.create(
        project=project,
        worker=identity.worker if identity else None,
        event_id=message.event_id,
        session_id=message.session_id,
        status=message.status,
        sent_at=message.sent_at,
    )
    newer = PlatformEvent.objects.filter(project=project, session_id=message.session_id, sent_at__gt=message.sent_at)
    if identity and not newer.exists():
        _apply(identity, message.status)
    return identity


def apply_earlier_events(worker: Worker) -> None:
    """Apply the newest event about the worker's session if it arrived before the worker did."""
    identity = PlatformIdentity.objects.filter(worker=worker).exclude(session_id="").first()
    if identity and _events_about(identity).filter(worker=None).exists():
        _apply_newest(identity)


def _events_about(identity: PlatformIdentity) -> QuerySet[PlatformEvent]:
    return PlatformEvent.objects.filter(project=identity.project_id, session_id=identity.session_id)


@serialise_writes
def _apply_newest(identity: PlatformIdentity) -> None:
    newest = _events_about(identity).order_by("-sent_at", "-pk").first()
    if newest and newest.worker_id is None:
        _apply(identity, newest.status)
    _events_about(identity).filter(worker=None).update(worker=identity.worker_id)


def _apply(identity: PlatformIdentity, status: str) -> None:
    """Free the pairs of a worker who left, and end a returned participation; one that timed out may still finish."""
    PlatformIdentity.objects.filter(pk=identity.pk).update(status=status)
    if status == PlatformIdentity.RETURNED:
        set_outcome(identity.worker, Worker.Outcome.RETURNED)
    if status in PlatformIdentity.LEFT:
        expire_leases(identity.worker)
