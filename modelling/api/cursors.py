"""Long lists in pages: each page begins after the last row of the one before, wherever new rows have come in."""

import base64
import binascii
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _
from ninja import Schema
from pydantic import Field

from modelling.api.refusals import Unasked
from modelling.api.strictness import LARGEST_NUMBER, Told

USUAL, MOST = 100, 1000
T = TypeVar("T")


class Asked(Schema):
    """What every list may be asked."""

    limit: Annotated[int, Field(ge=1, le=MOST, description="How many rows a page has at most.")] = USUAL
    cursor: Annotated[
        str | None, Field(max_length=200, description="`next` of the page before; without it, the first page.")
    ] = None


class Page(Told, Generic[T]):
    """Some rows, and where to go on."""

    rows: list[T]
    next: str | None = Field(description="The cursor of the next page; null on the last one.")


@dataclass(frozen=True)
class Order:
    """Columns to sort by, the last of them different in every row; a minus before those that fall."""

    name: str
    columns: tuple[str, ...]

    def after(self, values: list[Any]) -> Q:
        """The rows behind the one with these values."""
        behind, equal = Q(), Q()
        for column, value in zip(self.columns, values, strict=True):
            name, way = column.removeprefix("-"), "lt" if column.startswith("-") else "gt"
            behind |= equal & Q(**{f"{name}__{way}": value})
            equal &= Q(**{name: value})
        return behind


def page_of(rows: "QuerySet[Any]", order: Order, asked: Asked, told: Callable[[Any], T]) -> dict[str, Any]:
    """One page of these rows, each as it is told."""
    if asked.cursor:
        rows = rows.filter(order.after(_read(asked.cursor, order)))
    found = list(rows.order_by(*order.columns)[: asked.limit + 1])
    page = found[: asked.limit]
    return {"rows": [told(row) for row in page], "next": _cursor(page[-1], order) if len(found) > len(page) else None}


def _cursor(row: Any, order: Order) -> str:
    values = [getattr(row, column.removeprefix("-")) for column in order.columns]
    return base64.urlsafe_b64encode(json.dumps([order.name, *values]).encode()).decode().rstrip("=")


def order_in(cursor: str) -> str:
    """The name of the order that a cursor goes on with."""
    return str(_parts(cursor)[0])


def _parts(cursor: str) -> tuple[Any, list[Any]]:
    try:
        name, *values = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise _wrong() from None
    return name, values


def _read(cursor: str, order: Order) -> list[Any]:
    """The values in a cursor of this very order; anything else is refused."""
    name, values = _parts(cursor)
    if name != order.name or len(values) != len(order.columns) or not all(map(_is_number, values)):
        raise _wrong()
    return values


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return type(value) is int and abs(value) <= LARGEST_NUMBER


def _wrong() -> Unasked:
    return Unasked("cursor", _("This cursor does not belong to this list and order."))
