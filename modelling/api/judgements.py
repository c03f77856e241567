"""Judgements: the log of a study for reading, and the same one answer at a time that a browser sends."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.db.models import Q
from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from ninja import Query, Router, Status
from pydantic import Field

from annotation import services
from annotation.access import Role
from annotation.forms.judging import JUDGEMENT, NOTE_LENGTH, RETRACTION, checked
from annotation.models import EventHead, Item, Judgement
from annotation.views.judging import task_for
from modelling.api.cursors import Asked, Order, Page, page_of
from modelling.api.door import ApiRequest, at_their_pace, project_for, reads, worker_for, writes
from modelling.api.strictness import LARGEST_NUMBER, Code, Nonce, Number, Sent, Slug, Told, Words, one_of, unchanged
from modelling.api.workers import Task

router = Router(tags=["judgements"])
ORDERS = {"sequence": Order("sequence", ("sequence",)), "-sequence": Order("-sequence", ("-sequence",))}
Source = Annotated[Judgement.Source, one_of(Judgement.Source)]
SkipReason = Annotated[Judgement.SkipReason, one_of(Judgement.SkipReason)]
EXAMPLE_ANSWER = "0b8b56c2-3d0c-4a2e-9a5b-3a1f1d1f8c11"
EXAMPLE_ASSIGNMENT = "6a0f5c1e-5a59-4a0e-8f39-7b1e6f0f7d02"


class NewJudgement(Sent):
    """One answer to one pair that was lent to the worker."""

    uuid: Annotated[Nonce, Field(examples=[EXAMPLE_ANSWER])]
    worker: Annotated[Code, Field(description="The worker's code.", examples=["k3m9x2p7qa"])]
    assignment: Annotated[UUID, Field(description="From the pair.", examples=[EXAMPLE_ASSIGNMENT])]
    choice: Annotated[Literal["left", "right", "tie", "skip"], Field(examples=["left"])]
    skip_reason: Annotated[SkipReason | None, Field(description="Only with `skip`.")] = None
    response_ms: Annotated[Number | None, Field(description="How long they looked; clipped to the lease.")] = None
    note: Annotated[Words, Field(max_length=NOTE_LENGTH, description="What they wrote beside the answer.")] = ""


class NewRetraction(Sent):
    """An answer that is taken back; its pair is lent again."""

    uuid: Annotated[Nonce, Field(examples=["f4f4a5a0-93c8-4a9e-a3ba-6a1b1f0a3d77"])]
    worker: Annotated[Code, Field(examples=["k3m9x2p7qa"])]
    judgement: Annotated[UUID, Field(examples=[EXAMPLE_ANSWER])]


class Saved(Told):
    """The answer is stored, now or before; `next` is what the worker does next."""

    saved: UUID
    late: bool
    next: Task


class TakenBack(Told):
    retracted: UUID
    next: Task


class ItemRead(Told):
    """The text that was read."""

    id: int
    key: str
    revision: int


class JudgementTold(Told):
    """An event of the log. `a` was shown on the left, where that is known; else it has the lower number."""

    uuid: UUID
    sequence: int
    worker: str
    a: ItemRead
    b: ItemRead
    choice: Literal["a", "b", "tie", "skip"]
    skip_reason: str
    round: int
    source: Source
    response_ms: int | None
    late: bool
    retracted: bool
    created_at: datetime


class JudgementsAsked(Asked):
    worker: Annotated[Code | None, Field(description="Of this worker.")] = None
    item: Annotated[Words | None, Field(max_length=200, description="With any text under this key.")] = None
    source: Source | None = None
    standing: Annotated[bool | None, Field(description="Only those that were not, or were, taken back.")] = None
    after: Annotated[int | None, Field(ge=0, le=LARGEST_NUMBER, description="Only later events.")] = None
    ordering: Annotated[Literal["sequence", "-sequence"], Field(description="Oldest or newest first.")] = "sequence"


@router.get("/projects/{slug}/judgements", auth=reads, response=Page[JudgementTold], summary="List judgements")
def list_judgements(request: ApiRequest, response: HttpResponse, slug: Slug, asked: Query[JudgementsAsked]) -> Any:
    """The log of the study, for analysts. What was taken back is marked; what an erased person took along is gone."""
    project = project_for(request, slug, Role.ANALYST)
    head = EventHead.objects.get(project=project)
    if same := unchanged(request, response, "log", project.pk, head.sequence, head.inputs_revision):
        return same
    rows = Judgement.objects.that_may_be_told().filter(_wanted(asked), project=project)
    return page_of(_with_items(rows), ORDERS[asked.ordering], asked, told)


@router.post("/projects/{slug}/judgements", auth=writes, response={200: Saved, 201: Saved}, summary="Send a judgement")
def send_judgement(request: ApiRequest, slug: Slug, new: NewJudgement) -> Any:
    """Stored once (201), however often it is sent (200). The same id with another answer is refused (422)."""
    project = project_for(request, slug, Role.ANALYST, archived=True)  # closed: what is stored is acknowledged again
    worker = at_their_pace(worker_for(project, new.worker, "worker"))
    given = checked(JUDGEMENT, new.model_dump(mode="json"))
    receipt = services.record_judgement(worker=worker, source=Judgement.Source.API, **given)
    stored = receipt.judgement
    upcoming = task_for(worker, done=receipt.done, last=stored if receipt.created else None)
    return Status(201 if receipt.created else 200, {"saved": stored.uuid, "late": stored.late, "next": upcoming})


@router.get("/projects/{slug}/judgements/{judgement}", auth=reads, response=JudgementTold, summary="Read a judgement")
def read_judgement(request: ApiRequest, slug: Slug, judgement: UUID) -> Any:
    """One event of the log, for analysts."""
    project = project_for(request, slug, Role.ANALYST)
    found = _with_items(Judgement.objects.that_may_be_told().filter(project=project, uuid=judgement)).first()
    if found is None:
        raise Http404(_("There is no such judgement in the project."))
    return told(found)


@router.post(
    "/projects/{slug}/retractions",
    auth=writes,
    response={200: TakenBack, 201: TakenBack},
    summary="Take a judgement back",
)
def take_back(request: ApiRequest, slug: Slug, new: NewRetraction) -> Any:
    """An event of its own (201); the judgement stays in the log, marked. 200 where another event had done it before."""
    project = project_for(request, slug, Role.ANALYST, archived=True)  # closed: what is stored is acknowledged again
    worker = at_their_pace(worker_for(project, new.worker, "worker"))
    asked = checked(RETRACTION, new.model_dump(mode="json"))
    created = services.retract(worker=worker, **asked).uuid == asked["uuid"]
    return Status(201 if created else 200, {"retracted": new.judgement, "next": task_for(worker)})


def _wanted(asked: JudgementsAsked) -> Q:
    wanted = Q()
    if asked.worker is not None:
        wanted &= Q(worker__code=asked.worker)
    if asked.item is not None:
        wanted &= Q(item_lo__key=asked.item) | Q(item_hi__key=asked.item)
    if asked.source is not None:
        wanted &= Q(source=asked.source)
    if asked.standing is not None:
        wanted &= Q(retraction__isnull=asked.standing)
    if asked.after is not None:
        wanted &= Q(sequence__gt=asked.after)
    return wanted


def _with_items(rows: Any) -> Any:
    return rows.select_related("worker", "item_lo", "item_hi", "retraction")


def told(judgement: Judgement) -> dict[str, Any]:
    lo_first = judgement.lo_was_left is not False
    a, b = judgement.item_lo, judgement.item_hi
    names = ("uuid", "sequence", "skip_reason", "round", "source", "response_ms", "late", "created_at")
    choice = {"lo": "a", "hi": "b"} if lo_first else {"lo": "b", "hi": "a"}
    return {
        **{name: getattr(judgement, name) for name in names},
        "worker": judgement.worker.code,
        "a": _read(a if lo_first else b),
        "b": _read(b if lo_first else a),
        "choice": choice.get(judgement.choice, judgement.choice),
        "retracted": hasattr(judgement, "retraction"),
    }


def _read(item: Item) -> dict[str, Any]:
    return {"id": item.pk, "key": item.key, "revision": item.revision}
