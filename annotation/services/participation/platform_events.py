"""A platform's reports about submissions: stored once, and acted on unless a newer one has arrived."""

from django.db import IntegrityError

from annotation.models import PlatformEvent, PlatformIdentity, Project, Worker
from annotation.platforms.prolific_webhook import SubmissionStatus
from annotation.services.pairs.leasing import expire_leases
from annotation.services.participation.outcomes import set_outcome
from annotation.storage.write_lock import serialise_writes

RETURNED = "RETURNED"
LEFT = {RETURNED, "TIMED_OUT", "REJECTED"}  # the worker no longer needs their pairs


def record_status(*, project: Project, message: SubmissionStatus) -> bool:
    """Store the event and act on it in one transaction; False if it was stored before."""
    try:
        return _record(project, message)
    except IntegrityError:
        return False


@serialise_writes
def _record(project: Project, message: SubmissionStatus) -> bool:
    identity = PlatformIdentity.objects.filter(project=project, session_id=message.session_id).first()
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
        PlatformIdentity.objects.filter(pk=identity.pk).update(status=message.status)
        _act(identity.worker, message.status)
    return True


def _act(worker: Worker, status: str) -> None:
    """Free the pairs of a worker who left, and end a returned participation; one that timed out may still finish."""
    if status == RETURNED:
        set_outcome(worker, Worker.Outcome.RETURNED)
    if status in LEFT:
        expire_leases(worker)
