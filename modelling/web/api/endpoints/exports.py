"""Export endpoints: list the available files, stream small ones, request and fetch large ones."""

import hashlib
import json
from typing import Annotated, Any

from django.db.models import Max
from django.http import Http404
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _
from ninja import Query, Router, Schema, Status
from pydantic import Field

from annotation.exceptions import RequestError
from annotation.http.access import Role
from annotation.http.downloads import DownloadResponse
from annotation.models import EventHead, Project
from annotation.services.participation.passport import plan_of
from modelling.exports import service
from modelling.exports.catalogue import ARCHIVE, PDF, REPORT, content_type_for, export_names, formats_for
from modelling.exports.points import MAX_SEQUENCE_DIGITS, ExportError, resolve_point
from modelling.exports.service import ExportRequest, find_job, open_finished_file
from modelling.models import ExportJob
from modelling.web.api.auth import ApiRequest, get_project, read_access, write_access
from modelling.web.api.endpoints.versions import LARGEST_VERSION, VersionNumber
from modelling.web.api.errors import Conflict, InvalidBody
from modelling.web.api.schemas import (
    Id,
    PlainText,
    RequestSchema,
    ResponseSchema,
    Slug,
    StrictInt,
    enum_schema,
    not_modified,
    old_name,
)

router = Router(tags=["exports"])
EXPORTS = [(what, format) for what in export_names() for format in formats_for(what)]
FORMATS = sorted({format for _what, format in EXPORTS})
CONTENT_TYPES = sorted({content_type_for(*export).split(";")[0] for export in EXPORTS})
FILE_RESPONSE = {
    200: {"content": {kind: {"schema": {} if "json" in kind else {"type": "string"}} for kind in CONTENT_TYPES}}
}
What = Annotated[str, Field(json_schema_extra={"enum": export_names()})]
Format = Annotated[str, Field(json_schema_extra={"enum": FORMATS})]
State = Annotated[ExportJob.State, enum_schema(ExportJob.State)]
MAX_SEQUENCE = 10**MAX_SEQUENCE_DIGITS


class ExportNotFound(RequestError):
    """The export does not exist; the title says why."""

    status = 404
    code = "no_export"
    detail = _("Nothing was written. Request another file, format or point.")

    def __init__(self, title: Any) -> None:
        super().__init__(str(title))
        self.title = title


class ExportOption(ResponseSchema):
    what: str
    formats: list[str]


class ExportsResponse(ResponseSchema):
    """The available exports and the point they would cover now."""

    exports: list[ExportOption]
    as_of_seq: int = Field(description="Last event of the log.")
    version: int | None = Field(description="Version that pages show.")


class ExportQuery(Schema):
    as_of: Annotated[int | None, Field(ge=0, le=MAX_SEQUENCE, description="Last event to include; default all.")] = None
    version: Annotated[VersionNumber | None, Field(description="Model version; default the matching one.")] = None


class ExportJobCreate(RequestSchema):
    """A file to be written in the background."""

    what: Annotated[str, Field(json_schema_extra={"enum": export_names()}, examples=["judgements"])]
    format: Annotated[str | None, Field(json_schema_extra={"enum": [*FORMATS, None]}, examples=["csv"])] = None
    as_of: Annotated[
        Annotated[StrictInt, Field(ge=0, le=MAX_SEQUENCE)] | None, Field(description="Last event to include.")
    ] = None
    version: Annotated[StrictInt, Field(ge=1, le=LARGEST_VERSION)] | None = None
    licence: Annotated[PlainText, Field(max_length=200, description="For an archive: licence of the data.")] = ""


class ExportJobResponse(ResponseSchema):
    """A requested file and its progress. A finished file is kept for three days."""

    number: int
    what: str
    format: str
    state: State
    progress: float | None = Field(description="Share written so far, while the job is running.")
    share: float | None = old_name("progress")
    message: str = Field(description="Why the file could not be written.")
    words: str = old_name("message")
    name: str
    bytes: int
    sha256: str


@router.get("/projects/{slug}/exports", auth=read_access, response=ExportsResponse, summary="List exports")
def list_exports(request: ApiRequest, slug: Slug) -> Any:
    """Lists the tables, the formats for other programs, the report and the archive. For analysts."""
    point = resolve_point(get_project(request, slug, Role.ANALYST))
    options = [{"what": what, "formats": formats_for(what)} for what in export_names()]
    return {"exports": options, "as_of_seq": point.sequence, "version": point.version}


@router.post(
    "/projects/{slug}/exports", auth=write_access, response={202: ExportJobResponse}, summary="Request a large file"
)
def request_export(request: ApiRequest, slug: Slug, new: ExportJobCreate) -> Any:
    """The file is written in the background. Repeating the request before it is done returns the same job.

    The limit is ten requests per person and hour.
    """
    project = get_project(request, slug, Role.ANALYST, archived=True)
    selection = (new.what, new.format or "", new.as_of, new.version, new.licence)
    try:
        queued = ExportRequest(project, request.user, *selection).queue()
    except ExportError as error:
        raise InvalidBody(str(error), "what") from None
    return Status(202, job_response(queued.job))


@router.get(
    "/projects/{slug}/exports/files/{number}",
    auth=read_access,
    response=ExportJobResponse,
    summary="Read the progress of a requested file",
)
def read_file(request: ApiRequest, slug: Slug, number: Id) -> Any:
    """One requested file. For analysts."""
    return job_response(_get_job(get_project(request, slug, Role.ANALYST), number))


@router.get(
    "/projects/{slug}/exports/files/{number}/content",
    auth=read_access,
    summary="Fetch a requested file",
    openapi_extra={"responses": FILE_RESPONSE},
)
def fetch_file(request: ApiRequest, slug: Slug, number: Id) -> Any:
    """The bytes of a finished file. For analysts; the download is recorded in the audit log."""
    job = _get_job(get_project(request, slug, Role.ANALYST), number)
    if job.state != ExportJob.State.DONE:
        raise Conflict(str(_("The file is not ready yet.")))
    try:
        file = open_finished_file(job, request.user)
    except ExportError as error:
        raise Http404(str(error)) from None
    return DownloadResponse(file.name, file.open(), file.content_type, file.size)


@router.get(
    "/projects/{slug}/exports/{what}.{format}",
    auth=read_access,
    summary="Fetch an export",
    openapi_extra={"responses": FILE_RESPONSE},
)
def fetch_export(request: ApiRequest, slug: Slug, what: What, format: Format, query: Query[ExportQuery]) -> Any:
    """A file of up to 50,000 rows; request larger ones. The same point gives the same bytes. For analysts.

    The limit is a hundred files per person and hour; unchanged files (304) do not count.
    """
    project = get_project(request, slug, Role.ANALYST)
    head = EventHead.objects.get(project=project)
    export = ExportRequest(project, request.user, what, format, query.as_of, query.version)
    try:
        _check_size(export)
        file = export.build()
        response = DownloadResponse(file.name, file.open(), file.content_type)
    except ExportError as error:
        raise ExportNotFound(str(error)) from None
    point = (file.version, file.as_of_seq, head.inputs_revision, _settings_fingerprint(project, what))
    if same := not_modified(request, response, what, format, *point):
        return same
    export.stream()
    return response


def _check_size(export: ExportRequest) -> None:
    if not export.is_large:
        return
    if export.what == ARCHIVE:
        raise Conflict(str(_("An archive takes too long to stream. Request it and fetch it when it is done.")), "what")
    if export.format == PDF:
        raise Conflict(str(_("A PDF takes too long to stream. Request it and fetch it when it is done.")), "what")
    message = _("This file has more than %(most)s rows. Request it and fetch it when it is done.")
    raise Conflict(message % {"most": f"{service.MAX_STREAMED_ROWS:,}"}, "what")


def _settings_fingerprint(project: Project, what: str) -> str:
    """Hash the file contents that can change without an event: settings, component names and closing answers."""
    names = sorted(project.component_names.values_list("number", "name"))
    answered = project.workers.aggregate(last=Max("closing_at"))["last"]
    values = [project.question, project.language, project.pairs, project.questionnaire, names, str(answered)]
    if what == REPORT:
        values += [project.title, plan_of(project), get_language()]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:12]


def _get_job(project: Project, number: int) -> ExportJob:
    job = find_job(project, number)
    if job is None:
        raise Http404(_("There is no such file, or it has expired."))
    return job


def job_response(job: ExportJob) -> dict[str, Any]:
    names = ("what", "format", "state", "message", "name", "bytes", "sha256")
    share = job.progress.get("share")
    fields = {name: getattr(job, name) for name in names}
    return {**fields, "number": job.pk, "progress": share, "share": share, "words": job.message}
