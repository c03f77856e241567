"""Version and ranking endpoints."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Query, Router
from pydantic import Field

from annotation.models import EventHead, Project
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.training.ranking import Z_95
from modelling.training.versions import contains_erased_data, shown_snapshot
from modelling.training.votes import Votes, get_votes
from modelling.web.api.auth import ApiRequest, NotFound, get_project, read_access
from modelling.web.api.pagination import ListQuery, Order, Page, cursor_order, paginate
from modelling.web.api.schemas import PlainText, ResponseSchema, Slug, enum_schema, not_modified

router = Router(tags=["versions and rankings"])
LARGEST_VERSION = 2**31 - 1
ORDERS = {"-number": Order("-number", ("-number",)), "number": Order("number", ("number",))}
OLD_ORDERS = {"divides": "polarisation", "unsure": "uncertainty"}
RANKING_ORDERS = {
    "rank": Order("rank", ("rank", "pk")),
    "polarisation": Order("polarisation", ("-polarisation", "pk")),
    "uncertainty": Order("uncertainty", ("-sd", "pk")),
    "judgements": Order("judgements", ("-judgements", "pk")),
    "fewest": Order("fewest", ("judgements", "pk")),
}
VOTE_FIELDS = ("wins", "losses", "ties", "win_rate", "bradley_terry_rank", "group_rank", "part")
VERSION_MARK = "@"  # in a cursor, between the order and the version
Kind = Annotated[ModelSnapshot.Kind, enum_schema(ModelSnapshot.Kind)]
VersionNumber = Annotated[int, Field(ge=1, le=LARGEST_VERSION)]


class VersionResponse(ResponseSchema):
    """One version of the model, immutable: its events, exclusions, settings and seed."""

    number: int
    kind: Kind
    parent: int | None
    first_sequence: int
    last_sequence: int
    included: int
    excluded: dict[str, Any] = Field(description="Excluded judgements, by reason.")
    settings: dict[str, Any]
    seed: int
    data_hash: str
    code_version: str
    lower_bound: float | None
    hyperparameters: dict[str, float] = Field(
        description="What the model learned: variances of the consensus and of tastes, the share of answers given at "
        "random (`lapse`), the margin of ties and the shares that follow the features; empty in old versions."
    )
    refined: bool = Field(
        description="Whether an earlier release refined its scores by sampling; false for new versions."
    )
    seconds: float
    checksum: str
    shown: bool = Field(description="Whether pages show this version.")
    created_at: datetime


class RankedItem(ResponseSchema):
    """Consensus score and rank of one item, with the columns of the exported ranking."""

    rank: int
    item: int
    key: str
    revision: int
    group: str
    text: str
    mean: float
    sd: float
    mean_low: float = Field(description="Lower end of the 95 % interval of the score.")
    mean_high: float = Field(description="Upper end of the 95 % interval of the score.")
    rank_low: int = Field(description="Best rank of the 95 % interval; 90 % before code version 0.7.0.")
    rank_high: int = Field(description="Worst rank of the 95 % interval; 90 % before code version 0.7.0.")
    top_10_probability: float = Field(description="Probability of being among the ten best.")
    top_probability: float = Field(description="Old name of `top_10_probability`.", deprecated=True)
    polarisation: float = Field(description="How much personal scores differ.")
    judgements: int
    wins: int
    losses: int
    ties: int
    win_rate: float | None = Field(description="Share of wins, a tie counting as half; null without judgements.")
    bradley_terry_rank: int | None = Field(description="Rank within the part by wins and opponents, without texts.")
    comparable: bool = Field(
        description="Whether judgements link the item with all others. If not, `rank` is extrapolated from the texts."
    )
    group_rank: int | None = Field(description="Rank among the items of the same part and group.")
    part: int | None = Field(description="Part of the comparison graph, largest first; null without judgements.")


class RankingResponse(Page[RankedItem]):
    """A page of one version's ranking; `as_of_seq` is the last event the version includes."""

    version: int
    as_of_seq: int


class VersionQuery(ListQuery):
    kind: Kind | None = None
    ordering: Annotated[Literal["-number", "number"], Field(description="Newest or oldest first.")] = "-number"


class RankingQuery(ListQuery):
    version: Annotated[
        VersionNumber | None, Field(description="Version number; default: the version that pages show.")
    ] = None
    group: Annotated[PlainText | None, Field(max_length=200)] = None
    ordering: Annotated[
        Literal["rank", "polarisation", "uncertainty", "judgements", "fewest", "divides", "unsure"],
        Field(description="`divides` and `unsure` are old names of `polarisation` and `uncertainty`."),
    ] = "rank"


@router.get("/projects/{slug}/snapshots", auth=read_access, response=Page[VersionResponse], summary="List versions")
def list_snapshots(request: ApiRequest, slug: Slug, query: Query[VersionQuery]) -> Any:
    """All versions of the model."""
    project = get_project(request, slug)
    rows = ModelSnapshot.objects.filter(project=project).select_related("parent")
    if query.kind:
        rows = rows.filter(kind=query.kind)
    shown = shown_snapshot(project)
    return paginate(rows, ORDERS[query.ordering], query, lambda snapshot: version_response(snapshot, shown))


@router.get("/projects/{slug}/snapshots/{number}", auth=read_access, response=VersionResponse, summary="Read a version")
def read_snapshot(request: ApiRequest, response: HttpResponse, slug: Slug, number: VersionNumber) -> Any:
    """One version. Only `shown` can change."""
    project = get_project(request, slug)
    snapshot, shown = get_version(project, number), shown_snapshot(project)
    if same := not_modified(request, response, snapshot.pk, shown == snapshot):
        return same
    return version_response(snapshot, shown)


@router.get("/projects/{slug}/ranking", auth=read_access, response=RankingResponse, summary="Read the ranking")
def read_ranking(request: ApiRequest, response: HttpResponse, slug: Slug, query: Query[RankingQuery]) -> Any:
    """The consensus ranking of the shown or any other version. All pages of a list are from the same version."""
    project = get_project(request, slug)
    snapshot = get_version(project, query.version or _cursor_version(query.cursor))
    if same := not_modified(request, response, snapshot.pk, EventHead.objects.get(project=project).inputs_revision):
        return same
    rows = ConsensusScore.objects.filter(snapshot=snapshot).select_related("item")
    if query.group is not None:
        rows = rows.filter(item__group=query.group)
    order = RANKING_ORDERS[OLD_ORDERS.get(query.ordering, query.ordering)]
    order, votes = Order(f"{order.name}{VERSION_MARK}{snapshot.number}", order.columns), get_votes(snapshot)
    page = paginate(rows, order, query, lambda score: ranked_item_response(score, votes))
    return {**page, "version": snapshot.number, "as_of_seq": snapshot.last_sequence}


def _cursor_version(cursor: str | None) -> int | None:
    """Return the version of the previous page, even if a newer one was published since."""
    number = cursor_order(cursor).partition(VERSION_MARK)[2] if cursor else ""
    return int(number) if re.fullmatch("[1-9][0-9]{0,8}", number) else None


def get_version(project: Project, number: int | None) -> ModelSnapshot:
    """Return this version or the shown one; NotFound if there is none or it contains data of erased people."""
    if number is None:
        snapshot = shown_snapshot(project)
    else:
        snapshot = ModelSnapshot.objects.filter(project=project, number=number).select_related("parent").first()
    if snapshot is None:
        raise NotFound(_("There is no such version of the model."), "version" if number else None)
    if number is not None and contains_erased_data(snapshot):
        raise NotFound(_("This version includes data of erased people and can no longer be shown."), "version")
    snapshot.project = project
    return snapshot


def version_response(snapshot: ModelSnapshot, shown: ModelSnapshot | None) -> dict[str, Any]:
    names = [name for name in VersionResponse.model_fields if name not in ("parent", "shown")]
    parent = snapshot.parent.number if snapshot.parent else None
    return {**{name: getattr(snapshot, name) for name in names}, "parent": parent, "shown": snapshot == shown}


def ranked_item_response(score: ConsensusScore, votes: Votes) -> dict[str, Any]:
    own = ("rank", "mean", "sd", "rank_low", "rank_high", "top_probability", "polarisation", "judgements")
    item = {name: getattr(score.item, name) for name in ("key", "revision", "group", "text")}
    half = Z_95 * score.sd
    item |= {"mean_low": score.mean - half, "mean_high": score.mean + half}
    counted, comparable = votes.of(score.item_id), votes.is_comparable(score.item_id)
    counts = {name: getattr(counted, name) for name in VOTE_FIELDS}
    scores = {name: getattr(score, name) for name in own}
    top = {"top_10_probability": score.top_probability}
    return {**scores, **top, **item, "item": score.item_id, **counts, "comparable": comparable}
