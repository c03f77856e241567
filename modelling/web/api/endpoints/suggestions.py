"""Suggestion endpoints: list and replace the pairs to judge next."""

from datetime import datetime
from typing import Annotated, Any

from django.utils.translation import gettext as _
from ninja import Query, Router
from pydantic import Field

from annotation import services
from annotation.http.access import Role
from annotation.models import Item, Project, Suggestion, Worker
from modelling.web.api.auth import ApiRequest, NotFound, get_project, read_access, write_access
from modelling.web.api.errors import InvalidBody
from modelling.web.api.pagination import ListQuery, Order, Page, paginate
from modelling.web.api.schemas import Code, FiniteFloat, Key, RequestSchema, ResponseSchema, Slug

router = Router(tags=["suggestions"])
BEST_FIRST = Order("gain", ("-gain", "pk"))
MAX_SUGGESTIONS = 5000


class SuggestionCreate(RequestSchema):
    """A pair to judge next, for one worker or for all."""

    a: Annotated[Key, Field(examples=["cat-1"])]
    b: Annotated[Key, Field(examples=["cat-2"])]
    worker: Annotated[Code | None, Field(description="Only for this worker.")] = None
    gain: Annotated[FiniteFloat, Field(description="Among pairs issued equally often, the largest is used first.")]


class SuggestionsReplace(RequestSchema):
    suggestions: Annotated[list[SuggestionCreate], Field(max_length=MAX_SUGGESTIONS)]


class SuggestionResponse(ResponseSchema):
    a: str
    b: str
    worker: str | None
    gain: float
    created_at: datetime


class SuggestionsResponse(ResponseSchema):
    suggestions: int


@router.get(
    "/projects/{slug}/suggestions", auth=read_access, response=Page[SuggestionResponse], summary="List suggestions"
)
def list_suggestions(request: ApiRequest, slug: Slug, query: Query[ListQuery]) -> Any:
    """Suggested pairs, largest gain first. Workers get those first that were issued least often."""
    rows = Suggestion.objects.filter(project=get_project(request, slug)).select_related("worker", "item_lo", "item_hi")
    return paginate(rows, BEST_FIRST, query, suggestion_response)


@router.put(
    "/projects/{slug}/suggestions", auth=write_access, response=SuggestionsResponse, summary="Replace the suggestions"
)
def put_suggestions(request: ApiRequest, slug: Slug, new: SuggestionsReplace) -> Any:
    """Replaces all suggestions; an empty list removes them.

    The model replaces them after its next update, unless the study's `suggestions` is `none`.
    """
    project = get_project(request, slug, Role.ANALYST)
    rows = _rows(project, new.suggestions)
    services.replace_suggestions(project=project, user=request.user, suggestions=rows)
    return {"suggestions": len(rows)}


def _rows(project: Project, new: list[SuggestionCreate]) -> list[Suggestion]:
    items = dict(Item.objects.filter(project=project, active=True).values_list("key", "pk"))
    named = {each.worker for each in new if each.worker}
    workers = dict(Worker.objects.visible().filter(project=project, code__in=named).values_list("code", "pk"))
    return [_row(project, each, at, items, workers) for at, each in enumerate(new)]


def _row(
    project: Project, new: SuggestionCreate, at: int, items: dict[str, int], workers: dict[str, int]
) -> Suggestion:
    for name, value, known in (("a", new.a, items), ("b", new.b, items), ("worker", new.worker, workers)):
        if value is not None and value not in known:
            raise NotFound(_("The project has no such item or worker."), f"suggestions.{at}.{name}")
    lo, hi = sorted((items[new.a], items[new.b]))
    if lo == hi:
        raise InvalidBody(_("An item cannot be compared with itself."), f"suggestions.{at}.b")
    worker = workers[new.worker] if new.worker else None
    return Suggestion(project=project, worker_id=worker, item_lo_id=lo, item_hi_id=hi, gain=new.gain)


def suggestion_response(suggestion: Suggestion) -> dict[str, Any]:
    return {
        "a": suggestion.item_lo.key,
        "b": suggestion.item_hi.key,
        "worker": suggestion.worker.code if suggestion.worker else None,
        "gain": suggestion.gain,
        "created_at": suggestion.created_at,
    }
