"""Exclude a worker's judgements from the model, and include them again. Nothing is deleted."""

from django.db import transaction

from annotation.models import User, Worker, WorkerExclusion
from annotation.services.projects import audit
from annotation.storage import event_log

WORKER_EXCLUDED, WORKER_INCLUDED = "excluded a worker", "included a worker again"  # audit actions


@transaction.atomic
def exclude_worker(*, worker: Worker, user: User | None, reason: str) -> WorkerExclusion:
    """Leave all judgements of a worker out of later versions; return the exclusion in force if there is one."""
    revision = event_log.raise_inputs_revision(worker.project_id)  # first, because it locks the log
    exclusion, created = WorkerExclusion.objects.get_or_create(
        worker=worker,
        until_revision=None,
        defaults={"reason": reason, "since_revision": revision, "excluded_by": user},
    )
    if created:
        audit(worker.project, user, WORKER_EXCLUDED, {"worker": worker.code, "reason": reason})
    return exclusion


@transaction.atomic
def include_worker(*, worker: Worker, user: User | None) -> bool:
    """Let the judgements of an excluded worker count again; False if the worker is not excluded."""
    revision = event_log.raise_inputs_revision(worker.project_id)
    ended = WorkerExclusion.objects.filter(worker=worker, until_revision=None).update(until_revision=revision)
    if ended:
        audit(worker.project, user, WORKER_INCLUDED, {"worker": worker.code})
    return bool(ended)
