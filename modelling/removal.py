"""The rows of a deleted project, removed by the updater a few hundred at a time, so that nobody waits for them.

What is left to do is read from rows: a tombstone whose last row is not gone yet. Killed in between, the next one goes
on; two at once delete the same rows, which is deleting them once.
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
    Item,
    Judgement,
    JudgementNote,
    PlatformIdentity,
    Project,
    Retraction,
    Suggestion,
    Tombstone,
    Worker,
)
from annotation.services.erasure import empty_the_journal
from modelling.exporting.keeping import discard
from modelling.models import ConsensusScore, ExportJob, ModelSnapshot, ScoreboardEntry, SnapshotArrays, UpdateState

log = logging.getLogger("concord.removal")

BATCH = 500


def remove_one() -> bool:
    """A batch of rows of a deleted project is gone; False where none is left, or where it cannot be done."""
    tombstone = Tombstone.objects.filter(removed_at=None).order_by("pk").first()
    if tombstone is None:
        return False
    try:
        return _remove_batch(tombstone)
    except (ProtectedError, DatabaseError, OSError):  # the boundary of a background job: say it, try again later
        log.exception("a deleted project could not be removed yet", extra={"project": tombstone.slug})
        return False


def _remove_batch(tombstone: Tombstone) -> bool:
    project = Project.objects.filter(pk=tombstone.project_number).first()
    for rows in _in_order(project) if project else ():
        if batch := list(rows.values_list("pk", flat=True)[:BATCH]):
            with transaction.atomic():
                rows.model._default_manager.filter(pk__in=batch).delete()
            return True
    if project:
        for job in ExportJob.objects.filter(project=project):
            discard(job)
        shutil.rmtree(Path(settings.DATA_DIR) / "snapshots" / str(project.pk), ignore_errors=True)
        project.delete()  # with whatever else hangs on it
    Tombstone.objects.filter(pk=tombstone.pk).update(removed_at=timezone.now())
    transaction.on_commit(empty_the_journal)
    return True


def _in_order(project: Project) -> Iterator[QuerySet[Any]]:
    """Every kind of row that may be many, what points to others before what it points to."""
    yield UpdateState.objects.filter(project=project)  # whoever is still learning has lost the claim
    yield ConsensusScore.objects.filter(snapshot__project=project)
    yield ScoreboardEntry.objects.filter(snapshot__project=project)
    yield SnapshotArrays.objects.filter(project=project)
    yield ModelSnapshot.objects.filter(project=project)
    yield JudgementNote.objects.filter(judgement__project=project)
    for kind in (Retraction, Judgement, Suggestion, Assignment, PlatformIdentity, Worker, Item, AuditEntry):
        yield kind._default_manager.filter(project=project)
