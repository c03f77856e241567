"""Exclude a worker's judgements from the model, and include them again. Nothing is deleted.

An excluded worker may go on judging unless they are suspended as well. Answers to pairs that they hold already are
stored in both cases.
"""

from django.db import transaction

from annotation.models import User, Worker, WorkerExclusion
from annotation.services.pairs.leasing import expire_leases
from annotation.services.projects import audit
from annotation.storage import event_log

# Audit actions.
WORKER_EXCLUDED, WORKER_INCLUDED = "excluded a worker", "included a worker again"
WORKER_SUSPENDED, WORKER_RESUMED = "gave a worker no more pairs", "gave a worker pairs again"


@transaction.atomic
def exclude_worker(*, worker: Worker, user: User | None, reason: str, suspend: bool = False) -> WorkerExclusion:
    """Leave all of a worker's judgements out of later versions; return the existing exclusion if there is one.

    With `suspend`, the worker gets no more pairs either.
    """
    revision = event_log.raise_inputs_revision(worker.project_id)  # first, because it locks the log
    exclusion, created = WorkerExclusion.objects.get_or_create(
        worker=worker,
        until_revision=None,
        defaults={"reason": reason, "since_revision": revision, "excluded_by": user},
    )
    if created:
        audit(worker.project, user, WORKER_EXCLUDED, {"worker": worker.code, "reason": reason})
    if suspend:
        suspend_worker(worker=worker, user=user, suspended=True)
    return exclusion


@transaction.atomic
def suspend_worker(*, worker: Worker, user: User | None, suspended: bool) -> None:
    """Stop giving an excluded worker pairs and free those they hold, or let them judge again."""
    if suspended and not WorkerExclusion.objects.filter(worker=worker, until_revision=None).exists():
        return
    if Worker.objects.filter(pk=worker.pk, suspended=not suspended).update(suspended=suspended):
        expire_leases(worker)
        audit(worker.project, user, WORKER_SUSPENDED if suspended else WORKER_RESUMED, {"worker": worker.code})


@transaction.atomic
def include_worker(*, worker: Worker, user: User | None) -> bool:
    """Let the judgements of an excluded worker count again; False if the worker is not excluded."""
    revision = event_log.raise_inputs_revision(worker.project_id)
    ended = WorkerExclusion.objects.filter(worker=worker, until_revision=None).update(until_revision=revision)
    if ended:
        suspend_worker(worker=worker, user=user, suspended=False)
        audit(worker.project, user, WORKER_INCLUDED, {"worker": worker.code})
    return bool(ended)
