"""What can be exported as a table: typed columns, and rows in pages, so that memory does not grow with their number."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from annotation.models import Project
from modelling.exporting.points import Point

Row = tuple[Any, ...]
Page = list[Row]
Kind = type[int] | type[float] | type[str] | type[bool] | type[datetime] | type[object]

PAGE = 5000  # rows read and written at a time


@dataclass(frozen=True)
class Column:
    """A name and what its cells are, or None; `object` where they differ."""

    name: str
    kind: Kind


def columns(**kinds: Kind) -> list[Column]:
    return [Column(name, kind) for name, kind in kinds.items()]


STAMP = columns(version=int, as_of_seq=int)  # the last two columns of every table


@dataclass(frozen=True)
class Table:
    """`pages` may be asked for more than once, and gives the same each time; `size` is about how many rows there are.

    Every row ends with the version and the last event that it speaks of.
    """

    name: str
    columns: list[Column]
    pages: Callable[[], Iterable[Page]]
    size: int
    version: int | None
    as_of_seq: int

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def rows(self) -> Iterator[Row]:
        return chain.from_iterable(self.pages())


def stamped(name: str, point: Point, own: list[Column], pages: Callable[[], Iterable[Page]], size: int) -> Table:
    """A table of events: each row carries the point it was taken at."""
    return _table(name, own, pages, size, point.version, point.sequence)


def of_version(name: str, point: Point, own: list[Column], pages: Callable[[], Iterable[Page]], size: int) -> Table:
    """A table of what a version says: each row carries its number and the last event it has learned from."""
    return _table(name, own, pages, size, point.known.number, point.known.last_sequence)


def _table(
    name: str, own: list[Column], pages: Callable[[], Iterable[Page]], size: int, version: int | None, as_of_seq: int
) -> Table:
    end = (version, as_of_seq)

    def with_end() -> Iterator[Page]:
        return ([(*row, *end) for row in page] for page in pages())

    return Table(name, [*own, *STAMP], with_end, size, version, as_of_seq)


def in_pages(rows: Iterable[Row]) -> Iterator[Page]:
    """Rows that come one by one, in pages."""
    page: Page = []
    for row in rows:
        page.append(row)
        if len(page) == PAGE:
            yield page
            page = []
    if page:
        yield page


def file_name(project: Project, table: Table, format: str) -> str:
    """Says what the file is and of which point: a slug, known words and numbers, safe in a header."""
    version = "" if table.version is None else f"-v{table.version}"
    return f"{project.slug}-{table.name}-seq{table.as_of_seq}{version}.{format}"
