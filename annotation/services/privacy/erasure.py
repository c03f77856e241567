"""Erase a worker's personal data while the study keeps its event log."""

import json
import uuid
from functools import reduce
from operator import or_

from django.db import connection, transaction
from django.db.models import F, Q, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from annotation.models import (
    ImportChunk,
    ImportedDetails,
    JudgementImport,
    JudgementNote,
    PlatformEvent,
    PlatformIdentity,
    Retraction,
    User,
    Worker,
    WorkerCheck,
    WorkerExclusion,
)
from annotation.services.pairs.leasing import release_pairs
from annotation.services.participation.worker_invitations import erase_labels
from annotation.services.projects import audit
from annotation.storage import event_log

WORKER_ERASED = "erased a worker"  # audit action; stored rows use this text


@transaction.atomic
def erase_worker(*, worker: Worker, user: User | None, remove_judgements: bool = False) -> int:
    """Erase a worker's personal data; return the number of removed judgements.

    This covers platform IDs and events, the invitation's label, questionnaire answers, notes, exclusion reasons and
    imported details. Judgements carry only a random code, so they may stay. With `remove_judgements` each is retracted
    by an event and disappears from the model, the rankings and the exports. The worker's pairs go to others.
    """
    # First, because it locks the log: from here on no answer of this worker is stored.
    event_log.raise_inputs_revision(worker.project_id)
    worker.refresh_from_db()
    if worker.outcome == Worker.ERASED and not (remove_judgements and worker.judgements.not_retracted().exists()):
        return 0  # a repeated request
    had_traits = int(bool(worker.traits))
    _erase_staged_rows(worker, remove_judgements)
    identities = PlatformIdentity.objects.filter(worker=worker)
    erase_labels(worker.project, list(identities.values_list("external_id", flat=True)))
    identities.delete()
    PlatformEvent.objects.filter(worker=worker).delete()
    JudgementNote.objects.filter(judgement__worker=worker).delete()
    WorkerExclusion.objects.filter(worker=worker).update(reason="")
    ImportedDetails.objects.filter(judgement__worker=worker).delete()
    worker.traits, worker.answers = {}, {}
    worker.state, worker.outcome = Worker.State.WITHDRAWN, Worker.ERASED
    worker.consented_at, worker.return_digest = None, ""
    worker.save(update_fields=["traits", "answers", "state", "outcome", "consented_at", "return_digest"])
    removed = 0
    release_pairs(worker, answered=remove_judgements)
    if remove_judgements:
        WorkerCheck.objects.filter(worker=worker).delete()
        removed = _retract_all(worker)
    audit(worker.project, user, WORKER_ERASED, {"judgements_removed": removed, "traits": had_traits})
    transaction.on_commit(truncate_wal)
    return removed


def _erase_staged_rows(worker: Worker, remove_judgements: bool) -> None:
    """Erase the worker from running imports; imports that are being prepared check for erasures themselves."""
    for identity in PlatformIdentity.objects.filter(worker=worker):
        name = identity.external_id
        written = {json.dumps(name), json.dumps(name, ensure_ascii=False)}  # as SQLite and PostgreSQL store it
        mentioned = reduce(or_, (Q(text__contains=each) for each in written))
        chunks = ImportChunk.objects.annotate(text=Cast("content", TextField()))
        for chunk in chunks.filter(mentioned, job__project=worker.project_id, job__state=JudgementImport.State.RUNNING):
            removed = chunk.erase_worker(name, worker.code, remove_judgements=remove_judgements)
            chunk.save(update_fields=["content"])
            JudgementImport.objects.filter(pk=chunk.job_id).update(total=F("total") - removed)


def truncate_wal() -> None:
    """Remove erased data from SQLite's write-ahead log. PostgreSQL removes it by vacuum and log rotation."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _retract_all(worker: Worker) -> int:
    now = timezone.now()
    judgements = worker.judgements.not_retracted().order_by("sequence")
    events = [Retraction(uuid=uuid.uuid4(), project=worker.project, judgement=j, created_at=now) for j in judgements]
    event_log.append(events)
    return len(events)
