"""Background export jobs: files too large to stream are written by the updater and downloaded later.

Jobs do not delay model updates: between two pages of a long file the updater brings other projects up to date. If the
updater is killed, its job starts again from the beginning; the same point gives the same bytes.
"""

import time
from collections.abc import Callable

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from modelling.exports.archive import newest_refit
from modelling.exports.backup import DISK_FULL
from modelling.exports.catalogue import ARCHIVE, ExportFile, build_export
from modelling.exports.points import ExportError, ExportPoint
from modelling.exports.storage import delete_expired, open_writer
from modelling.models import ExportJob, ModelSnapshot
from modelling.training.versions import contains_erased_data
from modelling.updater import leases
from modelling.updater.jobs import claim_job, running

REPORT_SECONDS = 1.0  # between two progress reports
NO_SPACE = gettext_noop("The disk is full. The incomplete file was deleted; free space and request it again.")

Callback = Callable[[], object]


def run_export_job(owner: str, meanwhile: Callback = lambda: None) -> bool:
    """Write the file of one waiting job; False if no job is ready. `meanwhile` is called about once a second."""
    delete_expired()
    job = claim_job(ExportJob, owner, _is_ready)
    if job is None:
        return False
    with running(job, _describe_failure):
        _write_file(job, meanwhile)
    return True


def _describe_failure(error: Exception) -> str:
    if isinstance(error, ExportError):
        return str(error)
    return NO_SPACE if isinstance(error, OSError) and error.errno in DISK_FULL else ""


def _is_ready(job: ExportJob) -> bool:
    """Return whether the version exists; an archive may be waiting for a fit from scratch."""
    return job.version > 0 or job.what != ARCHIVE or newest_refit(job.project, job.inputs_revision) is not None


def job_point(job: ExportJob) -> ExportPoint:
    """Return the requested point; for an archive that waited for a fit, that of the newest fit from scratch."""
    if job.what == ARCHIVE and not job.version:
        refit = newest_refit(job.project, job.inputs_revision)
        return ExportPoint(job.project, refit.last_sequence if refit else 0, refit)
    snapshot = ModelSnapshot.objects.filter(project=job.project, number=job.version).select_related("project").first()
    if snapshot is not None and contains_erased_data(snapshot):
        raise ExportError(_("A person's data were erased after this request. Request the file again."))
    return ExportPoint(job.project, job.sequence, snapshot)


def _write_file(job: ExportJob, meanwhile: Callback) -> None:
    export = build_export(job_point(job), job.what, job.format, job.licence, job.language)
    writer, reported_at = open_writer(job), time.monotonic()
    try:
        for step, chunk in enumerate(export.chunks(), start=1):
            writer.write(chunk)
            if time.monotonic() - reported_at >= REPORT_SECONDS:
                leases.extend(job, progress=_progress(export, step, writer.bytes))
                meanwhile()
                reported_at = time.monotonic()
        writer.finish(export.name)
    finally:
        writer.close()


def _progress(export: ExportFile, step: int, written: int) -> dict[str, float]:
    return {"share": round(min(step / export.steps, 0.99), 3) if export.steps else 0.0, "bytes": written}
