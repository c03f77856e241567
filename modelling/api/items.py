"""Items: the list, one of them, and many new ones at once."""

from datetime import datetime
from typing import Annotated, Any

from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from ninja import Query, Router
from pydantic import Field, WithJsonSchema

from annotation.access import Role
from annotation.importing.item_rows import Draft
from annotation.importing.items import check_drafts, import_items
from annotation.models import EventHead, Item
from annotation.models.items import MAX_TEXT
from modelling.api.cursors import Asked, Order, Page, page_of
from modelling.api.door import ApiRequest, project_for, reads, writes
from modelling.api.strictness import NO_NUL, NOT_BLANK, Id, Key, Number, Sent, Slug, Told, Words, unchanged

router = Router(tags=["items"])
BY_AGE = Order("id", ("id",))
MOST_ITEMS = 1000
MOST_NOTES, MOST_NUMBERS, LONGEST_NAME = 50, 100, 100
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=NOT_BLANK)]


def by_name(most: int, **value: Any) -> WithJsonSchema:
    """Written out in the document: pydantic would let names that do not fit have any value at all."""
    names = {"minLength": 1, "maxLength": LONGEST_NAME, "pattern": NOT_BLANK}
    values = {"pattern": NO_NUL, **value} if value["type"] == "string" else value
    return WithJsonSchema(
        {"type": "object", "propertyNames": names, "additionalProperties": values, "maxProperties": most, "default": {}}
    )


class NewItem(Sent):
    """A text to be judged. What is left out stays as it is where the key is known already."""

    key: Annotated[Key, Field(examples=["cat-1"])]
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT, pattern=NOT_BLANK, examples=["Cats purr."])]
    group: Annotated[Words | None, Field(max_length=200, description="Topic and stance.", examples=["cats"])] = None
    metadata: Annotated[dict[Name, Words], Field(max_length=MOST_NOTES), by_name(MOST_NOTES, type="string")] = {}
    features: Annotated[dict[Name, Number], Field(max_length=MOST_NUMBERS), by_name(MOST_NUMBERS, type="number")] = {}


class NewItems(Sent):
    items: Annotated[list[NewItem], Field(min_length=1, max_length=MOST_ITEMS)]


class ItemTold(Told):
    """One text under its key. A corrected text is a new revision with an id of its own."""

    id: int
    key: str
    revision: int
    text: str
    group: str
    metadata: dict[str, Any]
    features: dict[str, Any]
    active: bool
    created_at: datetime


class Stored(Told):
    """How many of the items sent were new, had another text, had other details, or were there already."""

    added: int
    corrected: int
    updated: int
    unchanged: int


class ItemsAsked(Asked):
    key: Annotated[Words | None, Field(max_length=200, description="Every revision under this key.")] = None
    group: Annotated[Words | None, Field(max_length=200)] = None
    active: Annotated[bool | None, Field(description="Only those that are, or are not, given to workers.")] = None


@router.get("/projects/{slug}/items", auth=reads, response=Page[ItemTold], summary="List items")
def list_items(request: ApiRequest, response: HttpResponse, slug: Slug, asked: Query[ItemsAsked]) -> Any:
    """Every revision of every item, oldest first."""
    project = project_for(request, slug)
    head = EventHead.objects.get(project=project)
    if same := unchanged(request, response, "items", project.pk, head.inputs_revision):
        return same
    rows = Item.objects.filter(project=project)
    wanted = {name: value for name in ("key", "group", "active") if (value := getattr(asked, name)) is not None}
    return page_of(rows.filter(**wanted), BY_AGE, asked, told)


@router.post("/projects/{slug}/items", auth=writes, response=Stored, summary="Add items")
def add_items(request: ApiRequest, slug: Slug, new: NewItems) -> Any:
    """All of them or none. The same again changes nothing; another text under a known key is a new revision."""
    project = project_for(request, slug, Role.ANALYST)
    drafts = check_drafts([_draft(line, item) for line, item in enumerate(new.items, start=1)])
    return import_items(project=project, user=request.user, rows=drafts).counts


@router.get("/projects/{slug}/items/{item_id}", auth=reads, response=ItemTold, summary="Read an item")
def read_item(request: ApiRequest, slug: Slug, item_id: Id) -> Any:
    """One revision of an item."""
    item = Item.objects.filter(project=project_for(request, slug), pk=item_id).first()
    if item is None:
        raise Http404(_("There is no such item in the project."))
    return told(item)


def told(item: Item) -> dict[str, Any]:
    return {name: getattr(item, name) for name in ItemTold.model_fields}


def _draft(line: int, item: NewItem) -> Draft:
    return Draft(line, item.key, item.text, item.group, item.metadata, item.features)
