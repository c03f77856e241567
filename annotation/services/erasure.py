"""A person goes, the study stays."""

import uuid

from django.db import connection, transaction
from django.utils import timezone

from annotation import ledger
from annotation.models import JudgementNote, PlatformIdentity, Retraction, User, Worker
from annotation.services.projects import audit

ERASED = "erased a worker"  # in the audit


@transaction.atomic
def erase_worker(*, worker: Worker, user: User | None, remove_judgements: bool = False) -> int:
    """Who the worker was is gone: platform ids, traits and notes. Returns how many judgements were taken out as well.

    Judgements carry only a random code, so they may stay; with `remove_judgements` each is retracted by an event, and
    the model, the rankings and the exports forget it.
    """
    ledger.raise_inputs_revision(worker.project_id)  # first: no answer of theirs is stored from here on
    had_traits = int(bool(worker.traits))
    PlatformIdentity.objects.filter(worker=worker).delete()
    JudgementNote.objects.filter(judgement__worker=worker).delete()
    worker.traits, worker.state, worker.outcome = {}, Worker.State.WITHDRAWN, Worker.ERASED
    worker.consented_at = None
    worker.save(update_fields=["traits", "state", "outcome", "consented_at"])
    removed = _retract_all(worker) if remove_judgements else 0
    audit(worker.project, user, ERASED, {"judgements_removed": removed, "traits": had_traits})
    transaction.on_commit(empty_the_journal)
    return removed


def empty_the_journal() -> None:
    """SQLite's write-ahead file still holds the old pages; PostgreSQL clears its own by vacuum and log rotation."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _retract_all(worker: Worker) -> int:
    now = timezone.now()
    standing = worker.judgements.filter(retraction=None).order_by("sequence")
    events = [Retraction(uuid=uuid.uuid4(), project=worker.project, judgement=j, created_at=now) for j in standing]
    ledger.append(events)
    return len(events)
