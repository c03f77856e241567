"""The list of everything that can be exported: tables, formats for other programs, the report and the archive."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

from django.utils.formats import number_format
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from annotation.models import Judgement
from modelling.dashboards.report.document import render_report
from modelling.exports import archive, pdf
from modelling.exports.formats import CONTENT_TYPES, FORMATS, import_pyarrow, table_chunks
from modelling.exports.interchange import INTERCHANGE_FORMATS
from modelling.exports.points import ExportError, ExportPoint
from modelling.exports.tables import judgements, model, workers
from modelling.exports.tables.base import PAGE_SIZE, ExportTable, file_name
from modelling.training.snapshots import load_fitted_model
from modelling.training.storage.array_store import DamagedArrays

ARCHIVE, ZIP = "archive", "zip"
REPORT, HTML, PDF = "report", "html", "pdf"
REPORT_TYPES = {HTML: "text/html; charset=utf-8", PDF: "application/pdf"}
MAX_ROWS = 50_000_000  # in one file
TABLES: dict[str, Callable[[ExportPoint], ExportTable]] = {
    "ranking": model.ranking,
    "items": judgements.items,
    "judgements": judgements.judgements,
    "workers": workers.workers,
    "worker_ids": workers.worker_ids,
    "checks": workers.checks,
    "trials": judgements.trials,
    "utilities": model.utilities,
    "pairs": model.pairs,
    "components": model.components,
    "reliability": model.reliability,
    "claims": model.claims,
    "assessments": model.assessments,
    "versions": model.versions,
}
TITLES = {
    "ranking": gettext_lazy("Ranking: scores, ranks and intervals"),
    "items": gettext_lazy("Items: texts, groups, metadata and features, ready to import again"),
    "judgements": gettext_lazy("Judgements, including retracted ones"),
    "workers": gettext_lazy("Workers under random codes, with their questionnaire answers"),
    "worker_ids": gettext_lazy("Worker IDs: which code belongs to which ID in an imported file"),
    "checks": gettext_lazy("Attention checks and gold pairs with their answers, which never reach the model"),
    "trials": gettext_lazy("Trial answers of researchers, which never count"),
    "utilities": gettext_lazy("Personal scores: predicted score of each worker for each item"),
    "pairs": gettext_lazy("Pair predictions: probability that each item is preferred to each other"),
    "components": gettext_lazy("Components: where people differ"),
    "reliability": gettext_lazy("Reliability: measures of the study, and fit of items and workers"),
    "claims": gettext_lazy("Claims: simultaneous tiers and ranks, and bridging items"),
    "assessments": gettext_lazy("Assessments: whether each worker looks careless, different or ordinary"),
    "versions": gettext_lazy("Versions: events, settings and seed of each"),
}


@dataclass(frozen=True)
class ExportFile:
    """A file that is generated when opened; `rows` estimates its rows, `size` is its number of bytes if known."""

    name: str
    content_type: str
    rows: int
    version: int | None
    as_of_seq: int
    chunks: Callable[[], Iterator[bytes]]
    size: int | None = None

    def open(self) -> Iterator[bytes]:
        """Start writing, so that an ExportError is raised here and not in the middle of a response."""
        chunks = self.chunks()
        return chain([next(chunks, b"")], chunks)

    @property
    def steps(self) -> int:
        """Approximate number of chunks, for progress bars."""
        return -(-self.rows // PAGE_SIZE)


def export_names() -> list[str]:
    return [*TABLES, *INTERCHANGE_FORMATS, REPORT, ARCHIVE]


def formats_for(what: str) -> list[str]:
    """List the file formats of an export, the default first; empty for an unknown name."""
    if what in TABLES:
        return list(FORMATS)
    if what in INTERCHANGE_FORMATS:
        return [INTERCHANGE_FORMATS[what].extension]
    if what == REPORT:
        return list(REPORT_TYPES)
    return [ZIP] if what == ARCHIVE else []


def content_type_for(what: str, format: str) -> str:
    if what == REPORT:
        return REPORT_TYPES[format]
    if what in INTERCHANGE_FORMATS:
        return INTERCHANGE_FORMATS[what].content_type
    return CONTENT_TYPES.get(format, "application/zip")


def build_export(point: ExportPoint, what: str, format: str = "", licence: str = "", language: str = "") -> ExportFile:
    """Prepare this export as of the given point; raise ExportError if it is not available.

    `language` applies to reports; the default is the current language.
    """
    formats = formats_for(what)
    format = format or next(iter(formats), "")
    if format not in formats:
        message = _("There is no export “%(what)s” in the format “%(format)s”.")
        raise ExportError(message % {"what": what[:40], "format": format[:40]})
    try:
        if what == REPORT:
            return _report_file(point, format, language or get_language() or "")
        return _build_file(point, what, format, licence)
    except DamagedArrays as error:
        raise ExportError(str(error.message)) from None


def _build_file(point: ExportPoint, what: str, format: str, licence: str) -> ExportFile:
    if what == ARCHIVE:
        return _archive_file(point, licence)
    return _interchange_file(point, what) if what in INTERCHANGE_FORMATS else _table_file(point, what, format)


def _archive_file(point: ExportPoint, licence: str) -> ExportFile:
    point = ExportPoint(point.project, point.required_snapshot.last_sequence, point.required_snapshot)
    name = file_name(point.project, ARCHIVE, point.version, point.sequence, ZIP)
    chunks = partial(archive.archive_chunks, point, licence)
    return ExportFile(name, content_type_for(ARCHIVE, ZIP), 0, point.version, point.sequence, chunks)


def _report_file(point: ExportPoint, format: str, language: str) -> ExportFile:
    """The report on the point's version; for the size limit, it counts as many rows as it has judgements."""
    snapshot = point.required_snapshot
    load_fitted_model(snapshot)
    if format == PDF:
        pdf.find_browser()
    name = file_name(point.project, REPORT, snapshot.number, snapshot.last_sequence, format)

    def chunks() -> Iterator[bytes]:
        html = render_report(snapshot, language).encode()
        yield pdf.print_to_pdf(html) if format == PDF else html

    return ExportFile(name, REPORT_TYPES[format], snapshot.included, snapshot.number, snapshot.last_sequence, chunks)


def _interchange_file(point: ExportPoint, what: str) -> ExportFile:
    interchange = INTERCHANGE_FORMATS[what]
    if interchange.needs_version:
        load_fitted_model(point.required_snapshot)
    rows = Judgement.objects.filter(project=point.project, sequence__lte=point.sequence).count()
    name = file_name(point.project, what, point.version, point.sequence, interchange.extension)
    chunks = partial(interchange.chunks, point)
    return ExportFile(name, interchange.content_type, rows, point.version, point.sequence, chunks)


def _table_file(point: ExportPoint, what: str, format: str) -> ExportFile:
    if format == "parquet":
        import_pyarrow()
    table = TABLES[what](point)
    if table.size > MAX_ROWS:
        counts = {name: number_format(n, force_grouping=True) for name, n in (("rows", table.size), ("most", MAX_ROWS))}
        raise ExportError(_("This table would have %(rows)s rows; one file has at most %(most)s.") % counts)
    name = file_name(point.project, what, table.version, table.as_of_seq, format)
    chunks = partial(table_chunks, table, format)
    return ExportFile(name, CONTENT_TYPES[format], table.size, table.version, table.as_of_seq, chunks)
