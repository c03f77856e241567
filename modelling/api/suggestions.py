"""Pairs that should be judged next: what the study has, and what somebody else's choice would put in their place."""

from datetime import datetime
from typing import Annotated, Any

from django.utils.translation import gettext as _
from ninja import Query, Router
from pydantic import Field

from annotation import services
from annotation.access import Role
from annotation.models import Item, Project, Suggestion, Worker
from modelling.api.cursors import Asked, Order, Page, page_of
from modelling.api.door import ApiRequest, Missing, project_for, reads, writes
from modelling.api.refusals import NotThis
from modelling.api.strictness import Code, Key, Number, Sent, Slug, Told

router = Router(tags=["suggestions"])
BEST_FIRST = Order("gain", ("-gain", "pk"))
MOST_SUGGESTIONS = 5000


class NewSuggestion(Sent):
    """A pair worth judging, for one worker or for anybody."""

    a: Annotated[Key, Field(examples=["cat-1"])]
    b: Annotated[Key, Field(examples=["cat-2"])]
    worker: Annotated[Code | None, Field(description="Only for this worker.")] = None
    gain: Annotated[Number, Field(description="What its answer would tell; the largest is given out first.")]


class NewSuggestions(Sent):
    suggestions: Annotated[list[NewSuggestion], Field(max_length=MOST_SUGGESTIONS)]


class SuggestionTold(Told):
    a: str
    b: str
    worker: str | None
    gain: float
    created_at: datetime


class Replaced(Told):
    suggestions: int


@router.get("/projects/{slug}/suggestions", auth=reads, response=Page[SuggestionTold], summary="List suggestions")
def list_suggestions(request: ApiRequest, slug: Slug, asked: Query[Asked]) -> Any:
    """The pairs that are given out before others, the most telling first."""
    rows = Suggestion.objects.filter(project=project_for(request, slug)).select_related("worker", "item_lo", "item_hi")
    return page_of(rows, BEST_FIRST, asked, told)


@router.put("/projects/{slug}/suggestions", auth=writes, response=Replaced, summary="Replace the suggestions")
def put_suggestions(request: ApiRequest, slug: Slug, new: NewSuggestions) -> Any:
    """All of them at once, in place of those there were. An empty list takes them away."""
    project = project_for(request, slug, Role.ANALYST)
    rows = _rows(project, new.suggestions)
    services.replace_suggestions(project=project, user=request.user, suggestions=rows)
    return {"suggestions": len(rows)}


def _rows(project: Project, new: list[NewSuggestion]) -> list[Suggestion]:
    items = dict(Item.objects.filter(project=project, active=True).values_list("key", "pk"))
    named = {each.worker for each in new if each.worker}
    workers = dict(Worker.objects.that_may_be_told().filter(project=project, code__in=named).values_list("code", "pk"))
    return [_row(project, each, at, items, workers) for at, each in enumerate(new)]


def _row(project: Project, new: NewSuggestion, at: int, items: dict[str, int], workers: dict[str, int]) -> Suggestion:
    for name, value, known in (("a", new.a, items), ("b", new.b, items), ("worker", new.worker, workers)):
        if value is not None and value not in known:
            raise Missing(_("The project has no such item or worker."), f"suggestions.{at}.{name}")
    lo, hi = sorted((items[new.a], items[new.b]))
    if lo == hi:
        raise NotThis(_("An item cannot be compared with itself."), f"suggestions.{at}.b")
    worker = workers[new.worker] if new.worker else None
    return Suggestion(project=project, worker_id=worker, item_lo_id=lo, item_hi_id=hi, gain=new.gain)


def told(suggestion: Suggestion) -> dict[str, Any]:
    return {
        "a": suggestion.item_lo.key,
        "b": suggestion.item_hi.key,
        "worker": suggestion.worker.code if suggestion.worker else None,
        "gain": suggestion.gain,
        "created_at": suggestion.created_at,
    }
