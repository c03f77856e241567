"""Workers who arrive from a platform: the same identity is the same worker, on any device."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.core import signing
from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from annotation.models import PlatformIdentity, Project, Recruitment, Worker
from annotation.platforms import Identity, LinkInvalid
from annotation.services.participation.enrolment import enrol
from annotation.services.participation.worker_invitations import PLATFORM as INVITED
from annotation.services.participation.worker_invitations import use_up

TOKEN_SECONDS = 24 * 3600  # how long a worker may read the welcome page
WARNING_INTERVAL = timedelta(minutes=1)


def get_recruitment(project: Project) -> Recruitment:
    """The project's recruitment settings; the defaults if none were saved."""
    return Recruitment.objects.filter(project=project).first() or Recruitment(project=project)


def sign_identity(project: Project, identity: Identity) -> str:
    """A token for the join form, so that nothing is stored before the worker consents."""
    return signing.dumps(asdict(identity), salt=_salt(project))


def read_token(project: Project, token: str) -> Identity:
    try:
        return Identity(**signing.loads(token, salt=_salt(project), max_age=TOKEN_SECONDS))
    except signing.BadSignature:
        raise LinkInvalid from None


def _salt(project: Project) -> str:
    return f"arrival at project {project.pk}"


def find_arrived(project: Project, identity: Identity) -> Worker | None:
    """Find the worker who arrived with this identity before, and store their latest session.

    A participation that has ended keeps its session, so that a second one cannot be paid for the same answers, unless
    the platform reported that the worker left the session.
    """
    known = PlatformIdentity.objects.filter(
        project=project, platform=identity.platform, external_id=identity.external_id
    )
    row = known.select_related("worker").first()
    if row is None:
        return None
    row.worker.project = project
    is_new = row.session_id != identity.session_id
    if is_new and row.worker.ended_at and row.status not in PlatformIdentity.LEFT:
        return row.worker
    latest = {"study_id": identity.study_id, "session_id": identity.session_id, "verified": identity.verified}
    latest |= {"status": ""} if is_new else {}
    if any(getattr(row, name) != value for name, value in latest.items()):
        known.update(**latest)
    if is_new and row.worker.outcome == Worker.Outcome.RETURNED:
        _reopen(row.worker)
    return row.worker


def _reopen(worker: Worker) -> None:
    """Let a worker who returned the task continue in a new session."""
    worker.state, worker.outcome, worker.ended_at = Worker.State.ACTIVE, "", None
    worker.save(update_fields=["state", "outcome", "ended_at"])


def enrol_arrived(*, project: Project, identity: Identity, **questionnaire: Any) -> Worker:
    """Create a worker with this identity, or return the one who joined on another device in the meantime."""
    try:
        with transaction.atomic():
            if identity.platform == INVITED:
                use_up(project, identity)
            worker = enrol(
                project=project, platform=identity.platform, external_id=identity.external_id, **questionnaire
            )
    except IntegrityError:
        worker = PlatformIdentity.objects.get(
            project=project, platform=identity.platform, external_id=identity.external_id
        ).worker
    return find_arrived(project, identity) or worker


def count_arrival(project: Project) -> None:
    """Count one more person who opened the welcome page; nothing about them is stored."""
    Recruitment.objects.filter(project=project).update(arrivals=F("arrivals") + 1)


def warn_about_placeholders(recruitment: Recruitment) -> None:
    """Note that a worker arrived with unreplaced placeholders, so that the recruitment page warns its owner."""
    _note_time(recruitment, "unreplaced_at")


def warn_about_signature(recruitment: Recruitment) -> None:
    """Note that a worker arrived with a link that the stored keys do not verify: Prolific may have changed its keys."""
    _note_time(recruitment, "unverified_at")


def _note_time(recruitment: Recruitment, field: str) -> None:
    now = timezone.now()
    due = Q(**{field: None}) | Q(**{f"{field}__lt": now - WARNING_INTERVAL})
    Recruitment.objects.filter(due, pk=recruitment.pk).update(**{field: now})
