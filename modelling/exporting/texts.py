"""The items as a table that can be imported again: texts, groups, notes and numbers, in the order they came in."""

from collections.abc import Iterator
from typing import Any

from annotation.curation import current_items
from modelling.exporting.points import Point
from modelling.exporting.tables import STAMP, Cells, Column, Table, columns, in_pages, stamped

ITEM = columns(key=str, text=str, group=str, revision=int, active=bool)
FEATURE = "feature:"
OWN = {column.name for column in [*ITEM, *STAMP]}


def items(point: Point) -> Table:
    """One row for each item as it is now, with its newest text. The order is that in which the model reads them."""
    rows = list(current_items(point.project).order_by("pk"))
    notes = _names(item.metadata for item in rows)
    features = _names(item.features for item in rows)
    own = [*ITEM, *(Column(name, str) for name in notes), *(Column(f"{FEATURE}{name}", float) for name in features)]

    def cells() -> Iterator[Cells]:
        for item in rows:
            told = (item.metadata.get(name) for name in notes)
            yield (
                item.key, item.text, item.group, item.revision, item.active,
                *(None if value is None else str(value) for value in told),
                *(item.features.get(name) for name in features),
            )  # fmt: skip

    return stamped("items", point, own, lambda: in_pages(cells()), len(rows))


def _names(mappings: Iterator[dict[str, Any]]) -> list[str]:
    """In the order in which they turn up; what the table has a column for already is left out."""
    return [name for name in dict.fromkeys(name for mapping in mappings for name in mapping) if name not in OWN]
