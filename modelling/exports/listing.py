"""The exports page: the tables and formats on offer, and the files requested so far."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from annotation.models import Project
from annotation.services.verification.checkpoints import Checkpoint, sign_checkpoint
from modelling.exports.catalogue import REPORT, TITLES
from modelling.exports.formats import FORMATS
from modelling.exports.interchange import INTERCHANGE_FORMATS
from modelling.exports.pdf import has_browser
from modelling.exports.storage import RETENTION, expired_jobs
from modelling.models import ExportJob

SHOWN = 20
State = ExportJob.State
NAMES = {"csv": "CSV", "json": "JSON", "jsonl": "JSON lines", "parquet": "Parquet"}


@dataclass(frozen=True)
class RequestedFile:
    """A file that a user requested."""

    job: ExportJob
    title: str
    percent: int | None
    message: str
    until: datetime | None

    @property
    def is_done(self) -> bool:
        return self.job.state == State.DONE

    @property
    def is_under_way(self) -> bool:
        return self.job.state in (State.WAITING, State.RUNNING)


@dataclass(frozen=True)
class ExportsPage:
    tables: list[tuple[str, Any]]
    formats: dict[str, str]
    others: dict[str, Any]
    files: list[RequestedFile]
    checkpoint: Checkpoint | None
    has_pdf: bool
    kept_days: int = RETENTION.days


def exports_page(project: Project) -> ExportsPage:
    jobs = ExportJob.objects.filter(project=project).exclude(pk__in=expired_jobs())
    files = [_requested_file(job) for job in jobs[:SHOWN]]
    formats = {name: NAMES[name] for name in FORMATS}
    return ExportsPage(
        list(TITLES.items()), formats, INTERCHANGE_FORMATS, files, sign_checkpoint(project), has_browser()
    )


def _requested_file(job: ExportJob) -> RequestedFile:
    share = job.progress.get("share") if job.state == State.RUNNING else None
    message = _(job.message) if job.message else ""
    until = job.ended_at + RETENTION if job.ended_at else None
    return RequestedFile(job, export_title(job.what), int(100 * share) if share else None, message, until)


def export_title(what: str) -> str:
    if what == REPORT:
        return _("Report")
    if what in TITLES:
        return str(TITLES[what])
    return str(INTERCHANGE_FORMATS[what].title) if what in INTERCHANGE_FORMATS else _("Archive")
