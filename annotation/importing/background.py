"""Import many judgements while people judge: stage the checked rows, then append them to the event log in chunks.

1. The rows are checked and written to `ImportChunk` in short transactions. Nothing else changes; if the process is
   killed, these rows are deleted a day later.
2. One short transaction starts the import (of all studies of a split file), provided that nothing has changed since the
   rows were checked.
3. A chunk is appended and deleted in one short transaction, so that every judgement is appended once, whichever
   process continues after a kill. A started import is therefore always completed; until then the model does not
   learn from the study.
"""

import logging
import time
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from django.db import IntegrityError, transaction
from django.utils import timezone

from annotation.importing import judgements
from annotation.importing.judgement_files import ImportedJudgement
from annotation.importing.judgements import ImportRunning, JudgementImportPlan, refuse_if_running
from annotation.models import EventHead, ImportChunk, Judgement, JudgementImport, PlatformIdentity, Project, User
from annotation.services import audit
from annotation.services.items import lock_items
from annotation.storage import event_log

log = logging.getLogger("concord.importing")

AT_ONCE = 2000  # rows of a file that is imported in one transaction
CHUNKS_PER_WRITE = 50
BURST_SECONDS = 0.5
ABANDONED = timedelta(days=1)
State = JudgementImport.State


@dataclass(frozen=True)
class StagedImport:
    """An import whose rows are checked and stored in chunks, and the state of the study when they were checked."""

    job: JudgementImport
    plan: JudgementImportPlan
    checked_at: EventHead


def import_judgements(
    *, project: Project, user: User | None, rows: list[ImportedJudgement], wait: bool = False
) -> JudgementImportPlan:
    """Import a small file at once, a large one in the background or, with `wait`, in chunks in this process."""
    if len(rows) <= AT_ONCE:
        return judgements.import_judgements(project=project, user=user, rows=rows)
    (plan,) = import_in_chunks(user, [(project, rows)], wait=wait)
    return plan


def import_in_chunks(
    user: User | None, files: list[tuple[Project, list[ImportedJudgement]]], *, wait: bool = False
) -> list[JudgementImportPlan]:
    """Stage the rows of each project, then start all imports together."""
    known = [imported_names(project) for project, _ in files]
    while True:
        plans, staged = list[JudgementImportPlan](), list[StagedImport]()
        for (project, rows), names in zip(files, known, strict=True):
            plans.append(_stage(project, user, _without_erased(project, rows, names), staged))
        try:
            started = _start(staged)
        except ImportRunning:
            _discard(staged)
            raise
        if started:
            break
        _discard(staged)
    for each in staged:
        each.plan.in_background = not wait
        while wait and append_chunks(each.job):
            pass
    return plans


def imported_names(project: Project) -> set[str]:
    """The names that workers of earlier imports had in their files."""
    identities = PlatformIdentity.objects.filter(project=project, platform=judgements.PLATFORM)
    return set(identities.values_list("external_id", flat=True))


def _without_erased(project: Project, rows: list[ImportedJudgement], known: set[str]) -> list[ImportedJudgement]:
    """Leave out workers who have been erased since the import began."""
    erased = known - imported_names(project)
    return [row for row in rows if row.worker not in erased] if erased else rows


def _stage(
    project: Project, user: User | None, rows: list[ImportedJudgement], staged: list[StagedImport]
) -> JudgementImportPlan:
    """Check the rows and write them to chunks, which nothing reads before the import is started."""
    refuse_if_running(project)
    head = EventHead.objects.get(project=project)
    plan = judgements.plan_judgements(project, rows)
    if plan.changes_anything:
        job = JudgementImport.objects.create(project=project, requested_by=user, total=len(plan.added))
        staged.append(StagedImport(job, plan, head))
        parts = enumerate(judgements.split_plan(plan))
        while some := [ImportChunk(job=job, number=n, content=part) for n, part in islice(parts, CHUNKS_PER_WRITE)]:
            ImportChunk.objects.bulk_create(some)
    return plan


@transaction.atomic
def _start(staged: list[StagedImport]) -> bool:
    """Start the imports; False if items, workers or imported judgements have changed since the rows were checked."""
    for each in sorted(staged, key=lambda each: each.job.project_id):  # always locked in this order
        lock_items(each.job.project)
        refuse_if_running(each.job.project)
        if _has_changed(each):
            return False
    for each in staged:
        JudgementImport.objects.filter(pk=each.job.pk).update(state=State.RUNNING)
        audit(each.job.project, each.job.requested_by, "imported judgements", each.plan.counts)
    return True


def _has_changed(staged: StagedImport) -> bool:
    now = EventHead.objects.get(project=staged.job.project)
    imported = Judgement.objects.filter(project=staged.job.project, source=Judgement.Source.IMPORT)
    new = imported.filter(sequence__gt=staged.checked_at.sequence)
    return now.inputs_revision != staged.checked_at.inputs_revision or new.exists()


def _discard(staged: list[StagedImport]) -> None:
    JudgementImport.objects.filter(pk__in=[each.job.pk for each in staged]).delete()


def continue_imports() -> bool:
    """Append chunks of the oldest running import for a while; False if none is running. Delete abandoned imports."""
    jobs = JudgementImport.objects.filter(state__in=[State.STAGING, State.RUNNING]).select_related("project")
    unfinished = list(jobs.order_by("pk"))
    limit = timezone.now() - ABANDONED
    abandoned = [job.pk for job in unfinished if job.state == State.STAGING and job.created_at < limit]
    if abandoned:  # a DELETE would take the write lock even if there were nothing to delete
        JudgementImport.objects.filter(pk__in=abandoned, state=State.STAGING).delete()
    running = next((job for job in unfinished if job.state == State.RUNNING), None)
    if running is not None:
        append_chunks(running)
    return running is not None


def append_chunks(job: JudgementImport) -> bool:
    """Append chunks for a short time, leaving the write lock free half of it; False if no chunk is left."""
    end, left = time.monotonic() + BURST_SECONDS, True
    while left and (began := time.monotonic()) < end:
        left = append_chunk(job)
        time.sleep(time.monotonic() - began)
    return left


def append_chunk(job: JudgementImport) -> bool:
    """Append one chunk of a running import, or mark the import as failed; False if no chunk is left."""
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
    # Lock the log first, like everything that writes events: no worker is erased between reading and appending a chunk.
    if not EventHead.objects.select_for_update().filter(project=job.project_id).exists():
        return False  # the study was deleted
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
