"""What can be exported, and what has become of files that were asked for."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from annotation.models import Project
from modelling.exporting.catalogue import TITLES
from modelling.exporting.exchange import EXCHANGES
from modelling.exporting.formats import FORMATS
from modelling.exporting.keeping import KEPT, old
from modelling.models import ExportJob

SHOWN = 20
State = ExportJob.State
NAMES = {"csv": "CSV", "json": "JSON", "jsonl": "JSON lines", "parquet": "Parquet"}


@dataclass(frozen=True)
class Asked:
    """A file that somebody asked for."""

    job: ExportJob
    title: str
    percent: int | None
    words: str
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
    asked: list[Asked]
    kept_days: int = KEPT.days


def exports_page(project: Project) -> ExportsPage:
    jobs = ExportJob.objects.filter(project=project).exclude(pk__in=old())
    asked = [_asked(job) for job in jobs[:SHOWN]]
    return ExportsPage(list(TITLES.items()), {name: NAMES[name] for name in FORMATS}, EXCHANGES, asked)


def _asked(job: ExportJob) -> Asked:
    share = job.progress.get("share") if job.state == State.RUNNING else None
    words = _(job.words) if job.words else ""
    until = job.ended_at + KEPT if job.ended_at else None
    return Asked(job, title_of(job.what), int(100 * share) if share else None, words, until)


def title_of(what: str) -> str:
    if what in TITLES:
        return str(TITLES[what])
    return str(EXCHANGES[what].title) if what in EXCHANGES else _("Archive")
