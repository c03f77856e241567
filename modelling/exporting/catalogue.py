"""Everything that can be asked for as a file, under one name each, with the words that pages and commands show."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Judgement
from modelling.arrays import Damaged
from modelling.exporting import archive, events, outcomes, predictions, texts
from modelling.exporting.exchange import EXCHANGES
from modelling.exporting.formats import CONTENT_TYPES, FORMATS, arrow, pieces
from modelling.exporting.points import NoExport, Point
from modelling.exporting.tables import PAGE, Table, file_name, name_at

ARCHIVE, ZIP = "archive", "zip"
MOST_ROWS = 50_000_000  # of one file
TABLES: dict[str, Callable[[Point], Table]] = {
    "ranking": outcomes.ranking,
    "items": texts.items,
    "judgements": events.judgements,
    "workers": events.workers,
    "utilities": predictions.utilities,
    "pairs": predictions.pairs,
    "components": outcomes.components,
    "versions": outcomes.versions,
}
TITLES = {
    "ranking": gettext_lazy("The ranking: scores, ranks and their intervals"),
    "items": gettext_lazy("The items: texts, groups, notes and numbers, as they can be imported again"),
    "judgements": gettext_lazy("Every judgement, also those taken back"),
    "workers": gettext_lazy("Workers under their codes, with their answers about themselves"),
    "utilities": gettext_lazy("The score that each worker probably gives each item"),
    "pairs": gettext_lazy("How probably each item wins against each other"),
    "components": gettext_lazy("What people differ about"),
    "versions": gettext_lazy("Every version: what it learned from, settings, seed"),
}


@dataclass(frozen=True)
class Export:
    """A file to be: its name, about how many rows and pieces it has, and its bytes when they are asked for."""

    name: str
    content_type: str
    rows: int
    steps: int
    version: int | None
    as_of_seq: int
    pieces: Callable[[], Iterator[bytes]]


def names() -> list[str]:
    return [*TABLES, *EXCHANGES, ARCHIVE]


def formats_of(what: str) -> list[str]:
    """The formats something can be had in; those of others have only their own."""
    if what in TABLES:
        return list(FORMATS)
    return [EXCHANGES[what].extension] if what in EXCHANGES else [ZIP]


def content_type_of(what: str, format: str) -> str:
    if what in EXCHANGES:
        return EXCHANGES[what].content_type
    return CONTENT_TYPES.get(format, "application/zip")


def export_at(point: Point, what: str, format: str = "", licence: str = "") -> Export:
    """This file at this point; NoExport, in words, where there is none such."""
    known = formats_of(what) if what in names() else []
    format = format or next(iter(known), "")
    if format not in known:
        words = _("There is no export “%(what)s” in the format “%(format)s”.")
        raise NoExport(words % {"what": what[:40], "format": format[:40]})
    try:
        return _export(point, what, format, licence)
    except Damaged:
        raise NoExport(_("What lies behind this version cannot be read just now.")) from None


def _export(point: Point, what: str, format: str, licence: str) -> Export:
    if what == ARCHIVE:
        known = Point(point.project, point.known.last_sequence, point.known)
        return _made(known, what, ZIP, "application/zip", 0, lambda: archive.archived(known, licence))
    if what in EXCHANGES:
        other = EXCHANGES[what]
        if other.needs_version:
            predictions.load_fitted(point.known)
        rows = Judgement.objects.filter(project=point.project, sequence__lte=point.sequence).count()
        return _made(point, what, format, other.content_type, rows, lambda: other.pieces(point))
    if format == "parquet":
        arrow()
    table = table_at(point, what)
    name, steps = file_name(point.project, table, format), -(-table.size // PAGE)
    return Export(
        name, CONTENT_TYPES[format], table.size, steps, table.version, table.as_of_seq, lambda: pieces(table, format)
    )


def _made(point: Point, what: str, format: str, content_type: str, rows: int, made: Any) -> Export:
    name = name_at(point.project, what, point.version, point.sequence, format)
    return Export(name, content_type, rows, -(-rows // PAGE), point.version, point.sequence, made)


def table_at(point: Point, name: str) -> Table:
    """One of TABLES at this point; NoExport where it cannot be had, or is too large for any file."""
    if name not in TABLES:
        raise NoExport(
            _("There is no table “%(name)s”. There are: %(all)s.") % {"name": name, "all": ", ".join(TABLES)}
        )
    try:
        table = TABLES[name](point)
    except Damaged:
        raise NoExport(_("What lies behind this version cannot be read just now.")) from None
    if table.size > MOST_ROWS:
        counts = {"rows": f"{table.size:,}", "most": f"{MOST_ROWS:,}"}
        raise NoExport(_("This table would have %(rows)s rows; at most %(most)s fit into one file.") % counts)
    return table
