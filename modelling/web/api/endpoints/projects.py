"""Project endpoints: list, read, create and change the state."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError
from django.utils.translation import gettext as _
from ninja import Query, Router, Status
from pydantic import Field, StrictFloat

from annotation import services
from annotation.forms.project_options import ProjectOptionsForm
from annotation.forms.projects import StateForm
from annotation.forms.question_rules import format_questionnaire
from annotation.http.access import Role
from annotation.models import Project
from annotation.models.questions import QuestionKind
from modelling.web.api.auth import ApiRequest, accessible_projects, get_project, read_access, write_access
from modelling.web.api.errors import Conflict, raise_form_errors
from modelling.web.api.pagination import ListQuery, Order, Page, paginate
from modelling.web.api.schemas import (
    NOT_BLANK,
    PlainText,
    RequestSchema,
    ResponseSchema,
    Slug,
    StrictBool,
    StrictInt,
    enum_schema,
)

router = Router(tags=["projects"])
BY_AGE = Order("created", ("pk",))
DEFAULT_QUESTION = Project._meta.get_field("question").default
State = Annotated[Project.State, enum_schema(Project.State)]
Pairs = Annotated[Project.Pairs, enum_schema(Project.Pairs)]
Suggestions = Annotated[Project.Suggestions, enum_schema(Project.Suggestions)]
Kind = Annotated[QuestionKind, enum_schema(QuestionKind)]
Choice = Annotated[str, Field(min_length=1, max_length=200, pattern=NOT_BLANK)]


class Question(RequestSchema):
    """A question that workers answer before their first pair or after the last one."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$", examples=["age"])]
    label: Annotated[str, Field(min_length=1, max_length=300, pattern=NOT_BLANK, examples=["How old are you?"])]
    choices: Annotated[
        list[Choice],
        Field(min_length=2, max_length=50, description="For `choice` and `several`.", examples=[["yes", "no"]]),
    ] = []
    kind: Annotated[Kind | None, Field(description="Default: `choice`, or `short` without choices.")] = None
    min: Annotated[StrictInt | StrictFloat | None, Field(description="For `number` and `scale`.")] = None
    max: Annotated[StrictInt | StrictFloat | None, Field(description="Largest number.")] = None
    low: Annotated[PlainText, Field(max_length=60, description="Label of the smallest number of a scale.")] = ""
    high: Annotated[PlainText, Field(max_length=60)] = ""
    required: StrictBool = False
    when: Literal["before", "after"] = "before"


class ProjectCreate(RequestSchema):
    """A new study. Omitted fields take their defaults."""

    title: Annotated[str, Field(min_length=1, max_length=200, pattern=NOT_BLANK, examples=["Pets"])]
    slug: Annotated[Slug | None, Field(description="Part of URLs; default: from the title.", examples=["pets"])] = None
    question: Annotated[str, Field(min_length=1, max_length=300, pattern=NOT_BLANK)] = DEFAULT_QUESTION
    instructions: Annotated[PlainText, Field(max_length=10_000, description="Markdown without HTML.")] = ""
    consent: Annotated[PlainText, Field(max_length=10_000, description="Consent text. Markdown.")] = ""
    thanks: Annotated[PlainText, Field(max_length=10_000, description="Shown after the last pair. Markdown.")] = ""
    example_first: Annotated[PlainText, Field(max_length=10_000, description="First text of the worked example.")] = ""
    example_second: Annotated[PlainText, Field(max_length=10_000)] = ""
    example_explanation: Annotated[PlainText, Field(max_length=10_000, description="Markdown.")] = ""
    language: Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})?$")] = "en"
    direction: Literal["ltr", "rtl"] = "ltr"
    ties_allowed: StrictBool = True
    reason_asked: StrictBool = False
    group_shown: StrictBool = False
    own_view_shown: StrictBool = True
    listed: StrictBool = False
    ranking_public: StrictBool = False
    pairs: Annotated[Pairs, Field(description="`group`: only within a group.")] = Project.Pairs.WITHIN_GROUP
    judgements_per_worker: Annotated[StrictInt, Field(ge=1, le=5000)] = 40
    redundancy: Annotated[StrictInt, Field(ge=1, le=1000, description="Workers per pair.")] = 3
    repeat_share: Annotated[StrictInt, Field(ge=0, le=50, description="Percent.")] = 0
    suggestions: Annotated[Suggestions, Field(description="Purpose of suggested pairs.")] = Project.Suggestions.ORDER
    random_share: Annotated[StrictInt, Field(ge=0, le=100, description="Percent of pairs chosen at random.")] = 20
    top_k: Annotated[StrictInt, Field(ge=1, le=1000, description="Items at the top that matter.")] = 5
    stop_target: Annotated[StrictInt, Field(ge=50, le=99, description="Certainty at which to stop, percent.")] = 90
    stop_pauses: Annotated[StrictBool, Field(description="Pause the study when it is certain enough.")] = False
    lease_minutes: Annotated[StrictInt, Field(ge=1, le=1440)] = 30
    pairs_ahead: Annotated[StrictInt, Field(ge=1, le=20, description="Pairs leased to a worker at a time.")] = 5
    update_batch: Annotated[StrictInt, Field(ge=1, le=100_000)] = 10
    answers_wanted: Annotated[StrictInt, Field(ge=0, le=10_000_000, description="0: until every pair has enough.")] = 0
    retention_days: Annotated[
        StrictInt, Field(ge=0, le=3650, description="0: workers' data are kept without limit.")
    ] = 0
    questionnaire: Annotated[list[Question], Field(max_length=20)] = []


class StateUpdate(RequestSchema):
    state: Annotated[State, Field(examples=["open"])]


class ProjectResponse(ResponseSchema):
    """A study with its settings; `role` is your role in it."""

    slug: str
    title: str
    question: str
    instructions: str
    consent: str
    thanks: str
    example_first: str
    example_second: str
    example_explanation: str
    state: State
    language: str
    direction: str
    ties_allowed: bool
    reason_asked: bool
    group_shown: bool
    own_view_shown: bool
    listed: bool
    ranking_public: bool
    pairs: Pairs
    judgements_per_worker: int
    redundancy: int
    repeat_share: int
    suggestions: Suggestions
    random_share: int
    top_k: int
    stop_target: int
    stop_pauses: bool
    lease_minutes: int
    pairs_ahead: int
    update_batch: int
    answers_wanted: int
    retention_days: int
    questionnaire: list[dict[str, Any]]
    simulated: bool
    archived_at: datetime | None
    created_at: datetime
    role: str


class ProjectQuery(ListQuery):
    state: Annotated[State | None, Field(description="State of the study.")] = None


@router.get("/projects", auth=read_access, response=Page[ProjectResponse], summary="List your projects")
def list_projects(request: ApiRequest, query: Query[ProjectQuery]) -> Any:
    """All projects the token gives access to, oldest first."""
    rows = accessible_projects(request)
    if query.state:
        rows = rows.filter(state=query.state)
    return paginate(rows, BY_AGE, query, lambda project: project_response(request, project))


@router.post("/projects", auth=write_access, response={201: ProjectResponse}, summary="Create a project")
def create_project(request: ApiRequest, new: ProjectCreate) -> Any:
    """Creates a draft that you own. A token for one project cannot create another."""
    if request.auth.project_id:
        raise PermissionDenied(_("This token is valid for one project only."))
    values = {**new.model_dump(exclude={"questionnaire"}), "questionnaire": _questions(new)}
    defaults = {name: field.initial for name, field in ProjectOptionsForm().fields.items()}
    form = ProjectOptionsForm({**defaults, **values})
    if "slug" in form.errors and new.slug:
        raise_form_errors(form, Conflict)
    raise_form_errors(form)
    try:
        project = services.create_project(owner=request.user, **form.cleaned_data)
    except IntegrityError:
        raise Conflict(_("This slug is already taken. Choose another."), "slug") from None
    return Status(201, project_response(request, project))


@router.get("/projects/{slug}", auth=read_access, response=ProjectResponse, summary="Read a project")
def read_project(request: ApiRequest, slug: Slug) -> Any:
    """One study with its settings and state."""
    return project_response(request, get_project(request, slug))


@router.patch("/projects/{slug}", auth=write_access, response=ProjectResponse, summary="Open, pause or close a project")
def change_state(request: ApiRequest, slug: Slug, new: StateUpdate) -> Any:
    """For owners. A study can be opened once two items can be paired. Setting the current state changes nothing."""
    project = get_project(request, slug, Role.OWNER)
    if new.state != project.state:
        form = StateForm(project, {"state": new.state.value})
        raise_form_errors(form, Conflict)
        services.change_project(project=project, user=request.user, changes=form.cleaned_data)
    return project_response(request, project)


def project_response(request: ApiRequest, project: Project) -> dict[str, Any]:
    names = [name for name in ProjectResponse.model_fields if name != "role"]
    return {**{name: getattr(project, name) for name in names}, "role": project.role_of(request.user)}


def _questions(new: ProjectCreate) -> str:
    return format_questionnaire([question.model_dump(exclude_defaults=True) for question in new.questionnaire])
