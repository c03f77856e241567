"""Storage for export files, which are kept for a few days.

The setting FILE_STORAGE chooses where. "files": in the data folder, written to a temporary name, synced and renamed.
"table": in database rows of one megabyte, which several machines can read.
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
from annotation.services.privacy.erasure import WORKER_ERASED
from annotation.services.privacy.retention import DATA_ERASED
from annotation.storage.durable_files import publish
from modelling.exports.formats import file_chunks
from modelling.models import ExportJob, ExportPiece
from modelling.updater import leases

RETENTION = timedelta(days=3)
PIECE_BYTES = 1 << 20
SYNC_BYTES = 4 << 20  # syncing everything at the end would delay all other writes to the disk
State = ExportJob.State


class ExportWriter:
    """Writes the file of a job; an updater that has lost the job's lease can neither add to it nor finish it."""

    def __init__(self, job: ExportJob) -> None:
        self.job, self.digest, self.bytes = job, hashlib.sha256(), 0
        delete_file(job)

    def write(self, chunk: bytes) -> None:
        self.digest.update(chunk)
        self.bytes += len(chunk)

    def finish(self, name: str) -> None:
        """Mark the job as done, so that its file can be downloaded."""
        state = {"state": State.DONE, "ended_at": timezone.now(), "progress": {}}
        file = {"name": name, "bytes": self.bytes, "sha256": self.digest.hexdigest()}
        leases.release(self.job, **state, **file)

    def close(self) -> None:
        """Release resources; called whether or not the file was finished."""


class DiskWriter(ExportWriter):
    def __init__(self, job: ExportJob) -> None:
        super().__init__(job)
        self.path = _folder() / f"{job.pk}.{job.owner}.part"
        self.file: IO[bytes] = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
        self.synced = 0

    def write(self, chunk: bytes) -> None:
        super().write(chunk)
        self.file.write(chunk)
        if self.bytes - self.synced >= SYNC_BYTES:
            self.sync()

    def sync(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())
        self.synced = self.bytes

    def finish(self, name: str) -> None:
        self.sync()
        leases.extend(self.job)
        publish(self.path, _path(self.job))
        super().finish(name)

    def close(self) -> None:
        self.file.close()
        self.path.unlink(missing_ok=True)


class DatabaseWriter(ExportWriter):
    def __init__(self, job: ExportJob) -> None:
        super().__init__(job)
        self.pending, self.number = bytearray(), 0

    def write(self, chunk: bytes) -> None:
        super().write(chunk)
        self.pending += chunk
        while len(self.pending) >= PIECE_BYTES:
            self._store(bytes(self.pending[:PIECE_BYTES]))
            del self.pending[:PIECE_BYTES]

    def _store(self, content: bytes) -> None:
        with transaction.atomic():
            leases.extend(self.job)
            ExportPiece.objects.create(job=self.job, number=self.number, content=content)
        self.number += 1

    def finish(self, name: str) -> None:
        if self.pending:
            self._store(bytes(self.pending))
        super().finish(name)


def open_writer(job: ExportJob) -> ExportWriter:
    """Start an empty file for this job and delete anything an earlier updater left behind."""
    return DatabaseWriter(job) if settings.FILE_STORAGE == "table" else DiskWriter(job)


def _folder() -> Path:
    folder: Path = Path(settings.DATA_DIR) / "exports"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _path(job: ExportJob) -> Path:
    return _folder() / str(job.pk)


def read_file(job: ExportJob) -> Iterator[bytes]:
    """Yield the bytes of a finished job; raises FileNotFoundError immediately if they are gone."""
    if settings.FILE_STORAGE == "table":
        return _read_rows(job)
    path = _path(job)
    path.stat()
    return file_chunks(path)


def _read_rows(job: ExportJob) -> Iterator[bytes]:
    number = 0
    while row := ExportPiece.objects.filter(job=job, number=number).values_list("content").first():
        yield bytes(row[0])
        number += 1


def delete_file(job: ExportJob) -> None:
    """Delete the job's file, complete or not."""
    ExportPiece.objects.filter(job=job).delete()
    for path in (_path(job), *_folder().glob(f"{job.pk}.*.part")):
        path.unlink(missing_ok=True)


def expired_jobs() -> QuerySet[ExportJob]:
    """Return jobs whose file is no longer available: too old, or requested before a worker of the study was erased."""
    erased = AuditEntry.objects.filter(
        project=OuterRef("project"), action__in=[WORKER_ERASED, DATA_ERASED], at__gte=OuterRef("requested_at")
    )
    ended = ExportJob.objects.filter(state__in=[State.DONE, State.FAILED])
    return ended.filter(Q(ended_at__lt=timezone.now() - RETENTION) | Exists(erased))


def delete_expired() -> None:
    """Delete expired jobs and their files."""
    for job in expired_jobs():
        with suppress(OSError):
            delete_file(job)
            job.delete()
