"""Judgement endpoints: read the event log, send one judgement, retract one, import past judgements."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.db.models import Q
from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from ninja import Query, Router, Status
from pydantic import Field

from annotation import services
from annotation.forms.judging import JUDGEMENT_FIELDS, MAX_NOTE, RETRACTION_FIELDS, clean_payload
from annotation.http.access import Role
from annotation.importing.cells import MAX_MILLISECONDS, parse_time
from annotation.importing.judgement_files import MAX_CELL, MAX_WORKER, ImportedJudgement, clean_judgements
from annotation.importing.judgements import import_judgements
from annotation.models import EventHead, Item, Judgement
from annotation.services.tasks import build_task
from modelling.web.api.auth import ApiRequest, check_worker_rate, get_project, get_worker, read_access, write_access
from modelling.web.api.endpoints.items import MAX_METADATA, Name, mapping_schema
from modelling.web.api.endpoints.workers import Task
from modelling.web.api.errors import InvalidBody
from modelling.web.api.pagination import ListQuery, Order, Page, paginate
from modelling.web.api.schemas import (
    LARGEST_NUMBER,
    NOT_BLANK,
    ClientUUID,
    Code,
    FiniteFloat,
    Key,
    PlainText,
    RequestSchema,
    ResponseSchema,
    Slug,
    StrictInt,
    enum_schema,
    not_modified,
    old_name,
)

router = Router(tags=["judgements"])
ORDERS = {"sequence": Order("sequence", ("sequence",)), "-sequence": Order("-sequence", ("-sequence",))}
Source = Annotated[Judgement.Source, enum_schema(Judgement.Source)]
SkipReason = Annotated[Judgement.SkipReason, enum_schema(Judgement.SkipReason)]
EXAMPLE_ANSWER = "0b8b56c2-3d0c-4a2e-9a5b-3a1f1d1f8c11"
EXAMPLE_ASSIGNMENT = "6a0f5c1e-5a59-4a0e-8f39-7b1e6f0f7d02"
MAX_IMPORTED = 1000
Texts = Annotated[
    dict[Name, Annotated[PlainText, Field(max_length=MAX_CELL)]],
    Field(max_length=MAX_METADATA),
    mapping_schema(MAX_METADATA, type="string", maxLength=MAX_CELL),
]


class JudgementCreate(RequestSchema):
    """The answer to a pair leased to the worker."""

    uuid: Annotated[ClientUUID, Field(examples=[EXAMPLE_ANSWER])]
    worker: Annotated[Code, Field(description="The worker's code.", examples=["k3m9x2p7qa"])]
    assignment: Annotated[UUID, Field(description="`assignment` of the pair.", examples=[EXAMPLE_ASSIGNMENT])]
    choice: Annotated[Literal["left", "right", "tie", "skip"], Field(examples=["left"])]
    skip_reason: Annotated[SkipReason | None, Field(description="Only with `skip`.")] = None
    response_ms: Annotated[
        FiniteFloat | None, Field(description="Response time; clipped to the duration of the lease.")
    ] = None
    note: Annotated[PlainText, Field(max_length=MAX_NOTE, description="The worker's comment.")] = ""


class RetractionCreate(RequestSchema):
    """An answer to undo; its pair is leased again."""

    uuid: Annotated[ClientUUID, Field(examples=["f4f4a5a0-93c8-4a9e-a3ba-6a1b1f0a3d77"])]
    worker: Annotated[Code, Field(examples=["k3m9x2p7qa"])]
    judgement: Annotated[UUID, Field(examples=[EXAMPLE_ANSWER])]


class PastJudgement(RequestSchema):
    """A judgement made elsewhere, of a pair that you chose."""

    worker: Annotated[
        str,
        Field(min_length=1, max_length=MAX_WORKER, pattern=NOT_BLANK, description="Your id for the person."),
        Field(examples=["m001"]),
    ]
    a: Annotated[Key, Field(examples=["cats-1"])]
    b: Annotated[Key, Field(examples=["cats-2"])]
    choice: Annotated[Literal["a", "b", "tie"], Field(description="The preferred item.", examples=["a"])]
    judged_at: Annotated[
        Annotated[str, Field(max_length=60, json_schema_extra={"format": "date-time"})] | None,
        Field(description="Time of the judgement; UTC if it has no zone."),
    ] = None
    response_ms: Annotated[StrictInt, Field(ge=0, le=MAX_MILLISECONDS)] | None = None
    note: Annotated[PlainText, Field(max_length=MAX_NOTE, description="The worker's reason.")] = ""
    traits: Texts = {}
    extra: Annotated[Texts, Field(description="Anything else to keep with the judgement.")] = {}


class JudgementsImport(RequestSchema):
    judgements: Annotated[list[PastJudgement], Field(min_length=1, max_length=MAX_IMPORTED)]


class JudgementImportResponse(ResponseSchema):
    """Counts of new judgements, ties among them, new workers, judgements already stored, workers with new traits."""

    added: int
    ties: int
    workers: int
    unchanged: int
    traits: int


class JudgementReceipt(ResponseSchema):
    """Confirms that the answer is stored; `next` is the worker's next task."""

    saved: UUID
    late: bool
    next: Task


class RetractionReceipt(ResponseSchema):
    retracted: UUID
    next: Task


class JudgedItem(ResponseSchema):
    """The item revision that was judged."""

    id: int
    key: str
    revision: int


class JudgementResponse(ResponseSchema):
    """One judgement. `a` is the item shown on the left or, if the sides are not known, the older one."""

    uuid: UUID
    sequence: int
    worker: str
    arm: str | None = Field(description="The worker's arm; null in a study without arms.")
    a: JudgedItem
    b: JudgedItem
    choice: Literal["a", "b", "tie", "skip"]
    skip_reason: str
    round: int
    source: Source
    response_ms: int | None
    late: bool
    retracted: bool
    created_at: datetime


class JudgementQuery(ListQuery):
    worker: Annotated[Code | None, Field(description="Code of the worker.")] = None
    item: Annotated[PlainText | None, Field(max_length=200, description="Key of one of the two items.")] = None
    source: Source | None = None
    retracted: Annotated[bool | None, Field(description="Whether it was retracted.")] = None
    standing: Annotated[bool | None, old_name("retracted", "with the opposite meaning")] = None
    after: Annotated[int | None, Field(ge=0, le=LARGEST_NUMBER, description="Only events with a higher sequence.")] = (
        None
    )
    ordering: Annotated[Literal["sequence", "-sequence"], Field(description="Oldest or newest first.")] = "sequence"


@router.get(
    "/projects/{slug}/judgements", auth=read_access, response=Page[JudgementResponse], summary="List judgements"
)
def list_judgements(request: ApiRequest, response: HttpResponse, slug: Slug, query: Query[JudgementQuery]) -> Any:
    """The event log. Retracted judgements are marked; data of erased people are left out. For analysts."""
    project = get_project(request, slug, Role.ANALYST)
    head = EventHead.objects.get(project=project)
    if same := not_modified(request, response, "log", project.pk, head.sequence, head.inputs_revision):
        return same
    rows = Judgement.objects.visible().filter(_filters(query), project=project)
    return paginate(_with_items(rows), ORDERS[query.ordering], query, judgement_response)


@router.post(
    "/projects/{slug}/judgements",
    auth=write_access,
    response={200: JudgementReceipt, 201: JudgementReceipt},
    summary="Send a judgement",
)
def send_judgement(request: ApiRequest, slug: Slug, new: JudgementCreate) -> Any:
    """Stores the judgement (201). Sending it again returns 200 and stores nothing.

    The same uuid with another answer is refused (422).
    """
    project = get_project(
        request, slug, Role.ANALYST, archived=True
    )  # so that repeated requests are acknowledged after archiving
    worker = check_worker_rate(get_worker(project, new.worker, "worker"))
    values = clean_payload(JUDGEMENT_FIELDS, new.model_dump(mode="json"))
    receipt = services.record_judgement(worker=worker, source=Judgement.Source.API, **values)
    stored = receipt.judgement
    upcoming = build_task(worker, done=receipt.done, last=stored if receipt.created else None)
    return Status(201 if receipt.created else 200, {"saved": stored.uuid, "late": stored.late, "next": upcoming})


@router.post(
    "/projects/{slug}/judgements/import",
    auth=write_access,
    response=JudgementImportResponse,
    summary="Import past judgements",
)
def import_past_judgements(request: ApiRequest, slug: Slug, new: JudgementsImport) -> Any:
    """Stores all judgements or none. Repeating a request adds nothing.

    The same worker and pair twice in one request are two judgements; in two requests they are the same one.
    """
    project = get_project(request, slug, Role.ANALYST)
    rows = [_imported_judgement(line, each) for line, each in enumerate(new.judgements, start=1)]
    return import_judgements(project=project, user=request.user, rows=clean_judgements(rows)).counts


@router.get(
    "/projects/{slug}/judgements/{judgement}", auth=read_access, response=JudgementResponse, summary="Read a judgement"
)
def read_judgement(request: ApiRequest, slug: Slug, judgement: UUID) -> Any:
    """One judgement. For analysts."""
    project = get_project(request, slug, Role.ANALYST)
    found = _with_items(Judgement.objects.visible().filter(project=project, uuid=judgement)).first()
    if found is None:
        raise Http404(_("There is no such judgement in the project."))
    return judgement_response(found)


@router.post(
    "/projects/{slug}/retractions",
    auth=write_access,
    response={200: RetractionReceipt, 201: RetractionReceipt},
    summary="Retract a judgement",
)
def retract_judgement(request: ApiRequest, slug: Slug, new: RetractionCreate) -> Any:
    """Adds a retraction to the log (201); the judgement stays, marked as retracted. 200 if it was retracted before."""
    project = get_project(
        request, slug, Role.ANALYST, archived=True
    )  # so that repeated requests are acknowledged after archiving
    worker = check_worker_rate(get_worker(project, new.worker, "worker"))
    values = clean_payload(RETRACTION_FIELDS, new.model_dump(mode="json"))
    created = services.retract(worker=worker, **values).uuid == values["uuid"]
    return Status(201 if created else 200, {"retracted": new.judgement, "next": build_task(worker)})


def _imported_judgement(line: int, past: PastJudgement) -> ImportedJudgement:
    fields = {name: getattr(past, name) for name in PastJudgement.model_fields}
    try:
        fields["judged_at"] = parse_time(past.judged_at) if past.judged_at is not None else None
    except ValueError:
        message = _("“judged_at” is not a time between 1900 and 2100 in ISO 8601.")
        raise InvalidBody(message, f"judgements.{line - 1}.judged_at") from None
    return ImportedJudgement(line=line, **fields)


def _filters(query: JudgementQuery) -> Q:
    filters = Q()
    if query.worker is not None:
        filters &= Q(worker__code=query.worker)
    if query.item is not None:
        filters &= Q(item_lo__key=query.item) | Q(item_hi__key=query.item)
    if query.source is not None:
        filters &= Q(source=query.source)
    if query.retracted is not None:
        filters &= Q(retraction__isnull=not query.retracted)
    if query.standing is not None:
        filters &= Q(retraction__isnull=query.standing)
    if query.after is not None:
        filters &= Q(sequence__gt=query.after)
    return filters


def _with_items(rows: Any) -> Any:
    return rows.select_related("worker__arm", "item_lo", "item_hi", "retraction")


def judgement_response(judgement: Judgement) -> dict[str, Any]:
    lo_first = judgement.lo_was_left is not False
    a, b = judgement.item_lo, judgement.item_hi
    names = ("uuid", "sequence", "skip_reason", "round", "source", "response_ms", "late", "created_at")
    choice = {"lo": "a", "hi": "b"} if lo_first else {"lo": "b", "hi": "a"}
    return {
        **{name: getattr(judgement, name) for name in names},
        "worker": judgement.worker.code,
        "arm": judgement.worker.arm.name if judgement.worker.arm else None,
        "a": _judged_item(a if lo_first else b),
        "b": _judged_item(b if lo_first else a),
        "choice": choice.get(judgement.choice, judgement.choice),
        "retracted": hasattr(judgement, "retraction"),
    }


def _judged_item(item: Item) -> dict[str, Any]:
    return {"id": item.pk, "key": item.key, "revision": item.revision}
