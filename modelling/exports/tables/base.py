"""Export tables: typed columns and rows read page by page, so that memory does not grow with the number of rows."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

from annotation.models import Project
from modelling.exports.points import ExportPoint

Row = tuple[Any, ...]
Cells = tuple[Any, ...] | list[Any]
Page = list[Cells]  # one entry per column: converting and writing columns is much faster than rows
Kind = type[int] | type[float] | type[str] | type[bool] | type[datetime] | type[object]
Pages = Callable[[], Iterable[Page]]

PAGE_SIZE = 2000  # rows read and written at a time: as many as fit into a core's cache


@dataclass(frozen=True)
class ExportColumn:
    """A column name and the type of its cells, each of which may be None; `object` for mixed cells.

    Timestamps are strings in the format of `format_timestamp`.
    """

    name: str
    kind: Kind


def build_columns(**kinds: Kind) -> list[ExportColumn]:
    return [ExportColumn(name, kind) for name, kind in kinds.items()]


POINT_COLUMNS = build_columns(version=int, as_of_seq=int)  # the last two columns of every table


@dataclass(frozen=True)
class ExportTable:
    """A table whose `pages` can be read repeatedly with the same result; `size` estimates the number of rows."""

    name: str
    columns: list[ExportColumn]
    pages: Pages
    size: int
    version: int | None
    as_of_seq: int

    @property
    def column_names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def rows(self) -> Iterator[Row]:
        return chain.from_iterable(zip(*page, strict=True) for page in self.pages())


def event_table(name: str, point: ExportPoint, columns: list[ExportColumn], pages: Pages, size: int) -> ExportTable:
    """Build a table of events whose rows end with the exported point."""
    return _with_point_columns(name, columns, pages, size, point.version, point.sequence)


def version_table(name: str, point: ExportPoint, columns: list[ExportColumn], pages: Pages, size: int) -> ExportTable:
    """Build a table of model results whose rows end with the version and the last event it includes."""
    snapshot = point.required_snapshot
    return _with_point_columns(name, columns, pages, size, snapshot.number, snapshot.last_sequence)


def _with_point_columns(
    name: str, columns: list[ExportColumn], pages: Pages, size: int, version: int | None, as_of_seq: int
) -> ExportTable:
    def pages_with_point() -> Iterator[Page]:
        return ([*page, [version] * len(page[0]), [as_of_seq] * len(page[0])] for page in pages())

    return ExportTable(name, [*columns, *POINT_COLUMNS], pages_with_point, size, version, as_of_seq)


def format_timestamp(moment: datetime) -> str:
    """Format as ISO 8601 in UTC with microseconds, so that all timestamps have the same length."""
    moment = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds")


def rows_to_pages(rows: Iterable[Cells]) -> Iterator[Page]:
    """Group rows into column-wise pages."""
    rows = iter(rows)
    while batch := list(islice(rows, PAGE_SIZE)):
        yield list(zip(*batch, strict=True))


def file_name(project: Project, what: str, version: int | None, as_of_seq: int, format: str) -> str:
    """Build a file name from the slug, known words and numbers only, so that it is safe in a header."""
    return f"{project.slug}-{what}-seq{as_of_seq}{'' if version is None else f'-v{version}'}.{format}"
