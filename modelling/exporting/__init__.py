"""A study as files: one list of tables, one list of formats, one point in time.

`table(project, "judgements")` gives typed columns and rows in pages; `write(table, "csv", file)` or
`pieces(table, "csv")` gives the bytes. Pages, administration, API and `manage.py export` all come through here.
"""

from collections.abc import Callable

from django.utils.translation import gettext as _

from annotation.models import Project
from modelling.arrays import Damaged
from modelling.exporting import events, outcomes, predictions
from modelling.exporting.formats import CONTENT_TYPES, FORMATS, pieces, write
from modelling.exporting.points import NoExport, Point, point_of
from modelling.exporting.tables import Column, Table, file_name

__all__ = [
    "CONTENT_TYPES",
    "FORMATS",
    "TABLES",
    "Column",
    "NoExport",
    "Point",
    "Table",
    "file_name",
    "pieces",
    "point_of",
    "table",
    "table_at",
    "write",
]

TABLES: dict[str, Callable[[Point], Table]] = {
    "ranking": outcomes.ranking,
    "judgements": events.judgements,
    "workers": events.workers,
    "utilities": predictions.utilities,
    "pairs": predictions.pairs,
    "components": outcomes.components,
    "versions": outcomes.versions,
}


def table(project: Project, name: str, as_of: int | None = None, version: int | None = None) -> Table:
    """One of TABLES at a point of the study: now, unless an event, a version or both are named. Else NoExport."""
    return table_at(point_of(project, as_of, version), name)


def table_at(point: Point, name: str) -> Table:
    if name not in TABLES:
        raise NoExport(
            _("There is no table “%(name)s”. There are: %(all)s.") % {"name": name, "all": ", ".join(TABLES)}
        )
    try:
        return TABLES[name](point)
    except Damaged:
        raise NoExport(_("What lies behind this version cannot be read just now.")) from None
