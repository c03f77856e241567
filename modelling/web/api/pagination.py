"""Keyset pagination: each page starts after the last row of the previous one, so new rows shift nothing."""

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

from modelling.web.api.errors import InvalidParameter
from modelling.web.api.schemas import LARGEST_NUMBER, ResponseSchema

DEFAULT_LIMIT, MAX_LIMIT = 100, 1000
T = TypeVar("T")


class ListQuery(Schema):
    """Query parameters of every list."""

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT, description="Rows per page.")] = DEFAULT_LIMIT
    cursor: Annotated[
        str | None, Field(max_length=200, description="`next` of the previous page; default the first page.")
    ] = None


class Page(ResponseSchema, Generic[T]):
    """One page of a list."""

    rows: list[T]
    next: str | None = Field(description="Cursor of the next page; null on the last page.")


@dataclass(frozen=True)
class Order:
    """Columns to sort by; the last must be unique, and a leading minus means descending."""

    name: str
    columns: tuple[str, ...]

    def after(self, values: list[Any]) -> Q:
        """Filter for the rows after the one with these values."""
        later, equal = Q(), Q()
        for column, value in zip(self.columns, values, strict=True):
            name, lookup = column.removeprefix("-"), "lt" if column.startswith("-") else "gt"
            later |= equal & Q(**{f"{name}__{lookup}": value})
            equal &= Q(**{name: value})
        return later


def paginate(rows: "QuerySet[Any]", order: Order, query: ListQuery, response: Callable[[Any], T]) -> dict[str, Any]:
    """Return one page of these rows, each converted by `response`."""
    if query.cursor:
        rows = rows.filter(order.after(_cursor_values(query.cursor, order)))
    found = list(rows.order_by(*order.columns)[: query.limit + 1])
    page = found[: query.limit]
    return {
        "rows": [response(row) for row in page],
        "next": _build_cursor(page[-1], order) if len(found) > len(page) else None,
    }


def _build_cursor(row: Any, order: Order) -> str:
    values = [getattr(row, column.removeprefix("-")) for column in order.columns]
    return base64.urlsafe_b64encode(json.dumps([order.name, *values]).encode()).decode().rstrip("=")


def cursor_order(cursor: str) -> str:
    """Return the name of the order that the cursor continues."""
    return str(_decode(cursor)[0])


def _decode(cursor: str) -> tuple[Any, list[Any]]:
    try:
        name, *values = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise _invalid_cursor() from None
    return name, values


def _cursor_values(cursor: str, order: Order) -> list[Any]:
    """Return the values of a cursor; InvalidParameter if it belongs to another list or order."""
    name, values = _decode(cursor)
    if name != order.name or len(values) != len(order.columns) or not all(map(_is_number, values)):
        raise _invalid_cursor()
    return values


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return type(value) is int and abs(value) <= LARGEST_NUMBER


def _invalid_cursor() -> InvalidParameter:
    return InvalidParameter("cursor", _("This cursor does not belong to this list and order."))
