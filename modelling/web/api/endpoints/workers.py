"""Worker endpoints: list, read, enrol, and lease pairs."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.db import IntegrityError
from django.db.models import Count, OuterRef, Subquery
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _
from ninja import Query, Router, Status
from pydantic import Field

from annotation import services
from annotation.exceptions import StudyNotOpen
from annotation.forms.questionnaire import JoinForm
from annotation.http.access import Role
from annotation.models import Judgement, PlatformIdentity, Project, Worker, WorkerExclusion
from annotation.services.tasks import build_task
from modelling.findings.workers.assessment import AUTOMATED
from modelling.findings.workers.versions import get_assessment, get_assessments
from modelling.models import WorkerAssessment
from modelling.training.versions import shown_snapshot
from modelling.web.api.auth import ApiRequest, check_worker_rate, get_project, get_worker, read_access, write_access
from modelling.web.api.errors import InvalidBody, raise_form_errors
from modelling.web.api.pagination import ListQuery, Order, Page, paginate
from modelling.web.api.schemas import NOT_BLANK, Code, PlainText, RequestSchema, ResponseSchema, Slug, enum_schema

router = Router(tags=["workers"])
ORDERS = {"joined": Order("joined", ("pk",)), "-joined": Order("-joined", ("-pk",))}
PLATFORM = "api"
State = Annotated[Worker.State, enum_schema(Worker.State)]


class WorkerCreate(RequestSchema):
    """A person who judges in another front end, or a bot."""

    consent: Annotated[Literal[True], Field(description="Confirms that the worker agreed to the consent text.")]
    external_id: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=200,
            pattern=NOT_BLANK,
            description="Your id for the worker; the same id is the same worker. Stored separately, never returned.",
            examples=["bot-1"],
        ),
    ] = None
    traits: Annotated[
        dict[str, PlainText | list[PlainText]],
        Field(
            max_length=20,
            description="Answers to the questions before the first pair; a list for several choices.",
            examples=[{}],
        ),
    ] = {}


class AssessmentResponse(ResponseSchema):
    """Probabilities that a worker's answers are careless, different from the consensus, or ordinary."""

    careless: float
    different: float
    ordinary: float
    answers: int = Field(description="Answers without ties that were assessed.")
    version: int = Field(description="The version that made the assessment.")
    looks_automated: bool = Field(description="Whether there are two or more signs that are rare in people.")
    evidence: dict[str, Any] = Field(description="Counts behind the probabilities.")


class WorkerResponse(ResponseSchema):
    """A worker, identified by a random code."""

    code: str
    state: State
    traits: dict[str, Any] = Field(description="Answers that the model may use.")
    answers: dict[str, Any] = Field(description="Other answers: free text, and questions after the last pair.")
    judgements: int = Field(description="Answers that are not retracted.")
    joined_at: datetime
    arm: str | None = Field(description="The arm of the study to which the worker was assigned; null without arms.")
    excluded: bool = Field(description="Whether an owner excluded the worker's judgements from the model.")
    exclusion_reason: str | None = Field(description="The owner's reason; null if the worker is not excluded.")
    assessment: AssessmentResponse | None = Field(
        description="From the version that pages show; null with fewer than 20 answers without ties."
    )


class Side(ResponseSchema):
    text: str
    group: str


class Pair(ResponseSchema):
    """Two texts leased to the worker; send `assignment` with the answer."""

    assignment: str
    left: Side
    right: Side


class Task(ResponseSchema):
    """The worker's next pairs in order, and their progress."""

    pairs: list[Pair]
    done: int
    total: int
    undo: str | None = Field(description="uuid of the last answer while it can be retracted.")
    undo_choice: str | None = Field(description="Its choice: left, right, tie or skip.")
    finished: bool


class WorkerQuery(ListQuery):
    state: State | None = None
    ordering: Annotated[Literal["joined", "-joined"], Field(description="Oldest or newest first.")] = "joined"


@router.get("/projects/{slug}/workers", auth=read_access, response=Page[WorkerResponse], summary="List workers")
def list_workers(request: ApiRequest, slug: Slug, query: Query[WorkerQuery]) -> Any:
    """All workers except withdrawn and erased ones."""
    project = get_project(request, slug)
    rows = _workers_with_counts(project)
    if query.state:
        rows = rows.filter(state=query.state)
    shown = shown_snapshot(project)
    assessments = get_assessments(project, shown) if shown else {}
    return paginate(
        rows, ORDERS[query.ordering], query, lambda worker: worker_response(worker, assessments.get(worker.pk))
    )


@router.post(
    "/projects/{slug}/workers",
    auth=write_access,
    response={200: WorkerResponse, 201: WorkerResponse},
    summary="Enrol a worker",
)
def enrol_worker(request: ApiRequest, slug: Slug, new: WorkerCreate) -> Any:
    """Adds a worker to an open study. A known `external_id` returns the existing worker unchanged (200)."""
    project = get_project(request, slug, Role.ANALYST)
    existing = _find_worker(project, new.external_id)
    if existing is None and project.state != Project.State.OPEN:
        raise StudyNotOpen
    form = _questionnaire_form(project, new.traits)
    try:
        worker = services.enrol(
            project=project,
            traits=form.traits(),
            answers=form.answers(),
            platform=PLATFORM,
            external_id=(new.external_id or "").strip(),
        )
    except IntegrityError:  # the same external_id was enrolled concurrently
        worker = existing = _find_worker(project, new.external_id)
    return Status(200 if existing else 201, worker_response(_workers_with_counts(project).get(pk=worker.pk)))


@router.get("/projects/{slug}/workers/{code}", auth=read_access, response=WorkerResponse, summary="Read a worker")
def read_worker(request: ApiRequest, slug: Slug, code: Code) -> Any:
    """One worker."""
    project = get_project(request, slug)
    worker, shown = _workers_with_counts(project).get(pk=get_worker(project, code).pk), shown_snapshot(project)
    return worker_response(worker, get_assessment(worker, shown) if shown else None)


@router.post(
    "/projects/{slug}/workers/{code}/pairs", auth=write_access, response=Task, summary="Lease pairs to a worker"
)
def lease_pairs(request: ApiRequest, slug: Slug, code: Code) -> Any:
    """Leases up to `pairs_ahead` pairs for the study's lease time; repeating the request returns those still open."""
    project = get_project(request, slug, Role.ANALYST)
    worker = check_worker_rate(get_worker(project, code))
    if project.state != Project.State.OPEN:
        raise StudyNotOpen
    return build_task(worker)


def _workers_with_counts(project: Project) -> Any:
    """Annotate the project's workers with their number of valid answers and their exclusion reason."""
    answers = Judgement.objects.answers().filter(worker=OuterRef("pk")).order_by().values("worker")
    counts = answers.annotate(n=Count("pk")).values("n")
    reason = WorkerExclusion.objects.filter(worker=OuterRef("pk"), until_revision=None).values("reason")
    workers = Worker.objects.filter(project=project).exclude(state=Worker.State.WITHDRAWN)
    return workers.select_related("arm").annotate(
        n_judgements=Coalesce(Subquery(counts), 0), exclusion_reason=Subquery(reason)
    )


def worker_response(worker: Any, assessment: WorkerAssessment | None = None) -> dict[str, Any]:
    names = ("code", "state", "traits", "answers", "joined_at", "exclusion_reason")
    counted = {"judgements": worker.n_judgements, "excluded": worker.exclusion_reason is not None}
    counted["arm"] = worker.arm.name if worker.arm else None
    counted["assessment"] = assessment_response(assessment) if assessment else None
    return {**{name: getattr(worker, name) for name in names}, **counted}


def assessment_response(row: WorkerAssessment) -> dict[str, Any]:
    counts = {name: value for name, value in row.evidence.items() if name not in ("alike", "largest_move", "signs")}
    chances = {name: getattr(row, name) for name in ("careless", "different", "ordinary", "answers")}
    automated = len(row.evidence["signs"]) >= AUTOMATED
    return {**chances, "version": row.snapshot.number, "looks_automated": automated, "evidence": counts}


def _find_worker(project: Project, external_id: str | None) -> Any:
    if not external_id:
        return None
    identities = PlatformIdentity.objects.filter(project=project, platform=PLATFORM, external_id=external_id.strip())
    return Worker.objects.filter(identity__in=identities).first()


def _questionnaire_form(project: Project, answers: dict[str, Any]) -> JoinForm:
    """Validate the answers with the welcome page's form."""
    form = JoinForm(project, {"consent": "on", **{f"q_{name}": answer for name, answer in answers.items()}})
    names = {question.name for question in form.questions.values()}
    if unknown := sorted(set(answers) - names):
        raise InvalidBody(_("The study has no question “%(name)s”.") % {"name": unknown[0][:60]}, "traits")
    raise_form_errors(form)
    return form
