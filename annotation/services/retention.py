"""What is kept no longer than it must be: who workers were, after a while without answers; log-ins, after a month."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Max, QuerySet

from annotation import ledger
from annotation.models import Judgement, JudgementNote, PlatformIdentity, Project, Worker
from annotation.services.erasure import empty_the_journal
from annotation.services.projects import audit

BATCH = 500  # rows in one transaction, so that nobody waits for it
LOG_INS = timedelta(days=30)
ERASED_IN_TIME = "erased workers' data after a time without answers"  # in the audit


@dataclass(frozen=True)
class Erased:
    """How many of each were erased in a project."""

    notes: int = 0
    identities: int = 0
    traits: int = 0

    def __bool__(self) -> bool:
        return bool(self.notes or self.identities or self.traits)


def last_activity(project: Project) -> datetime:
    """When the last answer came or the last worker joined; where neither did, when the project was made."""
    answered = Judgement.objects.filter(project=project).order_by("-sequence").values_list("created_at", flat=True)
    joined = Worker.objects.filter(project=project).aggregate(last=Max("joined_at"))["last"]
    return max(at for at in (answered.first(), joined, project.created_at) if at)


def idle_projects(now: datetime) -> Iterator[Project]:
    """Those that want their workers' data erased after some days, where so many have passed without an answer."""
    for project in Project.objects.filter(retention_days__gt=0, head__isnull=False):
        if last_activity(project) < now - timedelta(days=project.retention_days):
            yield project


def erase_people(project: Project) -> Erased:
    """Notes, platform ids and traits are gone; judgements stay under random codes. Killed in between, the rest waits
    for the next time."""
    people = Worker.objects.filter(project=project)
    erased = Erased(
        notes=_in_batches(JudgementNote.objects.filter(judgement__project=project), _delete),
        identities=_in_batches(PlatformIdentity.objects.filter(project=project), _delete),
        traits=_in_batches(people.exclude(traits={}), lambda rows: rows.update(traits={})),
    )
    if erased:
        _note(project, erased)
        transaction.on_commit(empty_the_journal)
    return erased


@transaction.atomic
def _note(project: Project, erased: Erased) -> None:
    if erased.traits:
        ledger.raise_inputs_revision(project.pk)
    counts = {"notes": erased.notes, "identities": erased.identities, "traits": erased.traits}
    audit(project, None, ERASED_IN_TIME, counts)


def _delete(rows: QuerySet[Any]) -> None:
    rows.delete()


def _in_batches(rows: QuerySet[Any], do: Any) -> int:
    done = 0
    while batch := list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH]):
        do(rows.model._default_manager.filter(pk__in=batch))
        done += len(batch)
    return done


def forget_log_ins(now: datetime) -> int:
    """Addresses and browsers of those who logged in, or tried to, a month ago; sessions that have run out."""
    logs = (AccessLog, AccessFailureLog, AccessAttempt)
    old = [kind.objects.filter(attempt_time__lt=now - LOG_INS) for kind in logs]
    return sum(_in_batches(rows, _delete) for rows in (*old, Session.objects.filter(expire_date__lt=now)))
