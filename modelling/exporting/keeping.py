"""Where the files of export jobs are kept, for a few days: where snapshots are, so that every web process reads them.

"files": under the data folder, by temporary name, fsync and rename. "table": as rows of a megabyte, for several
machines.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import IO

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from annotation.models import AuditEntry
from annotation.services.erasure import ERASED
from annotation.services.retention import ERASED_IN_TIME
from modelling import jobs
from modelling.exporting.zips import read
from modelling.models import ExportJob, ExportPiece

KEPT = timedelta(days=3)
PIECE = 1 << 20
SYNCED = 4 << 20  # bytes; all at the end would make every answer of people wait for the same disk
State = ExportJob.State


class Draft:
    """The file of a job while it is made. Whoever lost the job can neither add to it nor finish it."""

    def __init__(self, job: ExportJob) -> None:
        self.job, self.digest, self.bytes = job, hashlib.sha256(), 0
        discard(job)

    def add(self, piece: bytes) -> None:
        self.digest.update(piece)
        self.bytes += len(piece)

    def finish(self, name: str) -> None:
        """The job is done, and its file can be downloaded."""
        ended = {"state": State.DONE, "ended_at": timezone.now(), "progress": {}}
        facts = {"name": name, "bytes": self.bytes, "sha256": self.digest.hexdigest()}
        jobs.let_go(self.job, **ended, **facts)

    def close(self) -> None:
        """Nothing of it stays open."""


class FileDraft(Draft):
    def __init__(self, job: ExportJob) -> None:
        super().__init__(job)
        self.path = _folder() / f"{job.pk}.{job.owner}.part"
        self.file: IO[bytes] = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
        self.safe = 0

    def add(self, piece: bytes) -> None:
        super().add(piece)
        self.file.write(piece)
        if self.bytes - self.safe >= SYNCED:
            self.sync()

    def sync(self) -> None:
        """What was written is on the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.safe = self.bytes

    def finish(self, name: str) -> None:
        self.sync()
        jobs.hold(self.job)
        self.path.rename(_path(self.job))
        super().finish(name)

    def close(self) -> None:
        self.file.close()
        self.path.unlink(missing_ok=True)


class TableDraft(Draft):
    def __init__(self, job: ExportJob) -> None:
        super().__init__(job)
        self.held, self.number = bytearray(), 0

    def add(self, piece: bytes) -> None:
        super().add(piece)
        self.held += piece
        while len(self.held) >= PIECE:
            self._store(bytes(self.held[:PIECE]))
            del self.held[:PIECE]

    def _store(self, content: bytes) -> None:
        with transaction.atomic():
            jobs.hold(self.job)
            ExportPiece.objects.create(job=self.job, number=self.number, content=content)
        self.number += 1

    def finish(self, name: str) -> None:
        if self.held:
            self._store(bytes(self.held))
        super().finish(name)


def draft_of(job: ExportJob) -> Draft:
    """An empty file for this job; what an updater before left of it is gone."""
    return TableDraft(job) if settings.SNAPSHOT_ARRAYS == "table" else FileDraft(job)


def _folder() -> Path:
    folder: Path = Path(settings.DATA_DIR) / "exports"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _path(job: ExportJob) -> Path:
    return _folder() / str(job.pk)


def stored(job: ExportJob) -> Iterator[bytes]:
    """The bytes of a job that is done, piece by piece; FileNotFoundError at once where they are gone."""
    if settings.SNAPSHOT_ARRAYS == "table":
        return _from_table(job)
    path = _path(job)
    path.stat()
    return read(path)


def _from_table(job: ExportJob) -> Iterator[bytes]:
    number = 0
    while row := ExportPiece.objects.filter(job=job, number=number).values_list("content").first():
        yield bytes(row[0])
        number += 1


def discard(job: ExportJob) -> None:
    """Nothing is left of the job's file, whole or not."""
    ExportPiece.objects.filter(job=job).delete()
    for path in (_path(job), *_folder().glob(f"{job.pk}.*.part")):
        path.unlink(missing_ok=True)


def old() -> QuerySet[ExportJob]:
    """Jobs whose file must not be had any more: after a few days, or once a person of the study was erased."""
    erased = AuditEntry.objects.filter(
        project=OuterRef("project"), action__in=[ERASED, ERASED_IN_TIME], at__gte=OuterRef("asked_at")
    )
    ended = ExportJob.objects.filter(state__in=[State.DONE, State.FAILED])
    return ended.filter(Q(ended_at__lt=timezone.now() - KEPT) | Exists(erased))


def forget_old() -> None:
    """Files that are kept no longer are gone, and so are their jobs."""
    for job in old():
        with suppress(OSError):
            discard(job)
            job.delete()
