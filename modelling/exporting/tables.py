"""What can be exported as a table: typed columns, and rows in pages, so that memory does not grow with their number."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

from annotation.models import Project
from modelling.exporting.points import Point

Row = tuple[Any, ...]
Cells = tuple[Any, ...] | list[Any]
Page = list[Cells]  # the cells of each column: converted, packed and written much faster than row by row
Kind = type[int] | type[float] | type[str] | type[bool] | type[datetime] | type[object]

PAGE = 2000  # rows read and written at a time: as many as a core keeps at hand


@dataclass(frozen=True)
class Column:
    """A name and what its cells are, or None; `object` where they differ. Times are told as `at` tells them."""

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
        return chain.from_iterable(zip(*page, strict=True) for page in self.pages())


def stamped(name: str, point: Point, own: list[Column], pages: Callable[[], Iterable[Page]], size: int) -> Table:
    """A table of events: each row carries the point it was taken at."""
    return _table(name, own, pages, size, point.version, point.sequence)


def of_version(name: str, point: Point, own: list[Column], pages: Callable[[], Iterable[Page]], size: int) -> Table:
    """A table of what a version says: each row carries its number and the last event it has learned from."""
    return _table(name, own, pages, size, point.known.number, point.known.last_sequence)


def _table(
    name: str, own: list[Column], pages: Callable[[], Iterable[Page]], size: int, version: int | None, as_of_seq: int
) -> Table:
    def with_end() -> Iterator[Page]:
        return ([*page, [version] * len(page[0]), [as_of_seq] * len(page[0])] for page in pages())

    return Table(name, [*own, *STAMP], with_end, size, version, as_of_seq)


def at(moment: datetime) -> str:
    """In ISO 8601 and UTC, always of the same length."""
    moment = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds")


def in_pages(rows: Iterable[Cells]) -> Iterator[Page]:
    """Rows that come one by one, in pages."""
    rows = iter(rows)
    while some := list(islice(rows, PAGE)):
        yield list(zip(*some, strict=True))


def file_name(project: Project, table: Table, format: str) -> str:
    """Says what the file is and of which point: a slug, known words and numbers, safe in a header."""
    return name_at(project, table.name, table.version, table.as_of_seq, format)


def name_at(project: Project, what: str, version: int | None, as_of_seq: int, format: str) -> str:
    return f"{project.slug}-{what}-seq{as_of_seq}{'' if version is None else f'-v{version}'}.{format}"
