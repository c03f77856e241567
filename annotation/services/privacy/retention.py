"""Data retention: erase workers' data after a period without answers, and log-in records after a month."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Exists, Max, OuterRef, QuerySet

from annotation.models import (
    ImportedDetails,
    Judgement,
    JudgementImport,
    JudgementNote,
    PlatformEvent,
    PlatformIdentity,
    Project,
    Worker,
)
from annotation.services.participation.worker_invitations import erase_labels
from annotation.services.privacy.erasure import truncate_wal
from annotation.services.projects import audit
from annotation.storage import event_log

BATCH = 500  # rows per transaction, so that other writes do not wait long
LOGIN_DAYS = timedelta(days=30)
DATA_ERASED = "erased workers' data after a time without answers"  # audit action; stored rows use this text


@dataclass(frozen=True)
class ErasedCounts:
    notes: int = 0
    details: int = 0
    identities: int = 0
    traits: int = 0
    answers: int = 0

    def __bool__(self) -> bool:
        return any(asdict(self).values())


def last_activity(project: Project) -> datetime:
    """The time of the last answer, of the last worker to join, or of the project's creation, whichever is latest."""
    answered = Judgement.objects.filter(project=project).order_by("-sequence").values_list("created_at", flat=True)
    joined = Worker.objects.filter(project=project).aggregate(last=Max("joined_at"))["last"]
    return max(at for at in (answered.first(), joined, project.created_at) if at)


def idle_projects(now: datetime) -> Iterator[Project]:
    """Projects with a retention period that has passed since their last activity, unless an import is running."""
    running = JudgementImport.objects.filter(project=OuterRef("pk"), state=JudgementImport.State.RUNNING)
    for project in Project.objects.filter(~Exists(running), retention_days__gt=0, head__isnull=False):
        if last_activity(project) < now - timedelta(days=project.retention_days):
            yield project


def erase_worker_data(project: Project) -> ErasedCounts:
    """Erase notes, imported details, platform IDs and questionnaire answers; judgements stay under random codes.

    Works in batches: if the process is killed, the next run erases the rest.
    """
    workers = Worker.objects.filter(project=project)
    erase_labels(project)
    _in_batches(PlatformEvent.objects.filter(project=project), _delete)  # these rows hold the platform's session IDs
    erased = ErasedCounts(
        notes=_in_batches(JudgementNote.objects.filter(judgement__project=project), _delete),
        details=_in_batches(ImportedDetails.objects.filter(judgement__project=project), _delete),
        identities=_in_batches(PlatformIdentity.objects.filter(project=project), _delete),
        traits=_in_batches(workers.exclude(traits={}), lambda rows: rows.update(traits={})),
        answers=_in_batches(workers.exclude(answers={}), lambda rows: rows.update(answers={})),
    )
    if erased:
        _record(project, erased)
        transaction.on_commit(truncate_wal)
    return erased


@transaction.atomic
def _record(project: Project, erased: ErasedCounts) -> None:
    if erased.traits:
        event_log.raise_inputs_revision(project.pk)
    audit(project, None, DATA_ERASED, asdict(erased))


def _delete(rows: QuerySet[Any]) -> None:
    rows.delete()


def _in_batches(rows: QuerySet[Any], do: Any) -> int:
    done = 0
    while batch := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        do(rows.model._default_manager.filter(pk__in=batch))
        done += len(batch)
    return done


def delete_old_logins(now: datetime) -> int:
    """Delete records of log-ins and attempts older than a month, and expired sessions."""
    logs = (AccessLog, AccessFailureLog, AccessAttempt)
    old = [kind.objects.filter(attempt_time__lt=now - LOGIN_DAYS) for kind in logs]
    return sum(_in_batches(rows, _delete) for rows in (*old, Session.objects.filter(expire_date__lt=now)))
