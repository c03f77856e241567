"""The export service behind pages, downloads, admin, API and command line.

It decides which files are streamed immediately and which become jobs for the updater, enforces the hourly limits and
writes the audit entry. Callers only render the outcome.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from annotation.exceptions import RequestError
from annotation.http import throttling
from annotation.models import Project, User
from annotation.services import audit
from modelling.exports import storage
from modelling.exports.archive import newest_refit
from modelling.exports.catalogue import (
    ARCHIVE,
    PDF,
    REPORT,
    ZIP,
    ExportFile,
    build_export,
    content_type_for,
    formats_for,
)
from modelling.exports.formats import csv_bytes
from modelling.exports.points import ExportError, ExportPoint, resolve_point
from modelling.models import ExportJob, ModelSnapshot
from modelling.training.inputs import get_read_point
from modelling.training.snapshots import CODE_VERSION
from modelling.training.versions import request_refit, shown_snapshot

MAX_STREAMED_ROWS = 50_000  # larger files become jobs
JOBS_PER_HOUR = 10  # for one user; throttling.MAX_EXPORTS limits streamed files
HOUR = timedelta(hours=1)


class ExportLimitExceeded(RequestError):
    """The user has requested too many files within an hour."""

    status = 429
    code = "too_many_files"
    title = gettext_lazy("You have requested too many files within an hour.")
    detail = gettext_lazy("Nothing was exported. Files you requested earlier are not affected.")

    def __init__(self, limit: int, retry_seconds: int) -> None:
        super().__init__(str(self.title))
        self.limit, self.retry_seconds = limit, retry_seconds

    def message(self) -> str:
        numbers = {"limit": self.limit, "minutes": -(-self.retry_seconds // 60)}
        return _("The limit is %(limit)d files per person and hour. Try again in %(minutes)d minutes.") % numbers


@dataclass(frozen=True)
class QueuedExport:
    """A file that the updater will write; `created` is False if the same file was already waiting."""

    job: ExportJob
    created: bool


@dataclass(frozen=True)
class ExportRequest:
    """A request for one file of a study; `user` is None on the command line, which has no limits."""

    project: Project
    user: User | None
    what: str
    format: str = ""
    as_of: int | None = None
    version: int | None = None
    licence: str = ""
    language: str = ""  # of a report; the default is the current language

    @cached_property
    def point(self) -> ExportPoint:
        return resolve_point(self.project, self.as_of, self.version)

    def build(self) -> ExportFile:
        """Prepare the file without writing it; ExportError if it is not available."""
        return self._file

    @cached_property
    def _file(self) -> ExportFile:
        return build_export(self.point, self.what, self.format, self.licence, self.language)

    @property
    def is_large(self) -> bool:
        """Whether the file must be written by the updater."""
        return self.build().rows > MAX_STREAMED_ROWS or self.what == ARCHIVE or self._format == PDF

    def deliver(self, *, count: bool = True) -> ExportFile | QueuedExport:
        """Stream a small file or queue a large one."""
        return self.queue() if self.what == ARCHIVE or self.is_large else self.stream(count=count)

    def stream(self, *, count: bool = True, action: str = "") -> ExportFile:
        """Return the file after counting it against the user's limit and writing the audit entry."""
        file = self.build()
        if self.user is not None:
            if count:
                _count_streamed_file(self.user)
            details = {"version": file.version, "as_of_seq": file.as_of_seq, "format": self._format}
            audit(self.project, self.user, action or f"exported {self.what}", details)
        return file

    def queue(self) -> QueuedExport:
        """Create a job for the updater, or return the one that is already waiting or running."""
        if self.what == ARCHIVE:
            return self._queue_archive()
        self.build()  # raises ExportError before a job is created
        language = (self.language or get_language() or "") if self.what == REPORT else ""
        return self._create_job(sequence=self.point.sequence, version=self.point.version or 0, language=language)

    @transaction.atomic
    def _queue_archive(self) -> QueuedExport:
        """Queue an archive of the shown version, or request a fit from scratch for it first."""
        snapshot = resolve_point(self.project).required_snapshot
        if is_archivable(snapshot):
            return self._create_job(sequence=snapshot.last_sequence, version=snapshot.number, licence=self.licence)
        current = get_read_point(self.project)
        queued = self._create_job(
            sequence=current.sequence, inputs_revision=current.inputs_revision + 1, licence=self.licence
        )
        if queued.created:
            request_refit(project=self.project, user=self.user)
        return queued

    def _create_job(self, **fields: Any) -> QueuedExport:
        fields |= {"project": self.project, "what": self.what, "format": self._format}
        try:
            with transaction.atomic():
                job = ExportJob.objects.create(requested_by=self.user, **fields)
                _check_job_limit(self.user)
                audit(self.project, self.user, f"asked for an export: {self.what}", {"as_of_seq": job.sequence})
        except IntegrityError:
            same = {name: fields[name] for name in ("project", "what", "format", "sequence")}
            same |= {"version": fields.get("version", 0), "language": fields.get("language", "")}
            return QueuedExport(ExportJob.objects.filter(**same).latest("pk"), False)
        return QueuedExport(job, True)

    @property
    def _format(self) -> str:
        return self.format or next(iter(formats_for(self.what)), "")

    def build_here(self, fit: Callable[[], object]) -> ExportFile:
        """Return the file to be written by this process, whatever its size.

        `fit` brings the project up to date; it is called where an archive needs a fit from scratch.
        """
        if self.what != ARCHIVE or self.as_of is not None or self.version is not None:
            return self.build()
        snapshot = shown_snapshot(self.project)
        if snapshot is None or not is_archivable(snapshot):
            inputs_revision = get_read_point(self.project).inputs_revision + 1
            request_refit(project=self.project, user=None)
            fit()
            snapshot = newest_refit(self.project, inputs_revision)
        if snapshot is None:
            raise ExportError(_("The model could not be fitted from scratch. The model page shows the reason."))
        return replace(self, version=snapshot.number).build()


def is_archivable(snapshot: ModelSnapshot) -> bool:
    """Return whether the version was fitted from scratch by this code and its inputs have not changed since."""
    fields = (snapshot.kind, snapshot.pruned_at, snapshot.code_version, snapshot.inputs_revision)
    inputs_revision = get_read_point(snapshot.project).inputs_revision
    return fields == (ModelSnapshot.Kind.REFIT, None, CODE_VERSION, inputs_revision)


def _count_streamed_file(user: User) -> None:
    if throttling.too_many_exports(user.pk):
        seconds_left = HOUR.total_seconds() - time.time() % HOUR.total_seconds()
        raise ExportLimitExceeded(throttling.MAX_EXPORTS, int(seconds_left) + 1)


def _check_job_limit(user: User | None) -> None:
    """Enforce the hourly limit by counting the user's rows in the database, so that it holds across web processes."""
    if user is None:
        return
    since = timezone.now() - HOUR
    recent = ExportJob.objects.filter(requested_by=user, requested_at__gt=since).order_by("-requested_at")
    for requested_at in recent.values_list("requested_at", flat=True)[JOBS_PER_HOUR : JOBS_PER_HOUR + 1]:
        raise ExportLimitExceeded(JOBS_PER_HOUR, int((requested_at - since).total_seconds()) + 1)


# Finished jobs


def find_job(project: Project, number: int) -> ExportJob | None:
    """Return a job of this project whose file has not expired."""
    return ExportJob.objects.filter(project=project, pk=number).exclude(pk__in=storage.expired_jobs()).first()


def open_finished_file(job: ExportJob, user: User) -> ExportFile:
    """Return the file of a finished job and write the audit entry; ExportError if its bytes are gone."""
    try:
        chunks = storage.read_file(job)
    except FileNotFoundError:
        raise ExportError(_("This file is no longer available. Request it again.")) from None
    audit(job.project, user, f"exported {job.what}", {"as_of_seq": job.sequence, "file": job.name})
    content_type = content_type_for(job.what, job.format or ZIP)
    return ExportFile(job.name, content_type, 0, job.version or None, job.sequence, lambda: chunks, job.bytes)


def export_page_table(
    project: Project, user: User, *, action: str, columns: list[str], rows: Iterable[list[Any]], details: dict[str, Any]
) -> bytes:
    """Return a dashboard table, or the numbers behind a figure, as CSV, and write the audit entry."""
    content = csv_bytes(columns, rows)
    audit(project, user, action, details)
    return content
