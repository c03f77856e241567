"""A study as files: one list of what can be had, one list of formats, one point in time.

`table(project, "judgements")` gives typed columns and rows in pages; `write(table, "csv", file)` or
`pieces(table, "csv")` gives the bytes. `export_at` also gives the formats of others and the archive. Pages,
administration, API and `manage.py export` all come through here.
"""

from annotation.models import Project
from modelling.exporting.catalogue import TABLES, Export, export_at, table_at
from modelling.exporting.formats import CONTENT_TYPES, FORMATS, pieces, write
from modelling.exporting.points import NoExport, Point, point_of
from modelling.exporting.tables import Column, Table, file_name

__all__ = [
    "CONTENT_TYPES",
    "FORMATS",
    "TABLES",
    "Column",
    "Export",
    "NoExport",
    "Point",
    "Table",
    "export_at",
    "file_name",
    "pieces",
    "point_of",
    "table",
    "table_at",
    "write",
]


def table(project: Project, name: str, as_of: int | None = None, version: int | None = None) -> Table:
    """One of TABLES at a point of the study: now, unless an event, a version or both are named. Else NoExport."""
    return table_at(point_of(project, as_of, version), name)
