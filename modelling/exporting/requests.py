"""Files too large to make while somebody waits: asked for as a row, made by the updater, downloaded later.

Updates are not held up: between two pages of a long file the updater brings projects that are behind up to date. A
killed updater's job begins anew; the same point gives the same bytes.
"""

import logging
import time
from collections.abc import Callable
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from annotation import throttling
from annotation.models import Project, User
from annotation.refusals import Refused
from annotation.services import audit
from modelling.backups import FULL
from modelling.exporting.archive import newest_refit
from modelling.exporting.catalogue import ARCHIVE, ZIP, Export, export_at
from modelling.exporting.keeping import draft_of, forget_old
from modelling.exporting.points import NoExport, Point, point_of
from modelling.inputs import moment_of
from modelling.jobs import WENT_WRONG, LostJob, alive, claim, give_up, hold
from modelling.models import ExportJob, ModelSnapshot
from modelling.snapshots import CODE_VERSION
from modelling.versions import ask_for_refit, knows_the_erased, shown_snapshot

log = logging.getLogger("concord.exporting")

AT_ONCE = 50_000  # rows; more are made by the updater
EVERY_SECOND = 1.0
NO_ROOM = gettext_noop("The disk is full. Nothing of the file is left; make room and ask again.")

LARGE_PER_HOUR = 10  # files of the updater's that one person may ask for
HOUR = timedelta(hours=1)

Meanwhile = Callable[[], object]


class TooManyFiles(Refused):
    """One person has had more files within an hour than anybody needs."""

    status = 429
    code = "too_many_files"
    title = gettext_lazy("These are more files than one person may have in an hour.")
    detail = gettext_lazy("Nothing was exported. What you have asked for already is made and kept.")

    def __init__(self, most: int, retry_seconds: int) -> None:
        super().__init__(str(self.title))
        self.most, self.retry_seconds = most, retry_seconds

    def said(self) -> str:
        minutes = -(-self.retry_seconds // 60)
        words = _("One person may have %(most)d such files in an hour. The next in %(minutes)d minutes.")
        return words % {"most": self.most, "minutes": minutes}


def count_small(user: User) -> None:
    """A file that is made while somebody waits counts; TooManyFiles where it is one too many."""
    if throttling.too_many_exports(user.pk):
        raise TooManyFiles(throttling.EXPORTS, int(HOUR.total_seconds() - time.time() % HOUR.total_seconds()) + 1)


def _refuse_too_many(user: User | None) -> None:
    """Counted by the rows, so that several web processes count as one; whoever sits at the server is not counted."""
    if user is None:
        return
    since = timezone.now() - HOUR
    asked = ExportJob.objects.filter(asked_by=user, asked_at__gt=since).order_by("-asked_at")
    for first in asked.values_list("asked_at", flat=True)[LARGE_PER_HOUR : LARGE_PER_HOUR + 1]:
        raise TooManyFiles(LARGE_PER_HOUR, int((first - since).total_seconds()) + 1)


def ask(*, project: Project, user: User | None, point: Point, what: str, format: str) -> bool:
    """A file of this point waits for the updater; False where the same waits or is made already."""
    return _ask(project, user, what=what, format=format, sequence=point.sequence, version=point.version or 0)


def _ask(project: Project, user: User | None, **facts: object) -> bool:
    try:
        with transaction.atomic():
            ExportJob.objects.create(project=project, asked_by=user, **facts)
            _refuse_too_many(user)
            audit(project, user, f"asked for an export: {facts['what']}", {"as_of_seq": facts["sequence"]})
    except IntegrityError:
        return False
    return True


@transaction.atomic
def ask_for_archive(*, project: Project, user: User | None, licence: str) -> bool:
    """An archive waits for the updater, and for a fit from scratch where the shown version is not one."""
    snapshot = point_of(project).known
    facts = {"what": ARCHIVE, "format": ZIP, "licence": licence}
    if can_be_archived(snapshot):
        return _ask(project, user, sequence=snapshot.last_sequence, version=snapshot.number, **facts)
    moment = moment_of(project)
    asked = _ask(project, user, sequence=moment.sequence, inputs_revision=moment.inputs_revision + 1, **facts)
    if asked:
        ask_for_refit(project=project, user=user)
    return asked


def can_be_archived(snapshot: ModelSnapshot) -> bool:
    """Fitted from scratch by this code, and what it was fitted to is here unchanged."""
    facts = (snapshot.kind, snapshot.pruned_at, snapshot.code_version, snapshot.inputs_revision)
    return facts == (ModelSnapshot.Kind.REFIT, None, CODE_VERSION, moment_of(snapshot.project).inputs_revision)


def export_one(owner: str, meanwhile: Meanwhile = lambda: None) -> bool:
    """Makes one file that was asked for; False where nobody has asked, or what it is of does not exist yet."""
    forget_old()
    job = claim(ExportJob, owner, _is_ready)
    if job is None:
        return False
    try:
        with alive():
            _make(job, meanwhile)
    except LostJob:
        log.warning("another updater took the export over", extra={"project": job.project.slug})
    except NoExport as refusal:
        give_up(job, str(refusal))
    except Exception as error:  # the boundary of a background job: say it and go on with the others
        log.exception("the export failed", extra={"project": job.project.slug})
        full = isinstance(error, OSError) and error.errno in FULL
        give_up(job, NO_ROOM if full else WENT_WRONG)
    return True


def _is_ready(job: ExportJob) -> bool:
    return job.version > 0 or job.what != ARCHIVE or newest_refit(job.project, job.inputs_revision) is not None


def point_of_job(job: ExportJob) -> Point:
    """The point that was asked for; an archive that waited for a fit takes the newest."""
    if job.what == ARCHIVE and not job.version:
        refit = newest_refit(job.project, job.inputs_revision)
        return Point(job.project, refit.last_sequence if refit else 0, refit)
    snapshot = ModelSnapshot.objects.filter(project=job.project, number=job.version).select_related("project").first()
    if snapshot is not None and knows_the_erased(snapshot):
        raise NoExport(_("Somebody was erased since this was asked for. Ask again."))
    return Point(job.project, job.sequence, snapshot)


def _make(job: ExportJob, meanwhile: Meanwhile) -> None:
    export = export_at(point_of_job(job), job.what, job.format, job.licence)
    draft, said = draft_of(job), time.monotonic()
    try:
        for step, piece in enumerate(export.pieces(), start=1):
            draft.add(piece)
            if time.monotonic() - said >= EVERY_SECOND:
                hold(job, progress=_progress(export, step, draft.bytes))
                meanwhile()
                said = time.monotonic()
        draft.finish(export.name)
    finally:
        draft.close()


def _progress(export: Export, step: int, written: int) -> dict[str, float]:
    return {"share": round(min(step / export.steps, 0.99), 3) if export.steps else 0.0, "bytes": written}


def archive_now(project: Project, fit: Callable[[], object]) -> Point:
    """The point of an archive that is made here and now; `fit` brings the project up to date where that is needed."""
    snapshot = shown_snapshot(project)
    if snapshot is None or not can_be_archived(snapshot):
        wanted = moment_of(project).inputs_revision + 1
        ask_for_refit(project=project, user=None)
        fit()
        snapshot = newest_refit(project, wanted)
    if snapshot is None:
        raise NoExport(_("The model could not be fitted from scratch just now; the model's page says why."))
    return Point(project, snapshot.last_sequence, snapshot)
