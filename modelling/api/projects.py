"""Projects: the list, one of them, a new one, and its state."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError
from django.utils.translation import gettext as _
from ninja import Query, Router, Status
from pydantic import Field

from annotation import services
from annotation.access import Role
from annotation.forms.projects import ProjectForm, StateForm
from annotation.forms.questionnaire import as_text
from annotation.models import Project
from modelling.api.cursors import Asked, Order, Page, page_of
from modelling.api.door import ApiRequest, project_for, projects_of, reads, writes
from modelling.api.refusals import Conflict, refuse_form
from modelling.api.strictness import NOT_BLANK, Sent, Slug, Told, Whole, Words, YesOrNo, one_of

router = Router(tags=["projects"])
BY_AGE = Order("created", ("pk",))
USUAL_QUESTION = Project._meta.get_field("question").default
State = Annotated[Project.State, one_of(Project.State)]
Pairs = Annotated[Project.Pairs, one_of(Project.Pairs)]
Choice = Annotated[str, Field(min_length=1, max_length=200, pattern=NOT_BLANK)]


class Question(Sent):
    """A question to workers before their first pair."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$", examples=["age"])]
    label: Annotated[str, Field(min_length=1, max_length=300, pattern=NOT_BLANK, examples=["How old are you?"])]
    choices: Annotated[
        list[Choice], Field(min_length=2, max_length=50, description="Left out: free words.", examples=[["yes", "no"]])
    ] = []


class NewProject(Sent):
    """The words and rules of a study. What is left out has its usual value."""

    title: Annotated[str, Field(min_length=1, max_length=200, pattern=NOT_BLANK, examples=["Pets"])]
    slug: Annotated[Slug | None, Field(description="In links; made from the title.", examples=["pets"])] = None
    question: Annotated[str, Field(min_length=1, max_length=300, pattern=NOT_BLANK)] = USUAL_QUESTION
    instructions: Annotated[Words, Field(max_length=10_000)] = ""
    consent: Annotated[Words, Field(max_length=10_000, description="What workers agree to.")] = ""
    language: Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})?$")] = "en"
    direction: Literal["ltr", "rtl"] = "ltr"
    ties_allowed: YesOrNo = True
    reason_asked: YesOrNo = False
    group_shown: YesOrNo = False
    listed: YesOrNo = False
    ranking_public: YesOrNo = False
    pairs: Annotated[Pairs, Field(description="`group`: of the same group.")] = Project.Pairs.WITHIN_GROUP
    judgements_per_worker: Annotated[Whole, Field(ge=1, le=5000)] = 40
    redundancy: Annotated[Whole, Field(ge=1, le=1000, description="Workers per pair.")] = 3
    repeat_share: Annotated[Whole, Field(ge=0, le=50, description="Percent.")] = 0
    random_share: Annotated[Whole, Field(ge=0, le=100, description="Percent.")] = 50
    lease_minutes: Annotated[Whole, Field(ge=1, le=1440)] = 30
    update_batch: Annotated[Whole, Field(ge=1, le=100_000)] = 10
    answers_wanted: Annotated[Whole, Field(ge=0, le=10_000_000, description="0: as many as the pairs need.")] = 0
    retention_days: Annotated[Whole, Field(ge=0, le=3650, description="0: workers' data are kept.")] = 0
    questionnaire: Annotated[list[Question], Field(max_length=20)] = []


class NewState(Sent):
    state: Annotated[State, Field(examples=["open"])]


class ProjectTold(Told):
    """A study and its rules; `role` is what you are in it."""

    slug: str
    title: str
    question: str
    instructions: str
    consent: str
    state: State
    language: str
    direction: str
    ties_allowed: bool
    reason_asked: bool
    group_shown: bool
    listed: bool
    ranking_public: bool
    pairs: Pairs
    judgements_per_worker: int
    redundancy: int
    repeat_share: int
    random_share: int
    lease_minutes: int
    update_batch: int
    answers_wanted: int
    retention_days: int
    questionnaire: list[dict[str, Any]]
    simulated: bool
    archived_at: datetime | None
    created_at: datetime
    role: str


class ProjectsAsked(Asked):
    state: Annotated[State | None, Field(description="Only those in this state.")] = None


@router.get("/projects", auth=reads, response=Page[ProjectTold], summary="List your projects")
def list_projects(request: ApiRequest, asked: Query[ProjectsAsked]) -> Any:
    """Every project that this token opens, in the order in which they were made."""
    rows = projects_of(request)
    if asked.state:
        rows = rows.filter(state=asked.state)
    return page_of(rows, BY_AGE, asked, lambda project: told(request, project))


@router.post("/projects", auth=writes, response={201: ProjectTold}, summary="Start a project")
def create_project(request: ApiRequest, new: NewProject) -> Any:
    """A draft of which you are the owner. A token for one project cannot start another."""
    if request.auth.project_id:
        raise PermissionDenied(_("This token is for one project only."))
    given = {**new.model_dump(exclude={"questionnaire"}), "questionnaire": _questions(new)}
    usual = {name: field.initial for name, field in ProjectForm().fields.items()}
    form = ProjectForm({**usual, **given})
    if "slug" in form.errors and new.slug:
        refuse_form(form, Conflict)
    refuse_form(form)
    try:
        project = services.create_project(owner=request.user, **form.cleaned_data)
    except IntegrityError:
        raise Conflict(_("Somebody has just taken this short name. Choose another."), "slug") from None
    return Status(201, told(request, project))


@router.get("/projects/{slug}", auth=reads, response=ProjectTold, summary="Read a project")
def read_project(request: ApiRequest, slug: Slug) -> Any:
    """The words, rules and state of one study."""
    return told(request, project_for(request, slug))


@router.patch("/projects/{slug}", auth=writes, response=ProjectTold, summary="Open, pause or close a project")
def change_state(request: ApiRequest, slug: Slug, new: NewState) -> Any:
    """Owners only. A study opens once two of its items can be paired; the state it has already is no change."""
    project = project_for(request, slug, Role.OWNER)
    if new.state != project.state:
        form = StateForm(project, {"state": new.state.value})
        refuse_form(form, Conflict)
        services.change_project(project=project, user=request.user, changes=form.cleaned_data)
    return told(request, project)


def told(request: ApiRequest, project: Project) -> dict[str, Any]:
    names = [name for name in ProjectTold.model_fields if name != "role"]
    return {**{name: getattr(project, name) for name in names}, "role": project.role_of(request.user)}


def _questions(new: NewProject) -> str:
    return as_text([question.model_dump(exclude_defaults=True) for question in new.questionnaire])
