"""Workers of a study: the list, a new one for another front end, and the pairs they are to judge."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.db import IntegrityError
from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _
from ninja import Query, Router, Status
from pydantic import Field

from annotation import services
from annotation.access import Role
from annotation.forms.joining import JoinForm
from annotation.models import Judgement, PlatformIdentity, Project, Worker
from annotation.refusals import NotOpen
from annotation.views.judging import task_for
from modelling.api.cursors import Asked, Order, Page, page_of
from modelling.api.door import ApiRequest, at_their_pace, project_for, reads, worker_for, writes
from modelling.api.refusals import NotThis, refuse_form
from modelling.api.strictness import NOT_BLANK, Code, Sent, Slug, Told, Words, one_of

router = Router(tags=["workers"])
ORDERS = {"joined": Order("joined", ("pk",)), "-joined": Order("-joined", ("-pk",))}
PLATFORM = "api"
State = Annotated[Worker.State, one_of(Worker.State)]


class NewWorker(Sent):
    """Somebody who judges by another front end, or a bot."""

    consent: Annotated[Literal[True], Field(description="That they have agreed to the study's consent text.")]
    external_id: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=200,
            pattern=NOT_BLANK,
            description="Your own name for them; the same again is the same worker. It is kept apart and never told.",
            examples=["bot-1"],
        ),
    ] = None
    traits: Annotated[
        dict[str, Words], Field(max_length=20, description="Answers to the study's questions.", examples=[{}])
    ] = {}


class WorkerTold(Told):
    """A worker by the random code that stands for them everywhere."""

    code: str
    state: State
    traits: dict[str, Any]
    judgements: int = Field(description="Answers that stand.")
    joined_at: datetime


class Side(Told):
    text: str
    group: str


class Pair(Told):
    """Two texts lent to the worker; `assignment` goes back with the answer."""

    assignment: str
    left: Side
    right: Side


class Task(Told):
    """What is before the worker: pairs, the first to be shown first, and how far they are."""

    pairs: list[Pair]
    done: int
    total: int
    undo: str | None = Field(description="The last answer, while it can be taken back.")
    finished: bool


class WorkersAsked(Asked):
    state: State | None = None
    ordering: Annotated[Literal["joined", "-joined"], Field(description="Oldest or newest first.")] = "joined"


@router.get("/projects/{slug}/workers", auth=reads, response=Page[WorkerTold], summary="List workers")
def list_workers(request: ApiRequest, slug: Slug, asked: Query[WorkersAsked]) -> Any:
    """Everybody who has joined, by their codes; people who were erased are left out."""
    rows = counted(project_for(request, slug))
    if asked.state:
        rows = rows.filter(state=asked.state)
    return page_of(rows, ORDERS[asked.ordering], asked, told)


@router.post(
    "/projects/{slug}/workers", auth=writes, response={200: WorkerTold, 201: WorkerTold}, summary="Enrol a worker"
)
def enrol_worker(request: ApiRequest, slug: Slug, new: NewWorker) -> Any:
    """A worker of an open study. With a known `external_id`: the one who has it, unchanged (200)."""
    project = project_for(request, slug, Role.ANALYST)
    known = _known(project, new.external_id)
    if known is None and project.state != Project.State.OPEN:
        raise NotOpen
    traits = _traits(project, new.traits)
    try:
        worker = services.enrol(
            project=project, traits=traits, platform=PLATFORM, external_id=(new.external_id or "").strip()
        )
    except IntegrityError:  # the same name was enrolled in this very moment
        worker = known = _known(project, new.external_id)
    return Status(200 if known else 201, told(counted(project).get(pk=worker.pk)))


@router.get("/projects/{slug}/workers/{code}", auth=reads, response=WorkerTold, summary="Read a worker")
def read_worker(request: ApiRequest, slug: Slug, code: Code) -> Any:
    """One worker by their code."""
    project = project_for(request, slug)
    return told(counted(project).get(pk=worker_for(project, code).pk))


@router.post("/projects/{slug}/workers/{code}/pairs", auth=writes, response=Task, summary="Lend a worker pairs")
def lend_pairs(request: ApiRequest, slug: Slug, code: Code) -> Any:
    """Up to five pairs, for as long as the study reserves them; asked again, those that are still open."""
    project = project_for(request, slug, Role.ANALYST)
    worker = at_their_pace(worker_for(project, code))
    if project.state != Project.State.OPEN:
        raise NotOpen
    return task_for(worker)


def counted(project: Project) -> Any:
    """The project's workers with how many of their answers stand."""
    standing = Judgement.objects.answers().filter(worker=OuterRef("pk")).order_by().values("worker")
    counts = standing.annotate(n=Count("pk")).values("n")
    workers = Worker.objects.filter(project=project).exclude(state=Worker.State.WITHDRAWN)
    return workers.annotate(n_judgements=Coalesce(Subquery(counts), 0))


def told(worker: Any) -> dict[str, Any]:
    names = ("code", "state", "traits", "joined_at")
    return {**{name: getattr(worker, name) for name in names}, "judgements": worker.n_judgements}


def _known(project: Project, external_id: str | None) -> Any:
    if not external_id:
        return None
    named = PlatformIdentity.objects.filter(project=project, platform=PLATFORM, external_id=external_id.strip())
    return Worker.objects.filter(identity__in=named).first()


def _traits(project: Project, answers: dict[str, str]) -> dict[str, str]:
    """The answers, as the welcome page would have taken them."""
    asked = {question["name"] for question in project.questionnaire}
    if strange := sorted(set(answers) - asked):
        raise NotThis(_("The study has no question “%(name)s”.") % {"name": strange[0][:60]}, "traits")
    form = JoinForm(project, {"consent": "on", **{f"q_{name}": answer for name, answer in answers.items()}})
    refuse_form(form)
    return form.traits()
