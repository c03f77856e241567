"""Files of a study at one point in time: which there are, small ones at once, large ones from the updater."""

import hashlib
import json
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any

from django.http import Http404
from django.utils.translation import gettext_lazy as _
from ninja import Query, Router, Schema, Status
from pydantic import Field

from annotation.access import Role
from annotation.models import EventHead, Project
from annotation.refusals import Refused
from annotation.services import audit
from modelling.api.door import ApiRequest, project_for, reads, writes
from modelling.api.refusals import Conflict, NotThis
from modelling.api.strictness import Id, Sent, Slug, Told, Whole, Words, one_of, unchanged
from modelling.api.versions import LARGEST_VERSION, VersionNumber
from modelling.exporting import keeping, requests
from modelling.exporting.catalogue import ARCHIVE, ZIP, Export, content_type_of, export_at, formats_of, names
from modelling.exporting.points import MOST_DIGITS, NoExport, Point, point_of
from modelling.exporting.responses import Download
from modelling.models import ExportJob

router = Router(tags=["exports"])
FORMATS = sorted({format for what in names() for format in formats_of(what)})
KINDS = sorted({content_type_of(what, format).split(";")[0] for what in names() for format in formats_of(what)})
FILE = {200: {"content": {kind: {"schema": {} if "json" in kind else {"type": "string"}} for kind in KINDS}}}
What = Annotated[str, Field(json_schema_extra={"enum": names()})]
Format = Annotated[str, Field(json_schema_extra={"enum": FORMATS})]
State = Annotated[ExportJob.State, one_of(ExportJob.State)]
LAST = 10**MOST_DIGITS


class NothingToExport(Refused):
    """Why there is no such file, in the words of the export itself."""

    status = 404
    code = "no_export"
    detail = _("Nothing was written. Ask for another file, format or point.")

    def __init__(self, title: Any) -> None:
        super().__init__(str(title))
        self.title = title


class Named(Told):
    what: str
    formats: list[str]


class Exports(Told):
    """What can be had, and the point that it would speak of now."""

    exports: list[Named]
    as_of_seq: int = Field(description="The last event of the log.")
    version: int | None = Field(description="The shown version.")


class PointAsked(Schema):
    as_of: Annotated[int | None, Field(ge=0, le=LAST, description="Up to this event; else all.")] = None
    version: Annotated[VersionNumber | None, Field(description="Of this version; else the one that fits.")] = None


class NewFile(Sent):
    """A file to be made in the background."""

    what: Annotated[str, Field(json_schema_extra={"enum": names()}, examples=["judgements"])]
    format: Annotated[str | None, Field(json_schema_extra={"enum": [*FORMATS, None]}, examples=["csv"])] = None
    as_of: Annotated[Annotated[Whole, Field(ge=0, le=LAST)] | None, Field(description="Up to this event.")] = None
    version: Annotated[Whole, Field(ge=1, le=LARGEST_VERSION)] | None = None
    licence: Annotated[Words, Field(max_length=200, description="Of an archive: what others may do with it.")] = ""


class FileTold(Told):
    """A file that was asked for, and how far it is. Done, it is kept for three days."""

    number: int
    what: str
    format: str
    state: State
    share: float | None = Field(description="How much of it is written, while it is.")
    words: str = Field(description="Why it could not be made.")
    name: str
    bytes: int
    sha256: str


@router.get("/projects/{slug}/exports", auth=reads, response=Exports, summary="List exports")
def list_exports(request: ApiRequest, slug: Slug) -> Any:
    """Which files there are, for analysts: tables, the formats of other programs, and the archive."""
    point = point_of(project_for(request, slug, Role.ANALYST))
    offered = [{"what": what, "formats": formats_of(what)} for what in names()]
    return {"exports": offered, "as_of_seq": point.sequence, "version": point.version}


@router.post("/projects/{slug}/exports", auth=writes, response={202: FileTold}, summary="Ask for a large file")
def ask_for_export(request: ApiRequest, slug: Slug, new: NewFile) -> Any:
    """Made by the updater. The same file asked for again, while it waits or is made, is the same file.

    A person may ask for ten in an hour.
    """
    project = project_for(request, slug, Role.ANALYST, archived=True)
    before = ExportJob.objects.filter(project=project, what=new.what)
    try:
        if new.what == ARCHIVE:
            requests.ask_for_archive(project=project, user=request.user, licence=new.licence)
            return Status(202, told(before.latest("pk")))
        point = point_of(project, new.as_of, new.version)
        format = new.format or formats_of(new.what)[0]
        export_at(point, new.what, format)
    except NoExport as nothing:
        raise NotThis(str(nothing), "what") from None
    requests.ask(project=project, user=request.user, point=point, what=new.what, format=format)
    same = before.filter(format=format, sequence=point.sequence, version=point.version or 0)
    return Status(202, told(same.latest("pk")))


@router.get("/projects/{slug}/exports/files/{number}", auth=reads, response=FileTold, summary="See how far a file is")
def read_file(request: ApiRequest, slug: Slug, number: Id) -> Any:
    """A file that was asked for, for analysts."""
    return told(_job(project_for(request, slug, Role.ANALYST), number))


@router.get(
    "/projects/{slug}/exports/files/{number}/content",
    auth=reads,
    summary="Fetch a file that was asked for",
    openapi_extra={"responses": FILE},
)
def fetch_file(request: ApiRequest, slug: Slug, number: Id) -> Any:
    """Its bytes, once it is done; the audit says who took it."""
    project = project_for(request, slug, Role.ANALYST)
    job = _job(project, number)
    if job.state != ExportJob.State.DONE:
        raise Conflict(str(_("The file is not ready yet.")))
    try:
        content = keeping.stored(job)
    except FileNotFoundError:
        raise Http404(_("This file is gone. Ask for it again.")) from None
    audit(project, request.user, f"exported {job.what}", {"as_of_seq": job.sequence, "file": job.name})
    return Download(job.name, content, content_type_of(job.what, job.format or ZIP))


@router.get(
    "/projects/{slug}/exports/{what}.{format}",
    auth=reads,
    summary="Fetch an export",
    openapi_extra={"responses": FILE},
)
def fetch_export(request: ApiRequest, slug: Slug, what: What, format: Format, asked: Query[PointAsked]) -> Any:
    """A file of up to 50,000 rows, for analysts; ask for larger ones. The same point gives the same bytes.

    A person may fetch a hundred in an hour; one that has not changed (304) does not count.
    """
    project = project_for(request, slug, Role.ANALYST)
    head = EventHead.objects.get(project=project)
    try:
        export = _small(point_of(project, asked.as_of, asked.version), what, format)
        file = Download(export.name, _begun(export), export.content_type)
    except NoExport as nothing:
        raise NothingToExport(str(nothing)) from None
    point = (export.version, export.as_of_seq, head.inputs_revision, _words_of(project))
    if same := unchanged(request, file, what, format, *point):
        return same
    requests.count_small(request.user)
    told_of = {"version": export.version, "as_of_seq": export.as_of_seq, "format": format}
    audit(project, request.user, f"exported {what}", told_of)
    return file


def _words_of(project: Project) -> str:
    """A fingerprint of what files hold and people may change without an event: settings, names of components."""
    names = sorted(project.component_names.values_list("number", "name"))
    said = [project.question, project.language, project.pairs, project.questionnaire, names]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:12]


def _small(point: Point, what: str, format: str) -> Export:
    export = export_at(point, what, format)
    if what == ARCHIVE:
        raise Conflict(str(_("An archive is too large to wait for. Ask for it, and fetch it when it is done.")), "what")
    if export.rows > requests.AT_ONCE:
        words = _("This file has more than %(most)s rows. Ask for it, and fetch it when it is done.")
        raise Conflict(words % {"most": f"{requests.AT_ONCE:,}"}, "what")
    return export


def _begun(export: Export) -> Iterator[bytes]:
    """Begun before it is sent: what cannot be exported is refused, not broken off."""
    pieces = export.pieces()
    return chain([next(pieces, b"")], pieces)


def _job(project: Project, number: int) -> ExportJob:
    job = ExportJob.objects.filter(project=project, pk=number).exclude(pk__in=keeping.old()).first()
    if job is None:
        raise Http404(_("There is no such file, or it is kept no longer."))
    return job


def told(job: ExportJob) -> dict[str, Any]:
    names = ("what", "format", "state", "words", "name", "bytes", "sha256")
    return {**{name: getattr(job, name) for name in names}, "number": job.pk, "share": job.progress.get("share")}
