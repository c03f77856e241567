"""Remove the rows of deleted projects in the background, a few hundred at a time, to hold locks only briefly.

A tombstone without `removed_at` marks a project that is not fully removed, so after a crash the next pass continues.
Two updaters may try to delete the same rows, which does no harm.
"""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import ProtectedError, QuerySet
from django.utils import timezone

from annotation.models import (
    Assignment,
    AuditEntry,
    ImportedDetails,
    Item,
    Judgement,
    JudgementNote,
    PlatformIdentity,
    Project,
    Retraction,
    Suggestion,
    Tombstone,
    TrialAnswer,
    Worker,
)
from annotation.services.privacy.erasure import truncate_wal
from modelling.exports.storage import delete_file
from modelling.models import (
    ConsensusScore,
    ExportJob,
    ModelSnapshot,
    ScoreboardEntry,
    SnapshotArrays,
    UpdateState,
    WorkerAssessment,
    WorkerPosterior,
)

log = logging.getLogger("concord.removal")

BATCH = 500


def remove_one() -> bool:
    """Delete a batch of rows of one deleted project; return False if there is nothing to do or it failed."""
    tombstone = Tombstone.objects.filter(removed_at=None).order_by("pk").first()
    if tombstone is None:
        return False
    try:
        return _remove_batch(tombstone)
    except (ProtectedError, DatabaseError, OSError):  # log any error and try again later
        log.exception("rows of a deleted project could not be removed", extra={"project": tombstone.slug})
        return False


def _remove_batch(tombstone: Tombstone) -> bool:
    project = Project.objects.filter(pk=tombstone.project_number).first()
    for rows in _rows_in_order(project) if project else ():
        if batch := list(rows.values_list("pk", flat=True)[:BATCH]):
            with transaction.atomic():
                rows.model._default_manager.filter(pk__in=batch).delete()
            return True
    if project:
        for job in ExportJob.objects.filter(project=project):
            delete_file(job)
        shutil.rmtree(Path(settings.DATA_DIR) / "snapshots" / str(project.pk), ignore_errors=True)
        project.delete()  # cascades to the tables that stay small
    Tombstone.objects.filter(pk=tombstone.pk).update(removed_at=timezone.now())
    transaction.on_commit(truncate_wal)
    return True


def _rows_in_order(project: Project) -> Iterator[QuerySet[Any]]:
    """Yield the project's rows in the tables that may be large, in an order that violates no foreign key."""
    yield UpdateState.objects.filter(project=project)  # first, so that a running update loses its lease
    yield ConsensusScore.objects.filter(snapshot__project=project)
    yield ScoreboardEntry.objects.filter(snapshot__project=project)
    yield WorkerAssessment.objects.filter(snapshot__project=project)
    yield SnapshotArrays.objects.filter(project=project)
    yield WorkerPosterior.objects.filter(project=project)
    yield ModelSnapshot.objects.filter(project=project)
    yield ImportedDetails.objects.filter(judgement__project=project)
    yield JudgementNote.objects.filter(judgement__project=project)
    yield TrialAnswer.objects.filter(project=project)
    for kind in (Retraction, Judgement, Suggestion, Assignment, PlatformIdentity, Worker, Item, AuditEntry):
        yield kind._default_manager.filter(project=project)
