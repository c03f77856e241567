"""Item endpoints: list, read and add."""

from datetime import datetime
from typing import Annotated, Any

from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from ninja import Query, Router
from pydantic import Field, WithJsonSchema

from annotation.http.access import Role
from annotation.importing.item_files import ImportedItem, clean_items
from annotation.importing.items import import_items
from annotation.models import EventHead, Item
from annotation.models.items import MAX_TEXT
from modelling.web.api.auth import ApiRequest, get_project, read_access, write_access
from modelling.web.api.pagination import ListQuery, Order, Page, paginate
from modelling.web.api.schemas import (
    NO_NUL,
    NOT_BLANK,
    FiniteFloat,
    Id,
    Key,
    PlainText,
    RequestSchema,
    ResponseSchema,
    Slug,
    not_modified,
)

router = Router(tags=["items"])
BY_AGE = Order("id", ("id",))
MAX_ITEMS = 1000
MAX_METADATA, MAX_FEATURES, MAX_NAME = 50, 100, 100
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=NOT_BLANK)]


def mapping_schema(most: int, **value: Any) -> WithJsonSchema:
    """Describe a mapping with restricted names; pydantic's own schema would allow any value for other names."""
    names = {"minLength": 1, "maxLength": MAX_NAME, "pattern": NOT_BLANK}
    values = {"pattern": NO_NUL, **value} if value["type"] == "string" else value
    return WithJsonSchema(
        {"type": "object", "propertyNames": names, "additionalProperties": values, "maxProperties": most, "default": {}}
    )


class ItemCreate(RequestSchema):
    """A text to judge. Fields that are left out stay unchanged if the key exists."""

    key: Annotated[Key, Field(examples=["cat-1"])]
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT, pattern=NOT_BLANK, examples=["Cats purr."])]
    group: Annotated[PlainText | None, Field(max_length=200, description="Topic and stance.", examples=["cats"])] = None
    metadata: Annotated[
        dict[Name, PlainText], Field(max_length=MAX_METADATA), mapping_schema(MAX_METADATA, type="string")
    ] = {}
    features: Annotated[
        dict[Name, FiniteFloat], Field(max_length=MAX_FEATURES), mapping_schema(MAX_FEATURES, type="number")
    ] = {}


class ItemsCreate(RequestSchema):
    items: Annotated[list[ItemCreate], Field(min_length=1, max_length=MAX_ITEMS)]


class ItemResponse(ResponseSchema):
    """One text. A corrected text is a new revision of the same key with its own id."""

    id: int
    key: str
    revision: int
    text: str
    group: str
    metadata: dict[str, Any]
    features: dict[str, Any]
    active: bool
    created_at: datetime


class ItemImportResponse(ResponseSchema):
    """Counts of items that were added, had a new text, had other new details, or were unchanged."""

    added: int
    corrected: int
    updated: int
    unchanged: int


class ItemQuery(ListQuery):
    key: Annotated[PlainText | None, Field(max_length=200, description="All revisions with this key.")] = None
    group: Annotated[PlainText | None, Field(max_length=200)] = None
    active: Annotated[bool | None, Field(description="Whether the item is shown to workers.")] = None


@router.get("/projects/{slug}/items", auth=read_access, response=Page[ItemResponse], summary="List items")
def list_items(request: ApiRequest, response: HttpResponse, slug: Slug, query: Query[ItemQuery]) -> Any:
    """All revisions of all items, oldest first."""
    project = get_project(request, slug)
    head = EventHead.objects.get(project=project)
    if same := not_modified(request, response, "items", project.pk, head.inputs_revision):
        return same
    rows = Item.objects.filter(project=project)
    filters = {name: value for name in ("key", "group", "active") if (value := getattr(query, name)) is not None}
    return paginate(rows.filter(**filters), BY_AGE, query, item_response)


@router.post("/projects/{slug}/items", auth=write_access, response=ItemImportResponse, summary="Add items")
def add_items(request: ApiRequest, slug: Slug, new: ItemsCreate) -> Any:
    """Stores all items or none. Repeating a request changes nothing; a new text for a known key is a new revision."""
    project = get_project(request, slug, Role.ANALYST)
    drafts = clean_items([_draft(line, item) for line, item in enumerate(new.items, start=1)])
    return import_items(project=project, user=request.user, rows=drafts).counts


@router.get("/projects/{slug}/items/{item_id}", auth=read_access, response=ItemResponse, summary="Read an item")
def read_item(request: ApiRequest, slug: Slug, item_id: Id) -> Any:
    """One revision of an item."""
    item = Item.objects.filter(project=get_project(request, slug), pk=item_id).first()
    if item is None:
        raise Http404(_("There is no such item in the project."))
    return item_response(item)


def item_response(item: Item) -> dict[str, Any]:
    return {name: getattr(item, name) for name in ItemResponse.model_fields}


def _draft(line: int, item: ItemCreate) -> ImportedItem:
    return ImportedItem(line, item.key, item.text, item.group, item.metadata, item.features)
