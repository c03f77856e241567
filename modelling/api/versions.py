"""Versions of the model, and the ranking of each: the shown one, or any by its number."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Query, Router
from pydantic import Field

from annotation.models import EventHead, Project
from modelling.api.cursors import Asked, Order, Page, order_in, page_of
from modelling.api.door import ApiRequest, Missing, project_for, reads
from modelling.api.strictness import Slug, Told, Words, one_of, unchanged
from modelling.models import ConsensusScore, ModelSnapshot
from modelling.versions import knows_the_erased, shown_snapshot

router = Router(tags=["versions and rankings"])
LARGEST_VERSION = 2**31 - 1
ORDERS = {"-number": Order("-number", ("-number",)), "number": Order("number", ("number",))}
# The names and senses of the ranking page's own orders.
RANKING_ORDERS = {
    "rank": Order("rank", ("rank", "pk")),
    "divides": Order("divides", ("-polarisation", "pk")),
    "unsure": Order("unsure", ("-sd", "pk")),
    "judgements": Order("judgements", ("-judgements", "pk")),
    "fewest": Order("fewest", ("judgements", "pk")),
}
OF_VERSION = "@"  # in a cursor, between the order and the version
Kind = Annotated[ModelSnapshot.Kind, one_of(ModelSnapshot.Kind)]
VersionNumber = Annotated[int, Field(ge=1, le=LARGEST_VERSION)]


class VersionTold(Told):
    """One fit, immutable: which events it knows, what it left out, and everything needed to make it again."""

    number: int
    kind: Kind
    parent: int | None
    first_sequence: int
    last_sequence: int
    included: int
    excluded: dict[str, Any] = Field(description="Judgements left out, by reason.")
    settings: dict[str, Any]
    seed: int
    data_hash: str
    code_version: str
    lower_bound: float | None
    refined: bool = Field(description="Whether its numbers come from draws of the exact posterior.")
    seconds: float
    checksum: str
    shown: bool = Field(description="Whether pages show this version now.")
    created_at: datetime


class Ranked(Told):
    """What the crowd agrees on about one item, and how sure that is."""

    rank: int
    item: int
    key: str
    revision: int
    group: str
    mean: float
    sd: float
    rank_low: int = Field(description="Best rank of the 90 % interval.")
    rank_high: int = Field(description="Worst rank of the 90 % interval.")
    top_probability: float = Field(description="Chance of being among the ten best.")
    polarisation: float = Field(description="How much workers' own scores differ.")
    judgements: int


class Ranking(Page[Ranked]):
    """A page of one version's ranking; `as_of_seq` is the last event that the version knows."""

    version: int
    as_of_seq: int


class VersionsAsked(Asked):
    kind: Kind | None = None
    ordering: Annotated[Literal["-number", "number"], Field(description="Newest or oldest first.")] = "-number"


class RankingAsked(Asked):
    version: Annotated[VersionNumber | None, Field(description="By its number; without it, the shown one.")] = None
    group: Annotated[Words | None, Field(max_length=200)] = None
    ordering: Literal["rank", "divides", "unsure", "judgements", "fewest"] = "rank"


@router.get("/projects/{slug}/snapshots", auth=reads, response=Page[VersionTold], summary="List versions")
def list_snapshots(request: ApiRequest, slug: Slug, asked: Query[VersionsAsked]) -> Any:
    """Every version that the model has come to."""
    project = project_for(request, slug)
    rows = ModelSnapshot.objects.filter(project=project).select_related("parent").defer("diagnostics")
    if asked.kind:
        rows = rows.filter(kind=asked.kind)
    shown = shown_snapshot(project)
    return page_of(rows, ORDERS[asked.ordering], asked, lambda snapshot: told(snapshot, shown))


@router.get("/projects/{slug}/snapshots/{number}", auth=reads, response=VersionTold, summary="Read a version")
def read_snapshot(request: ApiRequest, response: HttpResponse, slug: Slug, number: VersionNumber) -> Any:
    """One version. All of it stays as it is, except whether it is shown."""
    project = project_for(request, slug)
    snapshot, shown = version_of(project, number), shown_snapshot(project)
    if same := unchanged(request, response, snapshot.pk, shown == snapshot):
        return same
    return told(snapshot, shown)


@router.get("/projects/{slug}/ranking", auth=reads, response=Ranking, summary="Read the ranking")
def read_ranking(request: ApiRequest, response: HttpResponse, slug: Slug, asked: Query[RankingAsked]) -> Any:
    """The consensus ranking of the shown version, or of any other that may still be shown. All pages are of one."""
    project = project_for(request, slug)
    snapshot = version_of(project, asked.version or _version_in(asked.cursor))
    if same := unchanged(request, response, snapshot.pk, EventHead.objects.get(project=project).inputs_revision):
        return same
    rows = ConsensusScore.objects.filter(snapshot=snapshot).select_related("item")
    if asked.group is not None:
        rows = rows.filter(item__group=asked.group)
    order = RANKING_ORDERS[asked.ordering]
    page = page_of(rows, Order(f"{order.name}{OF_VERSION}{snapshot.number}", order.columns), asked, ranked)
    return {**page, "version": snapshot.number, "as_of_seq": snapshot.last_sequence}


def _version_in(cursor: str | None) -> int | None:
    """The version that the page before was of, whatever was published meanwhile."""
    number = order_in(cursor).partition(OF_VERSION)[2] if cursor else ""
    return int(number) if re.fullmatch("[1-9][0-9]{0,8}", number) else None


def version_of(project: Project, number: int | None) -> ModelSnapshot:
    """This version, or the shown one; 404 where there is none, or it knows people who were erased since."""
    if number is None:
        snapshot = shown_snapshot(project)
    else:
        snapshot = ModelSnapshot.objects.filter(project=project, number=number).select_related("parent").first()
    if snapshot is None:
        raise Missing(_("There is no such version of the model, or none yet."), "version" if number else None)
    if number is not None and knows_the_erased(snapshot):
        raise Missing(_("This version knows people who were erased since; it cannot be shown any more."), "version")
    snapshot.project = project
    return snapshot


def told(snapshot: ModelSnapshot, shown: ModelSnapshot | None) -> dict[str, Any]:
    names = [name for name in VersionTold.model_fields if name not in ("parent", "shown")]
    parent = snapshot.parent.number if snapshot.parent else None
    return {**{name: getattr(snapshot, name) for name in names}, "parent": parent, "shown": snapshot == shown}


def ranked(score: ConsensusScore) -> dict[str, Any]:
    own = ("rank", "mean", "sd", "rank_low", "rank_high", "top_probability", "polarisation", "judgements")
    item = {name: getattr(score.item, name) for name in ("key", "revision", "group")}
    return {**{name: getattr(score, name) for name in own}, **item, "item": score.item_id}
