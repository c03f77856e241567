"""Import many judgements while people judge: stage the checked rows, then append them to the event log in chunks.

1. The rows are checked and written to `ImportChunk` in short transactions. Nothing else changes; if the process is
   killed, these rows are deleted a day later.
2. One short transaction starts the import, provided that the study has not changed since the rows were checked.
3. A chunk is appended and deleted in one short transaction, so that every judgement is appended once, whichever
   process continues after a kill. A started import therefore always becomes complete, and the model does not learn
   from the study before that.
"""

import logging
import time
from datetime import timedelta
from itertools import islice

from django.db import IntegrityError, transaction
from django.utils import timezone

from annotation.importing import judgements
from annotation.importing.judgement_files import ImportedJudgement
from annotation.importing.judgements import ImportRunning, JudgementImportPlan, refuse_if_running
from annotation.models import EventHead, ImportChunk, Judgement, JudgementImport, Project, User
from annotation.services import audit
from annotation.services.items import lock_items
from annotation.storage import event_log

log = logging.getLogger("concord.importing")

AT_ONCE = 2000  # rows of a file that is imported in one transaction
CHUNKS_PER_WRITE = 50
BURST_SECONDS = 0.5
ABANDONED = timedelta(days=1)
State = JudgementImport.State


def import_judgements(
    *, project: Project, user: User | None, rows: list[ImportedJudgement], wait: bool = False
) -> JudgementImportPlan:
    """Import few rows at once, and many in the background or, with `wait`, in chunks by this process."""
    if len(rows) <= AT_ONCE:
        return judgements.import_judgements(project=project, user=user, rows=rows)
    while True:
        refuse_if_running(project)
        head = EventHead.objects.get(project=project)
        plan = judgements.plan_judgements(project, rows)
        if not plan.changes_anything:
            return plan
        job = _stage(project, user, plan)
        try:
            started = _start(job, plan, head)
        except ImportRunning:
            job.delete()
            raise
        if started:
            break
        job.delete()
    plan.in_background = not wait
    while wait and append_chunks(job):
        pass
    return plan


def _stage(project: Project, user: User | None, plan: JudgementImportPlan) -> JudgementImport:
    """Write the plan to chunks, which nothing reads before the import is started."""
    job = JudgementImport.objects.create(project=project, requested_by=user, total=len(plan.added))
    parts = enumerate(judgements.split_plan(plan))
    while some := [ImportChunk(job=job, number=n, content=part) for n, part in islice(parts, CHUNKS_PER_WRITE)]:
        ImportChunk.objects.bulk_create(some)
    return job


@transaction.atomic
def _start(job: JudgementImport, plan: JudgementImportPlan, planned_at: EventHead) -> bool:
    """Start the import; False if items, workers or imported judgements have changed since it was planned."""
    lock_items(job.project)
    refuse_if_running(job.project)
    now = EventHead.objects.get(project=job.project)
    imported = Judgement.objects.filter(project=job.project, sequence__gt=planned_at.sequence)
    if now.inputs_revision != planned_at.inputs_revision or imported.filter(source=Judgement.Source.IMPORT).exists():
        return False
    JudgementImport.objects.filter(pk=job.pk).update(state=State.RUNNING)
    audit(job.project, job.requested_by, "imported judgements", plan.counts)
    return True


def continue_imports() -> bool:
    """Append chunks of the oldest running import for a moment; False if there is none."""
    JudgementImport.objects.filter(state=State.STAGING, created_at__lt=timezone.now() - ABANDONED).delete()
    job = JudgementImport.objects.filter(state=State.RUNNING).select_related("project").order_by("pk").first()
    if job is not None:
        append_chunks(job)
    return job is not None


def append_chunks(job: JudgementImport) -> bool:
    """Append chunks for a moment, leaving the write lock to others half of the time; False if nothing is left."""
    end, left = time.monotonic() + BURST_SECONDS, True
    while left and (began := time.monotonic()) < end:
        left = append_chunk(job)
        time.sleep(time.monotonic() - began)
    return left


def append_chunk(job: JudgementImport) -> bool:
    """Append one chunk of a running import; False if nothing is left."""
    try:
        return _append_chunk(job)
    except IntegrityError:
        log.exception("the import failed", extra={"project": job.project.slug})
        ended = {"state": State.FAILED, "ended_at": timezone.now()}
        JudgementImport.objects.filter(pk=job.pk, state=State.RUNNING).update(**ended)
        ImportChunk.objects.filter(job=job).delete()
        return False


@transaction.atomic
def _append_chunk(job: JudgementImport) -> bool:
    running = JudgementImport.objects.select_for_update().filter(pk=job.pk, state=State.RUNNING).first()
    if running is None:
        return False
    chunk = running.chunks.order_by("number").first()
    if chunk is None:
        running.state, running.ended_at = State.DONE, timezone.now()
    else:
        running.added += judgements.append_part(job.project, chunk.content)
        chunk.delete()
    running.save(update_fields=["state", "added", "ended_at"])
    transaction.on_commit(lambda: event_log.notify(job.project_id))
    return chunk is not None
